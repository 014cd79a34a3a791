"""Backends that are interrupted at named points: by an error, by waiting, by the end of the world.

Points are called ``<domain>.<method>:before`` and ``:after``; after means that the backend has
carried the call out and the caller doesn't know it yet. The domains of a store have its own
names; leases are the domain ``lease``, and publishing an event of some type on a bus is
``pubsub.publish.<type>``.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Final, Self, cast

from mastra_core.contracts.lease import LeaseProvider
from mastra_core.contracts.pubsub import PubSub
from mastra_core.contracts.storage import Storage
from mastra_core.wire.events import Event

__all__ = (
    "CRASH_EXIT",
    "DOMAINS",
    "Hook",
    "crash_at",
    "faulty_lease",
    "faulty_pubsub",
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


def faulty_lease(provider: LeaseProvider, hook: Hook) -> LeaseProvider:
    """The provider, with the hook called before and after every operation that is awaited."""
    # As above.
    return cast("LeaseProvider", _FaultyLease(provider, hook))


def faulty_pubsub(bus: PubSub, hook: Hook) -> PubSub:
    """The bus, with the hook called before and after every event that is published."""
    # As above.
    return cast("PubSub", _FaultyPubSub(bus, hook))


def crash_at(point: str, *, nth: int = 1) -> Hook:
    """End this process when it is at the point for the n-th time, at once, as a power cut would."""
    left = [nth]

    def hook(reached: str) -> None:
        if reached == point:
            left[0] -= 1
            if left[0] == 0:
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


class _Opened:
    """Passes opening and closing on."""

    def __init__(self, opened: Any) -> None:
        self._opened = opened

    async def __aenter__(self) -> Self:
        await self._opened.__aenter__()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._opened.__aexit__(exc_type, exc, traceback)


class _FaultyStorage(_Opened):
    def __init__(self, store: Storage, hook: Hook) -> None:
        super().__init__(store)
        self._store = store
        self._hook = hook

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        return _FaultyDomain(name, found, self._hook) if name in DOMAINS else found


class _FaultyLease(_Opened):
    def __init__(self, provider: LeaseProvider, hook: Hook) -> None:
        super().__init__(provider)
        self._domain = _FaultyDomain("lease", provider, hook)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._domain, name)


class _FaultyPubSub(_Opened):
    def __init__(self, bus: PubSub, hook: Hook) -> None:
        super().__init__(bus)
        self._bus = bus
        self._hook = hook

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bus, name)

    async def publish(self, topic: str, event: Event, **options: Any) -> None:
        """Interrupted before and after."""
        await _at(self._hook, f"pubsub.publish.{event.type}:before")
        await self._bus.publish(topic, event, **options)
        await _at(self._hook, f"pubsub.publish.{event.type}:after")


class _FaultyDomain:
    def __init__(self, name: str, domain: Any, hook: Hook) -> None:
        self._name = name
        self._domain = domain
        self._hook = hook

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._domain, name)
        if name == "guarded":
            return lambda fence: _FaultyDomain(self._name, method(fence), self._hook)
        if not inspect.iscoroutinefunction(method):
            return method

        async def call(*args: Any, **kwargs: Any) -> Any:
            await _at(self._hook, f"{self._name}.{name}:before")
            result = await method(*args, **kwargs)
            await _at(self._hook, f"{self._name}.{name}:after")
            return result

        return call


async def _at(hook: Hook, point: str) -> None:
    outcome = hook(point)
    if inspect.isawaitable(outcome):
        await outcome
