"""What a test left behind: tasks, worker threads, connections.

Stores, buses and lease providers may say themselves what they hold open, see
``TellsResources``; for all others only tasks and threads are seen.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

__all__ = (
    "GRACE_SECONDS",
    "LeakError",
    "Snapshot",
    "TellsResources",
    "check_closed",
    "leaked_tasks",
    "leaked_threads",
)

GRACE_SECONDS = 2.0
"""How long something may take to end after everything was closed."""

_RUNNERS = ("TestRunner.",)
"""Tasks in which the test plugins themselves run fixtures and tests."""

_SHARED_THREADS = ("asyncio_", "AnyIO worker thread", "Dummy-", "pytest_timeout", "execnet")


class LeakError(AssertionError):
    """Something was still open after everything had been closed."""


@runtime_checkable
class TellsResources(Protocol):
    """Optional on a store, bus or lease provider: what it holds open right now."""

    def open_resources(self) -> Mapping[str, int]:
        """
        Numbers by kind, such as ``connections``, ``transactions``, ``worker_threads``.

        Does no I/O. After ``aclose()`` every number is 0.
        """
        ...


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The tasks and threads that existed before a test."""

    tasks: frozenset[asyncio.Task[object]]
    threads: frozenset[threading.Thread]

    @classmethod
    def take(cls) -> Snapshot:
        """Look at the running loop and this process."""
        return cls(frozenset(asyncio.all_tasks()), frozenset(threading.enumerate()))


async def leaked_tasks(before: Snapshot, *, grace: float = GRACE_SECONDS) -> list[str]:
    """Names of the tasks that a test started and that didn't end within ``grace`` seconds."""
    tasks = asyncio.all_tasks() - before.tasks - {asyncio.current_task()}
    new = {task for task in tasks if not _qualname(task).startswith(_RUNNERS)}
    if not new:
        return []
    _, pending = await asyncio.wait(new, timeout=grace)
    return sorted(_task_text(task) for task in pending)


async def leaked_threads(before: Snapshot, *, grace: float = GRACE_SECONDS) -> list[str]:
    """Names of the threads that a test started and that didn't end within ``grace`` seconds."""
    new = [
        thread
        for thread in set(threading.enumerate()) - before.threads
        if not thread.name.startswith(_SHARED_THREADS)
    ]
    if not new:
        return []
    deadline = asyncio.get_running_loop().time() + grace
    for thread in new:
        remaining = max(0.0, deadline - asyncio.get_running_loop().time())
        await asyncio.to_thread(thread.join, remaining)
    return sorted(thread.name for thread in new if thread.is_alive())


def check_closed(closed: object) -> None:
    """
    Ask a closed store, bus or lease provider what it still holds, if it can say so.

    Raises:
        LeakError: Something is still open.
    """
    if not isinstance(closed, TellsResources):
        return
    left = [f"{count} {kind}" for kind, count in sorted(closed.open_resources().items()) if count]
    if left:
        raise LeakError(f"{type(closed).__name__} is closed and still holds {', '.join(left)}.")


def _task_text(task: asyncio.Task[object]) -> str:
    return f"{task.get_name()} ({_qualname(task)})"


def _qualname(task: asyncio.Task[object]) -> str:
    coroutine = task.get_coro()
    return str(getattr(coroutine, "__qualname__", coroutine))
