"""Creating and adopting databases: exact objects, additive changes, nothing twice."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from mastra_conformance import case
from mastra_core.errors import (
    CapabilityNotSupportedError,
    NotificationExistsError,
    StorageSchemaError,
)
from mastra_core.plugins.context import AdapterContext
from mastra_core.wire.notifications import CreateNotification
from mastra_libsql import LibSQLStorage
from mastra_libsql.migrate import check_sqlite_version
from mastra_libsql.schema import SCHEMA_VERSION
from mastra_sql.tables import build_tables

pytestmark = pytest.mark.anyio

NODE_DATABASE = Path(__file__).parent / "data" / "typescript_libsql.db"
Query = Callable[..., list[tuple[Any, ...]]]

SHARED = [table.name for table in build_tables().shared()]


def columns_of(query: Any, table: str) -> list[tuple[Any, ...]]:
    """Order, name, type, NOT NULL, default and key of every column."""
    return list(query(f"SELECT * FROM pragma_table_info('{table}')"))


def indexes_of(query: Any, table: str) -> dict[str, tuple[Any, ...]]:
    """Name to uniqueness and columns, without those that SQLite makes itself."""
    found = {}
    for _, name, unique, origin, partial in query(f"SELECT * FROM pragma_index_list('{table}')"):
        columns = tuple(c for (c,) in query(f"SELECT name FROM pragma_index_info('{name}')"))
        key = name if origin == "c" else f"{origin}:{columns}"
        found[key] = (unique, columns, partial)
    return found


def stamp_of(path: Path) -> tuple[int, int]:
    """Size and time of the last change of a file."""
    return path.stat().st_size, path.stat().st_mtime_ns


def exists(path: Path) -> bool:
    return path.exists()


def pages_of(path: Path) -> bytes:
    """A database without its first page, which says which journal mode it has."""
    return path.read_bytes()[4096:]


@pytest.fixture
def node_query() -> Iterator[Query]:
    connection = apsw.Connection(
        f"file:{NODE_DATABASE}?immutable=1",
        flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI,
    )
    yield lambda sql: connection.execute(sql).fetchall()
    connection.close()


# -- a new database ---------------------------------------------------------------------------


@pytest.mark.parametrize("table", SHARED)
async def test_a_new_database_has_nodes_columns(
    store: LibSQLStorage, query: Query, node_query: Query, table: str
) -> None:
    """Names, order, types, constraints and keys are those that Node creates."""
    assert columns_of(node_query, table) == columns_of(query, table)


@pytest.mark.parametrize("table", SHARED)
async def test_a_new_database_has_nodes_indexes(
    store: LibSQLStorage, query: Query, node_query: Query, table: str
) -> None:
    """Every index of Node is there; what we add has a name of ours."""
    theirs, ours = indexes_of(node_query, table), indexes_of(query, table)

    assert theirs == {name: ours.get(name) for name in theirs}
    assert all(name.startswith("mpy_") for name in ours.keys() - theirs.keys())


async def test_a_new_database_remembers_its_version(store: LibSQLStorage, query: Query) -> None:
    assert [("storage", SCHEMA_VERSION)] == query("SELECT component, version FROM mastra_py_schema")


async def test_exported_ddl_makes_what_init_makes(
    store: LibSQLStorage, query: Query, tmp_path: Path
) -> None:
    """The text for whoever may run DDL leads to the same objects."""
    connection = apsw.Connection(str(tmp_path / "by_hand.db"))

    connection.execute(store.export_ddl())

    objects = "SELECT type, name, sql FROM sqlite_master ORDER BY type, name"
    assert query(objects) == connection.execute(objects).fetchall()
    connection.close()


# -- an existing database ---------------------------------------------------------------------


async def test_nodes_database_is_only_added_to(node_path: Path, query: Query) -> None:
    """Every object and every row of Node is what it was; all that is new is ours."""
    objects = "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"
    before = dict(query(objects))
    tables = [name for (name,) in query("SELECT name FROM sqlite_master WHERE type = 'table'")]
    rows = {table: query(f'SELECT rowid, * FROM "{table}"') for table in tables}

    async with LibSQLStorage(f"file:{node_path}"):
        pass

    after = dict(query(objects))
    assert before == {name: after.get(name) for name in before}
    assert all(name.startswith(("mpy_", "mastra_py_")) for name in after.keys() - before.keys())
    assert rows == {table: query(f'SELECT rowid, * FROM "{table}"') for table in tables}


async def test_a_second_start_changes_nothing(path: Path, context: AdapterContext) -> None:
    """No DDL, not even a write, when nothing is missing (field report R40)."""
    async with LibSQLStorage(f"file:{path}", context):
        pass
    before = stamp_of(path)

    async with LibSQLStorage(f"file:{path}", context) as store:
        plan = await store.plan_migration()

    assert () == plan.statements
    assert before == stamp_of(path)


async def test_a_plan_says_what_is_missing_and_changes_nothing(node_path: Path) -> None:
    """The dry run of the command line."""
    before = pages_of(node_path)

    plan = await LibSQLStorage(f"file:{node_path}").plan_migration()

    assert 0 == plan.found_version
    assert plan.statements
    assert all("mpy_" in sql or "mastra_py_" in sql for sql in plan.statements)
    assert before == pages_of(node_path)


async def test_planning_for_a_new_file_creates_none(path: Path) -> None:
    plan = await LibSQLStorage(f"file:{path}").plan_migration()

    assert any(sql.startswith("CREATE TABLE") for sql in plan.statements)
    assert not exists(path)


async def test_an_old_table_gets_the_column_it_lacks(path: Path, query: Query) -> None:
    """``resourceId`` of snapshots came later (snapshots.md 13.2)."""
    query(
        "CREATE TABLE mastra_workflow_snapshot (workflow_name TEXT, run_id TEXT, snapshot TEXT, "
        '"createdAt" TEXT, "updatedAt" TEXT, UNIQUE (workflow_name, run_id))'
    )

    async with LibSQLStorage(f"file:{path}") as store:
        await store.workflows.persist_workflow_snapshot(
            workflow_name="w", run_id="r", snapshot={"status": "pending"}, resource_id="user"
        )

    assert [("user",)] == query('SELECT "resourceId" FROM mastra_workflow_snapshot')


async def test_a_newer_database_is_refused_and_left_alone(path: Path, query: Query) -> None:
    async with LibSQLStorage(f"file:{path}"):
        pass
    query("UPDATE mastra_py_schema SET version = ?", SCHEMA_VERSION + 1)
    query("DROP INDEX mpy_notifications_due_idx")
    objects = query("SELECT * FROM sqlite_master")

    with pytest.raises(StorageSchemaError, match="newer version of mastra-libsql") as caught:
        async with LibSQLStorage(f"file:{path}"):
            pass

    assert "pip install --upgrade mastra-libsql" in str(caught.value.hint)
    assert objects == query("SELECT * FROM sqlite_master")


async def test_without_permission_to_create_an_old_database_is_refused(
    node_path: Path, query: Query
) -> None:
    """``disable_init``: nothing is created, and the message names the command (R41)."""
    with pytest.raises(StorageSchemaError, match="migrated first") as caught:
        async with LibSQLStorage(f"file:{node_path}", disable_init=True):
            pass

    assert "mastra-py migrate" in str(caught.value.hint)
    assert [] == query("SELECT name FROM sqlite_master WHERE name LIKE 'mastra\\_py%' ESCAPE '\\'")


async def test_a_database_of_node_can_be_looked_into_as_it_is(
    node_path: Path, query: Query
) -> None:
    """``allow_unprepared``: all that both systems know is read, and nothing is created."""
    objects = query("SELECT * FROM sqlite_master")

    url = f"file:{node_path}"
    async with LibSQLStorage(url, disable_init=True, allow_unprepared=True) as store:
        [thread] = (await store.memory.list_threads()).threads
        records = await store.notifications.list_notifications(thread.id)
        suspended = await store.workflows.list_workflow_runs(
            workflow_name="agentic-loop", status="suspended"
        )
        with pytest.raises(CapabilityNotSupportedError):
            store.memory.guarded(("k", 1))

    assert "storage.guarded_writes" not in store.capabilities
    assert (4, 1) == (len(records), suspended.total)
    assert objects == query("SELECT * FROM sqlite_master")


@pytest.mark.parametrize("table", ["mastra_threads", "mastra_notifications"])
async def test_a_database_without_a_shared_table_is_refused_also_for_looking(
    node_path: Path, query: Query, table: str
) -> None:
    query(f"DROP TABLE {table}")

    url = f"file:{node_path}"
    with pytest.raises(StorageSchemaError, match="migrated first"):
        await LibSQLStorage(url, disable_init=True, allow_unprepared=True).init()


async def test_without_permission_to_create_a_ready_database_opens(path: Path) -> None:
    async with LibSQLStorage(f"file:{path}"):
        pass

    async with LibSQLStorage(f"file:{path}", disable_init=True) as store:
        assert 0 == (await store.memory.list_threads()).total


async def test_two_processes_starting_at_once_both_succeed(path: Path) -> None:
    """The loser of the lock finds everything done."""
    code = (
        "import asyncio, sys\n"
        "from mastra_libsql import LibSQLStorage\n"
        "async def main():\n"
        "    async with LibSQLStorage(sys.argv[1]) as store:\n"
        "        print((await store.facts()).schema_version)\n"
        "asyncio.run(main())\n"
    )
    running = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-c", code, f"file:{path}", stdout=asyncio.subprocess.PIPE
        )
        for _ in range(4)
    ]

    said = [await process.communicate() for process in running]

    assert [0] * 4 == [process.returncode for process in running]
    assert {str(SCHEMA_VERSION).encode()} == {out.strip() for out, _ in said}


# -- rows that stand in the way ---------------------------------------------------------------


@case("notifications", 36)
async def test_of_two_rows_with_one_identity_the_latest_is_fetched(
    node_path: Path, query: Query
) -> None:
    """Node may have written them; they are neither an error nor touched (S3)."""
    [(record_id,)] = query("SELECT id FROM mastra_notifications WHERE priority = 'low'")
    query(
        "INSERT INTO mastra_notifications SELECT * FROM mastra_notifications WHERE id = ?",
        record_id,
    )
    query(
        "UPDATE mastra_notifications SET summary = 'later', \"updatedAt\" = ? WHERE rowid = "
        "(SELECT max(rowid) FROM mastra_notifications)",
        "2026-12-01T00:00:00.000Z",
    )

    async with LibSQLStorage(f"file:{node_path}") as store:
        plan = await store.plan_migration()
        record = await store.notifications.get_notification("thread_456", record_id)

    assert record is not None
    assert "later" == record.summary
    assert ["mpy_notifications_identity: notifications with equal ids stand"] == list(plan.skipped)
    assert [(2,)] == query("SELECT count(*) FROM mastra_notifications WHERE id = ?", record_id)


async def test_a_pair_is_unique_for_us_even_where_no_index_guards_it(
    node_path: Path, query: Query
) -> None:
    """With doubles of Node's in the table, creating an existing pair is still refused."""
    query("INSERT INTO mastra_notifications SELECT * FROM mastra_notifications LIMIT 1")
    [(record_id,)] = query("SELECT id FROM mastra_notifications WHERE priority = 'high'")

    async with LibSQLStorage(f"file:{node_path}") as store:
        again = CreateNotification(
            thread_id="thread_456", id=record_id, source="s", kind="k", summary="again"
        )
        with pytest.raises(NotificationExistsError):
            await store.notifications.create_notification(again)

    assert [(1,)] == query("SELECT count(*) FROM mastra_notifications WHERE id = ?", record_id)


