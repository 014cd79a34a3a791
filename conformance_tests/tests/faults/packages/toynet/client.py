"""One connection to the toy server, shared by all that is open on one URL."""

from __future__ import annotations

import asyncio
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

from toynet.frames import pack, unpack

__all__ = ("Client", "open_client")


class Client:
    """Calls that are answered out of order; connects again when it has to."""

    def __init__(self, url: str, timeout_s: float | None) -> None:
        parts = urlsplit(url)
        self.host, self.port = str(parts.hostname), int(parts.port or 0)
        self.timeout_s = timeout_s
        self.calls = 0
        self.waiting: dict[int, asyncio.Future[Any]] = {}
        self.writer: StreamWriter | None = None
        self.reading: asyncio.Task[None] | None = None
        self.connecting = asyncio.Lock()
        self.is_closed = False
        #: How often a connection was made.
        self.generation = 0

    async def call(self, namespace: str, path: str, *arguments: Any, **options: Any) -> Any:
        """
        The answer of the server.

        Raises:
            OSError, TimeoutError: It didn't answer.
        """
        if self.is_closed:
            raise ConnectionError("closed")
        try:
            return await self.ask(namespace, path, arguments, options)
        except TimeoutError:
            if self.writer is not None:
                # Nobody answers there any more.
                self.writer.transport.abort()
            raise

    async def ask(self, namespace: str, path: str, arguments: Any, options: Any) -> Any:
        """One question over the connection as it is."""
        async with asyncio.timeout(self.timeout_s):
            writer = await self.connect()
            self.calls += 1
            number = self.calls
            answer = self.waiting[number] = asyncio.get_running_loop().create_future()
            try:
                writer.write(pack((number, (namespace, path, arguments, options))))
                good, result = await answer
            finally:
                self.waiting.pop(number, None)
        if not good:
            raise result
        return result

    async def connect(self) -> StreamWriter:
        """The connection; made anew if there is none."""
        async with self.connecting:
            if self.writer is None:
                reader, self.writer = await asyncio.open_connection(self.host, self.port)
                self.generation += 1
                self.reading = asyncio.create_task(self.read(reader, self.writer))
            return self.writer

    async def read(self, reader: StreamReader, writer: StreamWriter) -> None:
        """Hand out answers until the connection ends."""
        try:
            while True:
                number, *answer = await unpack(reader)
                waiting = self.waiting.get(number)
                if waiting is not None and not waiting.done():
                    waiting.set_result(answer)
        except (OSError, EOFError) as exc:
            for waiting in self.waiting.values():
                if not waiting.done():
                    waiting.set_exception(ConnectionError(f"lost: {exc}"))
        finally:
            writer.transport.abort()
            self.writer = None

    async def close(self) -> None:
        """Hang up."""
        self.is_closed = True
        if self.reading is not None:
            self.reading.cancel()
            await asyncio.wait([self.reading])


def open_client(url: str, timeout_s: float | None) -> Callable[[], Any]:
    """For ``AdapterContext.share``."""

    @asynccontextmanager
    async def opener() -> AsyncIterator[Client]:
        client = Client(url, timeout_s)
        try:
            yield client
        finally:
            await client.close()

    return opener
