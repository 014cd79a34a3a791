"""Tests of ``mastra_core.rules.snapshots``."""

from __future__ import annotations

import itertools
import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mastra_core.errors import (
    FencedOutError,
    StorageArgumentError,
    StorageConflictError,
    StorageDataError,
    WireEncodeError,
)
from mastra_core.rules import snapshots as rules
from mastra_core.wire.snapshots import ResumeClaim

__all__ = ()

T0 = datetime(2026, 1, 1, tzinfo=UTC)
MARKER = {"__mastra_pending__": True}
PARKED = {"status": "suspended", "suspendPayload": {"q": 1}}


def merged(old: list[Any], new: list[Any]) -> list[Any]:
    output: list[Any] = rules.merge_step_result({"output": old}, {"output": new})["output"]
    return output


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ([1, None, None], [None, 2, None], [1, 2, None]),
        ([1, 2], [9], [9, 2]),
        ([1], [None, None, 3], [1, None, 3]),
        ([10, PARKED, 30], [None, MARKER, 99], [10, None, 30]),
        ([10], [MARKER], [10]),
        ([None], [MARKER], [None]),
        ([MARKER], [MARKER], [None]),
        ([1], [None, MARKER, 5], [1, None, None]),
        ([{"status": "suspended"}], [MARKER], [{"status": "suspended"}]),
        ([{"status": "suspended", "suspendedAt": 1}], [MARKER], [None]),
        ([0, False, ""], [None, None, None], [0, False, ""]),
        ([1], [0], [0]),
    ],
)
def test_iteration_outputs_are_composed(old: Any, new: Any, expected: Any) -> None:
    """snapshots.md 6, rule 1."""
    assert expected == merged(old, new)


def test_members_of_the_step_stay_when_a_marker_comes() -> None:
    """Otherwise the incoming ones win."""
    old = {"status": "suspended", "n": 1, "output": [PARKED]}

    with_marker = rules.merge_step_result(old, {"status": "running", "output": [MARKER]})
    without = rules.merge_step_result(old, {"status": "running", "output": [5]})

    assert {"status": "suspended", "n": 1, "output": [None]} == with_marker
    assert {"status": "running", "n": 1, "output": [5]} == without


@pytest.mark.parametrize("old", [None, "text", {"output": 5}, {"status": "x"}])
def test_anything_else_is_replaced(old: Any) -> None:
    """snapshots.md 6, rule 2."""
    assert {"output": [1]} == rules.merge_step_result(old, {"output": [1]})


@given(st.permutations(range(5)), st.lists(st.integers(0, 4), max_size=4))
def test_the_order_of_iterations_does_not_matter(order: list[int], again: list[int]) -> None:
    """Concurrent iterations compose in any order, also if some are written twice."""
    output: list[Any] = [None] * 5
    for index in [*order, *again]:
        output = merged(output, [index * 10 if n == index else None for n in range(5)])

    assert [0, 10, 20, 30, 40] == output


def test_merging_touches_neither_document() -> None:
    """A store may keep the old one until the new one is written."""
    before = {"context": {"a": {"output": [1]}}, "requestContext": {"k": 1}}
    copy = {"context": {"a": {"output": [1]}}, "requestContext": {"k": 1}}

    after = rules.merge_results(
        before, step_id="a", result={"output": [None, 2]}, request_context={"l": 2}
    )

    assert copy == before
    assert after["context"]["a"]["output"] == [1, 2]
    assert after["requestContext"] == {"k": 1, "l": 2}


def test_a_document_without_context_takes_no_update() -> None:
    """snapshots.md 5.3, 5.4."""
    with pytest.raises(StorageDataError):
        rules.merge_results({"runId": "r"}, step_id="a", result={})
    with pytest.raises(StorageDataError):
        rules.merge_state({"runId": "r", "context": 5}, {"status": "success"})


