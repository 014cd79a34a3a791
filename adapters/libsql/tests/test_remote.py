"""A real libSQL server: both protocols, races, and what happens when it is gone."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import uuid
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import pytest

from mastra_conformance.faults.proxy import Direction, Network
from mastra_conformance.suites.pubsub.support import Recorder, make_event
from mastra_core.errors import (
    FencedOutError,
    StorageArgumentError,
    StorageConflictError,
    StorageConnectionError,
    StorageTimeoutError,
)
from mastra_core.wire.notifications import CreateNotification
from mastra_core.wire.snapshots import ResumeClaim
from mastra_core.wire.threads import Thread
from mastra_libsql import LibSQLStorage
from mastra_libsql.guards import guards
from mastra_libsql.pubsub import LibSQLPubSub
from mastra_sql.executor import Step
from mastra_sql.statement import plain

pytestmark = pytest.mark.anyio

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(params=["http", "ws"])
def url(request: pytest.FixtureRequest, local_server: Callable[[str], Any]) -> str:
    """A running server, by each of the protocols that it speaks on one port."""
    address: str = local_server("sqld").url
    return f"libsql+{request.param}://{address.partition('://')[2]}"


@pytest.fixture
async def remote(url: str) -> AsyncIterator[LibSQLStorage]:
    """A store with tables of its own on the server."""
    prefix = f"t{uuid.uuid4().hex[:8]}_"
    async with LibSQLStorage(url, prefix=prefix) as store:
        yield store


def thread(**fields: Any) -> Thread:
    return Thread(id="t", resource_id="u", created_at=NOW, updated_at=NOW, **fields)


async def test_parallel_updates_of_one_row_are_all_there(remote: LibSQLStorage) -> None:
    """Nobody's write is lost, whether the server locks or the race is seen at the commit."""
    await remote.memory.save_thread(thread(metadata={}))

    await asyncio.gather(
        *(remote.memory.update_thread("t", metadata={f"k{n}": n}) for n in range(12))
    )

    stored = await remote.memory.get_thread_by_id("t")
    assert stored is not None
    assert {f"k{n}": n for n in range(12)} == stored.metadata


async def test_parallel_creates_with_one_key_make_one_record(url: str) -> None:
    """Two stores with connections of their own, as two processes have them."""
    prefix = f"t{uuid.uuid4().hex[:8]}_"
    async with (
        LibSQLStorage(url, prefix=prefix) as first,
        LibSQLStorage(url, prefix=prefix) as second,
    ):
        event = CreateNotification(
            thread_id="t", source="s", kind="k", summary="x", dedupe_key="one"
        )
        await asyncio.gather(
            *(store.notifications.create_notification(event) for store in (first, second) * 8)
        )

        [record] = await first.notifications.list_notifications("t")
        assert 16 == record.coalesced_count


async def test_losing_again_and_again_is_worth_another_try(url: str) -> None:
    """Without patience some lose: nothing of theirs is written, and the error says so."""
    prefix = f"t{uuid.uuid4().hex[:8]}_"
    async with LibSQLStorage(url, prefix=prefix, busy_timeout_ms=1) as store:
        await store.memory.save_thread(thread(metadata={}))
        ended = await asyncio.gather(
            *(store.memory.update_thread("t", metadata={f"k{n}": n}) for n in range(12)),
            return_exceptions=True,
        )
        stored = await store.memory.get_thread_by_id("t")

    refused = [error for error in ended if isinstance(error, BaseException)]
    assert refused
    assert [] == [error for error in refused if not isinstance(error, StorageTimeoutError)]
    assert all(error.retryable for error in refused if isinstance(error, StorageTimeoutError))
    assert stored is not None
    assert len(ended) - len(refused) == len(stored.metadata or {})


async def test_one_of_many_resumes_wins(remote: LibSQLStorage) -> None:
    key = {"workflow_name": "agentic-loop", "run_id": "r"}
    await remote.workflows.persist_workflow_snapshot(
        **key, snapshot={"status": "suspended", "context": {}}
    )
    now = datetime.now(UTC)

    outcomes = await asyncio.gather(
        *(
            remote.workflows.claim_resume(
                **key,
                claim=ResumeClaim(
                    claim_id=f"c{n}",
                    owner="o",
                    payload_hash="h",
                    acquired_at=now,
                    expires_at=now + timedelta(minutes=1),
                ),
            )
            for n in range(8)
        )
    )

    assert 1 == sum(map(bool, outcomes))


async def test_a_stale_version_is_refused(remote: LibSQLStorage) -> None:
    key = {"workflow_name": "w", "run_id": "r"}
    await remote.workflows.persist_workflow_snapshot(**key, snapshot={"n": 1})
    run = await remote.workflows.load_workflow_run(**key, with_version=True)
    assert run is not None
    await remote.workflows.persist_workflow_snapshot(**key, snapshot={"n": 2})

    with pytest.raises(StorageConflictError):
        await remote.workflows.persist_workflow_snapshot(
            **key, snapshot={"n": 3}, expected_version=run.version
        )

    assert {"n": 2} == await remote.workflows.load_workflow_snapshot(**key)


