"""What goes wrong on real servers comes out as errors of ours, in time and with advice."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from pymongo import AsyncMongoClient
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import (
    AutoReconnect,
    NetworkTimeout,
    OperationFailure,
    ServerSelectionTimeoutError,
    WaitQueueTimeoutError,
)

from mastra_conformance.servers import find_server, product_named, start_server
from mastra_conformance.servers.product import Found
from mastra_core.errors import (
    InvalidUrlError,
    LeaseError,
    LeaseUnavailableError,
    MastraError,
    PubSubClosedError,
    PubSubConnectionError,
    PubSubError,
    StorageArgumentError,
    StorageConnectionError,
    StorageError,
    StorageSchemaError,
    StorageTimeoutError,
)
from mastra_core.wire.events import Event
from mastra_core.wire.messages import Message
from mastra_core.wire.notifications import CreateNotification
from mastra_mongodb import MongoLease, MongoPubSub, MongoStorage
from mastra_mongodb.errors import OldServerError, bus_errors, lease_errors, storage_errors

pytestmark = pytest.mark.anyio

Database = AsyncDatabase[dict[str, Any]]
NOW = datetime(2026, 1, 1, tzinfo=UTC)
BOTH = pytest.mark.parametrize("product", ["mongodb", "mongodb-standalone"])


def event(**members: Any) -> CreateNotification:
    return CreateNotification(thread_id="t", source="s", kind="k", summary="x", **members)


# -- no server --------------------------------------------------------------------------------


@pytest.fixture
def nowhere() -> str:
    """An address at which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    return f"mongodb://ann:s3cret@127.0.0.1:{port}/app?mastra_connect_timeout_ms=300"


async def test_an_absent_server_is_told_in_time(nowhere: str) -> None:
    """Storage, bus and leases each by an error of their own, without the password."""
    attempts: list[tuple[type[MastraError], Callable[[], Awaitable[Any]]]] = [
        (StorageConnectionError, MongoStorage(nowhere).init),
        (PubSubConnectionError, lambda: MongoPubSub(nowhere).get_history("t")),
        (LeaseUnavailableError, lambda: MongoLease(nowhere).get_lease("k")),
    ]
    for kind, attempt in attempts:
        begun = time.monotonic()
        with pytest.raises(kind, match="can't be reached") as caught:
            await attempt()

        assert time.monotonic() - begun < 5
        assert caught.value.retryable
        assert "s3cret" not in str(caught.value) + str(caught.value.details)
        assert "Is the server running" in str(getattr(caught.value, "hint", ""))


async def test_what_the_url_tells_the_driver_holds(server: str, database: Database) -> None:
    """Times and numbers of connections, too, for which we have options of our own."""
    mark = "&" if "?" in server else "?"
    url = f"{server}{mark}mastra_database={database.name}&maxPoolSize=3&appName=shop"
    async with MongoStorage(url) as store:
        health = await store.health()
        client = store._host.pool.client

    assert health.pool is not None
    assert 3 == health.pool.limit
    assert "shop" == client.options.pool_options.appname


async def test_a_server_without_tls_is_told(server: str) -> None:
    mark = "&" if "?" in server else "?"
    store = MongoStorage(f"{server}{mark}tls=true&mastra_connect_timeout_ms=1000")

    with pytest.raises(StorageConnectionError) as caught:
        await store.init()

    assert "TLS" in str(caught.value.hint)


@pytest.mark.parametrize(
    "url", ["mongodb://localhost/?replicaSet=", "mongodb://u:p@ss@h", "mongodb://h:port"]
)
async def test_an_address_that_cannot_be_is_told(url: str) -> None:
    with pytest.raises((InvalidUrlError, StorageError)):
        await MongoStorage(url, connect_timeout_ms=100).init()


# -- accounts ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def guarded() -> Iterator[str]:
    """A server that wants accounts; its only one may do everything."""
    product = product_named("mongodb-standalone")
    environ = {name: value for name, value in os.environ.items() if name != product.variable}
    found = find_server(product, environ=environ)
    if not isinstance(found, Found) or found.binary is None:
        pytest.fail(f"no mongod to start with accounts: {found}")
    arguments = product.arguments

    def with_accounts(port: int, data: Any) -> Any:
        return (*arguments(port, data), "--auth")

    with start_server(replace(product, arguments=with_accounts), found) as running:
        yield running.url


