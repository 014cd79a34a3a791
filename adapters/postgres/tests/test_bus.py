"""The bus in PostgreSQL: notifications and their loss, transactions, names, tables."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Final
from urllib.parse import urlsplit

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mastra_conformance import case
from mastra_conformance.faults.addresses import through_port
from mastra_conformance.faults.outcomes import until
from mastra_conformance.faults.proxy import Network, open_network
from mastra_conformance.suites.pubsub.support import Recorder, eventually, make_event
from mastra_core.base.ids import UuidIds
from mastra_core.errors import PubSubError
from mastra_core.plugins.context import AdapterContext
from mastra_postgres import PostgresStorage
from mastra_postgres.bus_dialect import PostgresBusDialect
from mastra_postgres.client import open_client
from mastra_postgres.dialect import PostgresDialect
from mastra_postgres.listener import PostgresDoorbell, channel_of
from mastra_postgres.pubsub import PostgresPubSub
from mastra_postgres.settings import PostgresConnection

pytestmark = pytest.mark.anyio

#: Within so many seconds a listener that hears nothing any more is noticed.
_DETECTED_S: Final = 15.0
_SLACK_S: Final = 10.0

_LISTENERS = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
    "AND query LIKE 'LISTEN%'"
)


@asynccontextmanager
async def own_connection(url: str) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
    """A connection of the test, outside every transaction."""
    connection = await psycopg.AsyncConnection.connect(url, autocommit=True)
    try:
        yield connection
    finally:
        await connection.close()


async def scalar(connection: psycopg.AsyncConnection[Any], sql: str) -> Any:
    """The one value of a query."""
    cursor = await connection.execute(sql.encode())
    row = await cursor.fetchone()
    assert row is not None
    return row[0]


# -- transactions -----------------------------------------------------------------------------


@case("pubsub_and_lease", 78)
async def test_an_event_goes_with_its_transaction(url: str) -> None:
    """Rolled back it never was; committed it is there exactly with the row."""
    seen = Recorder()
    async with PostgresPubSub(url) as bus, own_connection(url) as mine:
        await mine.execute("CREATE TABLE orders (id int)")
        await bus.subscribe("t", seen)

        with suppress(RuntimeError):
            async with mine.transaction():
                await mine.execute("INSERT INTO orders VALUES (1)")
                await bus.publish("t", make_event("rolled back"), conn=mine)
                raise RuntimeError
        async with mine.transaction():
            await mine.execute("INSERT INTO orders VALUES (2)")
            await bus.publish("t", make_event("committed"), conn=mine, dedupe_id="d-1")
            await bus.publish("t", make_event("again"), conn=mine, dedupe_id="d-1")
            assert [] == await bus.get_history("t")

        await seen.until(1)
        await bus.publish("t", make_event("after"))
        await seen.until(2)
        assert ["committed", "after"] == seen.data
        assert [0, 1] == [event.index for event in seen.events]
        with pytest.raises(ValueError, match="conn"):
            await bus.publish("t", make_event(1), conn=mine, local_only=True)


@case("pubsub_and_lease", 77)
async def test_a_stalled_transaction_hides_no_event(url: str) -> None:
    """Numbers become visible in order, however long the first one takes to commit."""
    seen = Recorder()
    async with (
        PostgresPubSub(url) as bus,
        PostgresPubSub(url) as reader,
        own_connection(url) as mine,
    ):
        await reader.subscribe("t", seen)
        async with mine.transaction():
            await bus.publish("t", make_event("stalled"), conn=mine)
            others = [
                asyncio.create_task(bus.publish("t", make_event(number))) for number in range(8)
            ]
            done, _ = await asyncio.wait(others, timeout=0.3)
            assert not done
        await asyncio.gather(*others)

        await seen.until(9)
        assert seen.data[0] == "stalled"
        assert list(range(9)) == [event.index for event in seen.events]


async def test_topics_do_not_wait_for_each_other(url: str) -> None:
    """Only publishers of one topic go one after the other."""
    async with PostgresPubSub(url) as bus, own_connection(url) as mine, mine.transaction():
        await bus.publish("one", make_event(1), conn=mine)
        async with asyncio.timeout(60):
            await bus.publish("two", make_event(2))


# -- notifications ----------------------------------------------------------------------------


async def test_a_lost_listener_comes_back(url: str, caplog: pytest.LogCaptureFixture) -> None:
    """Its connection is ended by the server: nothing is lost, and one warning tells."""
    seen = Recorder()
    async with (
        PostgresPubSub(url) as reader,
        PostgresPubSub(url) as writer,
        own_connection(url) as mine,
    ):
        await reader.subscribe("t", seen)
        await writer.publish("t", make_event(1))
        await seen.until(1)
        with caplog.at_level(logging.WARNING):
            await mine.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND query LIKE 'LISTEN%'"
            )
            for number in range(2, 12):
                await writer.publish("t", make_event(number))
            await seen.until(11)
            await eventually(lambda: reader.is_notified)

        await writer.publish("t", make_event(12))
        await seen.until(12)
        assert list(range(1, 13)) == seen.data
        warnings = [one for one in caplog.records if "listening connection" in one.message]
        assert len(warnings) <= 2


@case("pubsub_and_lease", 74)
async def test_a_lost_listener_touches_no_socket_of_others(
    url: str, query: Callable[..., list[Any]]
) -> None:
    """The driver closes its socket; somebody else's, with the same number, goes on being read."""
    parts = urlsplit(url)
    async with open_client(PostgresConnection(url=url)) as client:
        bell = PostgresDoorbell(client, "public", UuidIds())
        await bell._connect()
        connection = bell._connection
        assert connection is not None
        number = connection.fileno()
        query("SELECT pg_terminate_backend(%s)", connection.info.backend_pid)
        with pytest.raises(psycopg.OperationalError):
            await bell._execute(connection, ["SELECT 1"])
        others: list[asyncio.StreamWriter] = []
        while not any(one.get_extra_info("socket").fileno() == number for one in others):
            _, writer = await asyncio.open_connection(parts.hostname, parts.port)
            others.append(writer)

        await bell.aclose()

        for writer in others:
            transport: Any = writer.transport
            assert transport.is_reading()
            writer.close()


