"""Functions that the tests run in second processes."""

from __future__ import annotations

import asyncio
import os

from mastra_conformance.processes import WorkerContext

__all__ = ()


async def add(context: WorkerContext) -> int:
    """Sum of two arguments; prints, which must not disturb the line to the test."""
    print("noise on standard output")  # noqa: T201
    return int(context.arguments["a"]) + int(context.arguments["b"])


async def meet(context: WorkerContext) -> list[object]:
    """Stop at two points."""
    first = await context.reach("first", {"pid": os.getpid()})
    second = await context.reach("second")
    return [first, second]


async def fail(context: WorkerContext) -> None:
    """Raise."""
    raise LookupError("nothing here")


async def vanish(context: WorkerContext) -> None:
    """End without a word."""
    os._exit(9)


async def wait(context: WorkerContext) -> None:
    """Stay for ever."""
    await context.reach("waiting")
    await asyncio.Event().wait()


async def where(context: WorkerContext) -> dict[str, object]:
    """Who started it, and in which environment."""
    return {"parent": os.getppid(), "pid": os.getpid(), "mark": os.environ.get("TEST_MARK")}
