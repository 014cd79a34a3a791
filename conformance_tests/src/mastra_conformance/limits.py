"""No test of a suite waits for ever."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import AsyncIterator, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
)
from typing import TypeVar

import pytest

from mastra_conformance.naming import is_ours, suite_class
from mastra_conformance.options import options_of

__all__ = ("OPEN_SECONDS", "TEST_SECONDS", "in_time", "limit_time")

T = TypeVar("T")

TEST_SECONDS = 60.0
"""Seconds that one test may take, beside what ``--mastra-soak`` adds."""


OPEN_SECONDS = 30.0
"""Seconds that opening or closing may take."""


@asynccontextmanager
async def in_time(manager: AbstractAsyncContextManager[T]) -> AsyncIterator[T]:
    """
    Open and close something, each in bounded time.

    Raises:
        AssertionError: It hung.
    """
    async with AsyncExitStack() as stack:
        async with _limited(OPEN_SECONDS, "Opening"):
            opened = await stack.enter_async_context(manager)
        yield opened
        async with _limited(OPEN_SECONDS, "Closing"):
            await stack.aclose()


@asynccontextmanager
async def _limited(seconds: float, what: str) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(seconds) as limit:
            yield
    except TimeoutError as exc:
        if limit.expired():
            raise AssertionError(f"{what} was not done after {seconds:g} s.") from exc
        raise


@contextmanager
def limit_time(item: pytest.Function) -> Iterator[None]:
    """Let an async test of a suite fail when its time is over, instead of hanging."""
    function = item.obj
    if not is_ours(item) or not inspect.iscoroutinefunction(function):
        yield
        return
    suite = suite_class(item)
    usual = TEST_SECONDS if suite is None or suite.seconds is None else suite.seconds
    seconds = usual + options_of(item.config).soak_seconds

    @functools.wraps(function)
    async def limited(*args: object, **kwargs: object) -> object:
        async with _limited(seconds, "The test"):
            return await function(*args, **kwargs)

    item.obj = limited
    try:
        yield
    finally:
        item.obj = function
