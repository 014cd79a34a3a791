"""One connection for all tasks: what travels together stays apart."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from mastra_redis.link import LinkClosedError, LostReplyError
from mastra_redis.pool import Server, open_server
from mastra_redis.settings import RedisSettings

pytestmark = pytest.mark.anyio


@pytest.fixture
async def server(url: str) -> AsyncIterator[Server]:
    async with open_server(RedisSettings(url=url)) as opened:
        yield opened


async def test_commands_of_one_turn_are_written_at_once(server: Server, namespace: str) -> None:
    """A hundred tasks, one write; each gets its own answer."""
    link = server.link
    before = link.writes

    found = await asyncio.gather(
        *(link.call("ECHO", f"{namespace}{number}") for number in range(100))
    )

    assert [f"{namespace}{number}".encode() for number in range(100)] == found
    assert 1 == link.writes - before


async def test_an_error_belongs_to_its_caller(server: Server, namespace: str) -> None:
    """Between two commands that work, one is refused."""
    link = server.link
    await link.call("SET", namespace, "text", "PX", 10_000)

    first, refused, last = await asyncio.gather(
        link.call("GET", namespace),
        link.call("LPUSH", namespace, "x"),
        link.call("STRLEN", namespace),
        return_exceptions=True,
    )

    assert b"text" == first
    assert isinstance(refused, ResponseError)
    assert 4 == last


async def test_a_cancelled_caller_takes_no_answer_of_another(server: Server) -> None:
    """Its answer comes and is dropped; those behind it get their own."""
    link = server.link
    leaving = asyncio.create_task(link.call("ECHO", "gone"))
    staying = [asyncio.create_task(link.call("ECHO", str(n))) for n in range(5)]
    await asyncio.sleep(0)

    leaving.cancel()

    assert [b"0", b"1", b"2", b"3", b"4"] == await asyncio.gather(*staying)
    assert leaving.cancelled()


async def test_a_command_cancelled_before_it_was_written_is_not_sent(
    server: Server, namespace: str
) -> None:
    link = server.link
    never = link.send(("SET", namespace, "1"))
    never.cancel()

    await link.call("PING")

    assert None is await link.call("GET", namespace)


async def test_a_transaction_is_not_mixed_with_others(server: Server, namespace: str) -> None:
    """Commands of other tasks go before or behind it."""
    link = server.link

    async def transaction() -> list[object]:
        replies: list[object] = await link.send_transaction(
            [("INCR", namespace), ("INCR", namespace), ("PEXPIRE", namespace, 10_000)]
        )
        return replies

    answers = await asyncio.gather(
        *(transaction() if n % 2 else link.call("PING") for n in range(20))
    )

    counts = [answer[:2] for answer in answers if isinstance(answer, list)]
    assert [[2 * n + 1, 2 * n + 2] for n in range(10)] == counts


async def test_a_refused_transaction_tells_the_first_refusal(server: Server) -> None:
    with pytest.raises(ResponseError, match="unknown command"):
        await server.link.send_transaction([("NOSUCHCOMMAND",)])

    assert b"PONG" == await server.link.call("PING")


async def test_a_script_that_the_server_forgot_is_told_again(server: Server) -> None:
    await server.link.call("SCRIPT", "FLUSH")

    assert [1] == await server.scripts.run("commit", [], [])
    assert [1] == await server.scripts.run("commit", [], [])


async def test_a_lost_connection_comes_back(server: Server, namespace: str) -> None:
    """What only reads is sent again; whoever comes later finds a new connection."""
    link = server.link
    await link.call("SET", namespace, "kept", "PX", 10_000)
    own = await link.call("CLIENT", "ID")

    killed = link.send(("CLIENT", "KILL", "ID", own, "SKIPME", "no"))
    read = link.send(("GET", namespace), repeatable=True)

    assert b"kept" == await read
    assert own != await link.call("CLIENT", "ID")
    await asyncio.wait([killed])
    assert killed.exception() is None or isinstance(killed.exception(), LostReplyError)


@asynccontextmanager
async def _silent_server() -> AsyncIterator[int]:
    """Accepts connections and says as little as a paused one."""
    opened: list[asyncio.StreamWriter] = []

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        opened.append(writer)
        await reader.read()

    listening = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield listening.sockets[0].getsockname()[1]
    finally:
        listening.close()
        for writer in opened:
            writer.close()


async def test_a_silent_server_is_given_up_in_time() -> None:
    async with _silent_server() as port:
        settings = RedisSettings(url=f"redis://127.0.0.1:{port}", connect_timeout_ms=100)

        with pytest.raises((TimeoutError, RedisTimeoutError, RedisConnectionError)):
            async with asyncio.timeout(5), open_server(settings):
                pass


async def test_a_server_that_stops_answering_costs_the_connection(url: str, namespace: str) -> None:
    """The call ends in time, and the next one works."""
    settings = RedisSettings(url=url, request_timeout_ms=150)
    async with open_server(settings) as server:
        with pytest.raises(RedisTimeoutError):
            await server.link.call("BLPOP", namespace, 2)

        assert b"PONG" == await server.link.call("PING")


async def test_closing_ends_what_waits(url: str, namespace: str) -> None:
    async with open_server(RedisSettings(url=url)) as server:
        waiting = server.link.send(("BLPOP", namespace, 0))
        await asyncio.sleep(0)

    with pytest.raises(LinkClosedError):
        await waiting
    with pytest.raises(LinkClosedError):
        await server.link.call("PING")


async def test_messages_of_a_channel_come_to_all_who_listen(server: Server, namespace: str) -> None:
    """After a reconnection, too."""
    heard: list[bytes] = []
    channel = namespace.encode()
    server.link.listen(channel, heard.append)
    await server.link.call("PUBLISH", channel, "one")
    await server.link.call("PING")
    own = await server.link.call("CLIENT", "ID")
    await asyncio.wait([server.link.send(("CLIENT", "KILL", "ID", own, "SKIPME", "no"))])
    await server.link.call("PING", repeatable=True)

    await server.link.call("PUBLISH", channel, "two")
    await server.link.call("PING")

    assert [b"one", b"two"] == heard
    server.link.stop_listening(channel, heard.append)


async def test_changes_by_others_are_known_before_the_next_answer(
    server: Server, url: str, namespace: str
) -> None:
    """Ours and those of other families aren't told."""
    changed: list[bytes | None] = []
    family = f"{namespace}:a:".encode()
    await server.link.track([family], changed.append)

    async with open_server(RedisSettings(url=url)) as other:
        await server.link.call("SET", family + b"own", "1", "PX", 10_000)
        await other.link.call("SET", family + b"theirs", "1", "PX", 10_000)
        await other.link.call("SET", f"{namespace}:b", "1", "PX", 10_000)
        await server.link.call("PING")

    assert [family + b"theirs"] == changed
    server.link.untrack([family])
