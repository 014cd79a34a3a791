"""Hand the parts of an answer from the task that asks to the one that listens.

The request runs in a task of its own: a caller may drop the iterator anywhere, or set
``abort``, and the request is cancelled in the task that opened it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from mastra_core.base.tasks import is_being_cancelled
from mastra_core.contracts.model import ModelPart
from mastra_core.errors import ModelError

__all__ = ("FEED_PARTS", "feed")

#: How many parts may wait for a slow listener before the request is held back.
FEED_PARTS: Final = 64


@dataclass(frozen=True, slots=True)
class _End:
    """Nothing follows; ``failure`` says whether that is bad."""

    failure: Exception | None = None


async def feed(
    source: AsyncGenerator[ModelPart, None], abort: asyncio.Event | None
) -> AsyncIterator[ModelPart]:
    """
    Yield the parts of ``source``; stop quietly once ``abort`` is set.

    Args:
        source: The running request; closed when this iterator ends, however it ends.
        abort: Set when nobody wants the rest.
    """
    queue: asyncio.Queue[ModelPart | _End] = asyncio.Queue(maxsize=FEED_PARTS)
    pump = asyncio.create_task(_pump(source, queue), name="model-request")
    watch = asyncio.create_task(_watch(abort, pump, queue), name="model-abort") if abort else None
    try:
        while not isinstance(item := await queue.get(), _End):
            yield item
        if item.failure is not None:
            raise item.failure
    finally:
        pump.cancel()
        tasks = [pump]
        if watch is not None:
            watch.cancel()
            tasks.append(watch)
        await asyncio.gather(*tasks, return_exceptions=True)


async def _pump(
    source: AsyncGenerator[ModelPart, None], queue: asyncio.Queue[ModelPart | _End]
) -> None:
    try:
        async with aclosing(source) as parts:
            async for part in parts:
                await queue.put(part)
    except asyncio.CancelledError as exc:
        if is_being_cancelled():
            raise
        # Something that the client waited for was cancelled; the request itself was not.
        failed = ModelError("The model's client gave the request up.")
        failed.__cause__ = exc
        await queue.put(_End(failed))
    except Exception as failure:  # noqa: BLE001 - raised again in the listener's task
        await queue.put(_End(failure))
    else:
        await queue.put(_End())


async def _watch(
    abort: asyncio.Event, pump: asyncio.Task[None], queue: asyncio.Queue[ModelPart | _End]
) -> None:
    await abort.wait()
    # no await until the queue is consistent: what waits is dropped, nobody wants it
    pump.cancel()
    while not queue.empty():
        queue.get_nowait()
    queue.put_nowait(_End())
