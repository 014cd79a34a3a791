"""Concurrent callers: one transaction, each with its own result, error and cancellation."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from mastra_core.base.clock import SystemClock
from mastra_core.errors import (
    StorageConnectionError,
    StorageError,
    StorageTimeoutError,
)
from mastra_libsql.embedded import EmbeddedExecutor
from mastra_libsql.host_time import HostTime
from mastra_libsql.settings import LibSQLSettings
from mastra_libsql.worker import Session
from mastra_libsql.write_lock import BusyWait, WriteLock
from mastra_sql.executor import Executed, Program, Step
from mastra_sql.statement import plain

pytestmark = pytest.mark.anyio

Query = Callable[..., list[tuple[Any, ...]]]


class Gate:
    """Keeps the writing thread busy until it is opened, so that callers pile up behind it."""

    def __init__(self, executor: EmbeddedExecutor) -> None:
        self._executor = executor
        self._opened = threading.Event()
        self._reached = threading.Event()

    async def __aenter__(self) -> None:
        def wait(_: Session) -> None:
            self._reached.set()
            self._opened.wait(10)

        self._waiting = asyncio.create_task(self._executor.call("gate", wait))
        await asyncio.to_thread(self._reached.wait, 10)

    async def __aexit__(self, *exc_info: object) -> None:
        self._opened.set()
        await self._waiting


@pytest.fixture
async def executor(path: Path) -> AsyncIterator[EmbeddedExecutor]:
    settings = LibSQLSettings(url=f"file:{path}", busy_timeout_ms=300)
    opened = EmbeddedExecutor(settings.target, settings, WriteLock(), HostTime(SystemClock()))
    await opened.open()
    await opened.write("setup", insert_table())
    yield opened
    await opened.aclose()


def insert_table() -> Step:
    return Step(plain("CREATE TABLE things (id INTEGER PRIMARY KEY, note TEXT)", writes=True))


def add(number: int, note: str = "") -> Step:
    statement = plain("INSERT INTO things VALUES (?, ?) RETURNING id", columns=("id",), writes=True)
    return Step(statement, (number, note))


COUNT = Step(plain("SELECT count(*) FROM things", columns=("n",)))


async def settle() -> None:
    """Let tasks that were just created hand in their calls."""
    for _ in range(3):
        await asyncio.sleep(0)


# -- groups -----------------------------------------------------------------------------------


async def test_writes_that_wait_together_share_one_transaction(
    executor: EmbeddedExecutor, query: Query
) -> None:
    """Nothing of a group is visible before its commit, all of it afterwards."""
    counts: list[int] = []

    def look(_: Executed) -> None:
        counts.append(query("SELECT count(*) FROM things")[0][0])

    async with Gate(executor):
        writing = [asyncio.create_task(executor.write("add", add(n))) for n in range(20)]
        await settle()
        executor.observe(look)
    rows = await asyncio.gather(*writing)

    assert [[(n,)] for n in range(20)] == rows
    assert [0] * 20 == counts
    assert [(20,)] == query("SELECT count(*) FROM things")


async def test_one_caller_fails_alone(executor: EmbeddedExecutor, query: Query) -> None:
    """The error belongs to whoever caused it; the others of the group are committed."""
    async with Gate(executor):
        writing = [asyncio.create_task(executor.write("add", add(n))) for n in (1, 2, 1, 3)]
        await settle()
    results = await asyncio.gather(*writing, return_exceptions=True)

    assert [[(1,)], [(2,)], [(3,)]] == [rows for rows in results if isinstance(rows, list)]
    [failure] = [error for error in results if isinstance(error, StorageError)]
    assert "MASTRA_STORAGE_LIBSQL_ADD_FAILED" == failure.id
    assert isinstance(failure.__cause__, apsw.ConstraintError)
    assert [(1,), (2,), (3,)] == query("SELECT id FROM things ORDER BY id")


async def test_a_program_that_raises_takes_back_only_its_own_writes(
    executor: EmbeddedExecutor, query: Query
) -> None:
    """Each program of a group stands behind its own savepoint."""

    def program(number: int) -> Callable[[], Program[int]]:
        def run() -> Program[int]:
            yield (add(number, "first"),)
            if number % 2:
                raise LookupError(f"{number} is odd")
            yield (add(number + 100, "second"),)
            return number

        return run

    async with Gate(executor):
        running = [asyncio.create_task(executor.transact("do", program(n))) for n in range(6)]
        await settle()
    results = await asyncio.gather(*running, return_exceptions=True)

    assert [0, 2, 4] == [result for result in results if isinstance(result, int)]
    # What a program raises itself is a fault of ours; the door still lets no bare error out.
    assert 3 == sum(isinstance(result, StorageError) for result in results)
    assert [(0,), (2,), (4,), (100,), (102,), (104,)] == query("SELECT id FROM things ORDER BY id")


async def test_a_cancelled_caller_harms_nobody(executor: EmbeddedExecutor, query: Query) -> None:
    """Who gave up while waiting is left out; the others get what they asked for."""
    async with Gate(executor):
        writing = [asyncio.create_task(executor.write("add", add(n))) for n in range(10)]
        await settle()
        for task in writing[::2]:
            task.cancel()
    results = await asyncio.gather(*writing, return_exceptions=True)

    assert 5 == sum(isinstance(result, asyncio.CancelledError) for result in results)
    assert [(1,), (3,), (5,), (7,), (9,)] == query("SELECT id FROM things ORDER BY id")
    assert [[(5,)]] == await executor.read("count", COUNT)


async def test_cancelling_at_any_moment_leaves_no_lock(
    executor: EmbeddedExecutor, query: Query
) -> None:
    """A sweep: cancel after n turns of the loop, then write from elsewhere at once."""
    for turns in range(25):
        task = asyncio.create_task(executor.write("add", add(turns)))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        query("INSERT INTO things VALUES (?, 'other')", 1000 + turns)

    assert [(25,)] == query("SELECT count(*) FROM things WHERE note = 'other'")


async def test_a_full_disk_fails_the_call_and_spares_the_others(
    executor: EmbeddedExecutor, query: Query
) -> None:
    """SQLite rolls the whole group back; those that still fit are written all the same."""

    def limit(session: Session) -> None:
        [(pages,)] = session.connection.execute("PRAGMA page_count").fetchall()
        session.connection.execute(f"PRAGMA max_page_count = {pages + 2}")

    await executor.call("limit", limit)
    async with Gate(executor):
        small = [asyncio.create_task(executor.write("add", add(n))) for n in range(3)]
        large = asyncio.create_task(executor.write("add", add(99, "x" * 100_000)))
        late = asyncio.create_task(executor.write("add", add(4)))
        await settle()
    results = await asyncio.gather(*small, large, late, return_exceptions=True)

    assert isinstance(results[3], StorageError)
    assert "is full" in str(results[3])
    assert isinstance(results[3].__cause__, apsw.FullError)
    assert [(0,), (1,), (2,), (4,)] == query("SELECT id FROM things ORDER BY id")


async def test_reads_that_wait_together_see_one_state(executor: EmbeddedExecutor) -> None:
    """All statements of one read belong to one snapshot, whoever writes meanwhile."""
    stop = asyncio.Event()

    async def write_on() -> None:
        number = 0
        while not stop.is_set():
            await executor.write("add", add(number))
            number += 1

    writing = asyncio.create_task(write_on())
    for _ in range(200):
        first, second = await executor.read("count", COUNT, COUNT)
        assert first == second
    stop.set()
    await writing


# -- other processes --------------------------------------------------------------------------


async def test_a_lock_of_another_process_is_waited_for(
    executor: EmbeddedExecutor, path: Path
) -> None:
    """Busy is no error as long as it ends in time."""
    code = (
        "import apsw, sys\n"
        "c = apsw.Connection(sys.argv[1]); c.execute('BEGIN IMMEDIATE')\n"
        "print('locked', flush=True); sys.stdin.readline(); c.execute('COMMIT')\n"
        "print('released', flush=True); sys.stdin.readline()\n"
    )
    other = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", code, str(path)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert other.stdin is not None
    assert other.stdout is not None
    assert b"locked\n" == await other.stdout.readline()

    with pytest.raises(StorageTimeoutError, match="stayed locked by another process"):
        await executor.write("add", add(1))
    writing = asyncio.create_task(executor.write("add", add(2)))
    other.stdin.write(b"\n")
    assert b"released\n" == await other.stdout.readline()

    assert [(2,)] == await writing
    other.stdin.write(b"\n")
    await other.wait()


async def test_two_writers_of_one_process_take_turns(
    executor: EmbeddedExecutor, path: Path, query: Query
) -> None:
    """Connections that share the write lock never see each other as busy."""
    lock = WriteLock()
    settings = LibSQLSettings(url=f"file:{path}", busy_timeout_ms=5000)
    writers = [
        EmbeddedExecutor(settings.target, settings, lock, HostTime(SystemClock())) for _ in range(3)
    ]
    for writer in writers:
        await writer.open()

    await asyncio.gather(
        *(
            writer.write("add", add(1000 * place + n))
            for place, writer in enumerate(writers)
            for n in range(50)
        )
    )

    for writer in writers:
        await writer.aclose()
    assert [(150,)] == query("SELECT count(*) FROM things")


# -- closing ----------------------------------------------------------------------------------


async def test_closing_ends_a_running_statement_with_a_typed_error(
    executor: EmbeddedExecutor,
) -> None:
    """It doesn't wait for a statement that may take for ever."""
    endless = plain(
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) "
        "SELECT count(*) FROM n WHERE x < 0",
        columns=("n",),
    )
    started = threading.Event()

    def run(session: Session) -> None:
        started.set()
        session.connection.execute(endless.sql).fetchall()

    running = asyncio.create_task(executor.call("endless", run))
    await asyncio.to_thread(started.wait, 10)
    waiting = asyncio.create_task(executor.write("add", add(1)))
    await settle()

    await executor.aclose()

    for task in (running, waiting):
        with pytest.raises(StorageConnectionError, match="closed"):
            await task
    assert {"connections": 0, "worker_threads": 0, "waiting_calls": 0} == executor.held()


