"""The bus in a file: how processes hear of each other, and what becomes of the log."""

from __future__ import annotations

import asyncio
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from mastra_conformance import case
from mastra_conformance.clock import ShiftedClock
from mastra_conformance.suites.pubsub.support import Recorder, eventually, make_event, settle
from mastra_core.contracts.pubsub import Cursor
from mastra_core.errors import EventTooLargeError, PubSubError
from mastra_core.plugins.context import AdapterContext
from mastra_core.wire.events import Event
from mastra_libsql import LibSQLStorage
from mastra_libsql.doorbell import bell_folder
from mastra_libsql.file_systems import file_system_of
from mastra_libsql.pubsub import LibSQLPubSub

pytestmark = pytest.mark.anyio

Query = Callable[..., list[tuple[Any, ...]]]

_DEADLINE_S = 30


@pytest.fixture
def url(path: Path) -> str:
    return f"file:{path}"


# -- hints ------------------------------------------------------------------------------------


@case("pubsub_and_lease", 84)
async def test_a_wiped_doorbell_costs_only_time(url: str, path: Path) -> None:
    """The folder of sockets vanishes: delivery goes on, and the folder comes back."""
    seen = Recorder()
    async with LibSQLPubSub(url) as reader, LibSQLPubSub(url) as writer:
        await reader.subscribe("t", seen)
        await writer.publish("t", make_event(1))
        await eventually(lambda: seen.data == [1])
        folder = bell_folder(str(path))
        assert list(folder.iterdir())

        shutil.rmtree(folder)
        await writer.publish("t", make_event(2))

        await eventually(lambda: seen.data == [1, 2])
        await eventually(lambda: folder.is_dir() and len(list(folder.iterdir())) == 2)
        await writer.publish("t", make_event(3))
        await eventually(lambda: seen.data == [1, 2, 3])
    assert not folder.exists()


async def test_without_a_doorbell_processes_look(url: str, path: Path) -> None:
    """``data_version`` tells that somebody wrote."""
    seen = Recorder()
    async with (
        LibSQLPubSub(url, doorbell=False) as reader,
        LibSQLPubSub(url, doorbell=False) as writer,
    ):
        await reader.subscribe("t", seen)
        for number in range(5):
            await writer.publish("t", make_event(number))

        await eventually(lambda: seen.data == [0, 1, 2, 3, 4])
    assert not bell_folder(str(path)).exists()


async def test_a_socket_of_a_dead_process_is_removed(url: str, path: Path) -> None:
    """Whoever rings finds out that nobody listens."""
    folder = bell_folder(str(path))
    async with LibSQLPubSub(url) as bus:
        await bus.publish("t", make_event(1))
        dead = folder / "1-dead"
        script = (
            "import socket, sys; socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).bind(sys.argv[1])"
        )
        subprocess.run([sys.executable, "-c", script, str(dead)], check=True)  # noqa: ASYNC221 - our own interpreter
        assert dead.exists()

        await bus.publish("t", make_event(2))

        assert not dead.exists()


def test_a_long_path_has_its_sockets_elsewhere() -> None:
    """The path of a socket is short on every operating system."""
    near, far = Path("/srv/a.db"), Path("/srv") / ("x" * 90) / "a.db"

    assert bell_folder(str(near)) == Path(f"{near}.bell")
    folder = bell_folder(str(far))
    assert folder == bell_folder(str(far))
    assert len(str(folder)) < 80
    assert folder.parent != far.parent


async def test_a_folder_of_somebody_else_is_not_used(url: str, path: Path) -> None:
    """Others could listen there; the bus looks instead."""
    folder = bell_folder(str(path))
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    seen = Recorder()
    async with LibSQLPubSub(url) as reader, LibSQLPubSub(url) as writer:
        await reader.subscribe("t", seen)
        await writer.publish("t", make_event(1))

        await eventually(lambda: seen.data == [1])
        assert not list(folder.iterdir())


# -- writers ----------------------------------------------------------------------------------


