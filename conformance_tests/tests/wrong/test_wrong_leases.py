"""Lease providers that are wrong on purpose; the suites catch each of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from mastra_conformance import Suite
from mastra_conformance.suites.lease.concurrency import LeaseConcurrencySuite
from mastra_conformance.suites.lease.terms import TermSuite
from mastra_conformance.suites.lease.transfer import TransferSuite
from mastra_conformance.suites.lease.watching import WatchSuite
from mastra_core.contracts.lease import LeaseEvent, LeaseGrant
from mastra_core.inmemory.lease import InMemoryLease

pytestmark = pytest.mark.anyio


class GenerousLease(InMemoryLease):
    """Everybody gets it."""

    async def acquire_lease(
        self, key: str, owner: str, ttl_ms: int, *, holder: str | None = None
    ) -> LeaseGrant:
        grant = await super().acquire_lease(key, owner, ttl_ms, holder=holder)
        return replace(grant, acquired=True)


class FlatLease(InMemoryLease):
    """Its fences don't grow."""

    async def acquire_lease(
        self, key: str, owner: str, ttl_ms: int, *, holder: str | None = None
    ) -> LeaseGrant:
        grant = await super().acquire_lease(key, owner, ttl_ms, holder=holder)
        return replace(grant, fence=1)


class RevivingLease(InMemoryLease):
    """Renewing takes it again."""

    async def renew_lease(self, key: str, owner: str, ttl_ms: int, **options: Any) -> bool:
        return bool(await self.acquire_lease(key, owner, ttl_ms, holder=options.get("holder")))


class GappyLease(InMemoryLease):
    """Transfers by releasing and acquiring."""

    async def transfer_lease(
        self, key: str, from_owner: str, to_owner: str, ttl_ms: int, **options: Any
    ) -> LeaseGrant:
        await self.release_lease(key, from_owner, fence=options.get("fence"))
        await asyncio.sleep(0)
        return await self.acquire_lease(key, to_owner, ttl_ms)


class NamelessLease(InMemoryLease):
    """Knows no incarnations."""

    async def acquire_lease(
        self, key: str, owner: str, ttl_ms: int, *, holder: str | None = None
    ) -> LeaseGrant:
        return await super().acquire_lease(key, owner, ttl_ms, holder="all the same")

    def _holder_of(self, key: str, owner: str, holder: str | None) -> str:
        return "all the same"


class LaxLease(InMemoryLease):
    """Takes any time to live."""

    async def acquire_lease(
        self, key: str, owner: str, ttl_ms: int, *, holder: str | None = None
    ) -> LeaseGrant:
        return await super().acquire_lease(key, owner, 60_000, holder=holder)


class OpenLease(InMemoryLease):
    """Anybody may release."""

    async def release_lease(self, key: str, owner: str, **options: Any) -> bool:
        current = await self.get_lease_owner(key)
        return current is not None and await super().release_lease(key, current)


class ClingingLease(InMemoryLease):
    """Keeps what it holds when it is closed."""

    async def aclose(self) -> None:
        self._held.clear()
        await super().aclose()


class BlindLease(InMemoryLease):
    """Doesn't notice expiry."""

    async def _follow(self, key: str, watcher: Any) -> AsyncIterator[LeaseEvent]:
        async for event in super()._follow(key, watcher):
            if event.kind != "expired":
                yield event


class HastyLease(InMemoryLease):
    """Lets a lease expire too early."""

    async def acquire_lease(
        self, key: str, owner: str, ttl_ms: int, *, holder: str | None = None
    ) -> LeaseGrant:
        return await super().acquire_lease(key, owner, max(50, ttl_ms // 2), holder=holder)


class DeafLease(InMemoryLease):
    """A closed one answers as if nobody had anything."""

    async def get_lease_owner(self, key: str) -> str | None:
        return None if self._is_closed else await super().get_lease_owner(key)


class StickyLease(InMemoryLease):
    """The old owner keeps his rights after a transfer."""

    async def renew_lease(self, key: str, owner: str, ttl_ms: int, **options: Any) -> bool:
        await super().renew_lease(key, owner, ttl_ms, **options)
        return True


Row = tuple[type[InMemoryLease], type[Suite], str, dict[str, Any]]

ROWS: list[Row] = [
    (GenerousLease, TermSuite, "test_one_gets_a_free_key", {}),
    (GenerousLease, LeaseConcurrencySuite, "test_a_free_key_has_one_winner", {}),
    (GenerousLease, LeaseConcurrencySuite, "test_random_histories_are_safe", {}),
    (FlatLease, TermSuite, "test_fences_grow_over_many_terms", {}),
    (FlatLease, LeaseConcurrencySuite, "test_random_histories_are_safe", {}),
    (RevivingLease, TermSuite, "test_only_the_live_owner_renews", {}),
    (GappyLease, LeaseConcurrencySuite, "test_nobody_gets_between_a_transfer", {}),
    (NamelessLease, TermSuite, "test_another_incarnation_starts_a_new_term", {}),
    (NamelessLease, TermSuite, "test_two_instances_are_two_incarnations", {}),
    (LaxLease, TermSuite, "test_impossible_times_are_refused", {"ttl": 0}),
    (OpenLease, TermSuite, "test_release_is_idempotent", {}),
    (ClingingLease, TermSuite, "test_closing_releases", {}),
    (BlindLease, WatchSuite, "test_changes_come_in_order", {}),
    (HastyLease, TermSuite, "test_expiry_is_never_early", {}),
    (HastyLease, LeaseConcurrencySuite, "test_random_histories_are_safe", {}),
    (DeafLease, TermSuite, "test_a_closed_provider_says_so", {}),
    (StickyLease, TransferSuite, "test_a_transfer_is_a_new_term", {}),
]


def _name(row: Row) -> str:
    return f"{row[0].__name__}-{row[2].removeprefix('test_')}"


@pytest.mark.parametrize("row", ROWS, ids=_name)
async def test_a_wrong_provider_is_caught(hasty_bench: Any, row: Row) -> None:
    """The test of the suite that is there for this fault fails."""
    wrong, suite, test, parameters = row

    try:
        await replace(hasty_bench, make_lease=wrong).run(suite, test, **parameters)
    except (Exception, pytest.fail.Exception, BaseExceptionGroup):  # noqa: BLE001 – any failure counts
        return
    pytest.fail(f"{suite.__name__}.{test} passes with {wrong.__name__}.")


@pytest.mark.parametrize("row", ROWS, ids=_name)
async def test_the_right_provider_passes(bench: Any, row: Row) -> None:
    """The same call with the right adapter, so that the failure is about the fault."""
    await bench.run(row[1], row[2], **row[3])
