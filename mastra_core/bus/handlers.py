"""How a handler wants to be called, and its exceptions at one door."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from mastra_core.contracts.pubsub import EventHandler

__all__ = ("HandlerKey", "accepted_arguments", "call_if_given", "with_ack")

_MOST = 4


def accepted_arguments(handler: EventHandler) -> int:
    """How many of ``event, ack, nack, extend`` the handler takes; looked at once."""
    try:
        parameters = inspect.signature(handler).parameters.values()
    except (TypeError, ValueError):
        return 1  # a builtin that doesn't say
    count = 0
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            return _MOST
        if parameter.kind in {parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD}:
            count += 1
    return max(1, min(count, _MOST))


class HandlerKey:
    """A topic and a handler; equal if both are, so that bound methods are found again."""

    __slots__ = ("_hash", "handler", "topic")

    def __init__(self, topic: str, handler: EventHandler) -> None:
        self.topic = topic
        self.handler = handler
        try:
            self._hash = hash((topic, handler))
        except TypeError:
            self._hash = hash((topic, id(handler)))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, HandlerKey) or self.topic != other.topic:
            return False
        if self.handler is other.handler:
            return True
        return self._hash == other._hash and bool(self.handler == other.handler)


def with_ack(handler: Callable[[Any], Awaitable[None] | None]) -> EventHandler:
    """A handler that acks after success; a failure is raised on, which is a nack."""

    async def acking(event: Any, ack: Callable[[], Awaitable[None]]) -> None:
        result = handler(event)
        if inspect.isawaitable(result):
            await result
        await ack()

    return acking


async def call_if_given(callback: Callable[..., Any] | None, *args: Any) -> None:
    """Call a user's callback, sync or async."""
    if callback is None:
        return
    result = callback(*args)
    if inspect.isawaitable(result):
        await result
