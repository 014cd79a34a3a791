"""The network does what its methods say, and heals."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from mastra_conformance.faults.proxy import Direction, Network, open_network

__all__ = ()

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def echo_network() -> AsyncIterator[Network]:
    """A network to a server that answers with what it is told."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(100):
                writer.write(data)
        except OSError:
            return
        finally:
            writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    async with server, open_network("127.0.0.1", server.sockets[0].getsockname()[1]) as network:
        yield network


class Client:
    """Asks and waits for the answer."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def connect(cls, network: Network) -> Client:
        """Through the network."""
        return cls(*await asyncio.open_connection("127.0.0.1", network.port))

    async def ask(self, text: bytes, *, within_s: float = 2.0) -> bytes:
        """
        What comes back.

        Raises:
            OSError, TimeoutError: Nothing.
        """
        self._writer.write(text)
        async with asyncio.timeout(within_s):
            answer = await self._reader.read(100)
        if not answer:
            raise ConnectionError("closed")
        return answer

    def close(self) -> None:
        """Hang up."""
        self._writer.transport.abort()


async def _ask_until_closed(client: Client) -> bytes:
    """What still came before the connection ended."""
    answers = b""
    with suppress(OSError):
        answers += await client.ask(b"12345")
        answers += await client.ask(b"more")
        pytest.fail("the connection is still open")
    return answers


async def test_everything_passes_at_first() -> None:
    """Both ways, counted."""
    async with echo_network() as network:
        client = await Client.connect(network)
        assert await client.ask(b"hello") == b"hello"
        assert {Direction.TO_SERVER: 5, Direction.TO_CLIENT: 5} == network.carried
        assert (1, 1) == (network.accepted, network.open_connections)
        client.close()


async def test_refusing_concerns_new_connections() -> None:
    """Open ones stay; after healing there are new ones again."""
    async with echo_network() as network:
        client = await Client.connect(network)
        await client.ask(b"1")
        network.refuse()
        with pytest.raises(OSError, match=r"refused|Connect call failed"):
            await Client.connect(network)
        assert await client.ask(b"2") == b"2"
        await network.heal()
        other = await Client.connect(network)
        assert await other.ask(b"3") == b"3"
        client.close()
        other.close()


async def test_a_reset_ends_open_connections() -> None:
    """New ones work at once."""
    async with echo_network() as network:
        client = await Client.connect(network)
        await client.ask(b"1")
        network.reset()
        with pytest.raises(OSError):
            await client.ask(b"2")
        other = await Client.connect(network)
        assert await other.ask(b"3") == b"3"
        other.close()


async def test_a_blackhole_holds_everything_back() -> None:
    """What was sent meanwhile arrives after healing."""
    async with echo_network() as network:
        client = await Client.connect(network)
        await client.ask(b"1")
        network.blackhole()
        with pytest.raises(TimeoutError):
            await client.ask(b"2", within_s=0.1)
        await network.heal()
        assert await client.ask(b"3") in {b"2", b"23"}
        client.close()


async def test_half_open_connections_never_answer() -> None:
    """The client isn't told; a new one works."""
    async with echo_network() as network:
        client = await Client.connect(network)
        await client.ask(b"1")
        network.half_open()
        with pytest.raises(TimeoutError):
            await client.ask(b"2", within_s=0.1)
        other = await Client.connect(network)
        assert await other.ask(b"3") == b"3"
        client.close()
        other.close()


async def test_one_connection_alone_can_be_half_open() -> None:
    """The one that the server sees from a port; the others go on."""
    seen: list[int] = []

    async def tell(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(writer.get_extra_info("peername")[1])
        with suppress(OSError):
            while data := await reader.read(100):
                writer.write(data)
        writer.close()

    server = await asyncio.start_server(tell, "127.0.0.1", 0)
    async with server, open_network("127.0.0.1", server.sockets[0].getsockname()[1]) as network:
        broken = await Client.connect(network)
        await broken.ask(b"1")
        whole = await Client.connect(network)
        await whole.ask(b"1")
        assert [True, True, False] == [network.carries(port) for port in (*seen, 0)]
        network.half_open(seen_from=seen[0])
        assert await whole.ask(b"2") == b"2"
        with pytest.raises(TimeoutError):
            await broken.ask(b"2", within_s=0.1)
        broken.close()
        whole.close()


async def test_a_delay_keeps_the_order() -> None:
    """Everything takes so much longer, one way."""
    async with echo_network() as network:
        client = await Client.connect(network)
        network.delay(0.1, Direction.TO_CLIENT)
        started = asyncio.get_running_loop().time()
        assert await client.ask(b"1") == b"1"
        assert asyncio.get_running_loop().time() - started >= 0.1
        client.close()


@pytest.mark.parametrize("direction", Direction)
async def test_a_cut_after_some_bytes(direction: Direction) -> None:
    """The next connection is whole again."""
    async with echo_network() as network:
        client = await Client.connect(network)
        await client.ask(b"1")
        network.cut_after(2, direction)
        assert len(await _ask_until_closed(client)) <= 2
        other = await Client.connect(network)
        assert await other.ask(b"12345") == b"12345"
        other.close()


async def test_a_lost_reply_had_a_request() -> None:
    """The server was told; the client sees a reset."""
    async with echo_network() as network:
        client = await Client.connect(network)
        await client.ask(b"1")
        network.lose_replies()
        with pytest.raises(OSError):
            await client.ask(b"2")
        assert 2 == network.carried[Direction.TO_SERVER]
        assert 1 == network.lost_replies


async def test_too_many_connections_are_hung_up_on() -> None:
    """Those that are there stay."""
    async with echo_network() as network:
        client = await Client.connect(network)
        await client.ask(b"1")
        network.allow_connections(1)
        other = await Client.connect(network)
        with pytest.raises(OSError):
            await other.ask(b"2")
        assert await client.ask(b"3") == b"3"
        client.close()