def test_the_update_time_grows_by_itself() -> None:
    """max(now, stored + 1 ms)."""
    later = T0 + timedelta(seconds=5)

    assert T0 == rules.next_updated_at(T0, None)
    assert later == rules.next_updated_at(later, T0)
    assert later + timedelta(milliseconds=1) == rules.next_updated_at(T0, later)


def test_versions_are_compared_only_if_expected() -> None:
    """None expects nothing; a missing row has no version."""
    rules.check_version(None, "1")
    rules.check_version("1", "1")
    for found in ("2", None):
        with pytest.raises(StorageConflictError):
            rules.check_version("1", found)


# -- encoding ---------------------------------------------------------------------------------


def test_an_oversized_document_names_its_largest_parts() -> None:
    """At most ten of them, the largest first."""
    document = {"context": {f"s{n}": "x" * n * 100 for n in range(1, 20)}, "status": "success"}

    with pytest.raises(StorageArgumentError) as caught:
        rules.encode_snapshot(document, run_id="r", max_bytes=1_000)

    largest = caught.value.details["largest"]
    assert isinstance(largest, list)
    assert len(largest) == 10
    assert caught.value.details["limit"] == 1_000


def test_a_limit_is_of_bytes() -> None:
    """Exactly so many are allowed."""
    document = {"text": "äöü"}
    size = len(rules.encode_snapshot(document, run_id="r"))

    assert size == len(b'{"text":"\xc3\xa4\xc3\xb6\xc3\xbc"}')
    rules.encode_snapshot(document, run_id="r", max_bytes=size)
    with pytest.raises(StorageArgumentError):
        rules.encode_snapshot(document, run_id="r", max_bytes=size - 1)


def test_what_is_no_document_is_refused() -> None:
    """A list, a text, nothing."""
    odd: list[Any] = [[], "text", None]
    for bad in odd:
        with pytest.raises(WireEncodeError):
            rules.encode_snapshot(bad, run_id="r")


def test_odd_members_of_the_request_context_are_left_out_once_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One warning that names them; the caller's document is untouched."""
    context = {"keep": 1, "nan": float("nan"), "call": len}
    document = {"context": {}, "requestContext": context}

    with caplog.at_level(logging.WARNING):
        encoded = rules.encode_snapshot(document, run_id="r")

    assert encoded == b'{"context":{},"requestContext":{"keep":1}}'
    assert [["call", "nan"]] == [record.members for record in caplog.records]  # type: ignore[attr-defined]  # set through extra
    assert set(context) == {"keep", "nan", "call"}


def test_odd_members_elsewhere_are_an_error_even_then() -> None:
    """Leaving the request context out doesn't hide them."""
    document = {"requestContext": {"bad": object()}, "value": {"bad": object()}}

    with pytest.raises(WireEncodeError) as caught:
        rules.encode_snapshot(document, run_id="r")

    assert caught.value.path == "$.value.bad"


# -- claims -----------------------------------------------------------------------------------


def claim(claim_id: str = "c", **members: Any) -> ResumeClaim:
    given_members = {
        "owner": "o",
        "payload_hash": "h",
        "acquired_at": T0,
        "expires_at": T0 + timedelta(seconds=60),
        **members,
    }
    return ResumeClaim(claim_id=claim_id, **given_members)


def suspended(**members: Any) -> dict[str, Any]:
    return {"runId": "r", "status": "suspended", "context": {}, **members}


def test_a_claim_is_dated_by_the_store() -> None:
    """And keeps its length."""
    now = T0 + timedelta(days=1)

    result = rules.claim_resume(suspended(), claim(payload={"a": 1}), store_now=now)

    assert result.acquired
    assert result.claim is not None
    assert (now, now + timedelta(seconds=60)) == (result.claim.acquired_at, result.claim.expires_at)
    assert result.snapshot["resumeClaim"] == {
        "claimId": "c",
        "owner": "o",
        "target": None,
        "payloadHash": "h",
        "acquiredAt": "2026-01-02T00:00:00.000Z",
        "expiresAt": "2026-01-02T00:01:00.000Z",
        "attempt": 1,
        "payload": {"a": 1},
    }


