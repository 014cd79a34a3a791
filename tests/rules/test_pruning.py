"""Tests of ``mastra_core.rules.pruning``."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mastra_core.contracts.storage import PruneOptions, PrunePolicy, PruneResult
from mastra_core.errors import StorageArgumentError
from mastra_core.rules import pruning

__all__ = ()

pytestmark = pytest.mark.anyio

POLICY = PrunePolicy(table="things", max_age_ms=1)


class Things:
    """Old rows, and how they went."""

    def __init__(self, count: int) -> None:
        self.left = count
        self.batches: list[int] = []
        self.slept: list[float] = []
        self.abort: asyncio.Event | None = None

    async def count(self) -> int:
        return self.left

    async def delete(self, wanted: int) -> int:
        gone = min(wanted, self.left)
        self.left -= gone
        self.batches.append(gone)
        return gone

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        if self.abort is not None:
            self.abort.set()

    async def prune(self, **options: Any) -> PruneResult:
        return await pruning.prune_table(
            POLICY,
            PruneOptions(**options),
            domain="d",
            count=self.count,
            delete=self.delete,
            sleep=self.sleep,
        )


@pytest.mark.parametrize(
    ("options", "batches", "done"),
    [
        ({"batch_size": 4}, [4, 4, 2], True),
        ({"batch_size": 5}, [5, 5, 0], True),
        ({"batch_size": 4, "max_batches": 2}, [4, 4], False),
        ({"batch_size": 4, "max_rows": 6}, [4, 2], False),
        ({"batch_size": 100}, [10], True),
        ({"batch_size": 100, "max_rows": 10}, [10], False),
    ],
)
async def test_rows_go_in_batches(options: Any, batches: list[int], done: bool) -> None:
    """Until nothing is left, or a limit stops the work and says so."""
    things = Things(10)

    result = await things.prune(**options)

    assert batches == things.batches
    assert (sum(batches), done) == (result.deleted, result.done)


async def test_a_preview_deletes_nothing() -> None:
    """It counts."""
    things = Things(10)

    result = await things.prune(dry_run=True)

    assert (10, True, 10) == (result.deleted, result.done, things.left)


async def test_work_pauses_and_can_be_stopped_between_batches() -> None:
    """The abort signal ends it unfinished."""
    things = Things(10)
    things.abort = asyncio.Event()

    result = await things.prune(batch_size=4, pause_ms=250, abort=things.abort)

    assert (4, False, [0.25]) == (result.deleted, result.done, things.slept)


@pytest.mark.parametrize(
    ("policy", "options"),
    [
        (PrunePolicy(table="others", max_age_ms=1), {}),
        (PrunePolicy(table="things", max_age_ms=-1), {}),
        (POLICY, {"batch_size": 0}),
        (POLICY, {"max_batches": 0}),
        (POLICY, {"max_rows": 0}),
        (POLICY, {"pause_ms": -1}),
    ],
)
async def test_work_without_sense_is_refused(policy: PrunePolicy, options: Any) -> None:
    """Before anything is deleted."""
    assert PruneOptions() == pruning.check_policies([POLICY], None, ("things",))
    with pytest.raises(StorageArgumentError):
        pruning.check_policies([policy], PruneOptions(**options), ("things",))
