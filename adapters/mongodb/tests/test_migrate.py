"""What opening does to a database: what is missing, once, and nothing else."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pymongo.asynchronous.database import AsyncDatabase

from mastra_core.contracts.storage.migrations import MigratableStorage
from mastra_core.errors import StorageSchemaError
from mastra_mongodb import MongoLease, MongoPubSub, MongoStorage

pytestmark = pytest.mark.anyio

Database = AsyncDatabase[dict[str, Any]]

#: With transactions and change streams, and without.
BOTH = pytest.mark.parametrize("product", ["mongodb", "mongodb-standalone"])


@BOTH
async def test_an_empty_database_gets_everything_once(server: str, database: Database) -> None:
    store = MongoStorage(server, database=database.name)
    before = await store.plan_migration()
    assert [] == await database.list_collection_names()

    async with store:
        after = await store.plan_migration()

    assert (0, 1) == (before.found_version, before.target_version)
    assert len(before.statements) > 30
    assert (1, ()) == (after.found_version, after.statements)
    assert "mastra_py_notification_claims" in await database.list_collection_names()


async def test_nothing_is_created_when_nothing_is_missing(server: str, database: Database) -> None:
    """The second start only looks."""
    async with MongoStorage(server, database=database.name):
        pass
    await database.command({"profile": 2})

    async with MongoStorage(server, database=database.name):
        pass

    await database.command({"profile": 0})
    seen = await database["system.profile"].find().to_list()
    commands = {next(iter(one["command"])) for one in seen if one.get("command")}
    assert "listIndexes" in commands
    assert not commands & {"create", "createIndexes", "update", "insert"}


@BOTH
async def test_many_processes_may_start_at_once(server: str, database: Database) -> None:
    stores = [MongoStorage(server, database=database.name) for _ in range(6)]

    async def start(store: MongoStorage) -> None:
        async with store:
            await store.memory.list_threads()

    await asyncio.gather(*map(start, stores))

    assert not await stores[0].plan_migration()


async def test_nodes_database_is_only_added_to(
    server: str, database: Database, node_data: None
) -> None:
    """Its indexes stay, under their names; ours stand beside them."""
    before = await database.mastra_messages.index_information()

    async with MongoStorage(server, database=database.name):
        pass

    after = await database.mastra_messages.index_information()
    assert before == {name: after[name] for name in before}
    assert {"mpy_messages_thread", "mpy_messages_resource"} == after.keys() - before.keys()


async def test_nodes_database_can_be_looked_into_as_it_is(
    server: str, database: Database, node_data: None
) -> None:
    """``allow_unprepared``: read, and left as it is; an empty database is refused all the same."""
    look = {"disable_init": True, "allow_unprepared": True}
    before = sorted(await database.list_collection_names())

    async with MongoStorage(server, database=database.name, **look) as store:
        assert (await store.memory.list_threads()).total

    assert before == sorted(await database.list_collection_names())
    with pytest.raises(StorageSchemaError, match="migrated first"):
        await MongoStorage(server, database=f"{database.name}_none", **look).init()


async def test_a_newer_database_is_refused(server: str, database: Database) -> None:
    await database.mastra_py_schema.insert_one({"_id": "storage", "version": 99})

    with pytest.raises(StorageSchemaError, match="99"):
        async with MongoStorage(server, database=database.name):
            pass
    with pytest.raises(StorageSchemaError):
        await MongoStorage(server, database=database.name).plan_migration()


async def test_init_can_be_forbidden(server: str, database: Database) -> None:
    """Then a database that lacks something is refused, and left as it is."""
    store = MongoStorage(server, database=database.name, disable_init=True)

    with pytest.raises(StorageSchemaError, match="migrate"):
        await store.init()
    assert [] == await database.list_collection_names()

    async with MongoStorage(server, database=database.name):
        pass
    async with store:
        assert 0 == (await store.memory.list_threads()).total


async def test_records_that_are_there_twice_cost_only_their_index(
    server: str, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    """A unique index that can't be is left out with a warning; the store works."""
    twins = [{"threadId": "t", "id": "n"}, {"threadId": "t", "id": "n"}]
    await database.mastra_notifications.insert_many(twins)

    async with MongoStorage(server, database=database.name) as store:
        assert [] == (await store.memory.list_threads()).threads

    assert "index not created" in caplog.text


@BOTH
async def test_bus_and_leases_say_what_they_need(server: str, database: Database) -> None:
    """Both are the same collections; opening one of them makes them."""
    bus = MongoPubSub(server, database=database.name)
    leases = MongoLease(server, database=database.name)
    for part in (bus, leases):
        assert isinstance(part, MigratableStorage)
        assert (await part.plan_migration()).statements

    async with leases:
        assert not (await bus.plan_migration()).statements
    assert 'createCollection("mastra_leases")' in bus.export_ddl()


def test_the_script_of_an_empty_database_is_complete() -> None:
    script = MongoStorage("mongodb://localhost/shop").export_ddl()

    assert 'db.createCollection("mastra_threads");' in script
    assert 'db.mastra_workflow_snapshot.createIndex({"workflow_name": 1, "run_id": 1}' in script
    assert 'ISODate("1970-01-01T00:00:00.000Z")' in script
    assert "mastra_py_schema.updateOne" in script