async def test_a_half_open_listener_is_noticed(url: str, caplog: pytest.LogCaptureFixture) -> None:
    """Its packets vanish and nobody is told: within 15 s it knows; until then it looks."""
    seen, member = Recorder(), Recorder()
    parts = urlsplit(url)

    def warned() -> list[str]:
        return [one.getMessage() for one in caplog.records if one.name.startswith("mastra")]

    async with (
        open_network(parts.hostname or "", parts.port or 5432) as network,
        PostgresPubSub(through_port(url, network.port)) as reader,
        PostgresPubSub(url) as writer,
        own_connection(url) as mine,
    ):
        await reader.subscribe("t", seen)
        await reader.subscribe("t", member, group="g")
        await eventually(lambda: reader.is_notified)
        listening = await _listener_of(mine, network)

        caplog.set_level(logging.WARNING)
        network.half_open(seen_from=listening)
        broken_at = time.monotonic()
        looked: list[float] = []
        for number in range(5):
            published_at = time.monotonic()
            await writer.publish("t", make_event(number))
            await seen.until(number + 1)
            await member.until(number + 1)
            looked.append(time.monotonic() - published_at)
        delivered_blindly = not warned()
        await until(lambda: bool(warned()), within_s=4 * _DETECTED_S)
        took = time.monotonic() - broken_at

        await until(lambda: reader.is_notified and not network.carries(listening))
        assert listening != await _listener_of(mine, network)
        await writer.publish("t", make_event(5))
        await seen.until(6)

    assert delivered_blindly
    assert took <= _DETECTED_S + _SLACK_S
    # A look per second; ten times that for a busy machine.
    assert max(looked) < 10
    assert list(range(6)) == seen.data
    assert ["the listening connection is lost, looking instead"] == warned()


async def _listener_of(mine: psycopg.AsyncConnection[Any], network: Network) -> int:
    """The port from which the server sees the listening connection behind a network."""
    ports = await mine.execute(
        "SELECT client_port FROM pg_stat_activity WHERE datname = current_database() "
        "AND query LIKE 'LISTEN%' ORDER BY backend_start"
    )
    [port] = [port for (port,) in await ports.fetchall() if network.carries(port)]
    return int(port)


