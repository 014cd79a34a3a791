"""``mastra-py threads``."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest


def test_threads_are_listed_under_wire_names(run: Any, seeded: Any) -> None:
    (thread,) = run("threads", "list", "--url", seeded.url, "--json").json

    assert ("t1", "r1") == (thread["id"], thread["resourceId"])
    assert {"createdAt", "updatedAt", "title"} <= set(thread)


def test_threads_of_another_resource_are_left_out(run: Any, seeded: Any) -> None:
    assert [] == run("threads", "list", "--resource", "r2", "--url", seeded.url, "--json").json


def test_messages_are_a_list_under_wire_names(run: Any, seeded: Any) -> None:
    messages = run("threads", "messages", "--thread", "t1", "--url", seeded.url, "--json").json

    assert "Deploy it." in str(messages[0]["content"])
    assert "assistant" == messages[-1]["role"]
    assert all(message["threadId"] == "t1" for message in messages)


def test_the_thread_may_be_an_argument(run: Any, seeded: Any) -> None:
    by_argument = run("threads", "messages", "t1", "--url", seeded.url, "--json").json
    by_option = run("threads", "messages", "--thread", "t1", "--url", seeded.url, "--json").json

    assert by_option == by_argument


def test_people_see_text_and_calls(run: Any, seeded: Any) -> None:
    ran = run("threads", "messages", "t1", "--url", seeded.url)

    assert "    Deploy it.\n" in ran.out
    assert "    I will.\n" in ran.out
    assert "    [call] deploy {'env': 'prod'}\n" in ran.out


def test_what_is_not_shown_is_said(run: Any, seeded: Any) -> None:
    ran = run("threads", "messages", "t1", "--limit", "1", "--url", seeded.url)

    assert "1 of 2 shown" in ran.err


def test_the_url_may_come_from_the_environment(run: Any, seeded: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("MASTRA_STORAGE_URL", seeded.url)

    assert 1 == len(run("threads", "list", "--json").json)


@pytest.mark.parametrize(
    "command",
    [
        ("threads", "list"),
        ("threads", "messages", "--thread", "t"),
        ("inbox", "list", "--thread", "t"),
        ("inbox", "read", "n1", "--thread", "t"),
        ("runs", "suspended"),
    ],
)
def test_a_database_that_lacks_shared_tables_is_not_completed_by_looking(
    run: Any, tmp_path: Path, command: tuple[str, ...]
) -> None:
    """It is not migrated by the way; the hint says how to do it on purpose."""
    path = tmp_path / "foreign.db"
    with closing(sqlite3.connect(path)) as made:
        made.execute("CREATE TABLE mastra_threads (id TEXT, resourceId TEXT)")
        made.commit()

    ran = run(*command, "--url", f"file:{path}")

    assert 1 == ran.code
    assert "mastra-py migrate" in ran.err
    with closing(sqlite3.connect(path)) as looked:
        tables = [row[0] for row in looked.execute("SELECT name FROM sqlite_schema")]
    assert ["mastra_threads"] == tables


NODE_FILE = (
    Path(__file__).parents[4] / "adapters" / "libsql" / "tests" / "data" / "typescript_libsql.db"
)


def objects_of(path: Path) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as looked:
        return looked.execute("SELECT name, sql FROM sqlite_schema ORDER BY name").fetchall()


def test_a_database_of_the_typescript_system_can_be_looked_into_as_it_is(
    run: Any, tmp_path: Path
) -> None:
    """Thread, messages, inbox and suspended run are listed, and nothing of ours is added."""
    path = tmp_path / "node.db"
    path.write_bytes(NODE_FILE.read_bytes())
    before, url = objects_of(path), f"file:{path}"

    threads = run("threads", "list", "--url", url, "--json").json
    messages = run("threads", "messages", "--thread", "thread_456", "--url", url, "--json").json
    records = run("inbox", "list", "--thread", "thread_456", "--url", url, "--json").json
    runs = run("runs", "suspended", "--url", url, "--json").json

    assert ["thread_456"] == [thread["id"] for thread in threads]
    assert ["signal", "assistant", "signal", "assistant"] == [each["role"] for each in messages]
    assert {"low": "pending", "medium": "delivered", "high": "pending", "urgent": "delivered"} == {
        record["priority"]: record["status"] for record in records
    }
    assert (1, "deploy") == (runs["total"], runs["runs"][0]["toolCalls"][0]["toolName"])
    assert before == objects_of(path)


@pytest.mark.parametrize("command", ["read", "archive", "dismiss", "requeue"])
def test_what_changes_an_inbox_wants_the_database_prepared(
    run: Any, tmp_path: Path, command: str
) -> None:
    path = tmp_path / "node.db"
    path.write_bytes(NODE_FILE.read_bytes())
    before = objects_of(path)

    ran = run("inbox", command, "n1", "--thread", "thread_456", "--url", f"file:{path}")

    assert 1 == ran.code
    assert "mastra-py migrate" in ran.err
    assert before == objects_of(path)