@pytest.fixture
async def admin(guarded: str) -> str:
    """The URL of an account that may do everything."""
    host = guarded.partition("://")[2].partition("/")[0]
    async with AsyncMongoClient[Any](guarded) as client:
        with contextlib.suppress(OperationFailure):  # it is there already
            await client.admin.command(
                "createUser", "root", pwd="root", roles=[{"role": "root", "db": "admin"}]
            )
    return f"mongodb://root:root@{host}/app?authSource=admin"


async def test_a_wrong_password_is_told(admin: str) -> None:
    url = admin.replace("root:root@", "root:wrong-one@")

    with pytest.raises(StorageError, match="user name or password") as caught:
        await MongoStorage(url).init()

    assert not caught.value.retryable
    assert "wrong-one" not in str(caught.value) + str(caught.value.details)


async def test_an_account_may_use_what_it_may_not_create(admin: str) -> None:
    """Without rights the empty database is refused; the complete one works."""
    rights = {
        "resource": {"db": "app", "collection": ""},
        "actions": ["find", "insert", "update", "remove", "listIndexes", "listCollections"],
    }
    async with AsyncMongoClient[Any](admin) as client:
        await client.app.command("createRole", "writer", privileges=[rights], roles=[])
        await client.app.command("createUser", "app", pwd="app", roles=["writer"])
    host = admin.partition("@")[2].partition("/")[0]
    limited = f"mongodb://app:app@{host}/app"

    with pytest.raises(StorageError, match="isn't allowed"):
        await MongoStorage(limited).init()
    async with MongoStorage(admin), MongoLease(admin):
        pass
    async with MongoStorage(limited) as store, MongoLease(limited) as leases:
        record = await store.notifications.create_notification(event(dedupe_key="d"))
        assert await store.notifications.get_notification("t", record.id)
        assert await leases.acquire_lease("k", "o", 1000)


# -- limits -----------------------------------------------------------------------------------


@BOTH
async def test_what_is_over_sixteen_megabytes_is_refused_before_it_is_written(
    store: MongoStorage,
) -> None:
    """The caller's fault, by name; what was there stays."""
    big = "x" * (17 * 1024 * 1024)
    message = Message(
        id="m",
        role="user",
        thread_id="t",
        resource_id="u",
        created_at=NOW,
        content={"format": 2, "parts": [{"type": "text", "text": big}]},
    )
    record = await store.notifications.create_notification(event())
    key = {"workflow_name": "w", "run_id": "r"}
    await store.workflows.persist_workflow_snapshot(**key, snapshot={"context": {}})
    writes: list[Callable[[], Awaitable[Any]]] = [
        lambda: store.notifications.create_notification(event(payload={"big": big})),
        lambda: store.memory.save_messages([message]),
        lambda: store.thread_state.set_state("t", "x", big),
        lambda: store.workflows.persist_workflow_snapshot(**key, snapshot={"big": big}),
        lambda: store.workflows.update_workflow_results(**key, step_id="s", result={"b": big}),
    ]

    for write in writes:
        with pytest.raises(StorageArgumentError):
            await write()

    assert [record] == await store.notifications.list_notifications("t")
    assert {"context": {}} == await store.workflows.load_workflow_snapshot(**key)
    assert [] == (await store.memory.list_messages("t")).messages


@BOTH
async def test_odd_texts_are_refused_where_text_must_be_plain(store: MongoStorage) -> None:
    with pytest.raises(StorageArgumentError, match="lone surrogate"):
        await store.notifications.create_notification(
            CreateNotification(thread_id="t", source="s", kind="k", summary="cut \ud83d")
        )


async def test_a_busy_pool_is_told_in_time(server: str, database: Database) -> None:
    """All connections are taken by slow questions; the next caller doesn't wait for ever."""
    await database.slow.insert_one({})
    async with MongoStorage(
        server, database=database.name, pool_size=1, request_timeout_ms=700
    ) as store:
        pool = store._host.pool  # a question that is slow can't be asked through the contract
        waiting = asyncio.gather(*(slow_question(pool) for _ in range(4)), return_exceptions=True)
        with pytest.raises(StorageTimeoutError):
            await asyncio.gather(*(store.memory.list_threads() for _ in range(12)))
        await waiting


