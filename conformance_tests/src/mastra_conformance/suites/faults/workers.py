"""What second processes of the fault suites do; each dies or stands still where it is told to."""

from __future__ import annotations

import fcntl
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from mastra_conformance.processes import WorkerContext
from mastra_conformance.suites.faults.writing import batch
from mastra_conformance.suites.storage.things import approval_run, resume_claim
from mastra_core.errors import FencedOutError

__all__ = ("lock_files", "write_as_owner", "write_until_killed")


async def write_until_killed(context: WorkerContext) -> None:
    """Write batches and tell of each that was confirmed, until somebody ends this process."""
    writer = context.arguments["writer"]
    async with context.open_store() as store:
        number = context.arguments["first"]
        while True:
            await store.memory.save_messages(batch(writer, number))
            context.send(point="confirmed", value=number)
            number += 1


async def write_as_owner(context: WorkerContext) -> dict[str, Any]:
    """Claim a run, stand still until resumed, then write to it as if nothing had happened."""
    names: dict[str, Any] = context.arguments["names"]
    async with context.open_store() as store:
        claim = resume_claim("old", ttl_ms=context.arguments["ttl_ms"])
        claimed = await store.workflows.claim_resume(**names, claim=claim)
        context.stand_still("claimed")
        try:
            await store.workflows.persist_workflow_snapshot(
                **names, snapshot=approval_run("run1", value={"by": "old"}), claim_id="old"
            )
        except FencedOutError as exc:
            return {"claimed": bool(claimed), "error": exc.id}
        return {"claimed": bool(claimed), "error": None}


async def lock_files(context: WorkerContext) -> int:
    """Hold a lock on everything of a file until the test says go; how many files there were."""
    path = Path(context.arguments["path"])
    with ExitStack() as stack:
        found = [one for one in path.parent.glob(f"{path.name}*") if one.is_file()]
        for one in found:
            file = stack.enter_context(one.open("r+b"))
            fcntl.lockf(file, fcntl.LOCK_EX)
        await context.reach("locked")
    return len(found)
