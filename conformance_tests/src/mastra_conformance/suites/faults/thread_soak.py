"""Many threads that stay busy in several processes, some of which die (22)."""

from __future__ import annotations

import asyncio
import random
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import replace
from typing import Any, ClassVar, Final

import pytest

from mastra_conformance import Suite, several_processes
from mastra_conformance.faults.notebook import Notebook
from mastra_conformance.histories.thread_checker import Sent, check_thread
from mastra_conformance.opening import Opener
from mastra_conformance.processes import Processes, Worker, WorkerDiedError
from mastra_conformance.suites.faults.participants import Participant, participant
from mastra_conformance.suites.faults.thread_soak_workers import (
    SENT,
    busy,
    is_aborted,
    thread_of,
)

__all__ = ("ThreadSoakSuite",)

_PROCESSES: Final = 3
#: Without a soak: a look whether it works at all.
_SHORT_S: Final = 6.0
_SHORT_THREADS: Final = 12
_THREADS: Final = 300
#: A process lives so long before it is killed, about.
_LIFE_S: Final = 5.0
#: Files that a process may have open more after a soak than in its middle.
_FILES: Final = 40
#: So much more memory than in its middle it may have had.
_MEMORY: Final = 1.5


class _Ledger:
    """What was sent to whom."""

    def __init__(self) -> None:
        self.words: dict[int, dict[str, Sent]] = defaultdict(dict)
        self.ends: list[dict[str, Any]] = []

    async def listen(self, worker: Worker, name: str) -> None:
        """Note what a worker says, until its end."""
        with suppress(WorkerDiedError):
            while True:
                message = await worker.heard()
                if "result" in message:
                    self.ends.append(message["result"])
                    return
                assert message["point"] == SENT
                word, number, turn, is_accepted = message["value"]
                sent = Sent(word=word, sender=name, is_accepted=is_accepted, turn=turn)
                self.words[number][word] = sent


@several_processes()
@pytest.mark.usefixtures("store")
class ThreadSoakSuite(Suite):
    """In the end every count is balanced."""

    role: ClassVar[str] = "runtime"
    capabilities: ClassVar[tuple[str, ...]] = (
        "memory",
        "thread_state",
        "pubsub.cross_process",
        "lease.cross_process",
    )
    tier: ClassVar[int] = 4
    #: Three processes and their servers share a machine with others.
    seconds: ClassVar[float] = 240.0

    async def test_busy_threads_lose_and_double_nothing(
        self,
        opener: Opener,
        processes: Processes,
        soak_seconds: float,
        rng: random.Random,
        notebook: Notebook,
    ) -> None:
        """Three processes send, queue and abort at random; two are killed again and again."""
        seconds = max(_SHORT_S, soak_seconds / 2)
        threads = _SHORT_THREADS if soak_seconds < _SHORT_S else _THREADS
        ledger = _Ledger()
        end = time.monotonic() + seconds
        async with participant(opener, "here") as here:
            lives = [
                _live(processes, ledger, rng, name=f"p{number}", end=end, threads=threads)
                for number in range(_PROCESSES - 1)
            ]
            survivor = _run(processes, ledger, name="s", seconds=seconds, threads=threads, seed=0)
            await asyncio.gather(survivor, *lives)
            faults = await _faults(here, ledger, within_s=120.0 + soak_seconds / 2)
            await here.is_done()
        notebook.note("Ends", ledger.ends)
        sent = sum(len(words) for words in ledger.words.values())
        notebook.note("Sent", sent)

        assert [] == faults
        assert sent >= _SHORT_THREADS
        for one in ledger.ends:
            assert not any(one["counts"].values()), one
            assert one["after"]["files"] <= one["middle"]["files"] + _FILES, one
            assert one["after"]["memory"] <= one["middle"]["memory"] * _MEMORY, one


async def _live(
    processes: Processes,
    ledger: _Ledger,
    rng: random.Random,
    *,
    name: str,
    end: float,
    threads: int,
) -> None:
    """One process after the other, each killed in the middle of its work."""
    life = 0
    while (left := end - time.monotonic()) > 0:
        life += 1
        life_s = min(left, _LIFE_S * (0.5 + rng.random()))
        each = f"{name}l{life}"
        arguments: dict[str, Any] = {"seconds": left + 60, "threads": threads}
        async with processes.start(busy, name=each, **arguments, seed=rng.random()) as worker:
            listening = asyncio.create_task(ledger.listen(worker, each))
            await asyncio.sleep(life_s)
            await worker.kill()
            await listening


async def _run(
    processes: Processes, ledger: _Ledger, *, name: str, seconds: float, threads: int, seed: float
) -> None:
    """A process that lives to its end."""
    arguments: dict[str, Any] = {"seconds": seconds, "threads": threads, "seed": seed}
    async with processes.start(busy, name=name, **arguments) as worker:
        await ledger.listen(worker, name)


async def _faults(here: Participant, ledger: _Ledger, *, within_s: float) -> list[str]:
    """What is wrong with the threads, once everything that was accepted has been dealt with."""
    faults: list[str] = []
    end = time.monotonic() + within_s
    for number, words in sorted(ledger.words.items()):
        thread, sent = thread_of(number), list(words.values())
        left = max(5.0, end - time.monotonic())
        async with asyncio.timeout(left):
            if not is_aborted(number):
                await here.answered(
                    *(one.word for one in sent if one.is_accepted), thread=thread, within_s=left
                )
            await here.is_quiet(thread=thread, within_s=left)
        rows = await here.rows(thread=thread)
        if is_aborted(number):
            entered = [row.text for row in rows if row.role != "assistant"]
            faults += [f"{thread}: {one} twice" for one in set(entered) if entered.count(one) > 1]
        else:
            # What was not accepted, as far as was told, had no place that is known.
            known = [one if one.is_accepted else replace(one, turn=None) for one in sent]
            found = check_thread(rows, known)
            if found:
                told = " | ".join(f"{row.role}: {row.text}" for row in rows)
                faults += [f"{thread}: {fault} In: {told}" for fault in found]
    return faults
