"""Stores whose server or network breaks (design 5.5): typed errors in time, nothing lost."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import ClassVar

import pytest

from mastra_conformance import Suite, needs_server, requires
from mastra_conformance.faults.notebook import Notebook
from mastra_conformance.faults.outcomes import CALL_S, attempt, recovers, until
from mastra_conformance.faults.proxy import Direction, Network
from mastra_conformance.faults.site import Site
from mastra_conformance.suites.faults.storage_calls import StorageCall, calls_for, prepare, probe
from mastra_conformance.suites.faults.writing import (
    Ledger,
    check_counter,
    check_ledger,
    count_up,
    prepare_writers,
    write_batches,
)
from mastra_conformance.suites.storage.things import event
from mastra_core.contracts.storage import Storage

__all__ = ("OUTAGES", "StorageOutageSuite")

OUTAGES: dict[str, Callable[[Network], None]] = {
    "cut": Network.cut,
    "reset": Network.reset,
    "blackhole": Network.blackhole,
    "half-open": Network.half_open,
    "cut-request": lambda network: network.cut_after(20, Direction.TO_SERVER),
    "cut-reply": lambda network: network.cut_after(20, Direction.TO_CLIENT),
    "lost-replies": Network.lose_replies,
    "slow": lambda network: network.delay(0.05),
}
"""What can happen to the network, by its name."""

#: As many calls at once as find every connection of a pool.
_MANY = 24
_LATER = 3
_TRAFFIC_S = 0.6


def _one_per_domain(store: Storage, rng: random.Random) -> list[StorageCall]:
    """Two calls of each domain."""
    by_domain: dict[str, list[StorageCall]] = {}
    for call in calls_for(store):
        by_domain.setdefault(call.name.partition(".")[0], []).append(call)
    return [call for calls in by_domain.values() for call in rng.sample(calls, min(2, len(calls)))]


@needs_server()
class StorageOutageSuite(Suite):
    """One test per kind of outage."""

    role: ClassVar[str] = "storage"
    tier: ClassVar[int] = 4

    @pytest.mark.parametrize("outage", OUTAGES)
    async def test_an_outage_ends_in_typed_errors_and_passes(
        self, site: Site, outage: str, rng: random.Random, notebook: Notebook
    ) -> None:
        """Each call ends in time with its answer or a StorageError; afterwards all work again."""
        async with site.direct.clean_storage(), site.quick("storage").storage() as store:
            await prepare(store)
            calls = _one_per_domain(store, rng)
            notebook.note("Calls", [call.name for call in calls])

            OUTAGES[outage](site.network)
            errors = await asyncio.gather(
                *(
                    attempt("storage", partial(call.call, store, f"{outage}-{place}"))
                    for place, call in enumerate(calls)
                )
            )
            later = [
                await attempt("storage", partial(probe, store))
                for _ in range(_LATER if outage == "cut" else 0)
            ]
            await site.network.heal()
            await recovers("storage", lambda: probe(store))
            again = await asyncio.gather(
                *(attempt("storage", partial(probe, store)) for _ in range(_MANY))
            )

        if outage == "cut":
            assert None not in errors
            # Nobody knows whether the first calls arrived; the later ones can't have been sent.
            assert any(error is not None and error.retryable for error in later)
        if outage == "slow":
            assert [] == [error for error in errors if error is not None and error.retryable]
        assert [] == [error for error in again if error is not None]

    async def test_nobody_there_is_said_when_it_is_opened(self, site: Site) -> None:
        """Typed, in time, worth another try; and then it can be opened."""

        async def open_and_use() -> None:
            async with site.quick("storage").storage() as store:
                await probe(store)

        async with site.direct.clean_storage():
            site.network.cut()
            error = await attempt("storage", open_and_use, deadline_s=2 * CALL_S)
            await site.network.heal()
            await recovers("storage", open_and_use)

        assert error is not None
        assert error.retryable
        assert error.hint or "127.0.0.1" in str(error) or str(site.network.port) in str(error)

    @requires("memory", "thread_state.compare_and_set")
    @pytest.mark.parametrize("how", ["clean", "crash"])
    async def test_a_restart_loses_nothing_that_was_confirmed(
        self, site: Site, how: str, rng: random.Random, notebook: Notebook
    ) -> None:
        """Two restarts under eight writers: confirmed is there, unconfirmed whole or absent."""
        ledger, counts = Ledger(), Counter[str]()
        writers = [f"w{number}" for number in range(6)]
        is_over = False
        async with site.direct.clean_storage() as judge, site.quick("storage").storage() as store:
            await prepare_writers(judge, *writers)
            async with asyncio.TaskGroup() as group:
                for writer in writers:
                    group.create_task(write_batches(store, writer, ledger, lambda: is_over))
                for _ in range(2):
                    group.create_task(count_up(store, "counts", counts, lambda: is_over))
                for _ in range(2):
                    await asyncio.sleep(_TRAFFIC_S * (0.5 + rng.random()))
                    await site.server.restart(immediate=how == "crash")
                    await recovers("storage", lambda: probe(store))
                    before = len(ledger.acked)
                    await until(
                        lambda: len(ledger.acked) > before + len(writers),  # noqa: B023 – awaited at once
                        why=lambda: ledger,
                    )
                is_over = True
            notebook.note("Writers", ledger)
            await recovers("storage", lambda: probe(judge))

            faults = await check_ledger(judge, ledger)
            faults += await check_counter(judge, "counts", counts)

        assert [] == faults
        assert ledger.acked

    @requires("memory")
    async def test_a_server_that_stands_still_hangs_nobody(self, site: Site) -> None:
        """Calls end in time while it is paused; when it goes on, everything is in order."""
        ledger = Ledger()
        is_over = False
        async with site.direct.clean_storage() as judge, site.quick("storage").storage() as store:
            await prepare_writers(judge, "w0", "w1")
            async with asyncio.TaskGroup() as group:
                for writer in ("w0", "w1"):
                    group.create_task(write_batches(store, writer, ledger, lambda: is_over))
                await until(lambda: len(ledger.acked) > 4)
                await site.server.pause()
                await until(lambda: bool(ledger.errors))
                await site.server.resume()
                await recovers("storage", lambda: probe(store))
                is_over = True

            faults = await check_ledger(judge, ledger)

        assert [] == faults

    @requires("notifications")
    async def test_a_lost_reply_doubles_nothing(self, site: Site) -> None:
        """What isn't safe to repeat isn't repeated behind the caller's back."""
        confirmed = 0
        repeatable: list[str] = []
        async with site.direct.clean_storage() as judge, site.quick("storage").storage() as store:
            for number in range(4):
                await recovers("storage", lambda: probe(store))
                site.network.lose_replies()
                create = partial(store.notifications.create_notification, event(kind=f"k{number}"))
                error = await attempt("storage", create)
                confirmed += error is None
                if error is not None and error.retryable:
                    repeatable.append(f"k{number}")
                await site.network.heal()
            rows = await judge.notifications.list_notifications("t1")

        kinds = Counter(row.kind for row in rows)
        assert [] == [kind for kind, count in kinds.items() if count > 1]
        # Whoever repeats a call that is called retryable must find nothing of the first one.
        assert [] == [kind for kind in repeatable if kinds[kind]]
        assert [1] * len(rows) == [row.coalesced_count for row in rows]
        assert confirmed <= len(rows)

    async def test_too_many_connections_are_an_error_that_passes(self, site: Site) -> None:
        """A server that takes only one connection: typed errors or waiting, then recovery."""
        async with site.direct.clean_storage(), site.quick("storage").storage() as store:
            site.network.reset()
            site.network.allow_connections(1)
            await asyncio.gather(*(attempt("storage", partial(probe, store)) for _ in range(_MANY)))
            await site.network.heal()
            await recovers("storage", lambda: probe(store))
            again = await asyncio.gather(
                *(attempt("storage", partial(probe, store)) for _ in range(_MANY))
            )

        assert [] == [error for error in again if error is not None]