@case("pubsub_and_lease", 83)
async def test_a_killed_writer_leaves_nothing_half(url: str, path: Path) -> None:
    """It dies inside a transaction: others go on, and there is no half event."""
    seen = Recorder()
    script = textwrap.dedent(
        """
        import os, signal, sys, apsw
        connection = apsw.Connection(sys.argv[1])
        connection.execute("BEGIN IMMEDIATE")
        connection.execute('UPDATE mastra_pubsub_topics SET "lastSeq" = "lastSeq" + 1')
        os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    async with LibSQLPubSub(url) as bus:
        await bus.subscribe("t", seen)
        await bus.publish("t", make_event(1))
        killed = subprocess.run([sys.executable, "-c", script, str(path)], check=False)  # noqa: ASYNC221
        assert killed.returncode < 0
        async with asyncio.timeout(_DEADLINE_S):
            await bus.publish("t", make_event(2))

        await eventually(lambda: seen.data == [1, 2])
        assert [0, 1] == [event.index for event in await bus.get_history("t")]


@case("pubsub_and_lease", 72)
@pytest.mark.parametrize("doorbell", [True, False])
async def test_a_publisher_that_dies_before_it_rings_is_heard(url: str, doorbell: bool) -> None:
    """Its event is in the file, its datagrams were never sent: readers find it by looking."""
    seen, member = Recorder(), Recorder()
    script = textwrap.dedent(
        """
        import asyncio, os, signal, sys
        from mastra_core.wire.events import Event
        from mastra_libsql.pubsub import LibSQLPubSub

        async def publish():
            async with LibSQLPubSub(sys.argv[1]) as bus:
                bus._driver._tell = lambda topic: os.kill(os.getpid(), signal.SIGKILL)
                await bus.publish("t", Event(type="test", run_id="r", data="last words"))

        asyncio.run(publish())
        """
    )
    async with LibSQLPubSub(url, doorbell=doorbell) as bus:
        await bus.subscribe("t", seen)
        await bus.subscribe("t", member, group="g")
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", script, url)
        code = await process.wait()
        died_at = time.monotonic()
        await seen.until(1)
        await member.until(1)
        took = time.monotonic() - died_at

    assert code == -signal.SIGKILL
    assert seen.data == member.data == ["last words"]
    # Ten times the second between two looks.
    assert took < 10


_WRITING = textwrap.dedent(
    """
    import asyncio, sys
    from datetime import UTC, datetime
    from mastra_core.wire.events import Event
    from mastra_core.wire.threads import Thread
    from mastra_libsql import LibSQLStorage
    from mastra_libsql.pubsub import LibSQLPubSub

    async def write(url, name):
        now = datetime(2026, 1, 1, tzinfo=UTC)
        async with LibSQLPubSub(url) as bus, LibSQLStorage(url) as store:
            for number in range(1000):
                await bus.publish("t", Event(type="test", run_id=name, data=[name, number]))
                await store.memory.save_thread(
                    Thread(id=f"{name}-{number}", resource_id=name, created_at=now, updated_at=now)
                )

    asyncio.run(write(*sys.argv[1:]))
    """
)


@case("pubsub_and_lease", 82)
async def test_four_writers_and_a_long_reader_share_a_file(url: str, path: Path) -> None:
    """2 000 writes each: nobody hears of a lock, and the write-ahead log stays small."""
    names = ["a", "b", "c", "d"]
    seen = Recorder()
    largest = looked = 0
    wal = path.with_name(f"{path.name}-wal")
    async with LibSQLPubSub(url) as bus, LibSQLStorage(url) as store:
        await bus.subscribe("t", seen)
        writers = [
            await asyncio.create_subprocess_exec(
                sys.executable, "-c", _WRITING, url, name, stderr=subprocess.PIPE
            )
            for name in names
        ]
        ended = asyncio.gather(*(writer.communicate() for writer in writers))
        # The reader reads everything again and again, as long as somebody writes.
        while not ended.done():
            looked = max(looked, len(await bus.get_history("t")))
            largest = max(largest, wal.stat().st_size)
            await asyncio.sleep(0.02)
        outputs = [error.decode() for _, error in await ended]
        await seen.until(4 * 1000)
        threads = [await store.memory.get_thread_by_id(f"{name}-999") for name in names]

    assert [(0, "")] * 4 == [
        (writer.returncode, output) for writer, output in zip(writers, outputs, strict=True)
    ]
    assert {name: list(range(1000)) for name in names} == {
        name: [one.data[1] for one in seen.events if one.data[0] == name] for name in names
    }
    assert None not in threads
    assert looked > 0
    assert 0 < largest < 64 * 1024 * 1024


async def test_what_must_not_get_lost_is_written_carefully(url: str) -> None:
    """Work queues have a connection that waits for the disk; others don't."""

    def careful() -> int:
        return sum("careful" in thread.name for thread in threading.enumerate())

    async with LibSQLPubSub(url) as bus:
        await bus.publish("agent.stream.r", make_event(1))
        assert careful() == 0
        await bus.publish("workflows", make_event(1))
        assert careful() == 1
    assert careful() == 0


async def test_events_of_a_server_have_a_smaller_limit() -> None:
    """The bus says so before it sends anything."""
    bus = LibSQLPubSub("libsql+http://db.example")
    assert bus.capabilities.max_event_bytes == 4 * 1024 * 1024
    assert issubclass(EventTooLargeError, PubSubError)


# -- one database, several roles --------------------------------------------------------------


async def test_roles_of_one_url_share_the_connections(url: str) -> None:
    """Store, bus and leases of one context write through one connection."""
    context = AdapterContext()
    before = threading.active_count()
    async with LibSQLStorage(url, context) as store, LibSQLPubSub(url, context) as bus:
        lease = bus.get_lease_provider()
        await lease.acquire_lease("k", "a", 10_000)
        await bus.publish("t", make_event(1))

        assert store.open_resources()["connections"] <= 2
        # A writer, a reader, and one that looks.
        assert threading.active_count() - before <= 3


async def test_roles_in_memory_see_one_database() -> None:
    """``:memory:`` of one context is one database, whatever options each role has."""
    context = AdapterContext()
    seen = Recorder()
    async with (
        LibSQLPubSub(":memory:", context, ack_wait_ms=500) as one,
        LibSQLPubSub(":memory:", context) as two,
    ):
        await one.subscribe("t", seen)
        await two.publish("t", make_event(1))
        await eventually(lambda: seen.data == [1])
        grant = await one.get_lease_provider().acquire_lease("k", "a", 10_000)
        assert await two.get_lease_provider().check_lease("k", "a", grant.fence or 0)
        assert not one.capabilities.durable
        assert not one.capabilities.cross_process


async def test_instances_with_other_prefixes_are_apart(url: str) -> None:
    """A prefix makes tables of its own."""
    seen = Recorder()
    async with LibSQLPubSub(url, prefix="a_") as one, LibSQLPubSub(url, prefix="b_") as two:
        await one.subscribe("t", seen)
        await two.publish("t", make_event(1))
        await one.publish("t", make_event(2))

        await eventually(lambda: seen.data == [2])
        assert [1] == [event.data for event in await two.get_history("t")]


# -- what is kept -----------------------------------------------------------------------------


@case("pubsub_and_lease", 60)
async def test_idle_topics_are_forgotten(url: str, query: Query) -> None:
    """Written now and then it stays; left alone it goes, and its subscriber hears of the next
    publish all the same."""
    clock = ShiftedClock()
    seen = Recorder()
    context = AdapterContext(clock=clock)
    async with LibSQLPubSub(url, context, idle_ttl_ms=300, sweep_interval_ms=50) as bus:
        await bus.subscribe("t", seen)
        for number in range(4):
            await bus.publish("t", make_event(number))
            clock.advance(200)
            await asyncio.sleep(0.02)
        assert len(query("SELECT * FROM mastra_pubsub_events")) == 4

        def is_gone() -> bool:
            clock.advance(100)
            return not query("SELECT * FROM mastra_pubsub_topics")

        await eventually(is_gone)
        assert [] == query("SELECT * FROM mastra_pubsub_events")
        await bus.publish("t", make_event("again"))
        await eventually(lambda: seen.data == [0, 1, 2, 3, "again"])


@case("pubsub_and_lease", 61)
async def test_nothing_unread_is_trimmed(url: str) -> None:
    """A group lags far behind the limit of the topic: everything is still there for it."""
    async with LibSQLPubSub(url, max_entries=10) as bus:
        go_on = asyncio.Event()
        seen: list[int] = []

        async def slowly(event: Event, ack: Callable[[], Awaitable[None]]) -> None:
            await go_on.wait()
            seen.append(event.data)
            await ack()

        await bus.subscribe("workflows", slowly, group="g", max_in_flight=2)
        for number in range(60):
            await bus.publish("workflows", make_event(number))
        assert 60 == len(await bus.get_history("workflows"))

        go_on.set()
        await eventually(lambda: len(seen) == 60)
        await bus.flush()
        await bus.publish("workflows", make_event(60))
        await bus.publish("workflows", make_event(61))
        await eventually(lambda: len(seen) == 62)
        assert sorted(seen) == list(range(62))
        assert len(await bus.get_history("workflows")) <= 12


async def test_old_dead_letters_and_groups_go(url: str, query: Query) -> None:
    """Dead letters and groups without consumers are kept for their time."""
    clock = ShiftedClock()
    context = AdapterContext(clock=clock)
    options = {"max_delivery_attempts": 1, "dead_retention_ms": 60_000, "group_ttl_ms": 120_000}

    def refuse(event: Event) -> None:
        raise ValueError(event.data)

    async with LibSQLPubSub(url, context, sweep_interval_ms=1_000, **options) as bus:
        await bus.subscribe("t", refuse, group="g")
        await bus.publish("t", make_event(1))
        await eventually(lambda: bool(query("SELECT * FROM mastra_pubsub_dead")))
        assert 1 == len(await bus.list_dead("t"))
        clock.advance(61_000)
        assert [] == await bus.list_dead("t")
        await eventually(lambda: not query("SELECT * FROM mastra_pubsub_dead"))

        def advance() -> None:
            clock.advance(2_000)

        for _ in range(100):
            advance()
            await settle()
        assert query("SELECT * FROM mastra_pubsub_groups")
        await bus.unsubscribe("t", refuse)

        def is_gone() -> bool:
            advance()
            return not query("SELECT * FROM mastra_pubsub_groups")

        await eventually(is_gone)


async def test_a_cursor_of_a_forgotten_topic_is_its_start(url: str, query: Query) -> None:
    """A topic that was deleted and made anew has another epoch."""
    seen, again = Recorder(), Recorder()
    async with LibSQLPubSub(url) as bus:
        cursors: list[str] = []
        await bus.subscribe("t", lambda event: cursors.append(event.cursor or ""))
        await bus.publish("t", make_event(1))
        await bus.publish("t", make_event(2))
        await eventually(lambda: len(cursors) == 2)
        query("DELETE FROM mastra_pubsub_topics")
        query("DELETE FROM mastra_pubsub_events")

        await bus.subscribe("t", seen, start_from=Cursor(cursors[1]))
        await bus.publish("t", make_event(3))

        await eventually(lambda: seen.data == [3])
        with pytest.raises(PubSubError):
            await bus.subscribe("t", again, start_from=Cursor("nonsense"))


async def test_an_unreadable_event_stops_nobody(url: str, query: Query) -> None:
    """P18: it is passed over by subscribers, and settled by groups."""
    fan, member = Recorder(), Recorder()
    async with LibSQLPubSub(url) as bus:
        for number in range(3):
            await bus.publish("t", make_event(number))
        query("UPDATE mastra_pubsub_events SET payload = '{nonsense' WHERE seq = 2")

        await bus.subscribe("t", fan)
        await bus.subscribe("t", member, group="g")

        await eventually(lambda: fan.data == [0, 2] and sorted(member.data) == [0, 2])
        await bus.flush()
        await eventually(lambda: not query("SELECT * FROM mastra_pubsub_pending"))


# -- where it may be --------------------------------------------------------------------------

_MOUNTS = """\
/dev/sda1 / ext4 rw 0 0
server:/home /home nfs4 rw 0 0
tmpfs /home/local tmpfs rw 0 0
share /mnt/my\\040share 9p rw 0 0
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/app.db", "ext4"),
        ("/home/me/app.db", "nfs4"),
        ("/home/local/app.db", "tmpfs"),
        ("/homes/app.db", "ext4"),
        ("/mnt/my share/app.db", "9p"),
    ],
)
def test_the_file_system_is_that_of_the_nearest_mount(path: str, kind: str) -> None:
    """The longest folder that the path lies in."""
    assert kind == file_system_of(Path(path), _MOUNTS)


async def test_a_file_without_wal_is_refused(url: str, path: Path) -> None:
    """Another program holds it for itself: no bus, and the error says why."""
    other = apsw.Connection(str(path))
    other.execute("CREATE TABLE t (a); PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE").fetchall()
    try:
        with pytest.raises(PubSubError, match="locked"):
            async with LibSQLPubSub(url, busy_timeout_ms=50):
                pass
    finally:
        other.close()


# -- tables -----------------------------------------------------------------------------------


async def test_nothing_is_created_twice(url: str, query: Query) -> None:
    """The second start changes nothing; a start without rights works once they are there."""
    async with LibSQLPubSub(url) as bus:
        assert not await bus.plan_migration()
    [(before,)] = query("PRAGMA schema_version")

    async with LibSQLPubSub(url, disable_init=True) as bus:
        await bus.publish("t", make_event(1))

    assert [(before,)] == query("PRAGMA schema_version")


async def test_without_tables_and_rights_it_is_refused(url: str, path: Path) -> None:
    """``disable_init`` names what to do; planning alone creates no file."""
    bus = LibSQLPubSub(url)
    assert await bus.plan_migration()
    assert not await asyncio.to_thread(path.exists)
    with pytest.raises(PubSubError, match="migrated first") as caught:
        async with LibSQLPubSub(url, disable_init=True):
            pass
    assert caught.value.hint == "Run: mastra-py migrate"


async def test_a_newer_database_is_refused(url: str, query: Query) -> None:
    """Its version is told."""
    async with LibSQLPubSub(url):
        pass
    query("UPDATE mastra_py_schema SET version = 99 WHERE component = 'bus'")

    with pytest.raises(PubSubError, match="version 99 of 'bus'"):
        async with LibSQLPubSub(url):
            pass


async def test_exported_ddl_is_all_that_is_needed(url: str, path: Path) -> None:
    """Somebody else runs it; the bus then starts without creating anything."""
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA journal_mode = WAL").fetchall()
    connection.execute(LibSQLPubSub(url).export_ddl())
    connection.close()

    async with LibSQLPubSub(url, disable_init=True) as bus:
        await bus.publish("t", make_event(1))
        assert 1 == len(await bus.get_history("t"))


async def test_no_statement_reads_a_whole_log(url: str, path: Path) -> None:
    """Every statement about a topic finds its rows by an index."""
    async with LibSQLPubSub(url) as bus:
        member, fan = Recorder(), Recorder()
        await bus.subscribe("t", member, group="g")
        await bus.subscribe("t", fan)
        for number in range(5):
            await bus.publish("t", make_event(number), dedupe_id=f"id {number}")
        await eventually(lambda: len(member.data) == len(fan.data) == 5)
        await bus.flush()
        statements = list(bus.driver.statements.compiled())
    connection = apsw.Connection(str(path))
    for name in ("mastra_now_ms", "mastra_now_us"):
        connection.create_scalar_function(name, lambda *_: 0, 0)
    scans: list[str] = []
    for statement in statements:
        values = [0] * len(statement.parameters)
        plan = connection.execute(f"EXPLAIN QUERY PLAN {statement.sql}", values).fetchall()
        scans += [
            f"{statement.name}: {line[3]}"
            for line in plan
            if str(line[3]).startswith("SCAN mastra_pubsub_")
        ]
    connection.close()
    assert len(statements) > 8
    assert [] == scans


async def test_a_long_log_is_cleared_in_pieces(url: str, query: Query) -> None:
    """The new epoch begins at once; the old events go little by little, and then all are gone."""
    async with LibSQLPubSub(url, max_entries=20_000) as bus:
        await bus.publish("t", make_event(0))
        query(
            "WITH RECURSIVE more(n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM more WHERE n < 12000) "
            "INSERT INTO mastra_pubsub_events SELECT \"topicId\", epoch, n, 'id' || n, type, "
            '"runId", payload, "createdAt" FROM mastra_pubsub_events, more'
        )
        await bus.clear_topic("t")
        assert [] == query("SELECT * FROM mastra_pubsub_events")
        await bus.publish("t", make_event("new"))
        assert ["new"] == [event.data for event in await bus.get_history("t")]
