"""What only replica sets can do to us: another primary, and a log of the server that is too short.

The servers are small and the test's own: it makes them step down, kills and fills them.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import textwrap
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from pymongo import AsyncMongoClient
from pymongo.errors import PyMongoError

from mastra_conformance import case
from mastra_conformance.faults.outcomes import until
from mastra_conformance.outcomes import not_run
from mastra_conformance.servers import (
    Missing,
    Product,
    RunningServer,
    find_server,
    product_named,
    start_server,
)
from mastra_conformance.suites.faults.publishing import (
    GroupReaderLog,
    Publisher,
    once_in_order,
)
from mastra_conformance.suites.pubsub.support import Recorder
from mastra_core.wire.events import Event
from mastra_mongodb import MongoPubSub

pytestmark = pytest.mark.anyio

_DEADLINE_S: Final = 60.0
_PAUSE_S: Final = 0.05
#: A work queue: never less than durable.
_TOPIC: Final = "workflows"
_MORE: Final = 20

Client = AsyncMongoClient[dict[str, Any]]


def _small(product: Product, *, oplog_mib: int) -> Product:
    """The product with a short log, which is no replica set before somebody makes it one."""

    def arguments(port: int, data: Path) -> Sequence[str]:
        given = list(product.arguments(port, data))
        given[given.index("--oplogSize") + 1] = str(oplog_mib)
        # What a crash of the server would need is kept until the next checkpoint.
        return [*given, "--syncdelay", "1"]

    return replace(product, arguments=arguments)


@asynccontextmanager
async def _servers(count: int, *, oplog_mib: int) -> AsyncIterator[list[RunningServer]]:
    """So many members of one replica set that has a primary."""
    product = _small(product_named("mongodb"), oplog_mib=oplog_mib)
    found = find_server(product, environ={"PATH": os.environ.get("PATH", "")})
    if isinstance(found, Missing):
        not_run(found.reason, command=found.command)
    if count > 1:
        product = replace(product, ready=None)
    with ExitStack() as stack:
        servers = [
            await asyncio.to_thread(stack.enter_context, start_server(product, found))
            for _ in range(count)
        ]
        if count > 1:
            await _found_set(servers)
        yield servers
        await asyncio.to_thread(stack.close)


async def _found_set(servers: Sequence[RunningServer]) -> None:
    members = [
        {"_id": number, "host": f"127.0.0.1:{server.port}"} for number, server in enumerate(servers)
    ]
    settings = {"electionTimeoutMillis": 1_000, "heartbeatIntervalMillis": 200}
    async with _direct(servers[0]) as client:
        await client.admin.command(
            {"replSetInitiate": {"_id": "rs0", "members": members, "settings": settings}}
        )
    await _primary(servers)


def _direct(server: RunningServer) -> Client:
    return AsyncMongoClient(
        "127.0.0.1", server.port, directConnection=True, serverSelectionTimeoutMS=2_000
    )


async def _primary(
    servers: Sequence[RunningServer], *, but: RunningServer | None = None
) -> RunningServer:
    """The member that is the primary, as soon as one is."""
    async with asyncio.timeout(_DEADLINE_S):
        while True:
            for server in servers:
                if server is not but and server.is_running:
                    with suppress(PyMongoError):
                        async with _direct(server) as client:
                            if (await client.admin.command("hello"))["isWritablePrimary"]:
                                return server
            await asyncio.sleep(_PAUSE_S)


def _url_of(servers: Sequence[RunningServer]) -> str:
    hosts = ",".join(f"127.0.0.1:{server.port}" for server in servers)
    return f"mongodb://{hosts}/test?replicaSet=rs0"


@case("pubsub_and_lease", 79)
async def test_another_primary_loses_no_accepted_event() -> None:
    """It steps down under load, then its successor dies: all is there, in order, without a hole."""
    seen, group, is_over = Recorder(), GroupReaderLog(), False
    async with _servers(3, oplog_mib=64) as servers, AsyncExitStack() as stack:
        url = _url_of(servers)
        reader, writer = [
            await stack.enter_async_context(MongoPubSub(url, max_delivery_attempts=1_000))
            for _ in range(2)
        ]
        await reader.subscribe(_TOPIC, seen, start_from="latest")
        await reader.subscribe(_TOPIC, group, group="g")
        publisher = Publisher(writer, _TOPIC)

        async def go_on() -> None:
            goal = len(publisher.accepted) + _MORE
            await until(lambda: len(publisher.accepted) >= goal, within_s=_DEADLINE_S)

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(publisher.run(lambda: is_over))
            await go_on()
            first = await _primary(servers)
            async with _direct(first) as client:
                await client.admin.command({"replSetStepDown": 30, "force": False})
            second = await _primary(servers, but=first)
            await go_on()
            await asyncio.to_thread(second.kill)
            await _primary(servers, but=second)
            await go_on()
            await asyncio.to_thread(second.start)
            await go_on()
            is_over = True
        accepted = publisher.accepted
        for come in (lambda: set(seen.data), lambda: set(group.acked)):
            await until(
                lambda: set(accepted) <= come(),  # noqa: B023 – awaited at once
                within_s=_DEADLINE_S,
            )
        history = await reader.get_history(_TOPIC)

    assert first is not second
    assert accepted == [one.data for one in history]
    assert list(range(len(history))) == [one.index for one in history]
    assert accepted == once_in_order(seen.events)
    assert [] == group.faults(accepted)


_READING = textwrap.dedent(
    """
    import asyncio, json, logging, sys
    from mastra_mongodb import MongoPubSub

    async def read(url, total):
        complete = asyncio.Event()
        numbers, gaps = [], []

        async def handle(event):
            numbers.append(event.data["n"])
            print(json.dumps({"n": event.data["n"]}), flush=True)
            if len(numbers) >= int(total):
                complete.set()

        async with MongoPubSub(url) as bus:
            await bus.subscribe(
                "t", handle, start_from="latest", on_gap=lambda *gap: gaps.append(gap)
            )
            print(json.dumps({"ready": True}), flush=True)
            await complete.wait()
        print(json.dumps({"numbers": numbers, "gaps": gaps}), flush=True)

    logging.basicConfig(level=logging.WARNING)
    asyncio.run(read(*sys.argv[1:]))
    """
)


@case("pubsub_and_lease", 81)
async def test_a_reader_that_was_stopped_longer_than_the_servers_log_goes_on() -> None:
    """The place where its change stream stood is gone: it reads the events themselves."""
    before, later = 5, 200
    async with _servers(1, oplog_mib=1) as [server], _direct(server) as client:
        url = _url_of([server])
        async with MongoPubSub(url) as bus:
            reader = await asyncio.create_subprocess_exec(
                sys.executable, "-c", _READING, url, str(before + later), stdout=PIPE, stderr=PIPE
            )
            try:
                assert {"ready": True} == await _line(reader)
                for number in range(before):
                    await bus.publish("t", _event(number))
                    assert {"n": number} == await _line(reader)
                os.kill(reader.pid, signal.SIGSTOP)
                stopped_at = (await client.admin.command("hello"))["lastWrite"]["opTime"]["ts"]
                for number in range(before, before + later):
                    await bus.publish("t", _event(number))
                await _until_gone(client, stopped_at)
                os.kill(reader.pid, signal.SIGCONT)
                for number in range(before, before + later):
                    assert {"n": number} == await _line(reader)
                result = await _line(reader)
                _, errors = await reader.communicate()
            finally:
                with suppress(ProcessLookupError):
                    reader.kill()

    assert {"numbers": list(range(before + later)), "gaps": []} == result
    assert b"feed broke" in errors
    lost = (b"CappedPositionLost", b"ChangeStreamHistoryLost")
    assert any(name in errors for name in lost), errors.decode()


def _event(number: int) -> Event:
    return Event(type="test", run_id="r", data={"n": number, "text": "x" * 50_000})


async def _line(reader: Process) -> dict[str, Any]:
    assert reader.stdout is not None
    async with asyncio.timeout(_DEADLINE_S):
        line = await reader.stdout.readline()
    found: dict[str, Any] = json.loads(line)
    return found


async def _until_gone(client: Client, time: Any) -> None:
    """Wait until the server's log begins after a time."""
    async with asyncio.timeout(_DEADLINE_S):
        while True:
            first = await client.local["oplog.rs"].find_one(sort={"$natural": 1})
            if first is not None and first["ts"] > time:
                return
            await client.fill.rows.insert_one({"text": "x" * 200_000})
            await asyncio.sleep(_PAUSE_S)
