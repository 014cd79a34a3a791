"""Clients of a store that die or stand still in the middle of their work (design 5.5)."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from typing import Any, ClassVar, Final

from mastra_conformance import Suite, requires, several_processes
from mastra_conformance.faults.notebook import Notebook
from mastra_conformance.faults.outcomes import recovers
from mastra_conformance.processes import Processes, Worker, WorkerDiedError
from mastra_conformance.suites.faults.storage_calls import probe
from mastra_conformance.suites.faults.workers import write_as_owner, write_until_killed
from mastra_conformance.suites.faults.writing import Ledger, check_ledger, prepare_writers
from mastra_conformance.suites.storage.things import approval_run, resume_claim
from mastra_core.contracts.storage import Storage

__all__ = ("StorageCrashSuite",)

_LIVES: Final = 3
_CLAIM_MS: Final = 400


@several_processes()
class StorageCrashSuite(Suite):
    """What the next process finds."""

    role: ClassVar[str] = "storage"
    tier: ClassVar[int] = 4

    @requires("memory")
    async def test_a_killed_writer_leaves_whole_batches(
        self, store: Storage, processes: Processes, rng: random.Random, notebook: Notebook
    ) -> None:
        """Killed at random: what was confirmed is there, the last write whole or absent."""
        ledger = Ledger()
        await prepare_writers(store, "w")
        first = 0
        for _ in range(_LIVES):
            async with processes.start(write_until_killed, writer="w", first=first) as worker:
                confirmed = asyncio.create_task(_confirmed(worker))
                await asyncio.wait([confirmed], timeout=rng.uniform(0.05, 0.2))
                await asyncio.sleep(rng.random() * 0.2)
                # Somewhere between two confirmations, so most often inside a write.
                await worker.kill()
                numbers = await confirmed
            last = max(numbers, default=first - 1)
            ledger.acked |= {("w", number) for number in numbers}
            ledger.tried += [("w", number) for number in range(first, last + 2)]
            first = last + 2
            # Nobody is kept out by the dead.
            await recovers("storage", lambda: probe(store), within_s=1.0)
        notebook.note("Writer", ledger)

        assert [] == await check_ledger(store, ledger)

    @requires("workflows.claim_resume", "workflows.fenced_writes")
    async def test_a_paused_owner_writes_no_more(
        self, store: Storage, processes: Processes
    ) -> None:
        """It claimed a run, stood still past its claim, and goes on: its write is refused."""
        names: dict[str, Any] = {"workflow_name": "agentic-loop", "run_id": "run1"}
        await store.workflows.persist_workflow_snapshot(**names, snapshot=approval_run())
        worker = processes.start(write_as_owner, names=names, ttl_ms=_CLAIM_MS)
        async with worker as old:
            await old.reached("claimed")
            old.pause()
            # Really wait: whoever's clock decides, its time passes.
            await asyncio.sleep(_CLAIM_MS / 1000 + 0.1)
            recovered = await store.workflows.recover_expired_claims(
                workflow_names=["agentic-loop"]
            )
            claimed = await store.workflows.claim_resume(**names, claim=resume_claim("new"))
            await store.workflows.persist_workflow_snapshot(
                **names, snapshot=approval_run("run1", value={"by": "new"}), claim_id="new"
            )
            old.resume()
            result = await old.result()
        row = await store.workflows.load_workflow_snapshot(**names)

        assert (1, True) == (recovered, claimed.acquired)
        assert {"claimed": True, "error": "STALE_CLAIM"} == result
        assert row is not None
        assert {"by": "new"} == row["value"]


async def _confirmed(worker: Worker) -> list[int]:
    """What the writer told until it died."""
    numbers: list[int] = []
    with suppress(WorkerDiedError):
        async for number in worker.told("confirmed"):
            numbers.append(number)  # noqa: PERF401 – kept when the iteration ends by an error
    return numbers
