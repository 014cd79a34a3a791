"""Promises to senders that nobody has to keep an eye on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

from mastra_core.errors import RunAbortedError

__all__ = ("copy_outcome", "quiet", "settle", "settle_error", "stopped")


def stopped() -> RunAbortedError:
    """Why a signal wasn't taken: there is no application any more."""
    return RunAbortedError("The application was closed before the signal was taken.")


def settle(future: asyncio.Future[Any], value: Any) -> None:
    """Give the value, unless there is one."""
    if not future.done():
        future.set_result(value)


def settle_error(future: asyncio.Future[Any], error: Exception) -> None:
    """Give the error, unless there is an outcome; nobody has to fetch it."""
    if not future.done():
        future.set_exception(error)
        future.exception()


async def copy_outcome(source: Awaitable[Any], target: asyncio.Future[Any]) -> None:
    """Give the target what the source comes to."""
    try:
        settle(target, await source)
    except Exception as exc:  # noqa: BLE001 - whoever awaits the target gets it
        settle_error(target, exc)


def quiet(future: asyncio.Future[Any]) -> asyncio.Future[Any]:
    """Nobody has to await it: an exception that nobody fetched is no news."""

    def fetch(done: asyncio.Future[Any]) -> None:
        if not done.cancelled():
            done.exception()

    future.add_done_callback(fetch)
    return future
