"""A network that a test can break: a TCP proxy between the adapter and its server.

It forwards bytes and knows no protocol. Everything that it does to them is one of the
methods of ``Network``; ``heal`` ends all of it.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from asyncio import StreamReader, StreamWriter
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from enum import StrEnum
from typing import Any, Final

__all__ = ("Direction", "Network", "open_network")

_CHUNK: Final = 65_536
_LINGER_ZERO: Final = struct.pack("ii", 1, 0)
_CLOSE_S: Final = 2.0


class Direction(StrEnum):
    """Which way bytes go."""

    TO_SERVER = "to server"
    TO_CLIENT = "to client"


class Network:
    """
    Forwards connections from a loopback port of its own to the server's.

    Args:
        host: Where the server is.
        port: Its port.
    """

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.server_port = port
        #: Where clients connect instead; there from ``open`` on.
        self.port = 0
        #: Connections that were ever accepted.
        self.accepted = 0
        #: Bytes that were forwarded, each way.
        self.carried = dict.fromkeys(Direction, 0)
        self._listener: asyncio.Server | None = None
        self._lines: set[_Line] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._delay_s = dict.fromkeys(Direction, 0.0)
        self._cut_at: dict[Direction, int] = {}
        self._loses_replies = False
        #: Answers that were lost because of ``lose_replies``.
        self.lost_replies = 0
        self._most: int | None = None

    async def open(self) -> None:
        """Listen."""
        self._listener = await self._listen(0)
        self.port = self._listener.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """End every connection and listen no more."""
        self._stop_listening()
        self._flowing.set()
        self.reset()
        while self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=_CLOSE_S)
            for task in late:
                task.cancel()

    @property
    def open_connections(self) -> int:
        """Connections that clients hold right now."""
        return len(self._lines)

    def carries(self, port: int) -> bool:
        """Whether a connection that the server sees come from this port is one of ours."""
        return port > 0 and any(line.server_side_port == port for line in self._lines)

    # -- what may be done to it ------------------------------------------------------------------

    async def heal(self) -> None:
        """Work again; what was held back is delivered late, what was cut stays cut."""
        self._loses_replies = False
        self._most = None
        self._cut_at.clear()
        self._delay_s = dict.fromkeys(Direction, 0.0)
        self._flowing.set()
        if self._listener is None:
            self._listener = await self._listen(self.port)

    def refuse(self) -> None:
        """Nobody listens any more; connections that are open stay so."""
        self._stop_listening()

    def reset(self) -> None:
        """Both ends of every open connection get a reset."""
        for line in tuple(self._lines):
            line.abort()

    def cut(self) -> None:
        """Reset what is open and refuse what comes."""
        self.refuse()
        self.reset()

    def blackhole(self) -> None:
        """Nothing gets through, nobody is told; what is sent meanwhile arrives after healing."""
        self._flowing.clear()

    def half_open(self, *, seen_from: int | None = None) -> None:
        """
        The server has lost all connections, the clients don't know and never will.

        ``seen_from``: only the one that comes to the server from this port.
        """
        for line in tuple(self._lines):
            if seen_from in {None, line.server_side_port}:
                line.abort_server_side()

    def delay(self, seconds: float, *directions: Direction) -> None:
        """Everything takes so much longer, one way or both; the order stays."""
        for direction in directions or Direction:
            self._delay_s[direction] = seconds

    def cut_after(self, count: int, direction: Direction) -> None:
        """Reset all connections when so many more bytes have passed one way."""
        self._cut_at[direction] = self.carried[direction] + count

    def lose_replies(self) -> None:
        """Requests arrive; the connection is reset instead of the answer."""
        self._loses_replies = True

    def allow_connections(self, most: int) -> None:
        """Further clients are hung up on at once."""
        self._most = most

    # -- inside ----------------------------------------------------------------------------------

    async def _listen(self, port: int) -> asyncio.Server:
        return await asyncio.start_server(
            self._accept, "127.0.0.1", port, limit=_CHUNK, reuse_address=True
        )

    def _stop_listening(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.close()

    async def _accept(self, reader: StreamReader, writer: StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.accepted += 1
        try:
            await self._serve(reader, writer)
        except asyncio.CancelledError:
            # Closing; asyncio's stream protocol would report the cancellation as an error.
            return
        finally:
            self._tasks.discard(task)

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        if self._most is not None and len(self._lines) >= self._most:
            writer.transport.abort()
            return
        # Counted from now on, so that a reset also hits a connection that is being made.
        line = _Line(self, reader, writer)
        self._lines.add(line)
        try:
            await self._flowing.wait()
            await line.run()
        finally:
            self._lines.discard(line)
            line.abort()

    async def carry(self, data: bytes, direction: Direction, sink: StreamWriter) -> bool:
        """Forward one piece as the network is now; False if the connection was cut instead."""
        await self._flowing.wait()
        if direction is Direction.TO_CLIENT and self._loses_replies:
            self.lost_replies += 1
            self.reset()
            return False
        limit = self._cut_at.get(direction)
        if limit is not None and self.carried[direction] + len(data) >= limit:
            sink.write(data[: max(0, limit - self.carried[direction])])
            self.carried[direction] = limit
            del self._cut_at[direction]
            self.reset()
            return False
        self.carried[direction] += len(data)
        sink.write(data)
        await sink.drain()
        return True

    def delay_of(self, direction: Direction) -> float:
        """Seconds that a piece takes longer now."""
        return self._delay_s[direction]


class _Line:
    """One connection of a client, and ours to the server."""

    def __init__(self, network: Network, reader: StreamReader, writer: StreamWriter) -> None:
        self._network = network
        self._reader = reader
        self._writer = writer
        self._upstream: StreamWriter | None = None
        self._is_half_open = False
        self._aborted = asyncio.Event()

    @property
    def server_side_port(self) -> int:
        """The port from which the server sees it come; 0 if it isn't there yet."""
        if self._upstream is None:
            return 0
        port: int = self._upstream.get_extra_info("sockname", ("", 0))[1]
        return port

    async def run(self) -> None:
        """Forward both ways until one end closes."""
        if self._aborted.is_set():
            return
        try:
            server_reader, self._upstream = await asyncio.open_connection(
                self._network.host, self._network.server_port, limit=_CHUNK
            )
        except OSError:
            return
        if self._aborted.is_set():
            return
        tasks: list[asyncio.Future[Any]] = [
            asyncio.ensure_future(self._pump(self._reader, self._upstream, Direction.TO_SERVER)),
            asyncio.ensure_future(self._pump(server_reader, self._writer, Direction.TO_CLIENT)),
            asyncio.ensure_future(self._aborted.wait()),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        if self._is_half_open and not self._aborted.is_set():
            await self._swallow()

    def abort(self) -> None:
        """Reset both ends."""
        self._aborted.set()
        _reset(self._writer)
        self.abort_server_side(half_open=False)

    def abort_server_side(self, *, half_open: bool = True) -> None:
        """Reset the end at the server; a client that isn't told goes on talking to nobody."""
        self._is_half_open = self._is_half_open or half_open
        if self._upstream is not None:
            _reset(self._upstream)

    async def _swallow(self) -> None:
        """Read what a client says to nobody, until it gives up or the test ends."""
        with suppress(OSError):
            while await self._reader.read(_CHUNK):
                pass

    async def _pump(self, source: StreamReader, sink: StreamWriter, direction: Direction) -> None:
        """Forward one way; each piece leaves ``delay`` after it came, in order."""
        waiting: deque[tuple[float, bytes]] = deque()
        arrived = asyncio.Event()
        sending = asyncio.ensure_future(self._send(waiting, arrived, sink, direction))
        loop = asyncio.get_running_loop()
        try:
            with suppress(OSError):
                while data := await source.read(_CHUNK):
                    due = loop.time() + self._network.delay_of(direction)
                    waiting.append((due, data))
                    arrived.set()
                    if sending.done():
                        return
            waiting.append((0.0, b""))
            arrived.set()
            await sending
        finally:
            sending.cancel()
            await asyncio.wait([sending])

    async def _send(
        self,
        waiting: deque[tuple[float, bytes]],
        arrived: asyncio.Event,
        sink: StreamWriter,
        direction: Direction,
    ) -> None:
        loop = asyncio.get_running_loop()
        with suppress(OSError):
            while True:
                while not waiting:
                    arrived.clear()
                    await arrived.wait()
                due, data = waiting.popleft()
                if not data:
                    return
                if (left := due - loop.time()) > 0:
                    await asyncio.sleep(left)
                if not await self._network.carry(data, direction, sink):
                    return


def _reset(writer: StreamWriter) -> None:
    """Close with a reset instead of a farewell."""
    transport = writer.transport
    if transport.is_closing():
        return
    raw = transport.get_extra_info("socket")
    if raw is not None:
        with suppress(OSError):
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_ZERO)
    transport.abort()


@asynccontextmanager
async def open_network(host: str, port: int) -> AsyncIterator[Network]:
    """A network to a server for the length of the block."""
    network = Network(host, port)
    await network.open()
    try:
        yield network
    finally:
        await network.close()
