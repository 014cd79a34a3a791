"""What goes wrong with a real server, and what a caller hears of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest

from mastra_conformance.servers import find_server, product_named, start_server
from mastra_conformance.servers.local import RunningServer, free_port
from mastra_core.errors import (
    InvalidUrlError,
    StorageArgumentError,
    StorageConnectionError,
    StorageError,
    StorageSchemaError,
    StorageTimeoutError,
    ThreadNotFoundError,
)
from mastra_core.plugins.context import AdapterContext
from mastra_core.wire.messages import Message
from mastra_core.wire.notifications import CreateNotification
from mastra_core.wire.threads import Thread
from mastra_postgres import PostgresStorage
from mastra_postgres.channel import Channel, Command, Segment
from mastra_postgres.connect import check_server
from mastra_postgres.errors import FaultKind, LostError, fault_of
from mastra_postgres.pool import Pool
from mastra_postgres.settings import PostgresConnection
from mastra_sql.executor import Step
from mastra_sql.statement import plain

pytestmark = pytest.mark.anyio

Query = Callable[..., list[tuple[Any, ...]]]
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def thread(thread_id: str = "t") -> Thread:
    return Thread(id=thread_id, resource_id="u", created_at=NOW, updated_at=NOW)


async def until(condition: Callable[[], object]) -> None:
    """Let the loop go on until it is so, for some seconds at most."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - what the server does tells no event
            await asyncio.sleep(0.001)


#: Processes of the server that wait for a lock.
_WAITING = "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock'"


@contextmanager
def locked(url: str, sql: str = "LOCK TABLE mastra_threads") -> Iterator[psycopg.Connection[Any]]:
    """Somebody else's transaction that keeps a lock for the length of the block."""
    with psycopg.connect(url) as connection:
        connection.execute(sql.encode())
        yield connection


# -- opening ----------------------------------------------------------------------------------


async def test_an_absent_server_is_named() -> None:
    with pytest.raises(StorageConnectionError, match="can't be reached") as caught:
        await PostgresStorage(f"postgresql://app:s3cret@127.0.0.1:{free_port()}/db").init()

    assert caught.value.retryable
    assert "s3cret" not in str(caught.value)
    assert "s3cret" not in repr(caught.value.details)


@pytest.mark.parametrize("what", ["starting up", "shutting down", "in recovery mode"])
def test_a_server_that_starts_or_stops_is_named(what: str) -> None:
    """Not as a database that is to be made, as of one that isn't there."""
    said = f'connection to server at "127.0.0.1", port 5432 failed: FATAL:  the database system is {what}'
    fault = fault_of(psycopg.OperationalError(said), "connect", "here", writes=False)

    assert FaultKind.CONNECTION == fault.kind
    assert fault.message.startswith("here is starting or stopping: ")


async def test_a_wrong_password_is_named(url: str, query: Query) -> None:
    name = f"user_{url.rpartition('_')[2]}"
    query(f"CREATE ROLE {name} LOGIN PASSWORD 'right'")
    try:
        address = url.replace("postgres@", f"{name}:wr0ng@")
        with pytest.raises(StorageConnectionError, match="refused the user or password") as caught:
            await PostgresStorage(address).init()
    finally:
        query(f"DROP ROLE {name}")

    assert "pg_hba.conf" in str(caught.value.hint)
    assert "wr0ng" not in str(caught.value)


async def test_a_missing_database_is_named(server: str) -> None:
    with pytest.raises(StorageConnectionError, match="doesn't exist") as caught:
        await PostgresStorage(f"{server}_that_is_not_there").init()

    assert "createdb" in str(caught.value.hint)


async def test_encryption_that_the_server_does_not_offer_is_named(url: str) -> None:
    with pytest.raises(StorageConnectionError, match="agree on encryption") as caught:
        await PostgresStorage(f"{url}?sslmode=require").init()

    assert "sslmode" in str(caught.value.hint)


async def test_a_parameter_that_libpq_does_not_know_is_refused(url: str) -> None:
    with pytest.raises(InvalidUrlError, match="libpq refuses it"):
        await PostgresStorage(f"{url}?poolsize=3").init()


async def test_too_old_a_server_is_refused() -> None:
    with pytest.raises(StorageSchemaError, match="is PostgreSQL 14; 15 or later is needed"):
        check_server(140_012, "postgresql://h/db")

    check_server(150_000, "postgresql://h/db")


