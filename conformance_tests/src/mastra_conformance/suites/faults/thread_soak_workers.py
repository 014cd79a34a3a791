"""What the processes of the soak do: send here and there, and sometimes change their mind."""

from __future__ import annotations

import asyncio
import random
import resource
import time
from pathlib import Path
from typing import Any, Final

from mastra_conformance.processes import WorkerContext
from mastra_conformance.suites.faults.participants import Participant, participant, target
from mastra_core.errors import MastraError

__all__ = ("ABORTED_EVERY", "SENT", "busy", "is_aborted", "thread_of")

SENT: Final = "sent"
"""Under this name workers tell ``[word, thread number, turn]`` of what was accepted."""

ABORTED_EVERY: Final = 5
"""On every n-th thread runs are aborted and waiting input is cancelled now and then."""

_SENDERS: Final = 2
#: Between two of them, on average half of it.
_PAUSE_S: Final = 0.5


def thread_of(number: int) -> str:
    """The id of a thread."""
    return f"soak_{number}"


def is_aborted(number: int) -> bool:
    """Is this one of the threads on which runs are aborted?"""
    return number % ABORTED_EVERY == 0


class _Busy:
    """One process at work."""

    def __init__(self, context: WorkerContext, here: Participant) -> None:
        self._context = context
        self._here = here
        self._threads = int(context.arguments["threads"])
        self._rng = random.Random(context.arguments["seed"])
        self._seconds = float(context.arguments["seconds"])
        self._end = time.monotonic() + self._seconds
        self._words = 0
        self._turns: dict[int, int] = {}

    async def run(self) -> dict[str, int]:
        """Until the time is over; what this process used in the middle of it."""
        looking = asyncio.ensure_future(self._look())
        await asyncio.gather(looking, *(self._send() for _ in range(_SENDERS)))
        return looking.result()

    async def _look(self) -> dict[str, int]:
        await asyncio.sleep(self._seconds / 2)
        return _used()

    async def _send(self) -> None:
        while time.monotonic() < self._end:
            number = self._rng.randrange(self._threads)
            thread = thread_of(number)
            if is_aborted(number) and self._rng.random() < 0.2:
                self._here.agent.abort_thread_stream(
                    **target(thread), clear_pending_signals=self._rng.random() < 0.5
                )
                continue
            self._words += 1
            word, turn = f"{self._here.name}_{self._words}", None
            self._context.send(point=SENT, value=[word, number, None, False])
            agent = self._here.agent
            if self._rng.random() < 0.4:
                self._turns[number] = turn = self._turns.get(number, 0) + 1
                sent = agent.queue_message(word, **target(thread))
            else:
                sent = agent.send_message(word, **target(thread))
            try:
                await sent.accepted
            except MastraError:
                continue
            self._context.send(point=SENT, value=[word, number, turn, True])
            await asyncio.sleep(self._rng.random() * _PAUSE_S)


async def busy(context: WorkerContext) -> dict[str, Any]:
    """Send for some time, then wait until nothing is left to do here; what is still held."""
    async with participant(context.opener, context.arguments["name"]) as here:
        work = _Busy(context, here)
        middle = await work.run()
        counts: dict[str, int] = {}
        for _ in range(600):
            counts = here.mastra.threads.counts()
            if not any(counts.values()):
                break
            await asyncio.sleep(0.05)
        return {"counts": counts, "middle": middle, "after": _used()}


def _used() -> dict[str, int]:
    """Open files, and the most memory that there was, in whatever unit the system counts."""
    return {
        "files": len(list(Path("/dev/fd").iterdir())),
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
    }
