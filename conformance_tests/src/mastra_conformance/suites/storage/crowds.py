"""Many at once: the same work by several handles, or by several processes.

A store that other processes can reach is opened by processes of their own; one that lives
in this process is opened several times here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from importlib import import_module
from typing import Any

from mastra_conformance.processes import Processes, WorkerContext
from mastra_conformance.subject import Subject
from mastra_core.contracts.storage import Storage

__all__ = ("Work", "at_once", "in_crowd")

Work = Callable[[Storage, Mapping[str, Any]], Awaitable[Any]]
"""What one of the crowd does with the store and its arguments; returns a JSON value."""


async def at_once(calls: Sequence[Awaitable[Any]]) -> list[Any]:
    """Run all of them at the same time; their results in order, exceptions among them."""
    return list(await asyncio.gather(*calls, return_exceptions=True))


async def in_crowd(
    work: Work,
    arguments: Sequence[Mapping[str, Any]],
    *,
    subject: Subject,
    open_store: Callable[[], Any],
    processes: Processes,
) -> list[Any]:
    """
    Let one member of a crowd per mapping do its work, all starting together.

    Args:
        work: A function of a module.
        arguments: JSON values for each member.
        subject: Says whether processes can share the store.
        open_store: Opens a handle here.
        processes: Starts processes there.

    Returns:
        What the members returned, in order.
    """
    async with AsyncExitStack() as stack:
        if subject.is_volatile:
            stores = [await stack.enter_async_context(open_store()) for _ in arguments]
            pairs = zip(stores, arguments, strict=True)
            return list(await asyncio.gather(*(work(store, given) for store, given in pairs)))
        name = f"{work.__module__}:{work.__qualname__}"
        workers = [
            await stack.enter_async_context(
                processes.start(_member, work=name, arguments=dict(given))
            )
            for given in arguments
        ]
        for worker in workers:
            await worker.reached("opened")
        for worker in workers:
            await worker.go()
        return [await worker.result() for worker in workers]


async def _member(context: WorkerContext) -> Any:
    """One member of the crowd, in a process of its own."""
    module, _, function = context.arguments["work"].partition(":")
    work: Work = getattr(import_module(module), function)
    async with context.open_store() as store:
        await context.reach("opened")
        return await work(store, context.arguments["arguments"])