# -- calls ------------------------------------------------------------------------------------


async def test_a_statement_that_takes_too_long_is_told_to_stop(
    url: str, query: Query, context: AdapterContext
) -> None:
    """The caller hears in time, the server works on nothing, and the next call works."""
    async with PostgresStorage(url, context, statement_timeout_ms=200) as store:
        with locked(url), pytest.raises(StorageTimeoutError, match="told to stop") as caught:
            await store.memory.save_thread(thread())
        assert caught.value.retryable
        await store.memory.save_thread(thread())

        assert [] == query(
            "SELECT query FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
            "AND datname = current_database()"
        )


async def test_others_on_the_same_connection_hear_nothing_of_a_timeout(
    url: str, context: AdapterContext
) -> None:
    """Calls that share a pipeline with one that was stopped are answered as if alone."""
    async with PostgresStorage(
        url, context, statement_timeout_ms=300, pool_size=1, shared_connections=1
    ) as store:
        with locked(url):
            slow = asyncio.ensure_future(store.memory.save_thread(thread()))
            await asyncio.sleep(0)
            others = [store.thread_state.get_state("t", "x") for _ in range(20)]
            results = await asyncio.gather(slow, *others, return_exceptions=True)

    assert isinstance(results[0], StorageTimeoutError)
    assert [None] * 20 == results[1:]


async def test_a_call_after_one_with_more_time_has_its_own_deadline(url: str) -> None:
    """A migration may take an hour; what uses its connection afterwards may not."""
    loop = asyncio.get_running_loop()
    overdue: asyncio.Queue[Channel] = asyncio.Queue()
    channel = Channel(
        await psycopg.AsyncConnection.connect(url, autocommit=True),
        prepares=lambda: False,
        on_drained=lambda _: None,
        on_overdue=overdue.put_nowait,
    )

    def send(sql: bytes, seconds: float) -> asyncio.Future[Any]:
        future = loop.create_future()
        channel.send(Segment([Command(sql)], future, loop.time() + seconds))
        return future

    await send(b"SELECT 1", 3_600)
    late = send(b"SELECT pg_sleep(600)", 0.05)
    async with asyncio.timeout(60):
        await (await overdue.get()).cancel()
        with pytest.raises(TimeoutError, match="told to stop"):
            await late
    channel.lose(ConnectionError("The test is over."))


async def test_a_connection_that_dies_while_work_waits_loses_none_of_it(url: str) -> None:
    """The first of those who wait finds it closed; the others get the next one."""

    class Unlucky(Pool):
        def _channel(self, connection: psycopg.AsyncConnection[Any]) -> Channel:
            channel = super()._channel(connection)
            if not made:
                connection.pgconn.finish()
            made.append(channel)
            return channel

    loop = asyncio.get_running_loop()
    made: list[Channel] = []
    pool = Unlucky(PostgresConnection(url=url, pool_size=1))
    futures = [loop.create_future() for _ in range(5)]
    for future in futures:
        pool.submit(Segment([Command(b"SELECT 1")], future, loop.time() + 60))
    async with asyncio.timeout(60):
        results = await asyncio.gather(*futures, return_exceptions=True)
    await pool.aclose()

    assert isinstance(results[0], LostError)
    assert all(isinstance(result, list) for result in results[1:])
    assert 2 == len(made)


async def test_a_read_never_waits_behind_a_write_that_waits(
    url: str, query: Query, context: AdapterContext
) -> None:
    """While statements wait for somebody's lock, others go past them."""
    async with PostgresStorage(url, context) as store:
        with locked(url):
            waiting = [asyncio.ensure_future(store.memory.save_thread(thread())) for _ in range(2)]
            await until(lambda: len(query(_WAITING)) == 2)
            async with asyncio.timeout(60):
                await store.thread_state.get_state("t", "x")
                await asyncio.sleep(0.06)
                await store.thread_state.set_state("t", "x", 1)
            assert not any(call.done() for call in waiting)
        await asyncio.gather(*waiting)