def test_an_unexpired_claim_stands_in_the_way_even_of_a_suspended_run() -> None:
    """Until it expires."""
    document = rules.claim_resume(suspended(), claim("first"), store_now=T0).snapshot
    document["status"] = "suspended"

    early = rules.claim_resume(document, claim("second"), store_now=T0 + timedelta(seconds=59))
    late = rules.claim_resume(document, claim("second"), store_now=T0 + timedelta(seconds=60))

    assert (False, True) == (early.acquired, late.acquired)


@pytest.mark.parametrize("odd", ["text", {}, {"claimId": 5}, [], None])
def test_an_unreadable_claim_is_none(odd: Any) -> None:
    """Nobody stays locked out by what a peer wrote."""
    assert rules.claim_resume(suspended(resumeClaim=odd), claim(), store_now=T0).acquired
    assert not rules.has_expired_claim(
        {**suspended(resumeClaim=odd), "status": "running"}, store_now=T0
    )


def test_an_expired_claim_leaves_an_orphan_and_the_next_attempt_counts() -> None:
    """Through several deaths."""
    document: Any = suspended()
    now = T0
    for attempt in itertools.count(1):
        result = rules.claim_resume(document, claim(f"c{attempt}"), store_now=now)
        assert result.claim is not None
        assert attempt == result.claim.attempt
        now += timedelta(seconds=60)
        assert rules.expire_claim(result.snapshot, store_now=now - timedelta(seconds=1)) is None
        document = rules.expire_claim(result.snapshot, store_now=now)
        assert document["orphanedResume"]["claimId"] == f"c{attempt}"
        assert "resumeClaim" not in document
        if attempt == 3:
            break


def test_only_the_owner_extends_and_releases() -> None:
    """Others get None."""
    held = rules.claim_resume(suspended(), claim(), store_now=T0).snapshot

    assert rules.extend_claim(held, claim_id="x", ttl_ms=1, store_now=T0) is None
    assert rules.release_claim(held, claim_id="x") is None
    assert rules.release_claim(suspended(), claim_id="c") is None
    extended = rules.extend_claim(held, claim_id="c", ttl_ms=90_000, store_now=T0)
    assert extended is not None
    assert extended["resumeClaim"]["expiresAt"] == "2026-01-01T00:01:30.000Z"
    assert suspended() == rules.release_claim(extended, claim_id="c")


def test_writers_without_a_claim_are_not_checked() -> None:
    """Only who says that he holds one must hold it."""
    held = rules.claim_resume(suspended(), claim(), store_now=T0).snapshot

    rules.check_claim(held, None, workflow_name="w", run_id="r")
    rules.check_claim(held, "c", workflow_name="w", run_id="r")
    for document in (held, suspended(), None):
        with pytest.raises(FencedOutError):
            rules.check_claim(document, "other", workflow_name="w", run_id="r")


def test_receipts_merge_per_call() -> None:
    """Odd stored members are replaced."""
    first = rules.record_receipt(suspended(resumeReceipts=5), tool_call_id="a", receipt={"s": 1})
    second = rules.record_receipt(first, tool_call_id="a", receipt={"f": 2})

    assert second["resumeReceipts"] == {"a": {"s": 1, "f": 2}}


def test_an_empty_document_has_every_member() -> None:
    """snapshots.md 3.1."""
    document = rules.empty_snapshot("r", now=T0)

    assert ("pending", "r", 1_767_225_600_000) == (
        document["status"],
        document["runId"],
        document["timestamp"],
    )
    assert rules.status_of(document) == "pending"
    assert rules.status_of(None) is None
    assert rules.status_of({"status": 5}) is None
