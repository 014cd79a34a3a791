"""What a server refuses or fails to do, said in words of ours, in time, by real servers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from redis.asyncio import Redis
from redis.exceptions import BusyLoadingError, MaxConnectionsError, ResponseError
from redis.exceptions import ConnectionError as RedisConnectionError

from mastra_conformance.servers import RunningServer
from mastra_conformance.servers.local import free_port
from mastra_core.errors import (
    InvalidUrlError,
    LeaseUnavailableError,
    MastraError,
    PubSubConnectionError,
    StorageConnectionError,
    StorageError,
    StorageTimeoutError,
)
from mastra_core.wire.events import Event
from mastra_core.wire.notifications import CreateNotification
from mastra_redis import RedisLease, RedisPubSub, RedisStorage
from mastra_redis.errors import Kind, fault_of

pytestmark = pytest.mark.anyio

SOON = 10.0


def an_event() -> CreateNotification:
    return CreateNotification(thread_id="t", source="s", kind="k", summary="x")


async def refusal(url: str, **options: Any) -> MastraError:
    """Why a store doesn't open."""
    with pytest.raises(StorageError) as caught:
        async with asyncio.timeout(SOON), RedisStorage(url, **options):
            pass
    return caught.value


@asynccontextmanager
async def configured(server: RunningServer, *command: Any) -> AsyncIterator[Redis]:
    """Somebody at the server who has just given a command."""
    async with Redis.from_url(server.url) as client:
        await client.execute_command(*command)
        yield client


# -- opening -----------------------------------------------------------------------------------


async def test_an_absent_server_is_told_at_once() -> None:
    error = await refusal(f"redis://127.0.0.1:{free_port()}")

    assert isinstance(error, StorageConnectionError)
    assert error.retryable
    assert "can't be reached" in error.message
    assert "unreachable" == error.details["reason"]


async def test_bus_and_leases_say_it_in_their_own_words() -> None:
    url = f"redis://127.0.0.1:{free_port()}"

    with pytest.raises(PubSubConnectionError, match="can't be reached"):
        await RedisPubSub(url).publish("t", Event(type="x", run_id="r", data=1))
    with pytest.raises(LeaseUnavailableError, match="can't be reached"):
        await RedisLease(url).acquire_lease("k", "o", 1000)


async def test_a_wrong_password_is_no_network_fault(own_server: RunningServer) -> None:
    async with configured(own_server, "CONFIG", "SET", "requirepass", "right"):
        host = own_server.url.removeprefix("redis://")

        missing = await refusal(f"redis://{host}")
        wrong = await refusal(f"redis://:wrong@{host}")
        async with RedisStorage(f"redis://:right@{host}") as store:
            assert 0 == (await store.memory.list_threads()).total

    for error in (missing, wrong):
        assert "authentication" == error.details["reason"]
        assert not error.retryable
        assert "wrong" not in error.message
        assert error.hint is not None
        assert "user and password" in error.hint


async def test_a_user_without_rights_is_told_what_is_missing(own_server: RunningServer) -> None:
    rules = ("on", ">pw", "~*", "&*", "+@all", "-set", "-evalsha", "-eval")
    async with configured(own_server, "ACL", "SETUSER", "weak", *rules):
        url = own_server.url.replace("redis://", "redis://weak:pw@")

        error = await refusal(url)

    assert "permission" == error.details["reason"]
    assert not error.retryable


async def test_a_user_without_tracking_still_sees_what_others_write(
    own_server: RunningServer,
) -> None:
    """Lists look at all keys then; it costs time, not results."""
    rules = ("on", ">pw", "~*", "&*", "+@all", "-client|tracking")
    async with configured(own_server, "ACL", "SETUSER", "plain", *rules) as client:
        url = own_server.url.replace("redis://", "redis://plain:pw@")
        async with RedisStorage(url) as store:
            await client.set(
                "mastra_threads:id:n1",
                '{"id":"n1","resourceId":"r","title":"Node","createdAt":'
                '"2026-01-01T00:00:00.000Z","updatedAt":"2026-01-01T00:00:00.000Z"}',
            )

            assert ["Node"] == [t.title for t in (await store.memory.list_threads()).threads]


async def test_a_wrong_database_is_named(own_server: RunningServer) -> None:
    error = await refusal(own_server.url.replace("/0", "/99"))

    assert "wrong_database" == error.details["reason"]


async def test_tls_to_a_server_without_it_is_hinted_at(own_server: RunningServer) -> None:
    error = await refusal(own_server.url.replace("redis://", "rediss://"), connect_timeout_ms=2000)

    assert isinstance(error, StorageConnectionError)
    assert error.hint is not None
    assert "redis://" in error.hint


def test_a_certificate_that_nobody_vouches_for_is_hinted_at() -> None:
    """Another scheme wouldn't help."""
    fault = fault_of(
        RedisConnectionError(
            "Error 1 connecting to db:6379. [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify "
            "failed: self-signed certificate."
        )
    )

    assert "ssl_ca_certs" in str(fault.hint)


async def test_a_server_that_hangs_up_may_want_tls() -> None:
    """As one does that speaks TLS only."""

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.close()

    listening = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    try:
        port = listening.sockets[0].getsockname()[1]
        error = await refusal(f"redis://127.0.0.1:{port}", connect_timeout_ms=2000)
    finally:
        listening.close()

    assert isinstance(error, StorageConnectionError)
    assert error.hint is not None
    assert "rediss://" in error.hint


@pytest.mark.parametrize("url", ["http://localhost", "redis+unix://", "redis+tcp://localhost"])
def test_a_url_of_somebody_else_is_refused(url: str) -> None:
    with pytest.raises(InvalidUrlError):
        RedisStorage(url)


