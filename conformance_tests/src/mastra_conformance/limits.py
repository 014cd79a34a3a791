"""No test of a suite waits for ever."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from mastra_conformance.naming import is_ours
from mastra_conformance.options import options_of

__all__ = ("TEST_SECONDS", "limit_time")

TEST_SECONDS = 60.0
"""Seconds that one test may take, beside what ``--mastra-soak`` adds."""


@contextmanager
def limit_time(item: pytest.Function) -> Iterator[None]:
    """Let an async test of a suite fail when its time is over, instead of hanging."""
    function = item.obj
    if not is_ours(item) or not inspect.iscoroutinefunction(function):
        yield
        return
    seconds = TEST_SECONDS + options_of(item.config).soak_seconds

    @functools.wraps(function)
    async def limited(*args: object, **kwargs: object) -> object:
        try:
            async with asyncio.timeout(seconds) as limit:
                return await function(*args, **kwargs)
        except TimeoutError as exc:
            if limit.expired():
                raise AssertionError(f"The test was not done after {seconds:g} s.") from exc
            raise

    item.obj = limited
    try:
        yield
    finally:
        item.obj = function