@case("pubsub_and_lease", 75)
async def test_behind_a_pooler_it_looks(url: str, caplog: pytest.LogCaptureFixture) -> None:
    """Notifications never arrive: one warning, and delivery goes on by looking."""
    seen, member = Recorder(), Recorder()
    async with swallowing_notifications(url) as pooled:
        with caplog.at_level(logging.WARNING):
            async with PostgresPubSub(pooled) as reader, PostgresPubSub(pooled) as writer:
                await reader.subscribe("t", seen)
                await reader.subscribe("t", member, group="g")
                for number in range(20):
                    await writer.publish("t", make_event(number))
                await seen.until(20)
                await member.until(20)
                assert not reader.is_notified
                lease, other = reader.get_lease_provider(), writer.get_lease_provider()
                await other.acquire_lease("k", "a", 10_000)
                events = lease.watch_lease("k")
                assert not await lease.acquire_lease("k", "b", 10_000)
                await other.release_lease("k", "a")
                async with asyncio.timeout(60):
                    assert (await anext(events)).kind == "released"
                await eventually(lambda: any("pooler" in one.message for one in caplog.records))
    assert list(range(20)) == seen.data
    assert list(range(20)) == sorted(member.data)


@asynccontextmanager
async def swallowing_notifications(url: str) -> AsyncIterator[str]:
    """An address of the server where notifications get lost, as behind a pooler."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or 5432

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
        raise EOFError

    async def filter_answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = await reader.readexactly(5)
            body = await reader.readexactly(int.from_bytes(head[1:], "big") - 4)
            if head[:1] != b"A":
                writer.write(head + body)
                await writer.drain()

    serving: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_connection(host, port)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(forward(reader, to_server))
                group.create_task(filter_answers(from_server, writer))
        except* (OSError, EOFError):
            pass
        finally:
            for end in (writer, to_server):
                end.close()
                with suppress(OSError):
                    await end.wait_closed()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.add(asyncio.create_task(serve(reader, writer)))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    own_port = server.sockets[0].getsockname()[1]
    user = f"{parts.username}@" if parts.username else ""
    try:
        yield f"postgresql://{user}127.0.0.1:{own_port}{parts.path}?sslmode=disable"
    finally:
        server.close()
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)


async def test_only_topics_in_use_are_listened_to(url: str) -> None:
    """What nobody subscribes to any more costs no channel."""
    seen = Recorder()
    async with PostgresPubSub(url) as bus:
        for number in range(300):
            await bus.subscribe(f"t{number}", seen)
        assert 300 == len(bus.followed_channels)
        for number in range(1, 300):
            await bus.unsubscribe(f"t{number}", seen)
        assert {channel_of("public.", "t:t0")} == bus.followed_channels
        await bus.publish("t0", make_event(1))
        await seen.until(1)


@case("pubsub_and_lease", 76)
async def test_large_events_and_long_names(url: str) -> None:
    """An event of 1 MiB is delivered, since no notification carries it; a name of 8000 bytes
    is refused."""
    seen = Recorder()
    async with PostgresPubSub(url) as reader, PostgresPubSub(url) as writer:
        await reader.subscribe("t", seen)
        await writer.publish("t", make_event("x" * 1_048_576))
        await seen.until(1)
        assert 1_048_576 == len(seen.data[0])
        with pytest.raises(PubSubError):
            await writer.publish("t" * 8_000, make_event(1))


# -- names ------------------------------------------------------------------------------------


@given(st.text(), st.text())
def test_names_are_kept_apart(one: str, two: str) -> None:
    """The server keeps no NUL; what is kept instead is read back, and is no other name's."""
    dialect = PostgresBusDialect(PostgresDialect())
    assert one == dialect.name_of(dialect.text_of(one))
    assert "\0" not in dialect.text_of(one)
    assert (one == two) == (dialect.text_of(one) == dialect.text_of(two))


async def test_names_with_nul_work_everywhere(url: str) -> None:
    """Topic, run, group and lease key of a thread hold one."""
    seen = Recorder()
    async with PostgresPubSub(url, max_delivery_attempts=1) as bus:

        async def refuse(event: Any, ack: Any, nack: Any) -> None:
            await nack("no\0pe")

        await bus.subscribe("r\0t", seen)
        await bus.subscribe("r\0t", refuse, group="g\0")
        await bus.publish("r\0t", make_event("a\0b", run_id="r\0t"), dedupe_id="id\0")
        await bus.publish("r\0t", make_event("again"), dedupe_id="id\0")

        await seen.until(1)
        await bus.flush()
        assert ("a\0b", "r\0t", "id\0") == (
            seen.events[0].data,
            seen.events[0].run_id,
            seen.events[0].id,
        )
        await bus.trim_topic("r\0t", run_id="r\0t")
        assert [] == await bus.get_history("r\0t")
        [letter] = await bus.list_dead("r\0t", group="g\0")
        assert ("g\0", "id\0") == (letter.group, letter.event.id)