async def test_closing_twice_is_harmless_and_calling_afterwards_is_typed(
    executor: EmbeddedExecutor,
) -> None:
    await executor.aclose()
    await executor.aclose()

    with pytest.raises(StorageConnectionError, match="closed"):
        await executor.read("count", COUNT)


async def test_nothing_blocks_the_loop_while_a_statement_runs(executor: EmbeddedExecutor) -> None:
    """A slow query keeps its thread busy, not the tasks of the loop."""
    slow = Step(
        plain(
            "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 2000000) "
            "SELECT count(*) FROM n",
            columns=("n",),
        )
    )
    turns = 0
    reading = asyncio.create_task(executor.read("slow", slow))

    while not reading.done():
        await asyncio.sleep(0)
        turns += 1

    assert turns > 100
    assert [[(2_000_000,)]] == await reading


def damage(path: Path) -> None:
    """Destroy every page but the first, as a broken disk would."""
    content = path.read_bytes()
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (len(content) - 4096))
    with path.with_name(f"{path.name}-wal").open("r+b") as log:
        log.truncate(0)


async def test_a_damaged_file_answers_with_errors_and_the_thread_lives(
    executor: EmbeddedExecutor, path: Path
) -> None:
    """A read transaction that can't even be ended must not keep its callers waiting."""
    for number in range(50):
        await executor.write("add", add(number, "x" * 1000))
    await executor.call("checkpoint", lambda session: session.control("PRAGMA wal_checkpoint"))
    damage(path)

    async def read() -> object:
        async with asyncio.timeout(60):
            return await executor.read("count", COUNT, COUNT)

    for _ in range(2):
        answers = await asyncio.gather(*(read() for _ in range(5)), return_exceptions=True)
        assert all(isinstance(answer, StorageError | list) for answer in answers)


async def test_plans_never_depend_on_bound_values(executor: EmbeddedExecutor) -> None:
    """Else SQLite prepares a statement with a join anew for every other value."""

    def asked(session: Session) -> int:
        return session.connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, -1)

    assert 1 == await executor.call("config", asked)


def test_waiting_for_a_lock_goes_on_as_long_as_it_may() -> None:
    """A holder that stands still is waited for thousands of times (no overflow)."""
    wait = BusyWait(60_000, lambda: False)
    assert wait(0)

    assert wait(5_000)
    assert not BusyWait(0, lambda: False)(0)
