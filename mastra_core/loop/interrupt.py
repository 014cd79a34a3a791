"""Stopping a run from outside, wherever it is waiting (streaming.md 2.7)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

__all__ = ("Interrupt", "RunInterrupted")

T = TypeVar("T")


class RunInterrupted(BaseException):
    """The run was aborted while it waited for a model or a tool."""


class Interrupt:
    """
    The abort signal of one run.

    ``event`` can be read and awaited by models and tools. While the loop is inside
    :meth:`guard`, an abort also ends that wait at once.
    """

    def __init__(self) -> None:
        self.event = asyncio.Event()
        #: Why the run must end, if not because somebody wished it.
        self.error: Exception | None = None
        self._guarded: asyncio.Task[object] | None = None

    @property
    def is_aborted(self) -> bool:
        """Has the run been aborted?"""
        return self.event.is_set()

    def abort(self) -> None:
        """Abort the run; later calls do nothing."""
        if self.event.is_set():
            return
        self.event.set()
        if self._guarded is not None:
            self._guarded.cancel()

    def signal_arrived(self) -> None:
        """Input for this run was queued."""

    def fail(self, error: Exception) -> None:
        """End the run at once as failed, with this error."""
        if self.error is None:
            self.error = error
            self.abort()

    async def guard(self, work: Awaitable[T]) -> T:
        """
        Wait for ``work`` unless the run is aborted first.

        Raises:
            RunInterrupted: It was aborted, before or while waiting.
        """
        if self.event.is_set():
            if asyncio.iscoroutine(work):
                work.close()
            raise RunInterrupted
        task = asyncio.current_task()
        assert task is not None
        self._guarded = task
        try:
            return await work
        except asyncio.CancelledError:
            if self.event.is_set() and task.uncancel() == 0:
                raise RunInterrupted from None
            raise
        finally:
            self._guarded = None
