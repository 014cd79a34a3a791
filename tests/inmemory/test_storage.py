"""Tests of the in-memory store that no other backend has: sharing, closing, its indexes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mastra_conformance import case
from mastra_core.contracts.storage import PrunePolicy, Storage, TaskFilter
from mastra_core.errors import StorageConnectionError, UnknownSettingError
from mastra_core.inmemory.capabilities import STORAGE_CAPABILITIES
from mastra_core.inmemory.storage import InMemoryStorage
from mastra_core.inmemory.storage.settings import InMemoryStorageSettings
from mastra_core.plugins import AdapterContext, PluginManager, open_storage
from mastra_core.testing.fake_clock import FakeClock
from mastra_core.wire.messages import Message
from mastra_core.wire.notifications import CreateNotification, NotificationPatch
from mastra_core.wire.tasks import BackgroundTask
from mastra_core.wire.threads import Thread

__all__ = ()

pytestmark = pytest.mark.anyio

T0 = datetime(2026, 1, 1, tzinfo=UTC)


def thread(thread_id: str = "t") -> Thread:
    return Thread(id=thread_id, resource_id="r", created_at=T0, updated_at=T0)


@pytest.fixture
async def store() -> AsyncIterator[InMemoryStorage]:
    async with InMemoryStorage() as opened:
        yield opened


async def test_a_private_store_needs_no_opening() -> None:
    """``InMemoryStorage()`` works as it is, and shares nothing."""
    one, other = InMemoryStorage(), InMemoryStorage()

    await one.memory.save_thread(thread())

    assert await one.memory.get_thread_by_id("t") is not None
    assert await other.memory.get_thread_by_id("t") is None
    assert isinstance(one, Storage)
    assert ("memory", True, STORAGE_CAPABILITIES) == (one.name, one.volatile, one.capabilities)


async def test_handles_of_one_name_share_their_data_as_long_as_one_is_open() -> None:
    """With the last one the data goes; other names and namespaces never see it."""
    context = AdapterContext()
    settings = InMemoryStorageSettings(url="memory:a")

    async with InMemoryStorage(settings, context) as first:
        await first.memory.save_thread(thread())
        async with InMemoryStorage(settings, context) as second:
            assert await second.memory.get_thread_by_id("t") is not None
        assert await first.memory.get_thread_by_id("t") is not None
        others = [
            InMemoryStorage(InMemoryStorageSettings(url="memory:b"), context),
            InMemoryStorage(settings, AdapterContext(namespace="n", resources=context.resources)),
            InMemoryStorage(settings, AdapterContext()),
        ]
        for other in others:
            async with other:
                assert await other.memory.get_thread_by_id("t") is None
    async with InMemoryStorage(settings, context) as later:
        assert await later.memory.get_thread_by_id("t") is None


async def test_a_closed_store_refuses_every_domain() -> None:
    """With a typed error that says what to do; so does one that was never opened."""
    closed = InMemoryStorage()
    await closed.aclose()
    await closed.aclose()
    unopened = InMemoryStorage(InMemoryStorageSettings(), AdapterContext())

    for store in (closed, unopened):
        calls = [
            store.memory.list_threads(),
            store.workflows.list_workflow_runs(),
            store.notifications.list_notifications("t"),
            store.thread_state.list_states("t"),
            store.background_tasks.list_tasks(),
            store.schedules.list_schedules(),
        ]
        for call in calls:
            with pytest.raises(StorageConnectionError, match="async with"):
                await call


async def test_the_outermost_block_closes() -> None:
    """Entering an open store again leaves it open at the end of the inner block."""
    async with InMemoryStorage() as outer:
        async with outer as inner:
            await inner.memory.save_thread(thread())
        assert await outer.memory.get_thread_by_id("t") is not None

    with pytest.raises(StorageConnectionError):
        await outer.memory.list_threads()


async def test_a_closed_private_store_starts_empty_again() -> None:
    """What was closed is gone."""
    store = InMemoryStorage()
    await store.memory.save_thread(thread())
    await store.aclose()

    async with store:
        assert await store.memory.get_thread_by_id("t") is None


async def test_opening_at_once_opens_once() -> None:
    """Tasks that come together share one opening, and one closing ends it."""
    context = AdapterContext()
    store = InMemoryStorage(InMemoryStorageSettings(), context)

    await asyncio.gather(*(store.init() for _ in range(5)))
    await store.aclose()

    assert len(context.resources) == 0


async def test_a_url_opens_it() -> None:
    """The plugin names the factory and the settings; unknown options are errors."""
    manager = PluginManager(builtins=("mastra_core.inmemory.plugin",))

    async with open_storage("memory:a?mastra_max_snapshot_bytes=50", manager) as opened:
        with pytest.raises(ValueError, match="at most 50"):
            await opened.workflows.persist_workflow_snapshot(
                workflow_name="w", run_id="r", snapshot={"text": "x" * 100}
            )
    with pytest.raises(UnknownSettingError):
        async with open_storage("memory:a?mastra_nonsense=1", manager):
            pass


async def test_indexes_are_empty_when_the_data_is(store: InMemoryStorage) -> None:
    """Nothing is left behind by what was moved, changed and deleted."""
    memory, inbox, runs, tasks = (
        store.memory,
        store.notifications,
        store.workflows,
        store.background_tasks,
    )
    for name in ("a", "b"):
        await memory.save_thread(thread(name))
        await memory.save_messages(
            [
                Message(id=f"{name}{n}", role="user", created_at=T0, thread_id=name,
                        resource_id="r", content={"parts": []})
                for n in range(3)
            ]
        )  # fmt: skip
    await memory.update_thread_resource_id("a", "r2")
    await memory.update_messages([{"id": "a0", "thread_id": "b", "resource_id": "r"}])
    for name in ("a", "b"):
        await memory.delete_thread(name)
    for number in range(3):
        record = await inbox.create_notification(
            CreateNotification(thread_id="t", source="s", kind="k", summary="x",
                               dedupe_key=f"d{number}", coalesce_key=f"c{number}",
                               deliver_at=T0, created_at=T0)
        )  # fmt: skip
        await inbox.claim_due(T0 + timedelta(days=1), "o")
        await inbox.record_acceptance("t", record.id, signal_id="s", at=T0)
        await inbox.update_notification("t", record.id, NotificationPatch(status="seen"))
    for number in range(3):
        await runs.persist_workflow_snapshot(
            workflow_name="w",
            run_id=f"r{number}",
            snapshot={
                "status": "suspended",
                "context": {"s": {"status": "suspended", "suspendPayload": {"__agentId": "a"}}},
            },
        )
        await runs.delete_workflow_run_by_id(workflow_name="w", run_id=f"r{number}")
        await tasks.create_task(
            BackgroundTask(id=f"t{number}", status="running", tool_name="t", tool_call_id="c",
                           args={}, agent_id="a", run_id="r", created_at=T0)
        )  # fmt: skip
    await tasks.delete_tasks(TaskFilter(run_id="r"))
    for key in list(inbox._tables.records):
        inbox._tables.drop(key)

    # The indexes are private; that they don't grow can be seen nowhere else.
    left: list[Any] = [
        memory._tables.threads_of,
        memory._tables.all_threads.created,
        memory._tables.all_threads.updated,
        memory._tables.messages_of,
        memory._tables.messages_of_resource,
        inbox._tables.sidecars,
        inbox._tables._inbox,
        inbox._tables._due,
        inbox._tables._keyed,
        inbox._tables._accepted,
        runs._tables._lists,
        runs._tables._suspended,
        runs._tables.names_of_run,
        runs._tables.claimed,
        tasks._tables._ids,
    ]
    assert [0] * len(left) == [len(index) for index in left]


async def test_lists_read_no_more_than_their_page(store: InMemoryStorage) -> None:
    """A page of suspended runs or of the inbox costs its rows, whatever is in the table."""
    for number in range(300):
        await store.notifications.create_notification(
            CreateNotification(
                thread_id="t", source="s", kind="k", summary="x", id=f"n{number:03}",
                created_at=T0 + timedelta(seconds=number), deliver_at=T0,
            )
        )  # fmt: skip
    read: list[Any] = []
    records = store.notifications._tables.records

    class Counting(dict[Any, Any]):
        """Notes what is read."""

        def __getitem__(self, key: Any) -> Any:
            read.append(key)
            return super().__getitem__(key)

    store.notifications._tables.records = Counting(records)

    page = await store.notifications.list_notifications("t", limit=5)
    due = await store.notifications.list_due_notifications(T0, limit=5)

    assert (["n299", "n298"], 5) == ([row.id for row in page[:2]], len(due))
    assert len(read) == 10


@case("notifications", 35)
async def test_pruning_spares_what_is_exactly_as_old_as_the_limit(clock: FakeClock) -> None:
    """Only strictly older records go."""
    async with InMemoryStorage(context=AdapterContext(clock=clock)) as store:
        for name, age_ms in (("older", 3_600_001), ("as-old", 3_600_000)):
            created = clock.now() - timedelta(milliseconds=age_ms)
            await store.notifications.create_notification(
                CreateNotification(
                    id=name, thread_id="t", source="s", kind="k", summary="x", created_at=created
                )
            )

        await store.notifications.prune([PrunePolicy(table="notifications", max_age_ms=3_600_000)])

        left = await store.notifications.list_notifications("t")
    assert ["as-old"] == [record.id for record in left]
