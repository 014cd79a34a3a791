"""What second processes of the suite of guarded writes do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mastra_conformance.processes import WorkerContext
from mastra_conformance.suites.storage.crowds import at_once
from mastra_conformance.suites.storage.things import at, message
from mastra_core.contracts.storage import MemoryStorage, Storage
from mastra_core.errors import FencedOutError

__all__ = ("KEY", "write_after_a_stop", "write_next", "write_with_each")

#: The key of a thread's lease, with the NUL that it has.
KEY: Final = "r1\0t1"


async def write_next(memory: MemoryStorage, fence: int, name: str) -> bool:
    """Append a message as the owner with this fence; False if it is refused."""
    content = {"format": 2, "parts": [], "metadata": {"fence": fence}}
    row = message(f"{fence}-{name}", content=content, created_at=at(fence))
    try:
        await memory.guarded((KEY, fence)).save_messages([row])
    except FencedOutError:
        return False
    return True


async def write_after_a_stop(context: WorkerContext) -> None:
    """Own the thread again and again; look, be stopped, and write each time."""
    async with context.open_store() as store:
        while (fence := await context.reach("owns")) is not None:
            await store.memory.raise_fence((KEY, fence))
            context.stand_still("checked")
            written = await write_next(store.memory, fence, "there")
            await context.reach("wrote", not written)


async def write_with_each(store: Storage, given: Mapping[str, Any]) -> list[int]:
    """Change the thread as one owner after the other, all at once; who was accepted."""
    fences = given["fences"]
    writes = [
        store.memory.guarded((KEY, fence)).update_thread("t1", metadata={"by": fence})
        for fence in fences
    ]
    outcomes = await at_once(writes)
    for outcome in outcomes:
        if isinstance(outcome, BaseException) and not isinstance(outcome, FencedOutError):
            raise outcome
    return [
        fence
        for fence, outcome in zip(fences, outcomes, strict=True)
        if not isinstance(outcome, BaseException)
    ]
