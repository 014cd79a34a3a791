"""Second processes of the fault suite of threads: they die or stand still at a named point."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine, Sequence
from typing import Any, Final

from mastra_conformance.opening import Opener
from mastra_conformance.processes import WorkerContext
from mastra_conformance.suites.faults.participants import Places, participant
from mastra_core.testing.faults import CRASH_EXIT

__all__ = ("SAID", "own", "send")

SAID: Final = "said"
"""Under this name workers tell what they do: ``{"accepted": word}``, ``{"turn": word}``, or
``{"at": place}``, where they wait until the test says go."""


class _AtPoint:
    """What happens to this process at a point: its end, or that it stands still."""

    def __init__(self, context: WorkerContext) -> None:
        self._context = context
        self._point = context.arguments.get("point")
        self._left = int(context.arguments.get("nth", 1))
        self._stands = bool(context.arguments.get("stands", False))

    def __call__(self, point: str) -> None:
        if point != self._point:
            return
        self._left -= 1
        if self._left:
            return
        if self._stands:
            self._context.stand_still(SAID)
        else:
            os._exit(CRASH_EXIT)


async def own(context: WorkerContext) -> list[str]:
    """
    Wake the thread, get two turns queued, stand in the middle of the answer until the test has
    sent something, too; then go on until everything of ours is answered.
    """
    hook = _AtPoint(context)
    async with participant(_places(context), "own", hook=hook, stops=frozenset({1})) as here:
        if await here.send("own1"):
            context.send(point=SAID, value={"accepted": "own1"})
        # Or its run is another's by now.
        await _first([here.gates.reached("1"), here.answered("own1")])
        for word in ("own2", "own3"):
            if await here.queue(word):
                context.send(point=SAID, value={"turn": word})
        await context.reach(SAID, {"at": "middle"})
        here.gates.open("1")
        await here.answered("own1", "own2", "own3")
        await here.is_quiet()
        return [one.word for one in here.sent if one.is_accepted]


def _places(context: WorkerContext) -> Places:
    """Everything in one place, or bus and leases in another one."""
    other = context.arguments.get("bus")
    bus = context.opener if other is None else Opener.from_json(other)
    return Places(storage=context.opener, pubsub=bus, lease=bus)


async def send(context: WorkerContext) -> list[str]:
    """Send to a thread that another process has: for its run, and for runs of their own."""
    async with participant(context.opener, "send", hook=_AtPoint(context)) as here:
        if await here.send("send1"):
            context.send(point=SAID, value={"accepted": "send1"})
        for word in ("send2", "send3"):
            if await here.queue(word):
                context.send(point=SAID, value={"turn": word})
        return [one.word for one in here.sent if one.is_accepted]


async def _first(works: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Wait for the first of these; the others are stopped."""
    tasks = [asyncio.ensure_future(work) for work in works]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
