"""Two versions of our own code on one database at the same time (design 5.5)."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar, Final

from mastra_conformance import Suite, requires, several_processes
from mastra_conformance.faults.fixtures import StartOlder
from mastra_conformance.suites.lease.support import fence_of
from mastra_conformance.suites.pubsub.support import Recorder, make_event
from mastra_conformance.suites.storage.things import event, message, thread
from mastra_core.contracts.lease import LeaseProvider
from mastra_core.contracts.pubsub import PubSub
from mastra_core.contracts.storage import Storage

__all__ = ("LeaseVersionSuite", "PubSubVersionSuite", "StorageVersionSuite")

_TURNS: Final = 30
_WORKERS: Final = "mastra_older_workers"


@several_processes()
class StorageVersionSuite(Suite):
    """A fleet in which not everybody has been upgraded yet."""

    role: ClassVar[str] = "storage"
    capabilities: ClassVar[tuple[str, ...]] = ("memory", "notifications", "thread_state")
    tier: ClassVar[int] = 4

    @requires("thread_state.compare_and_set")
    async def test_two_versions_share_a_database(
        self, store: Storage, start_older: StartOlder
    ) -> None:
        """Both write and read the same things at once; nothing is lost, nobody stumbles."""
        wins = 0
        async with start_older(f"{_WORKERS}:keep_house") as older:
            path = await older.reached("written")
            assert "mastra-older-" in path, f"{path} isn't the older version"
            found = await store.memory.get_thread_by_id("old")
            inbox = await store.notifications.list_notifications("old")
            await store.memory.save_thread(thread("new", title="New"))
            await store.notifications.create_notification(
                event(id="n-new", thread_id="new", summary="from the new")
            )
            await older.go()
            for number in range(_TURNS):
                row = message(f"new-{number}", thread_id="shared")
                await store.memory.save_messages([row])
                wins += await store.thread_state.compare_and_set(
                    "s", "x", expected=None, value="new"
                )
                await asyncio.sleep(0)
            await older.reached("all written")
            await older.go()
            result = await older.result()
            page = await store.memory.list_messages("shared", per_page=False)
            value = await store.thread_state.get_state("s", "x")

        both = sorted(f"{who}-{number}" for who in ("old", "new") for number in range(_TURNS))
        assert found is not None
        assert found.title == "Old"
        assert ["from the old"] == [row.summary for row in inbox]
        assert {"messages": both, "title": "New", "inbox": ["from the new"]} == result
        assert both == sorted(row.id for row in page.messages)
        assert (value == "new") == (wins == 1)


@several_processes()
class PubSubVersionSuite(Suite):
    """The same on a bus."""

    role: ClassVar[str] = "pubsub"
    capabilities: ClassVar[tuple[str, ...]] = ("pubsub.cross_process",)
    tier: ClassVar[int] = 4

    async def test_two_versions_share_a_bus(self, pubsub: PubSub, start_older: StartOlder) -> None:
        """Both publish, both get everything once, in one order."""
        seen = Recorder()
        await pubsub.subscribe("t", seen, start_from="latest")
        async with start_older(f"{_WORKERS}:trade") as older:
            await older.reached("ready")
            await older.go()
            for number in range(_TURNS):
                await pubsub.publish("t", make_event(["new", number]))
            theirs: list[Any] = await older.result()
        await seen.until(2 * _TURNS)

        wanted = [[who, number] for who in ("new", "old") for number in range(_TURNS)]
        assert wanted == sorted(seen.data)
        if pubsub.capabilities.ordering == "topic":
            assert theirs == seen.data


@several_processes()
class LeaseVersionSuite(Suite):
    """The same for leases."""

    role: ClassVar[str] = "lease"
    capabilities: ClassVar[tuple[str, ...]] = ("lease.cross_process", "lease.fencing")
    tier: ClassVar[int] = 4

    async def test_two_versions_keep_each_other_out(
        self, lease: LeaseProvider, start_older: StartOlder
    ) -> None:
        """Whoever has it has it for both; fences go on growing."""
        async with start_older(f"{_WORKERS}:contend") as older:
            acquired, fence = await older.reached("held")
            refused = await lease.acquire_lease("k", "new", 60_000)
            await older.go()
            released = await older.reached("released")
            grant = await lease.acquire_lease("k", "new", 60_000)
            await older.go()
            result = await older.result()

        assert (True, True) == (acquired, released)
        assert (False, "old") == (refused.acquired, refused.owner)
        assert fence_of(grant) > fence
        assert [False, "new"] == result
