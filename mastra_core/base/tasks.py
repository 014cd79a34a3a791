"""Tasks with an owner: nothing runs that nobody waits for or stops."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine
from types import TracebackType
from typing import Any, Final, ParamSpec, Self, TypeVar, overload

from mastra_core.errors import ClosedError, MastraError, reason_of

__all__ = ("TaskSupervisor", "call_maybe_async", "is_being_cancelled", "shielded")

logger = logging.getLogger(__name__)

#: A task that doesn't stop is asked again so often, with so many seconds in between.
_CANCELLATIONS: Final = 10
_CANCEL_EVERY: Final = 1.0

P = ParamSpec("P")
T = TypeVar("T")


class TaskSupervisor:
    """
    Owns background tasks: holds them, logs what they raise, stops them all at the end.

    Use as an async context manager or call ``close``. A task's exception is
    logged once and kept in the task for whoever awaits it; it stops nothing else.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closed = False

    def __len__(self) -> int:
        return len(self._tasks)

    @property
    def is_closed(self) -> bool:
        """True once ``close`` was called; no task can be started any more."""
        return self._closed

    @property
    def names(self) -> list[str]:
        """The names of the tasks that run now, sorted."""
        return sorted(task.get_name() for task in self._tasks)

    def start(self, work: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
        """
        Run the coroutine in a task of this supervisor.

        Raises:
            ClosedError: The supervisor is closed; the coroutine is closed unstarted.
        """
        if self._closed:
            work.close()
            raise ClosedError(f"{self.name} is closed and can't start {name}.")
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    def _finished(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            logger.error(
                "background task failed",
                exc_info=error,
                extra={"supervisor": self.name, "task": task.get_name()},
            )

    async def join(self) -> None:
        """Wait until no task is left, including those started meanwhile."""
        while self._tasks:
            await asyncio.wait(set(self._tasks))

    async def close(self, *, grace: float = 0.0) -> None:
        """
        Stop: let tasks end by themselves for ``grace`` seconds, cancel the rest, await all.

        Closing twice is harmless. Called from one of its own tasks, that task is left alone.
        A task that goes on although it was cancelled is cancelled again every second; after
        ten it is left behind with an error in the log, so that nobody waits for ever.
        """
        self._closed = True
        others = self._tasks - {asyncio.current_task()}
        # One that hasn't begun could not clean up after itself.
        await asyncio.sleep(0)
        if others and grace > 0:
            await asyncio.wait(others, timeout=grace)
        pending = {task for task in others if not task.done()}
        for _ in range(_CANCELLATIONS):
            if not pending:
                return
            for task in pending:
                task.cancel()
            # Their exceptions were logged; here only their end counts.
            _, pending = await asyncio.wait(pending, timeout=_CANCEL_EVERY)
        if pending:
            names = sorted(task.get_name() for task in pending)
            logger.error(
                "background tasks don't stop", extra={"supervisor": self.name, "tasks": names}
            )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()


def is_being_cancelled() -> bool:
    """
    Was the current task asked to stop?

    Tells a cancellation that is meant for us from one that something we waited for suffered.
    """
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def shielded(work: Coroutine[Any, Any, T], deadline: float) -> T:
    """
    The result of clean-up that must happen although we are being cancelled.

    The work goes on through cancellations of the caller, at most ``deadline``
    seconds; then the cancellation takes effect. Work that takes longer is cancelled.

    Raises:
        TimeoutError: The work took longer than the deadline.
    """
    task = asyncio.get_running_loop().create_task(_bounded(work, deadline), name="shielded")
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as exc:
            cancelled = exc
    if cancelled is not None:
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("clean-up failed while being cancelled", exc_info=error)
        raise cancelled
    return task.result()


async def _bounded(work: Coroutine[Any, Any, T], deadline: float) -> T:
    async with asyncio.timeout(deadline):
        return await work


@overload
async def call_maybe_async(
    function: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs
) -> T: ...
@overload
async def call_maybe_async(
    function: Callable[P, Awaitable[T] | T], *args: P.args, **kwargs: P.kwargs
) -> T: ...
async def call_maybe_async(
    function: Callable[P, Awaitable[T] | T], *args: P.args, **kwargs: P.kwargs
) -> T:
    """
    The result of a callback of the user, which may be sync or async.

    Raises:
        MastraError: Something that it waited for was cancelled (id
            ``MASTRA_CALLBACK_CANCELLED``), which doesn't cancel us, or it raised what is no
            exception of a program (``MASTRA_CALLBACK_FAILED``), which doesn't end us.
        Exception: What the callback raises.
    """
    try:
        result = function(*args, **kwargs)
        if inspect.isawaitable(result):
            return await result
    except asyncio.CancelledError as exc:
        if is_being_cancelled():
            raise
        raise MastraError(
            f"{_name_of(function)} was cancelled inside.", id="MASTRA_CALLBACK_CANCELLED"
        ) from exc
    except (Exception, KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as exc:
        raise MastraError(
            f"{_name_of(function)} raised {type(exc).__name__}: {reason_of(exc)}",
            id="MASTRA_CALLBACK_FAILED",
        ) from exc
    return result


def _name_of(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", type(function).__name__)
