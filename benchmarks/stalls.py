"""How long others wait while many store calls are made at once.

asyncio runs everything that is ready in one round before it looks at timers and sockets
again; the longest round is what a heartbeat, a lease renewal or another user has to wait. A
thousand calls are started together, and every round is timed, except the one in which asyncio
starts their tasks. The worst round of a repetition counts, and of the repetitions the best: a
round is also longer when the machine does something else, and never shorter than its work.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from itertools import count
from time import perf_counter, thread_time
from typing import Any

from contents import document, event, message
from harness import Result

__all__ = ("measure_stalls",)

Calls = Callable[[], Sequence[Coroutine[Any, Any, Any]]]

AT_ONCE = 1_000
GOAL_US = 5_000


async def measure_stalls(
    backend: str, store: Any, *, rounds: int, only: str, on_processor: bool = False
) -> AsyncIterator[Result]:
    """
    The longest round of the loop, for some kinds of calls on a store.

    Args:
        backend: The store's name.
        store: What is called.
        rounds: So many repetitions of each kind.
        only: A part of the names of those that are measured.
        on_processor: Count the time on a processor, which is all that a round takes on a machine
            that has nothing else to do.
    """
    clock = thread_time if on_processor else perf_counter
    for name, calls in _kinds(store).items():
        if only in f"{backend}: {name}":
            worst = min([await _longest_round(calls, clock) for _ in range(rounds)])
            yield _result(name, backend, worst * 1e6)


def _kinds(store: Any) -> dict[str, Calls]:
    inbox, runs, memory = store.notifications, store.workflows, store.memory
    small, large = document(2), document(50)
    ids = count()

    def persists(content: Any, calls: int) -> list[Any]:
        return [
            runs.persist_workflow_snapshot(
                workflow_name="stalls", run_id=str(number), snapshot=content
            )
            for number in range(calls)
        ]

    def loads(calls: int) -> list[Any]:
        return [
            runs.load_workflow_snapshot(workflow_name="stalls", run_id=str(number))
            for number in range(calls)
        ]

    return {
        f"longest round, {AT_ONCE} creates at once": lambda: [
            inbox.create_notification(event(id=f"n{next(ids)}")) for _ in range(AT_ONCE)
        ],
        f"longest round, {AT_ONCE} keyed creates at once": lambda: [
            inbox.create_notification(event("keyed", dedupe_key=f"k{number % 50}"))
            for number in range(AT_ONCE)
        ],
        f"longest round, {AT_ONCE} persists of 2 KB at once": lambda: persists(small, AT_ONCE),
        f"longest round, {AT_ONCE} loads of 2 KB at once": lambda: loads(AT_ONCE),
        "longest round, 100 persists of 50 KB at once": lambda: persists(large, 100),
        "longest round, 100 loads of 50 KB at once": lambda: loads(100),
        f"longest round, {AT_ONCE} message saves at once": lambda: [
            memory.save_messages([message("stalls")]) for _ in range(AT_ONCE)
        ],
        f"longest round, {AT_ONCE} messages saved in one call": lambda: [
            memory.save_messages([message("long") for _ in range(AT_ONCE)])
        ],
        f"longest round, an inbox of {AT_ONCE} records listed": lambda: [
            inbox.list_notifications("thread", limit=AT_ONCE)
        ],
    }


async def _longest_round(calls: Calls, clock: Callable[[], float]) -> float:
    """Seconds of the longest round while the calls are at work."""
    waiting = calls()
    gc.collect()
    gc.freeze()
    loop = asyncio.get_running_loop()
    rounds: list[float] = []
    tasks = [loop.create_task(call) for call in waiting]

    def end_round(begun: float) -> None:
        now = clock()
        rounds.append(now - begun)
        if not tasks[-1].done():
            loop.call_soon(end_round, clock())

    # Behind the tasks: the round in which asyncio starts them is the caller's own.
    loop.call_soon(lambda: loop.call_soon(end_round, clock()))
    await asyncio.gather(*tasks)
    return max(rounds, default=0.0)


def _result(name: str, backend: str, worst_us: float) -> Result:
    return Result(
        name=name,
        backend=backend,
        against="",
        tasks=1,
        ours_us=round(worst_us, 1),
        floor_us=None,
        ratio=None,
        goal=f"≤ {GOAL_US} µs",
        met=worst_us <= GOAL_US,
    )
