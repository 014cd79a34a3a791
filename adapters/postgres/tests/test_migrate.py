"""Creating and adopting databases: exact objects, additive changes, nothing twice."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from mastra_core.errors import (
    NotificationExistsError,
    StorageConnectionError,
    StorageError,
    StorageSchemaError,
)
from mastra_core.plugins.context import AdapterContext
from mastra_core.wire.notifications import CreateNotification
from mastra_core.wire.threads import Thread
from mastra_postgres import PostgresStorage
from mastra_postgres.schema import SCHEMA_VERSION
from mastra_sql.executor import Executed
from mastra_sql.tables import build_tables

pytestmark = pytest.mark.anyio

Query = Callable[..., list[tuple[Any, ...]]]

SHARED = [table.name for table in build_tables().shared()]


def columns_of(query: Query, table: str) -> list[tuple[Any, ...]]:
    """Order, name, type, NOT NULL and default of every column."""
    return query(
        "SELECT attnum, attname, format_type(atttypid, atttypmod), attnotnull, "
        "pg_get_expr(d.adbin, d.adrelid) "
        "FROM pg_attribute LEFT JOIN pg_attrdef AS d ON adrelid = attrelid AND adnum = attnum "
        "WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
        f"public.{table}",
    )


def indexes_of(query: Query, table: str) -> dict[str, str]:
    """Name to definition, keys and unique constraints included."""
    return dict(
        query(
            "SELECT indexname::text, indexdef FROM pg_indexes "
            "WHERE schemaname = 'public' AND tablename = %s",
            table,
        )
    )


def constraints_of(query: Query, table: str) -> set[tuple[Any, ...]]:
    return set(
        query(
            "SELECT conname::text, pg_get_constraintdef(oid) FROM pg_constraint "
            "WHERE conrelid = %s::regclass AND contype <> 'n'",
            f"public.{table}",
        )
    )


def objects_of(query: Query) -> set[tuple[Any, ...]]:
    """Everything in the schema, with the transaction that made or changed it last."""
    return set(query("SELECT relname::text, xmin::text FROM pg_class WHERE relnamespace = 2200"))


# -- a new database ---------------------------------------------------------------------------


@pytest.mark.parametrize("table", SHARED)
async def test_a_new_table_is_laid_out_as_nodes(
    store: PostgresStorage, query: Query, node_query: Query, table: str
) -> None:
    """Names, order, types, defaults, constraints and identity are those that Node creates."""
    identity = f"SELECT relreplident::text FROM pg_class WHERE oid = 'public.{table}'::regclass"

    assert columns_of(node_query, table) == columns_of(query, table)
    assert constraints_of(node_query, table) == constraints_of(query, table)
    assert node_query(identity) == query(identity)


@pytest.mark.parametrize("table", SHARED)
async def test_a_new_table_has_nodes_indexes(
    store: PostgresStorage, query: Query, node_query: Query, table: str
) -> None:
    """Every index of Node is there, word for word; what we add has a name of ours."""
    theirs, ours = indexes_of(node_query, table), indexes_of(query, table)

    assert theirs == {name: ours.get(name) for name in theirs}
    assert all(name.startswith("mpy_") for name in ours.keys() - theirs.keys())


async def test_a_new_database_remembers_its_version(store: PostgresStorage, query: Query) -> None:
    assert [("storage", SCHEMA_VERSION)] == query("SELECT component, version FROM mastra_py_schema")


async def test_exported_ddl_makes_what_init_makes(
    store: PostgresStorage, query: Query, node_url: str, node_query: Query
) -> None:
    """The text for whoever may run DDL leads to the same objects."""
    node_query("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    tables = [*SHARED, "mastra_py_notification_claims", "mastra_py_schema"]

    for statement in store.export_ddl().split(";\n"):
        if statement:
            node_query(statement)

    assert [columns_of(query, t) for t in tables] == [columns_of(node_query, t) for t in tables]
    assert [indexes_of(query, t) for t in tables] == [indexes_of(node_query, t) for t in tables]
    plan = await PostgresStorage(node_url, snapshot_compression="unchanged").plan_migration()
    assert () == plan.statements


async def test_a_schema_of_its_own_is_created(
    url: str, query: Query, context: AdapterContext
) -> None:
    """Also with a name that needs quoting; nothing is left in ``public``."""
    async with PostgresStorage(url, context, schema="Agents") as store:
        await store.memory.save_thread(thread("t1"))
        assert () == (await store.plan_migration()).statements

    assert [("t1",)] == query('SELECT id FROM "Agents".mastra_threads')
    assert set() == objects_of(query)
    assert [(1,)] == query(
        "SELECT count(*) FROM pg_indexes WHERE schemaname = 'Agents' "
        "AND indexname = 'Agents_mastra_threads_resourceid_createdat_idx'"
    )


async def test_long_prefixes_make_different_names(url: str, context: AdapterContext) -> None:
    """PostgreSQL cuts names at 63 bytes in silence; two indexes must not become one."""
    prefix = "a_prefix_as_long_as_it_may_be_"
    async with PostgresStorage(url, context, prefix=prefix) as store:
        await store.memory.save_thread(thread("t1"))
        plan = await store.plan_migration()

    assert () == plan.statements


# -- an existing database ---------------------------------------------------------------------


async def test_nodes_database_is_only_added_to(
    node_url: str, node_query: Query, context: AdapterContext
) -> None:
    """Every object and every row of Node is what it was; all that is new is ours."""
    tables = [
        name
        for (name,) in node_query("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
    ]
    before = {
        table: (columns_of(node_query, table), indexes_of(node_query, table)) for table in tables
    }
    rows = {
        table: node_query(f'SELECT ctid::text, x::text FROM "{table}" AS x') for table in tables
    }

    async with PostgresStorage(node_url, context):
        pass

    for table in tables:
        columns, indexes = before[table]
        assert columns == columns_of(node_query, table)
        now = indexes_of(node_query, table)
        assert indexes == {name: now.get(name) for name in indexes}
        assert all(name.startswith("mpy_") for name in now.keys() - indexes.keys())
        assert rows[table] == node_query(f'SELECT ctid::text, x::text FROM "{table}" AS x')


async def test_a_second_start_changes_nothing(
    url: str, query: Query, context: AdapterContext
) -> None:
    """No DDL, no write, no lock, when nothing is missing (field report R40)."""
    async with PostgresStorage(url, context):
        pass
    before, [(transactions,)] = objects_of(query), query("SELECT pg_current_xact_id()::text")

    async with PostgresStorage(url, context) as store:
        seen: list[Executed] = []
        store.observe(seen.append)
        plan = await store.plan_migration()
    [(after,)] = query("SELECT pg_current_xact_id()::text")

    assert () == plan.statements
    assert before == objects_of(query)
    assert 5 == len(seen)
    assert all(statement.sql.startswith("SELECT") for statement in seen)
    # Only looking at the number takes one.
    assert int(transactions) + 1 == int(after)


async def test_a_plan_says_what_is_missing_and_changes_nothing(
    node_url: str, node_query: Query
) -> None:
    """The dry run of the command line."""
    before = objects_of(node_query)

    plan = await PostgresStorage(node_url, snapshot_compression="unchanged").plan_migration()

    assert 0 == plan.found_version
    assert plan.statements
    assert all("mpy_" in sql or "mastra_py_" in sql for sql in plan.statements)
    assert before == objects_of(node_query)


async def test_columns_of_later_releases_are_added(
    node_url: str, node_query: Query, context: AdapterContext
) -> None:
    """As Node does with tables of its older releases."""
    node_query('ALTER TABLE mastra_messages DROP COLUMN "resourceId"')
    node_query('ALTER TABLE mastra_threads DROP COLUMN "updatedAtZ"')

    async with PostgresStorage(node_url, context) as store:
        page = await store.memory.list_messages("thread_456")
        await store.memory.update_thread("thread_456", title="x")

    assert 4 == len(page.messages)
    assert {None} == {message.resource_id for message in page.messages}


async def test_json_in_text_columns_is_refused_with_the_way_out(
    node_url: str, node_query: Query
) -> None:
    """Very old releases of Node made them; no index and no filter works on them."""
    node_query(
        "DROP INDEX mastra_workflow_snapshot_name_status_createdat_idx, "
        "mastra_workflow_snapshot_threadid_idx"
    )
    node_query("ALTER TABLE mastra_workflow_snapshot ALTER COLUMN snapshot TYPE text")

    with pytest.raises(StorageSchemaError, match=r"'snapshot'.*is of type text") as caught:
        await PostgresStorage(node_url).init()

    assert caught.value.hint is not None
    assert "TYPE jsonb" in caught.value.hint


async def test_a_newer_database_is_refused(url: str, query: Query, context: AdapterContext) -> None:
    """Before anything is changed; the sentence says what to do."""
    async with PostgresStorage(url, context):
        pass
    query("UPDATE mastra_py_schema SET version = version + 1")

    with pytest.raises(StorageSchemaError, match="newer version of mastra-postgres"):
        await PostgresStorage(url, context).init()


async def test_without_init_a_missing_table_is_an_error(url: str, query: Query) -> None:
    with pytest.raises(StorageSchemaError, match="has to be migrated first") as caught:
        await PostgresStorage(url, disable_init=True).init()

    assert "Run: mastra-py migrate" == caught.value.hint
    assert set() == objects_of(query)


async def test_without_init_a_database_that_lacks_only_what_is_ours_can_be_looked_into(
    url: str, query: Query, context: AdapterContext
) -> None:
    """``allow_unprepared``, for what a peer made: read, and left as it is."""
    async with PostgresStorage(url, context) as store:
        await store.memory.save_thread(thread("t1"))
    for table in ("mastra_py_schema", "mastra_py_notification_claims"):
        query(f"DROP TABLE {table}")
    query("DROP INDEX mpy_threads_resource_idx")
    before = objects_of(query)

    async with PostgresStorage(url, disable_init=True, allow_unprepared=True) as store:
        assert 1 == (await store.memory.list_threads()).total
        assert [] == await store.notifications.list_notifications("t1")
    assert before == objects_of(query)

    query("DROP TABLE mastra_notifications")
    with pytest.raises(StorageSchemaError, match="has to be migrated first"):
        await PostgresStorage(url, disable_init=True, allow_unprepared=True).init()


async def test_without_init_a_complete_database_works(url: str, context: AdapterContext) -> None:
    async with PostgresStorage(url, context):
        pass

    async with PostgresStorage(url, context, disable_init=True) as store:
        await store.memory.save_thread(thread("t1"))


async def test_an_account_without_ddl_rights_works_once_the_tables_are_there(
    url: str, query: Query, context: AdapterContext
) -> None:
    """Rights on rows are enough; the error without tables says who has to run what."""
    with account(url, query) as (name, limited):
        with pytest.raises(StorageError, match="doesn't allow") as caught:
            await PostgresStorage(limited, context).init()
        assert caught.value.hint is not None
        assert "mastra-py migrate" in caught.value.hint

        async with PostgresStorage(url, context):
            pass
        query(f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {name}")
        async with PostgresStorage(limited, context) as store:
            await store.memory.save_thread(thread("t1"))
            found = await store.memory.get_thread_by_id("t1")

    assert found is not None


@contextmanager
def account(url: str, query: Query) -> Iterator[tuple[str, str]]:
    """A role that may do nothing but connect, for the length of the block."""
    name = f"limited_{url.rpartition('_')[2].partition('?')[0]}"
    query(f"CREATE ROLE {name} LOGIN PASSWORD 'secret'")
    query("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    base, _, rest = url.partition("//")
    try:
        yield name, f"{base}//{name}:secret@{rest.rpartition('@')[2]}"
    finally:
        query(f"DROP OWNED BY {name}")
        query(f"DROP ROLE {name}")


# -- at the same time -------------------------------------------------------------------------


async def test_concurrent_starts_in_one_process_create_everything_once(
    url: str, query: Query
) -> None:
    stores = [PostgresStorage(url) for _ in range(6)]

    await asyncio.gather(*(store.init() for store in stores))
    plans = await asyncio.gather(*(store.plan_migration() for store in stores))
    await asyncio.gather(*(store.aclose() for store in stores))

    assert {()} == {plan.statements for plan in plans}
    assert [(1,)] == query("SELECT count(*) FROM mastra_py_schema")


async def test_concurrent_starts_of_processes_create_everything_once(
    url: str, query: Query
) -> None:
    code = (
        "import asyncio, sys\n"
        "from mastra_postgres import PostgresStorage\n"
        "async def main():\n"
        "    async with PostgresStorage(sys.argv[1]) as store:\n"
        "        print(len((await store.plan_migration()).statements))\n"
        "asyncio.run(main())\n"
    )
    command = (sys.executable, "-c", code, url)

    said = await asyncio.gather(
        *(asyncio.to_thread(subprocess.check_output, command, text=True) for _ in range(3))
    )

    assert ["0\n"] * 3 == said
    assert [(1,)] == query("SELECT count(*) FROM mastra_py_schema")


# -- what can't be ----------------------------------------------------------------------------


async def test_duplicates_of_node_keep_the_unique_index_away(
    node_url: str, node_query: Query, context: AdapterContext
) -> None:
    """Node may have written a pair twice; then a plain index serves, and nothing is lost."""
    node_query("INSERT INTO mastra_notifications SELECT * FROM mastra_notifications LIMIT 1")

    async with PostgresStorage(node_url, context) as store:
        plan = await store.plan_migration()
        records = await store.notifications.list_notifications("thread_456")

    names = indexes_of(node_query, "mastra_notifications")
    assert "mpy_notifications_pair_idx" in names
    assert "mpy_notifications_identity" not in names
    assert ((), 1) == (plan.statements, len(plan.skipped))
    assert 5 == len(records)


@pytest.mark.parametrize("unique", [True, False])
async def test_one_pair_is_created_once_with_and_without_the_unique_index(
    url: str, query: Query, context: AdapterContext, *, unique: bool
) -> None:
    async with PostgresStorage(url, context) as store:
        if not unique:
            query("DROP INDEX mpy_notifications_identity")
        event = CreateNotification(id="n1", thread_id="t", source="s", kind="k", summary="x")
        await store.notifications.create_notification(event)
        with pytest.raises(NotificationExistsError):
            await store.notifications.create_notification(event)

    assert [(1,)] == query("SELECT count(*) FROM mastra_notifications")


async def test_parallel_creates_with_one_id_make_one_record(store: PostgresStorage) -> None:
    """Whoever is second hears so, however close the race."""
    event = CreateNotification(id="n1", thread_id="t", source="s", kind="k", summary="x")

    results = await asyncio.gather(
        *(store.notifications.create_notification(event) for _ in range(20)),
        return_exceptions=True,
    )

    assert 19 == sum(isinstance(result, NotificationExistsError) for result in results)


async def test_snapshots_are_compressed_with_lz4_where_the_server_can(
    store: PostgresStorage, query: Query
) -> None:
    [(has_lz4,)] = query(
        "SELECT 'lz4' = ANY (enumvals) FROM pg_settings WHERE name = 'default_toast_compression'"
    )

    facts = await store.facts()

    assert ("lz4" if has_lz4 else "") == facts.compression


async def test_somebodys_choice_of_compression_stays(
    node_url: str, node_query: Query, context: AdapterContext
) -> None:
    node_query("ALTER TABLE mastra_workflow_snapshot ALTER COLUMN snapshot SET COMPRESSION pglz")

    async with PostgresStorage(node_url, context) as store:
        facts = await store.facts()

    assert "pglz" == facts.compression


async def test_a_closed_store_says_so(url: str) -> None:
    store = PostgresStorage(url)

    with pytest.raises(StorageConnectionError, match="is closed, or was not opened"):
        await store.memory.list_threads()


def thread(thread_id: str) -> Thread:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    return Thread(id=thread_id, resource_id="u", created_at=now, updated_at=now)
