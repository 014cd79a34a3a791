"""A store that is interrupted at named points: by an error, by waiting, by the end of the world.

Points are called ``<domain>.<method>:before`` and ``:after``; after means that the store has
carried the call out and the caller doesn't know it yet.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Final, Self, cast

from mastra_core.contracts.storage import Storage

__all__ = (
    "CRASH_EXIT",
    "DOMAINS",
    "Hook",
    "crash_at",
    "faulty_storage",
    "raise_at",
)

CRASH_EXIT: Final = 77
"""How a process ends that was killed at a point."""

DOMAINS: Final = frozenset(
    {"memory", "workflows", "notifications", "thread_state", "background_tasks", "schedules"}
)

#: Called at every point with its name; what it raises comes out of the call.
Hook = Callable[[str], Awaitable[None] | None]


def faulty_storage(store: Storage, hook: Hook) -> Storage:
    """The store, with the hook called before and after every operation of its domains."""
    # It passes everything on, which a type checker can't see.
    return cast("Storage", _FaultyStorage(store, hook))


def crash_at(point: str) -> Hook:
    """End this process at the point at once, as a power cut would."""

    def hook(reached: str) -> None:
        if reached == point:
            os._exit(CRASH_EXIT)

    return hook


def raise_at(point: str, error: Exception, *, times: int = 1) -> Hook:
    """Raise at the point, the first times that it is reached."""
    left = [times]

    def hook(reached: str) -> None:
        if reached == point and left[0] > 0:
            left[0] -= 1
            raise error

    return hook


class _FaultyStorage:
    def __init__(self, store: Storage, hook: Hook) -> None:
        self._store = store
        self._hook = hook

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        return _FaultyDomain(name, found, self._hook) if name in DOMAINS else found

    async def __aenter__(self) -> Self:
        await self._store.__aenter__()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._store.__aexit__(exc_type, exc, traceback)


class _FaultyDomain:
    def __init__(self, name: str, domain: Any, hook: Hook) -> None:
        self._name = name
        self._domain = domain
        self._hook = hook

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._domain, name)
        if not inspect.iscoroutinefunction(method):
            return method

        async def call(*args: Any, **kwargs: Any) -> Any:
            await self._at(f"{self._name}.{name}:before")
            result = await method(*args, **kwargs)
            await self._at(f"{self._name}.{name}:after")
            return result

        return call

    async def _at(self, point: str) -> None:
        outcome = self._hook(point)
        if inspect.isawaitable(outcome):
            await outcome