async def test_an_exhausted_pool_is_named(url: str, context: AdapterContext) -> None:
    async with PostgresStorage(url, context, pool_size=1, pool_timeout_ms=200) as store:
        await store.memory.save_thread(thread())
        with locked(url, "SELECT 1 FROM mastra_threads FOR UPDATE"):
            holding = asyncio.ensure_future(store.memory.update_thread("t", title="x"))
            await until(lambda: store.open_resources()["waiting_calls"])
            with pytest.raises(StorageTimeoutError, match="all 1 connections were busy") as caught:
                await store.memory.update_thread("t", title="y")
        updated = await holding

    assert "mastra_pool_size" in str(caught.value.hint)
    assert "x" == updated.title


async def test_texts_that_only_json_can_keep_are_refused(store: PostgresStorage) -> None:
    """NUL and lone surrogates: as the caller's fault, before anything is sent."""
    for text in ("a\0b", "cut \ud83d here"):
        with pytest.raises(StorageArgumentError, match="only JSON can keep"):
            await store.notifications.create_notification(
                CreateNotification(thread_id="t", source="s", kind="k", summary=text)
            )

    assert [] == await store.notifications.list_notifications("t")


async def test_a_key_of_many_bytes_is_refused(store: PostgresStorage) -> None:
    """No index entry may have more than a third of a page."""
    incompressible = "".join(chr(0x4E00 + n * 7919 % 20000) for n in range(4000))

    with pytest.raises(StorageArgumentError, match="of this size"):
        await store.memory.save_thread(thread(incompressible))


async def test_a_missing_table_says_how_to_get_it(store: PostgresStorage, query: Query) -> None:
    query("DROP TABLE mastra_threads")

    with pytest.raises(StorageSchemaError, match="lacks a table") as caught:
        await store.memory.get_thread_by_id("t")

    assert "Run: mastra-py migrate" == caught.value.hint


async def test_a_column_that_changed_meanwhile_is_no_error(
    store: PostgresStorage, query: Query
) -> None:
    """Prepared statements are forgotten when a peer's DDL makes them wrong."""
    await store.memory.save_thread(thread())
    for _ in range(3):
        await store.memory.get_thread_by_id("t")
    query("ALTER TABLE mastra_threads ALTER COLUMN title TYPE varchar(500)")

    found = await store.memory.get_thread_by_id("t")

    assert found is not None


async def test_a_read_only_server_is_named(
    store: PostgresStorage, query: Query, url: str, context: AdapterContext
) -> None:
    address = f"{url}?options=-c%20default_transaction_read_only%3Don"
    async with PostgresStorage(address, context) as reading:
        assert None is await reading.memory.get_thread_by_id("t")
        with pytest.raises(StorageError, match="is read-only"):
            await reading.memory.save_thread(thread())


# -- races ------------------------------------------------------------------------------------


async def test_a_deadlock_is_repeated(store: PostgresStorage) -> None:
    """The server ends one of two transactions that wait for each other; it is tried again."""
    await asyncio.gather(*(store.memory.save_thread(thread(f"t{n}")) for n in range(2)))
    statements: Any = store.memory._sql
    get, update = statements.get_thread(), statements.update_thread({"title"})
    executor: Any = store._door

    def swapping(first: str, second: str) -> Any:
        def program() -> Any:
            yield (Step.of(get, {"id": first}),)
            yield (Step.of(get, {"id": second}),)
            yield (Step.of(update, {"key_id": second, "title": first}),)
            return True

        return program

    done = await asyncio.gather(
        *(executor.transact("swap", swapping("t0", "t1")) for _ in range(4)),
        *(executor.transact("swap", swapping("t1", "t0")) for _ in range(4)),
    )

    assert [True] * 8 == done


async def test_one_message_id_never_lands_in_two_threads(store: PostgresStorage) -> None:
    """Of two first writers one is told that the id belongs to another thread."""
    for number in range(20):
        results = await asyncio.gather(
            *(
                store.memory.save_messages(
                    [
                        Message(
                            id=f"m{number}",
                            role="user",
                            created_at=NOW,
                            thread_id=thread_id,
                            resource_id="u",
                            content={"format": 2, "parts": []},
                        )
                    ]
                )
                for thread_id in ("a", "b")
            ),
            return_exceptions=True,
        )
        [refused] = [result for result in results if isinstance(result, BaseException)]
        assert isinstance(refused, StorageError)
        [saved] = [result[0] for result in results if isinstance(result, list)]
        [found] = await store.memory.list_messages_by_id([f"m{number}"])
        assert saved.thread_id == found.thread_id


