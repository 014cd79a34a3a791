"""What second processes of the fault suites do; each dies or stands still where it is told to."""

from __future__ import annotations

from typing import Any, Final

from mastra_conformance.processes import WorkerContext
from mastra_conformance.suites.faults.writing import batch
from mastra_conformance.suites.pubsub.support import make_event, open_bus
from mastra_conformance.suites.storage.things import approval_run, message, resume_claim, thread
from mastra_core.errors import FencedOutError

__all__ = ("publish_last_words", "write_as_owner", "write_large_batches", "write_until_killed")

_LARGE: Final = 400


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


async def write_large_batches(context: WorkerContext) -> None:
    """Write without a pause, so that whoever stops this process most often does so in a write."""
    async with context.open_store() as store:
        await store.memory.save_thread(thread("large"))
        context.send(point="writing", value=None)
        rows = [message(f"large-{number}", thread_id="large") for number in range(_LARGE)]
        while True:
            await store.memory.save_messages(rows)


async def publish_last_words(context: WorkerContext) -> None:
    """Publish once, and again when the test says so; it dies before that is confirmed."""
    async with open_bus(context.opener) as bus:
        await bus.publish("t", make_event("first"))
        await context.reach("connected")
        await bus.publish("t", make_event("last words"))
