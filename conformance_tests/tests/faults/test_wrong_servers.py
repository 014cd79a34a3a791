"""Adapters and servers that are wrong on purpose; the suites of faults catch each of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mastra_conformance import Suite
from mastra_conformance.suites.faults import unreliable_events
from mastra_conformance.suites.faults.cancelling import StorageCancelSuite
from mastra_conformance.suites.faults.lease_outages import LeaseOutageSuite
from mastra_conformance.suites.faults.pubsub_outages import PubSubOutageSuite
from mastra_conformance.suites.faults.storage_crashes import StorageCrashSuite
from mastra_conformance.suites.faults.storage_outages import StorageOutageSuite
from mastra_conformance.suites.faults.unreliable_events import UnreliableEventsSuite
from mastra_conformance.suites.lease.processes import LeaseProcessSuite
from mastra_conformance.suites.pubsub.processes import PubSubProcessSuite

__all__ = ()

pytestmark = pytest.mark.anyio

OUTAGE = "test_an_outage_ends_in_typed_errors_and_passes"
RESTART = "test_a_restart_loses_nothing_that_was_confirmed"
EVENTS = "test_a_restart_loses_no_accepted_event"
CUT_OFF = "test_a_reader_that_was_cut_off_catches_up"
ONCE = "test_a_publish_whose_answer_is_lost_is_stored_once"
TRUTH = "test_closing_during_a_publish_tells_the_truth"

Row = tuple[str, str, type[Suite], str, dict[str, Any]]

ROWS: list[Row] = [
    # Lets out what it got.
    ("toynet-raw", "TOY", StorageOutageSuite, OUTAGE, {"outage": "reset"}),
    # Waits for ever.
    ("toynet-patient", "TOY", StorageOutageSuite, OUTAGE, {"outage": "blackhole"}),
    # Never connects again.
    ("toynet-stubborn", "TOY", StorageOutageSuite, OUTAGE, {"outage": "reset"}),
    # Keeps its lock when something goes wrong.
    ("toynet-jammed", "TOY", StorageOutageSuite, OUTAGE, {"outage": "reset"}),
    ("toynet-jammed", "TOY", StorageCancelSuite, "test_a_cancelled_call_holds_nothing", {}),
    # Stores a batch piece by piece.
    (
        "toynet-torn",
        "TOY",
        StorageCancelSuite,
        "test_a_cancelled_batch_is_whole_or_absent",
        {},
    ),
    # Confirms before it has written.
    ("toynet", "FORGETFUL", StorageOutageSuite, RESTART, {"how": "crash"}),
    ("toynet", "FORGETFUL", PubSubOutageSuite, EVENTS, {"how": "crash"}),
    # Reads on at the end after a lost connection: skips what came at the seam.
    ("toynet-skipping", "TOY", PubSubOutageSuite, CUT_OFF, {"outage": "half-open"}),
    # Forgets that it may have sent an event already.
    ("toynet-doubling", "TOY", PubSubOutageSuite, ONCE, {}),
    # Says that it is stored when nobody knows.
    ("toynet-dropping", "TOY", PubSubOutageSuite, TRUTH, {"outage": "cut"}),
    # Acks for its handlers.
    ("toynet-hasty", "TOY", PubSubProcessSuite, "test_a_killed_worker_is_replaced", {}),
    # Takes fences without looking at them.
    ("toynet-unfenced", "TOY", LeaseProcessSuite, "test_a_paused_owner_is_fenced_out", {}),
    # Grants again what it granted before a restart.
    (
        "toynet",
        "AMNESIAC",
        LeaseOutageSuite,
        "test_a_restart_grants_nothing_twice",
        {"how": "crash"},
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=[f"{row[0]}-{row[1]}-{row[3]}" for row in ROWS])
async def test_a_wrong_one_is_caught(
    hasty_bench: Callable[..., Any], caplog: pytest.LogCaptureFixture, row: Row
) -> None:
    """The test that is there for the fault fails."""
    scheme, product, suite, test, parameters = row
    if test == "test_a_cancelled_call_holds_nothing":
        parameters = {"domain": "thread_state"}
    if test == CUT_OFF:
        parameters = {**parameters, "caplog": caplog}

    with pytest.raises((AssertionError, ExceptionGroup, TimeoutError)):
        await hasty_bench(scheme, product).run(suite, test, **parameters)


RIGHT: list[tuple[type[Suite], str, dict[str, Any]]] = [
    (StorageOutageSuite, OUTAGE, {"outage": "lost-replies"}),
    (StorageOutageSuite, RESTART, {"how": "crash"}),
    (StorageCrashSuite, "test_a_killed_writer_leaves_whole_batches", {}),
    (StorageCancelSuite, "test_a_cancelled_call_holds_nothing", {"domain": "thread_state"}),
    (PubSubOutageSuite, EVENTS, {"how": "crash"}),
    (PubSubOutageSuite, ONCE, {}),
    (PubSubProcessSuite, "test_a_killed_worker_is_replaced", {}),
    (LeaseProcessSuite, "test_a_paused_owner_is_fenced_out", {}),
    (LeaseOutageSuite, "test_a_restart_grants_nothing_twice", {"how": "crash"}),
]


@pytest.mark.parametrize(
    ("suite", "test", "parameters"), RIGHT, ids=[f"{row[0].__name__}-{row[1]}" for row in RIGHT]
)
async def test_the_right_one_passes(
    bench: Callable[..., Any], suite: type[Suite], test: str, parameters: dict[str, Any]
) -> None:
    """So it is the fault that is caught, not the toy."""
    await bench("toynet", "TOY").run(suite, test, **parameters)


async def test_a_bus_without_history_is_caught(
    hasty_bench: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever passes everything on passes the mischief on, too."""
    monkeypatch.setattr(unreliable_events, "CachingPubSub", lambda inner, cache, **_: inner)

    with pytest.raises((AssertionError, TimeoutError)):
        await hasty_bench("toynet", "TOY").run(
            UnreliableEventsSuite, "test_a_replay_is_complete_and_in_order", mischief="swapped"
        )
