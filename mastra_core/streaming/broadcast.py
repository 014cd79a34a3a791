"""A buffer that every reader replays from its first chunk (streaming.md 4)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from mastra_core.wire.chunks import Chunk

__all__ = ("ChunkBuffer",)


class ChunkBuffer:
    """
    All chunks of one run, in order; one writer, any number of readers.

    A reader takes whatever stands in the buffer without a task switch and waits only at the
    live edge. Its memory is bounded by the length of the run (streaming.md 4).
    """

    def __init__(self) -> None:
        self.chunks: list[Chunk] = []
        self.is_closed = False
        self._waiters: list[asyncio.Future[None]] = []

    def append(self, chunk: Chunk) -> None:
        """Add a chunk and wake the readers."""
        self.chunks.append(chunk)
        if self._waiters:
            self.wake()

    def close(self) -> None:
        """Nothing follows; readers end when they have read everything."""
        self.is_closed = True
        self.wake()

    def wake(self) -> None:
        """Let every reader look again."""
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def changed(self) -> None:
        """Wait until something was appended or the buffer was closed."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    async def read(self) -> AsyncGenerator[Chunk, None]:
        """Every chunk from the first on, then live ones."""
        position = 0
        while True:
            while position < len(self.chunks):
                yield self.chunks[position]
                position += 1
            if self.is_closed:
                return
            await self.changed()
