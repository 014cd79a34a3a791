"""Leases in a file: whose time counts, and what a start of the machine means."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mastra_conformance import case
from mastra_core.base.clock import SystemClock
from mastra_core.errors import LeaseError
from mastra_core.plugins.context import AdapterContext
from mastra_core.testing.fake_clock import FakeClock
from mastra_libsql.host_time import HostTime, boot_id
from mastra_libsql.lease import LibSQLLease
from mastra_sql.executor import Executor, Rows, Step

pytestmark = pytest.mark.anyio

Query = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture
def url(path: Path) -> str:
    return f"file:{path}"


@case("pubsub_and_lease", 117)
@pytest.mark.parametrize("jump_s", [3_600, -3_600], ids=["forward", "back"])
async def test_a_jump_of_the_wall_clock_changes_nothing(url: str, jump_s: int) -> None:
    """A live lease neither expires nor is prolonged, and fences go on growing."""
    clock = FakeClock()
    context = AdapterContext(clock=clock)
    async with LibSQLLease(url, context) as lease:
        first = await lease.acquire_lease("k", "a", 10_000)
        await clock.advance(4)

        clock.jump_wall(jump_s)

        assert not await lease.acquire_lease("k", "b", 10_000)
        record = await lease.get_lease("k")
        assert record is not None
        assert record.ttl_remaining_ms == 6_000
        await clock.advance(6)
        second = await lease.acquire_lease("k", "b", 10_000)
        assert second.acquired
        assert (second.fence or 0) > (first.fence or 0)


async def test_processes_agree_on_the_time(url: str) -> None:
    """Whoever starts after the wall clock jumped counts as the others do."""
    clock = FakeClock()
    async with LibSQLLease(url, AdapterContext(clock=clock)) as lease:
        await lease.acquire_lease("k", "a", 10_000)
        clock.jump_wall(3_600)

        async with LibSQLLease(url, AdapterContext(clock=clock)) as later:
            assert await later.get_lease_owner("k") == "a"
            assert not await later.acquire_lease("k", "b", 10_000)


async def test_after_a_start_of_the_machine_nobody_holds_anything(url: str, query: Query) -> None:
    """The holder died with the machine; its fence stays used."""
    async with LibSQLLease(url) as lease:
        old = await lease.acquire_lease("k", "a", 60_000)
        query("UPDATE mastra_leases SET \"bootId\" = 'another start'")

        assert await lease.get_lease_owner("k") is None
        assert not await lease.renew_lease("k", "a", 60_000)
        new = await lease.acquire_lease("k", "b", 60_000)

        assert new.acquired
        assert (new.fence or 0) > (old.fence or 0)


async def test_the_bases_of_earlier_starts_are_forgotten(url: str, query: Query) -> None:
    """One row for the start that is, none for those that were."""
    async with LibSQLLease(url):
        pass
    query("UPDATE mastra_py_clock SET \"bootId\" = 'another start'")

    async with LibSQLLease(url) as lease:
        await lease.acquire_lease("k", "a", 60_000)

    assert [(boot_id(),)] == query('SELECT "bootId" FROM mastra_py_clock')


def test_host_time_goes_with_the_boot_clock() -> None:
    """Before the base is known it is the wall clock; then it never jumps."""
    time = HostTime(SystemClock())
    before = time.now_us()
    time.agree(time.proposal_us() + 5_000_000)

    assert 4_900_000 < time.now_us() - before < 5_200_000
    assert time.is_agreed


async def test_a_lock_delay_protects_what_expired(url: str) -> None:
    """L13: an expired lease stays ungrantable to others for a while, a released one doesn't."""
    clock = FakeClock()
    async with LibSQLLease(url, AdapterContext(clock=clock), lock_delay_ms=5_000) as lease:
        await lease.acquire_lease("expires", "a", 1_000)
        await lease.acquire_lease("released", "a", 1_000)
        await lease.release_lease("released", "a")
        await clock.advance(2)

        assert not await lease.acquire_lease("expires", "b", 1_000)
        assert await lease.acquire_lease("released", "b", 1_000)
        await clock.advance(4.5)
        assert await lease.acquire_lease("expires", "b", 1_000)


async def test_a_waiter_gets_what_was_kept_back(url: str) -> None:
    """Who waits by watching isn't left alone when the delay is over."""
    async with (
        LibSQLLease(url, lock_delay_ms=300) as holder,
        LibSQLLease(url, lock_delay_ms=300, watch_poll_ms=50) as waiter,
    ):
        await holder.acquire_lease("k", "a", 50)
        await asyncio.sleep(0.06)
        assert await waiter.get_lease_owner("k") is None
        events = waiter.watch_lease("k")
        async with asyncio.timeout(60):
            while not await waiter.acquire_lease("k", "b", 60_000):
                await anext(events)


async def test_an_end_between_refusal_and_look_is_told(url: str) -> None:
    """The waiter was refused for a term that nothing shows any more: it must not wait for ever."""

    released = asyncio.Event()

    class Unlucky(LibSQLLease):
        """The holder lets go right after this one was refused, and before it looked."""

        async def _look_first(self, watch: Any) -> None:
            await released.wait()
            await super()._look_first(watch)

        async def _acquire(
            self, executor: Executor, acquire: Step, look: Step
        ) -> tuple[Rows, Rows]:
            rows = await executor.write("acquire", acquire)
            await holder.release_lease("k", "a")
            released.set()
            [looked] = await executor.read("acquire", look)
            return rows, looked

    async with LibSQLLease(url) as holder, Unlucky(url, watch_poll_ms=10) as waiter:
        await holder.acquire_lease("k", "a", 60_000)
        events = waiter.watch_lease("k")
        assert not await waiter.acquire_lease("k", "b", 60_000)

        async with asyncio.timeout(60):
            event = await anext(events)
        assert "released" == event.kind
        assert await waiter.acquire_lease("k", "b", 60_000)


async def test_a_watch_without_a_doorbell_looks(url: str) -> None:
    """``data_version`` wakes the watcher of another process."""
    async with (
        LibSQLLease(url, doorbell=False) as watcher,
        LibSQLLease(url, doorbell=False) as holder,
    ):
        await holder.acquire_lease("k", "a", 60_000)
        events = watcher.watch_lease("k")
        assert not await watcher.acquire_lease("k", "b", 60_000)
        await holder.release_lease("k", "a")

        async with asyncio.timeout(60):
            event = await anext(events)
        assert ("released", "a") == (event.kind, event.owner)
        assert await watcher.acquire_lease("k", "b", 60_000)


async def test_old_rows_are_forgotten_but_fences_grow(url: str, query: Query) -> None:
    """Without its row the time alone keeps fences growing (L4)."""
    async with LibSQLLease(url) as lease:
        old = await lease.acquire_lease("k", "a", 60_000)
        await lease.release_lease("k", "a")
        query("DELETE FROM mastra_leases")
        new = await lease.acquire_lease("k", "a", 60_000)
        assert (new.fence or 0) > (old.fence or 0)


async def test_a_missing_folder_is_a_lease_error(tmp_path: Path) -> None:
    """Driver errors don't get out; the sentence names the file."""
    lease = LibSQLLease(f"file:{tmp_path}/nowhere/app.db")
    with pytest.raises(LeaseError, match="can't be opened"):
        await lease.acquire_lease("k", "a", 1_000)
    await lease.aclose()