async def test_odd_text_survives_the_wire(remote: LibSQLStorage) -> None:
    odd = {"nul": "a\0b", "lone": "x\ud800y", "pair": "\U0001f600", "big": 2**70}

    await remote.workflows.persist_workflow_snapshot(workflow_name="w", run_id="r", snapshot=odd)

    assert odd == await remote.workflows.load_workflow_snapshot(workflow_name="w", run_id="r")


async def test_an_answer_of_many_megabytes_arrives(remote: LibSQLStorage) -> None:
    """It is larger than what the driver takes in one message when left alone."""
    for number in range(6):
        await remote.workflows.persist_workflow_snapshot(
            workflow_name="w", run_id=f"r{number}", snapshot={"text": "x" * 900_000}
        )

    page = await remote.workflows.list_workflow_runs(workflow_name="w")

    assert 6 == len(page.runs)


async def test_a_lone_surrogate_in_a_text_column_breaks_no_connection(
    remote: LibSQLStorage,
) -> None:
    """It is refused before it is sent: a server hangs up on it, for everybody."""
    with pytest.raises(StorageArgumentError, match="lone surrogate"):
        await remote.memory.save_thread(thread(title="half \ud83d"))

    assert (await remote.memory.save_thread(thread(title="whole"))).title == "whole"


async def test_cancelled_callers_leave_no_lock(remote: LibSQLStorage) -> None:
    """A sweep: cancel a transaction after n turns of the loop, then write at once."""
    await remote.memory.save_thread(thread(metadata={}))
    for turns in range(0, 40, 3):
        task = asyncio.create_task(remote.memory.update_thread("t", metadata={"n": turns}))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        async with asyncio.timeout(60):
            await remote.memory.save_thread(thread(metadata={"after": turns}))


@pytest.fixture
async def network(url: str) -> AsyncIterator[Network]:
    """A way to the server that a test can break."""
    way = Network("127.0.0.1", urlsplit(url).port or 0)
    await way.open()
    yield way
    await way.close()


@pytest.fixture
async def far(url: str, network: Network) -> AsyncIterator[LibSQLStorage]:
    """A store at the other end of it, with a thread in it."""
    address = f"{url.partition('://')[0]}://127.0.0.1:{network.port}"
    async with LibSQLStorage(address, prefix=f"t{uuid.uuid4().hex[:8]}_") as store:
        await store.memory.save_thread(thread(metadata={}))
        yield store


async def test_a_read_outlives_its_connection(far: LibSQLStorage, network: Network) -> None:
    """Whether it broke before or under way: reading again is harmless."""
    for _ in range(3):
        network.reset()
        assert await far.memory.get_thread_by_id("t") is not None
    network.cut_after(20, Direction.TO_SERVER)
    assert await far.memory.get_thread_by_id("t") is not None


async def test_a_write_that_nobody_answered_is_in_doubt(
    far: LibSQLStorage, network: Network
) -> None:
    """It isn't sent again, and the caller is told not to do so blindly."""
    network.lose_replies()
    with pytest.raises(StorageConnectionError, match="carried out, or not") as caught:
        await far.notifications.create_notification(
            CreateNotification(thread_id="t", source="s", kind="k", summary="x")
        )
    await network.heal()

    assert not caught.value.retryable
    assert len(await far.notifications.list_notifications("t")) <= 1


async def test_a_write_that_was_never_sent_may_be_repeated(
    far: LibSQLStorage, network: Network
) -> None:
    network.cut()
    with pytest.raises(StorageConnectionError):
        # It may find a broken connection first, which says nothing about what was sent.
        await far.memory.save_thread(thread(metadata={"n": 0}))
    with pytest.raises(StorageConnectionError, match="can't be reached") as caught:
        await far.memory.save_thread(thread(metadata={"n": 1}))

    assert caught.value.retryable


async def test_a_client_that_stops_in_the_middle_holds_nobody_up(
    url: str, network: Network, far: LibSQLStorage
) -> None:
    """However far it came: what others write waits for no lock of a client that is gone."""
    async with LibSQLStorage(url, prefix=far.settings.prefix, busy_timeout_ms=1) as near:
        for count in range(50, 2000, 150):
            enough = network.carried[Direction.TO_SERVER] + count
            change = asyncio.create_task(far.memory.update_thread("t", metadata={"n": count}))
            while not change.done() and network.carried[Direction.TO_SERVER] < enough:  # noqa: ASYNC110 - as exactly as can be
                await asyncio.sleep(0)
            network.blackhole()
            await near.memory.save_thread(thread(metadata={"near": count}))
            await network.heal()
            await asyncio.wait([change])
            assert not change.cancelled()


