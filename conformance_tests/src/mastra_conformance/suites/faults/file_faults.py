"""Files on which adapters live: a full disk, a read-only one, a lock that somebody else holds."""

from __future__ import annotations

import asyncio
import random
from functools import partial
from typing import Any, ClassVar, Final

from mastra_conformance import Suite, needs_file, requires
from mastra_conformance.faults.addresses import with_options
from mastra_conformance.faults.disk import moved, small_disk
from mastra_conformance.faults.notebook import Notebook
from mastra_conformance.faults.outcomes import attempt, recovers
from mastra_conformance.faults.tuning import quick_options
from mastra_conformance.opening import Opener
from mastra_conformance.processes import Processes
from mastra_conformance.suites.faults.storage_calls import probe
from mastra_conformance.suites.faults.workers import write_large_batches
from mastra_conformance.suites.faults.writing import (
    Ledger,
    batch,
    check_ledger,
    prepare_writers,
)
from mastra_conformance.suites.pubsub.support import make_event, open_bus
from mastra_core.errors import MastraError

__all__ = ("BusFileSuite", "FileFaultSuite", "FullDiskSuite")

_DISK_MIB: Final = 3
_GROWN_MIB: Final = 64
_MOST_WRITES: Final = 5_000
_PAUSES: Final = 12
_TEXT: Final = "x" * 20_000


@needs_file()
class FullDiskSuite(Suite):
    """Disks of our own, where this machine lets us have some."""

    role: ClassVar[str] = "storage"
    tier: ClassVar[int] = 4

    @requires("memory")
    async def test_a_full_disk_loses_nothing_that_was_confirmed(
        self, opener: Opener, notebook: Notebook
    ) -> None:
        """A typed error when there is no room; with room it goes on, and all is whole."""
        ledger = Ledger()
        with small_disk(_DISK_MIB) as disk:
            async with moved(_quick(opener, "storage"), disk.folder).storage() as store:
                await prepare_writers(store, "w")
                error = None
                for number in range(_MOST_WRITES):
                    ledger.tried.append(("w", number))
                    rows = [
                        row.model_copy(update={"content": {**row.content, "content": _TEXT}})
                        for row in batch("w", number)
                    ]
                    error = await attempt("storage", lambda: store.memory.save_messages(rows))  # noqa: B023 – awaited at once
                    if error is not None:
                        break
                    ledger.acked.add(("w", number))
                # Whatever it says now, it says it in time and typed.
                await attempt("storage", lambda: prepare_writers(store, "other"))
                disk.grow(_GROWN_MIB)
                await recovers("storage", lambda: probe(store))
                faults = await check_ledger(store, ledger)
        notebook.note("Writer", ledger)

        assert error is not None
        assert [] == faults
        assert ledger.acked

    @requires("memory")
    async def test_a_read_only_disk_is_said(self, opener: Opener) -> None:
        """Opening or writing is refused with a typed error; nothing is lost."""
        with small_disk(_GROWN_MIB) as disk:
            own = moved(_quick(opener, "storage"), disk.folder)
            async with own.storage() as store:
                await prepare_writers(store, "w")
                await store.memory.save_messages(batch("w", 0))
            disk.make_read_only()

            async def open_and_write() -> None:
                async with own.storage() as store:
                    await store.memory.save_messages(batch("w", 1))

            error = await attempt("storage", open_and_write)
            disk.make_writable()
            await recovers("storage", open_and_write)
            ledger = Ledger(tried=[("w", 0), ("w", 1)], acked={("w", 0), ("w", 1)})
            async with own.storage() as store:
                faults = await check_ledger(store, ledger)

        assert error is not None
        assert [] == faults


@needs_file()
class FileFaultSuite(Suite):
    """What can happen to a file everywhere."""

    role: ClassVar[str] = "storage"
    tier: ClassVar[int] = 4

    @requires("memory")
    async def test_a_locked_file_is_waited_for_then_said(
        self, opener: Opener, processes: Processes, rng: random.Random
    ) -> None:
        """A writer stands still inside its write: typed errors in time; then all goes on."""
        errors: list[MastraError | None] = []
        async with _quick(opener, "storage").storage() as store:
            await prepare_writers(store, "w")
            async with processes.start(write_large_batches) as rival:
                await rival.reached("writing")
                for number in range(_PAUSES):
                    await asyncio.sleep(rng.random() * 0.05)
                    rival.pause()
                    write = partial(store.memory.save_messages, batch("w", number))
                    errors.append(await attempt("storage", write))
                    rival.resume()
                    await recovers("storage", lambda: probe(store))
                    if errors[-1] is not None:
                        break
            await recovers("storage", lambda: probe(store))
            ledger = Ledger(
                tried=[("w", number) for number in range(len(errors))],
                acked={("w", number) for number, error in enumerate(errors) if error is None},
            )
            faults = await check_ledger(store, ledger)

        assert [] == [error for error in errors if error is not None and not error.retryable]
        assert [] == faults


@needs_file()
class BusFileSuite(Suite):
    """The bus in a file whose disk is full."""

    role: ClassVar[str] = "pubsub"
    capabilities: ClassVar[tuple[str, ...]] = ("pubsub.durable", "pubsub.history")
    tier: ClassVar[int] = 4

    async def test_a_full_disk_loses_no_accepted_event(self, opener: Opener) -> None:
        """Publishing is refused with a typed error; with room it goes on."""
        accepted: list[int] = []
        with small_disk(_DISK_MIB) as disk:
            async with open_bus(moved(opener, disk.folder)) as bus:
                error = None
                for number in range(_MOST_WRITES):
                    event: Any = make_event({"n": number, "text": _TEXT})
                    error = await attempt("pubsub", lambda: bus.publish("t", event))  # noqa: B023 – awaited at once
                    if error is not None:
                        break
                    accepted.append(number)
                disk.grow(_GROWN_MIB)
                await recovers("pubsub", lambda: bus.publish("t", make_event({"n": -1})))
                stored = [event.data["n"] for event in await bus.get_history("t")]

        assert error is not None
        assert accepted == stored[: len(accepted)]
        assert stored[-1] == -1


def _quick(opener: Opener, role: str) -> Opener:
    options = quick_options(opener.subject.spec(role))
    return opener.with_url(with_options(opener.place.url, **options))
