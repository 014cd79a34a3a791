"""What a factory gets beside its settings: clock, ids, and resources to share.

Storage, pubsub and lease of one URL share one pool through ``AdapterContext.share``; it is
closed with its last user.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from mastra_core.base.tasks import shielded

if TYPE_CHECKING:
    from mastra_core.base.clock import Clock
    from mastra_core.base.ids import Ids
    from mastra_core.base.telemetry import Tracer

__all__ = (
    "CLOSE_DEADLINE",
    "AdapterContext",
    "SharedResources",
)

T = TypeVar("T")

#: Seconds that a shared resource has to close when its last user was cancelled.
CLOSE_DEADLINE: Final = 10.0


@dataclass(slots=True)
class _Shared:
    """One resource and how many hold it."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0
    manager: AbstractAsyncContextManager[Any] | None = None
    value: Any = None

    async def open(self, opener: Callable[[], AbstractAsyncContextManager[T]]) -> T:
        """The resource; opened by the first caller, while the others wait."""
        async with self.lock:
            if self.manager is None:
                manager = opener()
                self.value = await manager.__aenter__()
                self.manager = manager
            value: T = self.value
            return value


class SharedResources:
    """Resources by key; the first user opens, the last one closes."""

    def __init__(self) -> None:
        self._shared: dict[Hashable, _Shared] = {}

    def __len__(self) -> int:
        return len(self._shared)

    @asynccontextmanager
    async def share(
        self, key: Hashable, opener: Callable[[], AbstractAsyncContextManager[T]]
    ) -> AsyncIterator[T]:
        """
        Use the resource of this key, and open it if nobody does yet.

        Users that come at the same time wait for one opening. If it fails, its caller
        gets the exception and the next one tries anew.
        """
        shared = self._shared.setdefault(key, _Shared())
        shared.users += 1
        try:
            yield await shared.open(opener)
        finally:
            shared.users -= 1
            if shared.users == 0:
                # Forgotten before it is closed: whoever comes meanwhile opens a new one.
                self._shared.pop(key, None)
                if shared.manager is not None:
                    await shielded(_close(shared.manager), CLOSE_DEADLINE)


async def _close(manager: AbstractAsyncContextManager[Any]) -> None:
    await manager.__aexit__(None, None, None)


def _system_clock() -> Clock:
    from mastra_core.base.clock import SystemClock

    return SystemClock()


def _random_ids() -> Ids:
    from mastra_core.base.ids import UuidIds

    return UuidIds()


def _no_tracer() -> Tracer:
    from mastra_core.base.telemetry import NoopTracer

    return NoopTracer()


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterContext:
    """
    What every factory gets as its second argument.

    Example::

        class AcmeStorage:
            def __init__(self, settings, context):
                self._pool = context.share(("acme", settings.url), lambda: open_pool(settings))

            async def __aenter__(self):
                self._connection = await self._pool.__aenter__()
                return self

            async def __aexit__(self, *exc_info):
                await self._pool.__aexit__(*exc_info)
    """

    clock: Clock = field(default_factory=_system_clock)
    ids: Ids = field(default_factory=_random_ids)
    logger: logging.Logger = field(default_factory=lambda: logging.getLogger("mastra_core"))
    tracer: Tracer = field(default_factory=_no_tracer)
    #: Keeps the data of several users of one database apart; empty for the usual names.
    namespace: str = ""
    resources: SharedResources = field(default_factory=SharedResources)

    def share(
        self, key: Hashable, opener: Callable[[], AbstractAsyncContextManager[T]]
    ) -> AbstractAsyncContextManager[T]:
        """Use one resource together with all others of this context that give the key."""
        return self.resources.share(key, opener)