async def slow_question(pool: Any) -> Any:
    return await pool.collection("slow").find({"$where": "sleep(400) || true"}).to_list()


# -- closing ----------------------------------------------------------------------------------


@BOTH
async def test_a_closed_store_says_so(server: str, database: Database) -> None:
    store = MongoStorage(server, database=database.name)
    bus, leases = (kind(server, database=database.name) for kind in (MongoPubSub, MongoLease))
    with pytest.raises(StorageConnectionError, match="not opened yet"):
        await store.memory.list_threads()

    async with store, bus, leases:
        pass

    with pytest.raises(StorageConnectionError, match="closed"):
        await store.memory.list_threads()
    with pytest.raises(PubSubClosedError):
        await bus.publish("t", Event(type="x", run_id="r", data=1))
    with pytest.raises(PubSubClosedError):
        await leases.acquire_lease("k", "o", 1000)
    assert {0} == {*store.open_resources().values(), *leases.open_resources().values()}


@BOTH
async def test_cancelling_leaves_nothing_behind(
    server: str, store: MongoStorage, database: Database
) -> None:
    """At whatever point: no open transaction, no connection that is never given back."""
    for number in range(20):
        task = asyncio.create_task(
            store.notifications.create_notification(
                event(dedupe_key=f"d{number}", metadata={"n": number})
            )
        )
        for _ in range(number * 3):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])

    assert await asyncio.gather(
        *(store.notifications.create_notification(event(dedupe_key="last")) for _ in range(20))
    )
    status = await database.client.admin.command("serverStatus")
    assert 0 == status.get("transactions", {}).get("currentOpen", 0)
    [last] = await store.notifications.list_notifications("t", search=None, limit=1)
    assert 20 == last.coalesced_count


# -- exceptions of the driver -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("raised", "kind", "words"),
    [
        (ServerSelectionTimeoutError("No primary"), StorageConnectionError, "can't be reached"),
        (NetworkTimeout("timed out"), StorageTimeoutError, "in time"),
        (WaitQueueTimeoutError("no connection"), StorageTimeoutError, "became free"),
        (AutoReconnect("reset"), StorageConnectionError, "broke"),
        (OperationFailure("no", 13), StorageError, "isn't allowed"),
        (OperationFailure("no", 50), StorageTimeoutError, "in time"),
        (OperationFailure("no", 14031), StorageError, "disk"),
        (OperationFailure("odd thing", 9), StorageError, "odd thing"),
        (OldServerError("5.0.1"), StorageSchemaError, "5.0.1"),
        (OverflowError("big"), StorageArgumentError, "64 bits"),
    ],
)
def test_each_exception_has_its_error(
    raised: Exception, kind: type[StorageError], words: str
) -> None:
    with pytest.raises(kind, match=words) as caught, storage_errors("save", "mongodb://h"):
        raise raised

    assert caught.value.__cause__ is raised
    assert "MASTRA_STORAGE_MONGODB_SAVE_FAILED" == caught.value.id


def test_a_write_of_unknown_outcome_is_not_for_repeating() -> None:
    with pytest.raises(StorageConnectionError) as caught, storage_errors("save", "h"):
        raise AutoReconnect("reset")

    assert not caught.value.retryable


def test_bus_and_leases_have_errors_of_their_own() -> None:
    with pytest.raises(PubSubConnectionError), bus_errors("publish", "h"):
        raise AutoReconnect("reset")
    with pytest.raises(PubSubError, match="refused"), bus_errors("publish", "h"):
        raise OperationFailure("no", 9)
    with pytest.raises(LeaseUnavailableError), lease_errors("acquire", "h"):
        raise NetworkTimeout("slow")
    with pytest.raises(LeaseError, match="refused"), lease_errors("acquire", "h"):
        raise OperationFailure("no", 9)


async def test_a_lost_cancellation_is_noticed_at_the_door() -> None:
    """The driver may lose one that comes as a write to its socket ends (Python 3.11)."""

    async def careless() -> None:
        with storage_errors("save", "h"), contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(10)

    task = asyncio.create_task(careless())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])

    assert task.cancelled()