# -- one database, several roles --------------------------------------------------------------


async def test_roles_of_one_url_share_a_pool(url: str) -> None:
    """Store, bus and leases of one context use one pool and one listening connection."""
    context = AdapterContext()
    async with (
        PostgresStorage(url, context) as store,
        PostgresPubSub(url, context) as bus,
        own_connection(url) as mine,
    ):
        lease = bus.get_lease_provider()
        await lease.acquire_lease("k", "a", 10_000)
        await bus.publish("t", make_event(1))
        await eventually(lambda: bus.is_notified)

        assert store.open_resources()["connections"] <= 4
        assert await scalar(mine, _LISTENERS) <= 1


# -- tables -----------------------------------------------------------------------------------


async def test_nothing_is_created_twice(url: str) -> None:
    """The second start changes nothing; an account without rights can start then, too."""
    async with PostgresPubSub(url) as bus:
        assert not await bus.plan_migration()

    async with PostgresPubSub(url, disable_init=True) as bus:
        await bus.publish("t", make_event(1))
        assert 1 == len(await bus.get_history("t"))


async def test_without_tables_and_rights_it_is_refused(url: str) -> None:
    """``disable_init`` names what to do."""
    with pytest.raises(PubSubError, match="migrated first") as caught:
        async with PostgresPubSub(url, disable_init=True):
            pass
    assert caught.value.hint == "Run: mastra-py migrate"


async def test_two_start_at_once(url: str) -> None:
    """One creates, the other waits and finds nothing to do; in a schema of its own."""
    buses = [PostgresPubSub(url, schema="events", prefix="x_") for _ in range(4)]
    await asyncio.gather(*(bus.__aenter__() for bus in buses))
    await buses[0].publish("t", make_event(1))
    assert 1 == len(await buses[3].get_history("t"))
    await asyncio.gather(*(bus.aclose() for bus in buses))


async def test_a_newer_database_is_refused(url: str) -> None:
    """Its version is told."""
    async with PostgresPubSub(url):
        pass
    async with own_connection(url) as mine:
        await mine.execute("UPDATE mastra_py_schema SET version = 99 WHERE component = 'bus'")

    with pytest.raises(PubSubError, match="version 99 of 'bus'"):
        async with PostgresPubSub(url):
            pass


async def test_exported_ddl_is_all_that_is_needed(url: str) -> None:
    """Somebody else runs it; the bus then starts without creating anything."""
    async with own_connection(url) as mine:
        await mine.execute(PostgresPubSub(url).export_ddl().encode())

    async with PostgresPubSub(url, disable_init=True) as bus:
        await bus.publish("t", make_event(1))
        assert 1 == len(await bus.get_history("t"))


async def test_no_statement_reads_a_whole_log(url: str) -> None:
    """Every statement about a topic finds its rows by an index."""
    async with PostgresPubSub(url) as bus, own_connection(url) as mine:
        member, fan = Recorder(), Recorder()
        await bus.subscribe("t", member, group="g")
        await bus.subscribe("t", fan)
        for number in range(5):
            await bus.publish("t", make_event(number), dedupe_id=f"id {number}")
        await eventually(lambda: len(member.data) == len(fan.data) == 5)
        await bus.flush()
        statements = list(bus.driver.statements.compiled())
        scans: list[str] = []
        async with mine.transaction():
            # With a handful of rows the planner would rather read them all.
            await mine.execute("SET LOCAL enable_seqscan = off")
            await mine.execute("SET LOCAL plan_cache_mode = force_generic_plan")
            for place, statement in enumerate(statements):
                await mine.execute(f"PREPARE s{place} AS {statement.sql}".encode())
                values = ", ".join(["NULL"] * len(statement.parameters))
                call = f"s{place}({values})" if values else f"s{place}"
                cursor = await mine.execute(f"EXPLAIN EXECUTE {call}".encode())
                plan = [str(line) for (line,) in await cursor.fetchall()]
                scans += [
                    f"{statement.name}: {line}"
                    for line in plan
                    if "Seq Scan on mastra_pubsub_events" in line
                    or "Seq Scan on mastra_pubsub_pending" in line
                ]
        assert len(statements) > 5
        assert [] == scans