async def test_cancelled_calls_leave_no_transaction_and_no_lock(
    url: str, query: Query, context: AdapterContext
) -> None:
    """Wherever a call is cut short, its connection is soon as good as new."""
    async with PostgresStorage(url, context) as store:
        await store.memory.save_thread(thread())
        for turns in range(12):
            calls = [
                asyncio.ensure_future(store.memory.update_thread("t", metadata={f"k{n}": turns}))
                for n in range(6)
            ]
            for _ in range(turns):
                await asyncio.sleep(0)
            for call in calls[::2]:
                call.cancel()
            results = await asyncio.gather(*calls, return_exceptions=True)
            assert [] == [r for r in results[1::2] if isinstance(r, BaseException)]
        await until(lambda: not store.open_resources()["waiting_calls"])

        assert [] == query(
            "SELECT state FROM pg_stat_activity WHERE datname = current_database() "
            "AND state LIKE 'idle in transaction%'"
        )
        assert [(0,)] == query("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'")
        found = await store.memory.get_thread_by_id("t")
    assert found is not None
    assert {"k1", "k3", "k5"} <= set(found.metadata or {})


async def test_a_call_cancelled_while_it_waits_for_a_lock_frees_its_connection(
    url: str, query: Query, context: AdapterContext
) -> None:
    """The server is told to stop, though nobody waits for it any more."""
    async with PostgresStorage(url, context) as store:
        await store.memory.save_thread(thread())
        with locked(url, "SELECT 1 FROM mastra_threads FOR UPDATE"):
            call = asyncio.ensure_future(store.memory.update_thread("t", title="x"))
            await until(lambda: query(_WAITING))
            call.cancel()
            await until(lambda: not store.open_resources()["waiting_calls"])
            assert [] == query(_WAITING)

    assert call.cancelled()


async def test_closing_ends_calls_with_an_error(url: str, context: AdapterContext) -> None:
    async with PostgresStorage(url, context) as store:
        with locked(url):
            calls = [asyncio.ensure_future(store.memory.save_thread(thread())) for _ in range(3)]
            calls.append(asyncio.ensure_future(store.memory.update_thread("t", title="x")))
            await until(lambda: store.open_resources()["waiting_calls"])
            await store.aclose()
            results = await asyncio.gather(*calls, return_exceptions=True)
        held = store.open_resources()

    assert all(isinstance(result, StorageConnectionError) for result in results)
    assert {"connections": 0, "waiting_calls": 0} == dict(held)


# -- lost connections -------------------------------------------------------------------------

_TERMINATE = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
    "WHERE datname = current_database() AND pid <> pg_backend_pid()"
)


async def test_connections_lost_while_idle_are_replaced_unseen(
    store: PostgresStorage, query: Query
) -> None:
    await asyncio.gather(*(store.memory.save_thread(thread(f"t{n}")) for n in range(20)))
    query(_TERMINATE)
    await until(lambda: not store.open_resources()["connections"])

    await store.memory.save_thread(thread("after"))

    assert await store.memory.get_thread_by_id("after") is not None


async def test_a_read_cut_short_is_repeated(
    url: str, query: Query, context: AdapterContext
) -> None:
    async with PostgresStorage(url, context) as store:
        await store.memory.save_thread(thread())
        with locked(url, "LOCK TABLE mastra_threads IN ACCESS EXCLUSIVE MODE"):
            call = asyncio.ensure_future(store.memory.get_thread_by_id("t"))
            await until(lambda: query(_WAITING))
            [(first,)] = query(_WAITING)
            query("SELECT pg_terminate_backend(%s)", first)
            await until(lambda: {(first,)} != set(query(_WAITING)) != set())
            assert not call.done()

        assert await call is not None


async def test_a_write_cut_short_is_in_doubt(
    url: str, query: Query, context: AdapterContext
) -> None:
    """Nobody knows whether it was carried out, so it isn't repeated, and says so."""
    async with PostgresStorage(url, context) as store:
        with locked(url):
            call = asyncio.ensure_future(store.memory.save_thread(thread()))
            await until(lambda: query(_WAITING))
            query(f"SELECT pg_terminate_backend(pid) FROM ({_WAITING}) AS w")
            with pytest.raises(StorageConnectionError, match="carried out, or not") as caught:
                await call
        await store.memory.save_thread(thread())

    assert not caught.value.retryable
    assert "Read what is stored" in str(caught.value.hint)


