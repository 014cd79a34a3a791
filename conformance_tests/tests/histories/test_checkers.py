"""Each checker finds the fault that it is there for, and nothing in a good history."""

from __future__ import annotations

from typing import Any

import pytest

from mastra_conformance.histories.lease_checker import (
    GuardedWrite,
    check_guarded_writes,
    check_leases,
)
from mastra_conformance.histories.log_checker import Delivered, Published, check_log
from mastra_conformance.histories.queue_checker import Handled, check_queue
from mastra_conformance.histories.recorder import History, Operation
from mastra_core.contracts.lease import LeaseGrant


def operation(name: str, owner: str, at: float, result: Any, **arguments: Any) -> Operation:
    """A call that took 1 ms."""
    return Operation(
        client=owner,
        name=name,
        arguments={"key": "k", "owner": owner, "ttl_ms": 1_000, **arguments},
        invoked_at=at,
        returned_at=at + 0.001,
        result=result,
    )


def acquired(owner: str, at: float, fence: int) -> Operation:
    """A grant."""
    grant = LeaseGrant(acquired=True, owner=owner, fence=fence)
    return operation("acquire_lease", owner, at, grant)


def released(owner: str, at: float, fence: int) -> Operation:
    """A release that worked."""
    return operation("release_lease", owner, at, True, fence=fence)


def renewed(owner: str, at: float, fence: int) -> Operation:
    """A renewal that worked."""
    return operation("renew_lease", owner, at, True, fence=fence)


def moved(owner: str, to: str, at: float, fence: int, old: int) -> Operation:
    """A transfer that worked."""
    grant = LeaseGrant(acquired=True, owner=to, fence=fence)
    return operation("transfer_lease", owner, at, grant, from_owner=owner, to_owner=to, fence=old)


GOOD = [
    [acquired("a", 0, 1), released("a", 0.5, 1), acquired("b", 0.51, 2)],
    [acquired("a", 0, 1), acquired("b", 1.0, 2)],
    [acquired("a", 0, 1), renewed("a", 0.5, 1), acquired("b", 1.5, 2)],
    [acquired("a", 0, 1), moved("a", "b", 0.5, 2, 1), acquired("c", 1.6, 3)],
    [acquired("a", 0, 1), acquired("a", 0.5, 2)],
    [acquired("a", 0, 1), renewed("a", 0.2, 1), released("a", 0.3, 1), acquired("b", 0.31, 2)],
]
BAD = [
    ([acquired("a", 0, 1), acquired("b", 0.5, 2)], "could act until"),
    ([acquired("a", 0, 1), renewed("a", 0.5, 1), acquired("b", 1.1, 2)], "could act until"),
    ([acquired("a", 0, 1), moved("a", "b", 0.5, 2, 1), acquired("c", 1.1, 3)], "could act until"),
    ([acquired("a", 0, 2), released("a", 0.1, 2), acquired("b", 0.2, 1)], "was issued after"),
    ([acquired("a", 0, 1), released("a", 0.1, 1), acquired("b", 0.2, 1)], "was issued after"),
    ([acquired("a", 0, 1), renewed("a", 0.01, 1), acquired("b", 0.99, 2)], "renewed by a"),
]


@pytest.mark.parametrize("history", GOOD)
def test_good_lease_histories_pass(history: list[Operation]) -> None:
    """In whatever order they were written down."""
    assert [] == check_leases(history)
    assert [] == check_leases(list(reversed(history)))


@pytest.mark.parametrize(("history", "fault"), BAD)
def test_bad_lease_histories_are_found(history: list[Operation], fault: str) -> None:
    """Two owners at once, fences that don't grow, early expiry."""
    assert any(fault in found for found in check_leases(history))


def test_keys_are_judged_apart() -> None:
    """Two owners of two keys are no fault."""
    other = operation(
        "acquire_lease", "b", 0.1, LeaseGrant(acquired=True, owner="b", fence=1), key="other"
    )
    assert [] == check_leases([acquired("a", 0, 1), other])


def test_older_fences_after_newer_ones_are_found() -> None:
    """Per key."""
    writes = [GuardedWrite(key=key, fence=fence) for key, fence in [("k", 1), ("k", 2), ("l", 1)]]
    assert [] == check_guarded_writes(writes)
    assert 1 == len(check_guarded_writes([*writes, GuardedWrite(key="k", fence=1)]))


SENT = [Published(0, 0), Published(0, 1), Published(1, 0)]
A, B, C = Delivered(0, 0), Delivered(0, 1), Delivered(1, 0)


@pytest.mark.parametrize(
    ("readers", "ordering", "faults"),
    [
        ({"x": [A, C, B], "y": [A, C, B]}, "topic", 0),
        ({"x": [A, B, C], "y": [A, C, B]}, "publisher", 0),
        ({"x": [A, B, C], "y": [A, C, B]}, "topic", 1),
        ({"x": [B, A, C]}, "publisher", 1),
        ({"x": [B, A, C]}, "none", 0),
        ({"x": [A, B]}, "none", 1),
        ({"x": [A, B, C, C]}, "none", 1),
        ({"x": [A, B, C, Delivered(9, 9)]}, "none", 1),
    ],
)
def test_logs(readers: dict[str, list[Delivered]], ordering: Any, faults: int) -> None:
    """Lost, doubled, invented and reordered events."""
    assert faults == len(check_log(SENT, readers, ordering=ordering))


@pytest.mark.parametrize(
    ("handled", "acked", "fault"),
    [
        ([Handled(0, 1), Handled(1, 1)], [0, 1], None),
        ([Handled(0, 1), Handled(1, 1), Handled(1, 2)], [0, 1], None),
        ([Handled(0, 1)], [0], "lost"),
        ([Handled(0, 1), Handled(1, 1), Handled(1, 1)], [0, 1], "came again as attempt 1"),
        ([Handled(0, 1), Handled(1, 3), Handled(1, 2)], [0, 1], "went back"),
        ([Handled(0, 1), Handled(1, 1), Handled(7, 1)], [0, 1], "never published"),
        ([Handled(0, 1), Handled(1, 1)], [0, 1, 1], "acked 2 times"),
        ([Handled(0, 1), Handled(1, 0)], [0, 1], "began with attempt 0"),
    ],
)
def test_queues(handled: list[Handled], acked: list[int], fault: str | None) -> None:
    """Lost, repeated without reason, invented, settled twice."""
    faults = check_queue(range(2), handled, acked)
    assert bool(faults) == (fault is not None)
    assert fault is None or any(fault in found for found in faults)


@pytest.mark.anyio
async def test_a_history_notes_results_and_errors() -> None:
    """One line each, with the times of its clock."""
    times = iter(range(10))
    history = History(clock=lambda: float(next(times)))

    async def answer() -> int:
        return 7

    async def explode() -> int:
        raise ValueError

    assert await history.record("a", "ask", answer(), key="k") == 7
    with pytest.raises(ValueError):
        await history.record("a", "ask", explode(), key="k")

    assert [(7, None, 0.0, 1.0), (None, "ValueError", 2.0, 3.0)] == [
        (one.result, one.error, one.invoked_at, one.returned_at) for one in history.operations
    ]
    assert 2 == len(history.to_json_lines().splitlines())
