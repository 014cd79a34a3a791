"""What the parts of one engine share."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from typing import Any

from mastra_core.base.clock import Clock
from mastra_core.base.ids import Ids
from mastra_core.bus.driver import BusDriver
from mastra_core.bus.handlers import call_if_given
from mastra_core.bus.redelivery import RedeliveryPolicy
from mastra_core.bus.settings import BusSettings
from mastra_core.contracts.pubsub import DeadLetter

__all__ = ("BusRuntime", "Changes", "Warner")

logger = logging.getLogger(__name__)

_WARN_EVERY_S = 30.0
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 2.0


class Changes:
    """Lets several tasks wait for the next change; telling nobody costs nothing."""

    __slots__ = ("_waiters",)

    def __init__(self) -> None:
        self._waiters: list[asyncio.Future[None]] = []

    def tell(self) -> None:
        """Wake everybody who waits."""
        if self._waiters:
            waiters, self._waiters = self._waiters, []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)

    async def wait_until(self, holds: Callable[[], bool]) -> None:
        """Wait until the condition holds."""
        while not holds():
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter


class Warner:
    """One warning per half minute about a store that doesn't answer (P17)."""

    __slots__ = ("_clock", "_failures", "_warned_at")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failures = 0
        self._warned_at: float | None = None

    def recovered(self) -> None:
        """Something worked: the next pause is a short one."""
        self._failures = 0

    def failed(self, what: str, error: Exception, jitter: float) -> float:
        """Report it, if the last report is old enough; seconds until the next try."""
        now = self._clock.monotonic()
        if self._warned_at is None or now - self._warned_at >= _WARN_EVERY_S:
            self._warned_at = now
            logger.warning("bus store failed, trying again", extra={"step": what}, exc_info=error)
        self._failures += 1
        longest = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** min(self._failures - 1, 10))
        return longest * jitter


@dataclass(slots=True)
class BusRuntime:
    """Clock, ids, numbers and the driver; and the owner of all small tasks."""

    driver: BusDriver
    clock: Clock
    ids: Ids
    settings: BusSettings
    policy: RedeliveryPolicy
    #: Between 0 and 1, for pauses that shall not coincide.
    jitter: Callable[[], float]
    #: Told when a delivery was settled or its handler returned, or a write ended.
    changes: Changes = field(default_factory=Changes)
    tasks: set[asyncio.Task[Any]] = field(default_factory=set)
    #: What handlers see as their context variables, instead of the publisher's.
    context: Context = field(default_factory=copy_context)

    def spawn(self, work: Coroutine[Any, Any, Any], *, name: str) -> asyncio.Task[Any]:
        """Run it in a task of this engine, which is cancelled when the engine closes."""
        task = asyncio.get_running_loop().create_task(work, name=name, context=self.context.copy())
        self.tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def spawn_awaitable(self, work: Awaitable[Any]) -> asyncio.Task[Any]:
        """As ``spawn``, for anything that can be awaited."""

        async def wait() -> None:
            await work

        return self.spawn(wait(), name="bus-work")

    async def gave_up(self, letter: DeadLetter) -> None:
        """Tell the log and the user's hook about a dead letter."""
        logger.error(
            "event given up",
            extra={
                "topic": letter.topic,
                "group": letter.group,
                "event_id": letter.event.id,
                "attempts": letter.attempts,
                "error": letter.last_error,
            },
        )
        try:
            await call_if_given(self.settings.on_dead, letter)
        except Exception:
            logger.exception("on_dead failed", extra={"topic": letter.topic})

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self.tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("bus task failed", extra={"task": task.get_name()}, exc_info=error)