# -- while it is open --------------------------------------------------------------------------


async def test_a_full_memory_writes_nothing_and_says_so(own_server: RunningServer) -> None:
    """Reads go on; with room again, so do writes."""
    async with RedisStorage(own_server.url) as store:
        await store.notifications.create_notification(an_event())
        async with configured(own_server, "CONFIG", "SET", "maxmemory", "1") as client:
            with pytest.raises(StorageConnectionError, match="out of memory") as caught:
                await store.notifications.create_notification(an_event())
            with pytest.raises(StorageConnectionError, match="out of memory"):
                await store.workflows.persist_workflow_snapshot(
                    workflow_name="w", run_id="r", snapshot={"status": "running", "context": {}}
                )
            assert 1 == len(await store.notifications.list_notifications("t"))
            await client.config_set("maxmemory", "0")
        await store.notifications.create_notification(an_event())

        assert "out_of_memory" == caught.value.details["reason"]
        assert caught.value.retryable
        assert 2 == len(await store.notifications.list_notifications("t"))
        assert 0 == (await store.workflows.list_workflow_runs()).total


async def test_a_replica_refuses_writes(own_server: RunningServer) -> None:
    async with RedisStorage(own_server.url) as store:
        async with configured(own_server, "REPLICAOF", "127.0.0.1", free_port()) as client:
            with pytest.raises(StorageConnectionError, match="is a replica") as caught:
                await store.notifications.create_notification(an_event())
            await client.execute_command("REPLICAOF", "NO", "ONE")

        assert "read_only" == caught.value.details["reason"]


async def test_a_busy_script_of_somebody_else_is_told(own_server: RunningServer) -> None:
    async with (
        configured(own_server, "CONFIG", "SET", "lua-time-limit", "50") as client,
        RedisStorage(own_server.url) as store,
        Redis.from_url(own_server.url) as busy,
    ):
        endless = asyncio.create_task(busy.eval("while true do end", 0))
        try:
            error = await eventually(lambda: store.memory.get_thread_by_id("t"))
        finally:
            await client.execute_command("SCRIPT", "KILL")
            await asyncio.wait([endless])

        assert isinstance(endless.exception(), ResponseError)
        assert "busy_script" == error.details["reason"]
        assert None is await store.memory.get_thread_by_id("t")


async def eventually(call: Callable[[], Awaitable[object]]) -> StorageError:
    """The first error of a call that is repeated until it has one."""
    async with asyncio.timeout(SOON):
        while True:
            try:
                await call()
            except StorageError as error:
                return error


async def test_a_paused_server_costs_no_more_than_the_deadline(own_server: RunningServer) -> None:
    """Nobody knows whether a write was done, so it isn't called repeatable."""
    import signal

    async with RedisStorage(own_server.url, request_timeout_ms=300) as store:
        own_server.signal(signal.SIGSTOP)
        try:
            with pytest.raises(StorageTimeoutError) as caught:
                async with asyncio.timeout(SOON):
                    await store.thread_state.set_state("t", "x", 1)
        finally:
            own_server.signal(signal.SIGCONT)
        await store.thread_state.set_state("t", "x", 2)

        assert not caught.value.retryable
        assert 2 == await store.thread_state.get_state("t", "x")


async def test_a_killed_server_loses_nothing_that_was_acknowledged(
    own_server: RunningServer,
) -> None:
    """Calls during the outage raise or work; afterwards everything works again."""
    # With ``everysec`` a slow disk lets the server answer up to two seconds before it writes.
    async with configured(own_server, "CONFIG", "SET", "appendfsync", "always"):
        pass
    async with RedisStorage(own_server.url, connect_timeout_ms=15_000) as store:
        done: list[int] = []

        async def write(number: int) -> None:
            await store.thread_state.set_state("t", str(number), number)
            done.append(number)

        running = [asyncio.create_task(write(n)) for n in range(50)]
        await asyncio.to_thread(own_server.restart, immediate=True)
        results = await asyncio.gather(*running, return_exceptions=True)
        states = await store.thread_state.list_states("t")

    assert all(result is None or isinstance(result, StorageError) for result in results)
    assert set(done) <= set(states.values())


async def test_a_closed_store_refuses(url: str) -> None:
    store = RedisStorage(url)
    async with store:
        pass

    with pytest.raises(StorageConnectionError, match="closed"):
        await store.memory.get_thread_by_id("t")


# -- what can't be brought about here ------------------------------------------------------------


@pytest.mark.parametrize(
    ("failure", "reason", "kind"),
    [
        (BusyLoadingError("Redis is loading the dataset in memory"), "loading", Kind.NOT_NOW),
        (ResponseError("LOADING Redis is loading the dataset"), "loading", Kind.NOT_NOW),
        (ResponseError("MISCONF Redis is configured to save RDB"), "disk", Kind.NOT_NOW),
        (ResponseError("MOVED 3999 127.0.0.1:6381"), "cluster", Kind.REFUSED),
        (ResponseError("CROSSSLOT Keys don't hash to the same slot"), "cluster", Kind.REFUSED),
        (ResponseError("CLUSTERDOWN The cluster is down"), "cluster", Kind.NOT_NOW),
        (ResponseError("MASTERDOWN Link with MASTER is down"), "read_only", Kind.NOT_NOW),
        (ResponseError("unknown command 'XAUTOCLAIM'"), "too_old", Kind.REFUSED),
        (MaxConnectionsError("max number of clients reached"), "too_many_clients", Kind.NOT_NOW),
        (ValueError("odd"), "failed", Kind.REFUSED),
    ],
)
async def test_other_refusals_have_a_reason(failure: Exception, reason: str, kind: Kind) -> None:
    fault = fault_of(failure)

    assert (reason, kind) == (fault.reason, fault.kind)
