"""``mastra-py inbox``."""

from __future__ import annotations

from typing import Any

import pytest


def inbox(run: Any, seeded: Any, *arguments: str) -> Any:
    return run("inbox", *arguments, "--thread", "t1", "--url", seeded.url, "--json")


def test_the_list_is_records_under_wire_names(run: Any, seeded: Any) -> None:
    records = inbox(run, seeded, "list").json

    assert {"n0", "n1", "n2", "n3"} == {record["id"] for record in records}
    assert all(record["threadId"] == "t1" and record["coalescedCount"] == 1 for record in records)
    assert {"number": 0} == next(r["payload"] for r in records if r["id"] == "n0")
    assert all(record["updatedAt"].endswith("Z") for record in records)


@pytest.mark.parametrize(
    ("filters", "ids"),
    [
        (("--status", "failed"), {"n3"}),
        (("--status", "pending", "--status", "failed"), {"n0", "n1", "n2", "n3"}),
        (("--priority", "urgent", "--priority", "high"), {"n0", "n1"}),
        (("--source", "slack"), set()),
        (("--search", "(MEDIUM)"), {"n2"}),
    ],
)
def test_the_list_can_be_narrowed(
    run: Any, seeded: Any, filters: tuple[str, ...], ids: set[str]
) -> None:
    assert ids == {record["id"] for record in inbox(run, seeded, "list", *filters).json}


def test_a_limit_keeps_the_newest(run: Any, seeded: Any) -> None:
    assert 2 == len(inbox(run, seeded, "list", "--limit", "2").json)


@pytest.mark.parametrize(
    ("command", "status"), [("read", "seen"), ("archive", "archived"), ("dismiss", "dismissed")]
)
def test_a_change_is_stored(run: Any, seeded: Any, command: str, status: str) -> None:
    changed = inbox(run, seeded, command, "n0", "n1").json

    assert [status, status] == [record["status"] for record in changed]
    stored = inbox(run, seeded, "list", "--status", status).json
    assert {"n0", "n1"} == {record["id"] for record in stored}


def test_requeue_makes_a_failed_one_due_again(run: Any, seeded: Any) -> None:
    (record,) = inbox(run, seeded, "requeue", "n3").json

    assert ("pending", 0) == (record["status"], record["deliveryAttempts"])


def test_requeue_refuses_what_has_not_failed(run: Any, seeded: Any) -> None:
    ran = inbox(run, seeded, "requeue", "n0")

    assert 1 == ran.code
    assert "n0" in ran.err


def test_if_one_is_missing_none_is_changed(run: Any, seeded: Any) -> None:
    ran = inbox(run, seeded, "archive", "n0", "n9")

    assert 1 == ran.code
    assert [] == inbox(run, seeded, "list", "--status", "archived").json


def test_reading_shows_the_payload(run: Any, seeded: Any) -> None:
    ran = run("inbox", "read", "n2", "--thread", "t1", "--url", seeded.url)

    assert 'payload                {"number": 2}' in ran.out
    assert "status                 seen" in ran.out


def test_a_change_prints_ids_and_says_how_many(run: Any, seeded: Any) -> None:
    ran = run("inbox", "dismiss", "n1", "n2", "--thread", "t1", "--url", seeded.url)

    assert ("n1\nn2\n", "2 dismissed.\n") == (ran.out, ran.err)
