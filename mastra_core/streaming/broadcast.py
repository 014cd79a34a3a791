"""A buffer that every reader replays from its first chunk (streaming.md 4)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Final

from mastra_core.errors import StreamGapError
from mastra_core.wire.chunks import Chunk

__all__ = ("MIN_BUFFERED_CHUNKS", "ChunkBuffer")

#: The least that may be kept: a run writes so many, and some more, before a reader has its turn.
MIN_BUFFERED_CHUNKS: Final = 256


class ChunkBuffer:
    """
    All chunks of one run, in order; one writer, any number of readers.

    A reader takes whatever stands in the buffer without a task switch and waits only at the
    live edge. Readers share the chunks, so that a slow one costs nothing; memory is bounded by
    the length of the run, or by ``limit``.

    Args:
        limit: How many chunks are kept; whoever still needs one that is gone gets a
            ``StreamGapError``. All, if None.
    """

    def __init__(self, *, limit: int | None = None) -> None:
        #: Those that are kept.
        self.chunks: list[Chunk] = []
        #: How many before them are gone.
        self.gone = 0
        self.is_closed = False
        #: How many of the first chunks storage has the contents of, and how many times messages
        #: of the run were or are being stored (signals.md 12.12).
        self.covered = 0
        self.saves_begun = 0
        self.saves_done = 0
        #: The run ended well, and storage has all of it.
        self.is_stored = False
        self._limit = limit
        self._waiters: list[asyncio.Future[None]] = []

    @property
    def count(self) -> int:
        """How many chunks there were so far."""
        return self.gone + len(self.chunks)

    def append(self, chunk: Chunk) -> None:
        """Add a chunk and wake the readers."""
        self.chunks.append(chunk)
        if self._limit is not None and len(self.chunks) > self._limit:
            # A quarter at once: letting one go moves all that follow.
            excess = max(1, self._limit // 4)
            del self.chunks[:excess]
            self.gone += excess
        if self._waiters:
            self.wake()

    def at(self, position: int) -> Chunk:
        """
        The chunk at this position, counted from the first that there was.

        Raises:
            StreamGapError: It is gone.
        """
        index = position - self.gone
        if index < 0:
            raise StreamGapError(
                f"The reader was too slow or came too late: it needs chunk {position}, "
                f"the oldest that is kept is {self.gone}.",
                hint="Read faster, or raise max_buffered_chunks.",
                wanted=position,
                oldest=self.gone,
            )
        return self.chunks[index]

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

    async def read(self, *, skips_gaps: bool = False) -> AsyncGenerator[Chunk, None]:
        """
        Every chunk from the first on, then live ones.

        Args:
            skips_gaps: Go on with the oldest that is kept, instead of failing.

        Raises:
            StreamGapError: The next one is gone already.
        """
        position = 0
        while True:
            while position < self.gone + len(self.chunks):
                if skips_gaps:
                    position = max(position, self.gone)
                yield self.at(position)
                position += 1
            if self.is_closed:
                return
            await self.changed()
