"""What opening does to a database: one number, and nothing else."""

from __future__ import annotations

import asyncio

import pytest
from redis.asyncio import Redis

from mastra_core.contracts.storage.migrations import MigratableStorage
from mastra_core.errors import StorageSchemaError
from mastra_core.plugins.context import AdapterContext
from mastra_redis import RedisStorage
from mastra_redis.migrate import SCHEMA_VERSION

pytestmark = pytest.mark.anyio


async def test_an_empty_database_gets_a_version(
    url: str, context: AdapterContext, client: Redis, namespace: str
) -> None:
    store = RedisStorage(url, context)
    assert isinstance(store, MigratableStorage)
    plan = await store.plan_migration()
    assert [] == [key async for key in client.scan_iter(f"{namespace}:*")]

    async with store:
        after = await store.plan_migration()

    assert (0, SCHEMA_VERSION, 1) == (plan.found_version, plan.target_version, len(plan.statements))
    assert plan.statements[0] + "\n" == store.export_ddl()
    assert (SCHEMA_VERSION, ()) == (after.found_version, after.statements)
    assert [f"{namespace}:mastra_py_schema".encode()] == [
        key async for key in client.scan_iter(f"{namespace}:*")
    ]
    await client.delete(f"{namespace}:mastra_py_schema")


async def test_what_the_plan_says_is_what_has_to_be_done(
    url: str, context: AdapterContext, client: Redis, namespace: str
) -> None:
    """For people who run it themselves, and then forbid the store to."""
    store = RedisStorage(url, context, disable_init=True)
    with pytest.raises(StorageSchemaError, match="migrated first") as caught:
        await store.init()

    await client.execute_command(*(await store.plan_migration()).statements[0].split())

    assert "Run: mastra-py migrate" == caught.value.hint
    async with store:
        assert 0 == (await store.memory.list_threads()).total
    await client.delete(f"{namespace}:mastra_py_schema")


async def test_what_nobody_prepared_can_be_looked_into_as_it_is(
    url: str, context: AdapterContext, client: Redis, namespace: str
) -> None:
    """``allow_unprepared``: no version of ours is written."""
    async with RedisStorage(url, context, disable_init=True, allow_unprepared=True) as store:
        assert 0 == (await store.memory.list_threads()).total

    assert not await client.exists(f"{namespace}:mastra_py_schema")


async def test_a_newer_database_is_refused(
    url: str, context: AdapterContext, client: Redis, namespace: str
) -> None:
    await client.hset(f"{namespace}:mastra_py_schema", "storage", str(SCHEMA_VERSION + 1))
    store = RedisStorage(url, context)

    with pytest.raises(StorageSchemaError, match="newer version"):
        await store.init()
    with pytest.raises(StorageSchemaError, match="newer version"):
        await store.plan_migration()
    await client.delete(f"{namespace}:mastra_py_schema")


async def test_many_processes_may_open_it_at_once(url: str, namespace: str) -> None:
    """Each has a connection of its own."""
    stores = [RedisStorage(url, AdapterContext(namespace=namespace)) for _ in range(5)]

    await asyncio.gather(*(store.init() for store in stores))

    assert [()] * 5 == [(await store.plan_migration()).statements for store in stores]
    await stores[0].dangerously_clear_all()
    for store in stores:
        await store.aclose()