@case("snapshots", 16)
async def test_a_snapshot_that_is_no_json_hides_nobody(node_path: Path, query: Query) -> None:
    """One bad row: no index is built over it, lists go around it, it is found by name (R1)."""
    query(
        "INSERT INTO mastra_workflow_snapshot VALUES ('agentic-loop', 'bad', NULL, '{oops', ?, ?)",
        "2026-12-01T00:00:00.000Z",
        "2026-12-01T00:00:00.000Z",
    )

    async with LibSQLStorage(f"file:{node_path}") as store:
        plan = await store.plan_migration()
        everything = await store.workflows.list_workflow_runs()
        suspended = await store.workflows.list_workflow_runs(status="suspended")
        parked = await store.workflows.list_suspended_runs(
            workflow_names=["agentic-loop"], agent_id="support-agent", page=0, per_page=10
        )
        corrupt = await store.workflows.list_corrupt_runs()

    assert 3 == everything.total
    assert 2 == suspended.total
    assert 1 == parked.total
    assert [("bad", "{oops")] == [(run.run_id, run.snapshot) for run in corrupt]
    assert 4 == sum("snapshots that are no JSON stand" in reason for reason in plan.skipped)


# -- versions of SQLite -----------------------------------------------------------------------


@case("snapshots", 47)
async def test_an_old_sqlite_is_refused_at_init(path: Path) -> None:
    """Without JSONB nothing would be readable; the message says what to do."""

    def pretend(connection: apsw.Connection) -> None:
        connection.create_scalar_function("sqlite_version", lambda: "3.44.2", 0)

    apsw.connection_hooks.append(pretend)
    try:
        with pytest.raises(StorageSchemaError, match=r"SQLite 3\.44\.2 has no JSONB") as caught:
            async with LibSQLStorage(f"file:{path}"):
                pass
    finally:
        apsw.connection_hooks.remove(pretend)

    assert "pip install --upgrade apsw" in str(caught.value.hint)


@pytest.mark.parametrize("version", ["3.45.0", "3.45.1", "3.54.1", "4.0"])
async def test_newer_versions_are_fine(version: str) -> None:
    check_sqlite_version(version)