async def test_a_server_that_is_not_there(unused_tcp_port: int) -> None:
    for scheme in ("libsql+http", "libsql+ws"):
        with pytest.raises(StorageConnectionError, match="can't be reached") as caught:
            await LibSQLStorage(f"{scheme}://127.0.0.1:{unused_tcp_port}").init()

        assert caught.value.retryable
        assert "Is the server running" in str(caught.value.hint)


async def test_tls_to_a_server_without_it_is_hinted_at(url: str) -> None:
    secure = url.replace("://", "s://")
    with pytest.raises(StorageConnectionError) as caught:
        await LibSQLStorage(secure).init()

    assert "may not speak TLS" in str(caught.value.hint)


async def test_a_server_that_never_answers(unused_tcp_port: int) -> None:
    """The wait is bounded, and the error says for whom."""
    held: list[asyncio.StreamWriter] = []
    server = await asyncio.start_server(
        lambda _, writer: held.append(writer), "127.0.0.1", unused_tcp_port
    )
    try:
        with pytest.raises(StorageTimeoutError, match="didn't answer in time"):
            await LibSQLStorage(
                f"libsql+http://127.0.0.1:{unused_tcp_port}", request_timeout_ms=200
            ).init()
    finally:
        for writer in held:
            writer.close()
        server.close()
        await server.wait_closed()


async def test_a_token_in_the_url_is_never_shown(unused_tcp_port: int) -> None:
    url = f"libsql+http://127.0.0.1:{unused_tcp_port}?authToken=s3cret-token"

    with pytest.raises(StorageConnectionError) as caught:
        await LibSQLStorage(url).init()

    assert "s3cret" not in f"{caught.value} {caught.value.details} {caught.value.hint}"


async def test_a_refused_token(unused_tcp_port: int) -> None:
    """A server that answers 401 leads to advice about the token."""

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        body = b'{"message":"Unauthorized","code":"AUTH_JWT_INVALID"}'
        head = f"HTTP/1.1 401 Unauthorized\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"  # fmt: skip
        writer.write(head.encode() + body)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", unused_tcp_port)
    try:
        with pytest.raises(StorageConnectionError, match="refused the token") as caught:
            await LibSQLStorage(
                f"libsql+http://127.0.0.1:{unused_tcp_port}", auth_token="wrong"
            ).init()
    finally:
        server.close()
        await server.wait_closed()

    assert "auth_token" in str(caught.value.hint)


@pytest.fixture
def unused_tcp_port() -> int:
    """A port of this machine that nobody listens on."""

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


async def test_a_guard_holds_for_rows_with_bytes_too() -> None:
    """Rows with bytes are compared one by one, others as one JSON list."""
    step = Step(plain("SELECT id, raw FROM x WHERE id = ?", columns=("id", "raw")), ("a",))

    for_text = guards(step, [("a", "text")])
    for_bytes = guards(step, [("a", b"\x00\xff")])

    assert 1 == len(for_text) == len(for_bytes)
    assert '[["a","text"]]' == for_text[0][1][1]
    assert b"\x00\xff" in for_bytes[0][1]


async def test_a_bus_on_a_server(url: str) -> None:
    """Two users of a server: fan-out, a group with a retry, a dead letter, a fence, a lease."""
    prefix = f"t{uuid.uuid4().hex[:8]}_"
    options: dict[str, Any] = {"prefix": prefix, "max_delivery_attempts": 2, "retry_base_ms": 20}

    async with LibSQLPubSub(url, **options) as one, LibSQLPubSub(url, **options) as two:
        fan, failing = Recorder(), Recorder(lambda event, ack, nack, extend: nack("no"))
        await one.subscribe("t", fan)
        await one.subscribe("t", failing, group="g")
        for number in range(5):
            await two.publish("t", make_event(number), dedupe_id=f"d{number}")
            await two.publish("t", make_event(number), dedupe_id=f"d{number}")
        await fan.until(5)
        await failing.until(10)
        await one.flush()

        assert list(range(5)) == fan.data
        assert list(range(5)) == [event.index for event in fan.events]
        assert 5 == len(await two.list_dead("t", group="g"))

        lease, other = one.get_lease_provider(), two.get_lease_provider()
        old = await lease.acquire_lease("k", "a", 60_000)
        assert not await other.acquire_lease("k", "b", 60_000)
        new = await lease.transfer_lease("k", "a", "b", 60_000)
        await two.publish("t", make_event("new"), fence=("k", new.fence or 0))
        with pytest.raises(FencedOutError):
            await one.publish("t", make_event("old"), fence=("k", old.fence or 0))
        await fan.until(6)
        assert fan.data[-1] == "new"