@pytest.fixture
def own_server() -> Iterator[RunningServer]:
    """A server that only this test uses, and may stop."""
    product = product_named("postgres")
    found: Any = find_server(product, environ={})
    with start_server(product, found) as running:
        yield running


async def test_a_restarted_server_is_used_again(
    own_server: RunningServer, context: AdapterContext
) -> None:
    """While it is away calls fail with a typed error, soon afterwards they work."""
    async with PostgresStorage(own_server.url, context) as store:
        await store.memory.save_thread(thread())
        await asyncio.to_thread(own_server.kill)
        async with asyncio.timeout(60):
            with pytest.raises(StorageConnectionError):
                await store.memory.save_thread(thread("lost"))

        await asyncio.to_thread(own_server.start)
        found = await store.memory.get_thread_by_id("t")

    assert found is not None


async def test_a_frozen_server_ends_a_call_in_time(
    own_server: RunningServer, context: AdapterContext
) -> None:
    """Neither an answer nor a refusal comes, not even to the request to stop."""
    async with PostgresStorage(
        own_server.url, context, statement_timeout_ms=200, connect_timeout_ms=2000
    ) as store:
        await store.memory.save_thread(thread())
        own_server.pause()
        try:
            async with asyncio.timeout(60):
                with pytest.raises(StorageError):
                    await store.memory.save_thread(thread("x"))
        finally:
            own_server.resume()
        async with asyncio.timeout(60):
            assert await store.memory.get_thread_by_id("t") is not None


# -- poolers ----------------------------------------------------------------------------------

_FORGET = Step(plain("DEALLOCATE ALL", writes=True))


@pytest.mark.parametrize("prepared", ["auto", "on", "off"])
async def test_lost_prepared_statements_are_no_error(
    url: str, context: AdapterContext, prepared: Any
) -> None:
    """As behind a pooler that gives each transaction another connection."""
    async with PostgresStorage(url, context, prepared_statements=prepared) as store:
        executor: Any = store._door
        for n in range(5):
            await executor.write("forget", _FORGET)
            await store.memory.save_thread(thread(f"t{n}"))
            await executor.write("forget", _FORGET)
            await store.memory.update_thread(f"t{n}", title="x")
            await executor.write("forget", _FORGET)
            page = await store.memory.list_threads(resource_id="u")
        gathered = await asyncio.gather(
            *(store.memory.get_thread_by_id(f"t{n}") for n in range(5)),
            *(executor.write("forget", _FORGET) for _ in range(5)),
            *(store.memory.get_thread_by_id(f"t{n}") for n in range(5)),
        )

    assert ["x"] * 5 == [found.title for found in page.threads]
    assert None not in gathered
    assert 5 == page.total


async def test_the_end_of_a_transaction_is_never_prepared(
    url: str, query: Query, context: AdapterContext
) -> None:
    """A pooler that loses what is prepared must not lose the connection of a rollback with it."""
    async with PostgresStorage(url, context, pool_size=1, prepared_statements="on") as store:
        await store.memory.save_thread(thread("t"))
        for _ in range(3):
            with pytest.raises(ThreadNotFoundError):
                await store.memory.update_thread("unknown", title="x")
            await store.memory.update_thread("t", title="x")
        executor: Any = store._door
        known = await executor.read(
            "look", Step(plain("SELECT statement FROM pg_prepared_statements"))
        )

    prepared = [row[0] for row in known[0]]
    assert any("SELECT" in text for text in prepared)
    assert not any(text.startswith(("BEGIN", "COMMIT", "ROLLBACK")) for text in prepared)


async def test_no_setting_of_the_session_is_changed(
    url: str, query: Query, context: AdapterContext
) -> None:
    """Whoever gets the connection next from a pooler finds it as it was."""
    query(f"ALTER DATABASE {url.rpartition('/')[2]} SET timezone = 'Asia/Tokyo'")
    query(f"ALTER DATABASE {url.rpartition('/')[2]} SET datestyle = 'SQL, DMY'")
    async with PostgresStorage(url, context) as store:
        await store.memory.save_thread(thread())
        found = await store.memory.get_thread_by_id("t")
        [rows] = await store._door.read(
            "look",
            Step(plain("SELECT name, setting FROM pg_settings WHERE source = 'session'")),
        )

    assert found is not None
    assert NOW == found.created_at
    assert [] == [name for name, _ in rows if name != "transaction_isolation"]
