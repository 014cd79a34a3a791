"""What a run writes carries the fence of its thread (signals.md 22, G2)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from mastra_core import Agent, Mastra
from mastra_core.agent.memory import MemoryOptions
from mastra_core.errors import FencedOutError, LeaseLostError
from mastra_core.inmemory.lease import InMemoryLease
from mastra_core.inmemory.storage import InMemoryStorage
from mastra_core.plugins import AdapterContext
from mastra_core.processors.lane_tracking import LaneTracker
from mastra_core.testing.faults import faulty_storage
from mastra_core.testing.scripted_model import ScriptedModel, text
from mastra_core.threads.thread_key import thread_key

__all__ = ()

pytestmark = pytest.mark.anyio

T = {"thread_id": "t", "resource_id": "r"}
KEY = thread_key("r", "t")
SAVING = "memory.save_messages:before"


class SharedLease(InMemoryLease):
    """Leases as if other processes had them, too."""

    def __init__(self, context: AdapterContext) -> None:
        super().__init__(None, context)
        self.lease_capabilities = replace(self.lease_capabilities, cross_process=True)


class Scene:
    """An application whose writes others can come before."""

    def __init__(self, store: InMemoryStorage, lease: SharedLease) -> None:
        self.store = store
        self.lease = lease
        self.points: list[str] = []
        #: Where another owner begins, and after how many times.
        self.overtaken_at: tuple[str, int] | None = None

    async def hook(self, point: str) -> None:
        self.points.append(point)
        if (point, self.points.count(point)) == self.overtaken_at:
            record = await self.lease.get_lease(KEY)
            assert record is not None
            assert record.fence is not None
            await self.store.memory.raise_fence((KEY, record.fence + 1))

    def application(self, agent: Agent) -> Mastra:
        return Mastra(
            storage=faulty_storage(self.store, self.hook), lease=self.lease, agents=[agent]
        )

    async def texts(self) -> list[Any]:
        page = await self.store.memory.list_messages("t")
        return [row.content["parts"][-1].get("text") for row in page.messages]


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    async with InMemoryStorage() as store, SharedLease(AdapterContext()) as lease:
        yield Scene(store, lease)


def agent_that_says(*answers: str, **options: Any) -> Agent:
    return Agent(
        id="a", model=ScriptedModel([[text(answer)] for answer in answers]), memory=True, **options
    )


async def test_a_refused_save_is_the_end_of_the_run(scene: Scene) -> None:
    """Another owner has begun between the look at the lease and the write."""
    agent = agent_that_says("late")
    scene.overtaken_at = (SAVING, 1)
    async with scene.application(agent):
        output = await agent.stream("go", **T)
        with pytest.raises(LeaseLostError) as caught:
            await output.text

    assert "AGENT_THREAD_LEASE_LOST" == caught.value.id
    assert isinstance(caught.value.__cause__, FencedOutError)
    assert [] == await scene.texts()


async def test_runs_that_follow_each_other_keep_the_thread(scene: Scene) -> None:
    """Their writes carry what the process got the thread with, so none is older than another."""
    agent = agent_that_says("one", "two", "three")
    async with scene.application(agent):
        outputs = [await agent.stream(word, **T) for word in ("1", "2", "3")]
        assert ["one", "two", "three"] == [await output.text for output in outputs]

    assert ["1", "one", "2", "two", "3", "three"] == await scene.texts()
    assert "memory.raise_fence:after" in scene.points


async def test_a_new_owner_begins_before_it_reads(scene: Scene) -> None:
    """Whoever had the thread can't add to what it has read."""
    agent = agent_that_says("one")
    async with scene.application(agent):
        await (await agent.stream("go", **T)).text

    first = scene.points.index("memory.raise_fence:after")
    assert first < scene.points.index("memory.list_messages:before")


async def test_a_thread_is_not_made_for_somebody_else(scene: Scene) -> None:
    """Set-up writes, too; what it may not write it isn't started with."""
    agent = agent_that_says("one")
    scene.overtaken_at = ("memory.create_thread:before", 1)
    async with scene.application(agent):
        with pytest.raises(LeaseLostError):
            await agent.stream("go", **T)

    assert await scene.store.memory.get_thread_by_id("t") is None


async def test_titles_are_guarded(scene: Scene) -> None:
    """A title of a former owner comes too late as everything does; the run was good."""
    agent = Agent(
        id="a",
        model=ScriptedModel([[text("one")], [text("A title")]]),
        memory=MemoryOptions(generate_title=True),
    )
    scene.overtaken_at = ("memory.update_thread:before", 1)
    async with scene.application(agent):
        assert "one" == await (await agent.stream("go", **T)).text

    thread = await scene.store.memory.get_thread_by_id("t")
    assert thread is not None
    assert "" == thread.title


class Weather:
    """A lane that says something new at each request."""

    id = "weather"

    def __init__(self, *reports: str) -> None:
        self.reports = list(reports)

    def compute_state_signal(self, args: Any) -> Any:
        report = self.reports.pop(0)
        return {"cache_key": report, "contents": f"It is {report}."}


async def test_a_lane_of_a_former_owner_stays_as_it_was(scene: Scene) -> None:
    """Its state was told to nobody who has the thread now, so nobody may believe it was."""
    agent = agent_that_says("one", "two", input_processors=[Weather("sunny", "wet")])
    async with scene.application(agent) as mastra:
        await (await agent.stream("go", **T)).text
        tracker = LaneTracker.of(scene.store)
        before = await tracker.load("t")
        count = scene.points.count("memory.update_thread:before")
        scene.overtaken_at = ("memory.update_thread:before", count + 1)

        output = await agent.stream("and now", **T)
        with pytest.raises(LeaseLostError):
            await output.text
        after = await LaneTracker.of(mastra.storage).load("t")

    assert before is not None
    assert after is not None
    assert "sunny" == (after.tracking("weather") or {})["currentCacheKey"]
    assert (before.tracking("weather"), before.stored) == (after.tracking("weather"), after.stored)


async def test_a_store_without_guards_is_written_as_ever(scene: Scene) -> None:
    """Its owner's own looks at the lease are all that there is."""
    scene.store.capabilities -= {"storage.guarded_writes"}
    agent = agent_that_says("one")
    async with scene.application(agent):
        assert "one" == await (await agent.stream("go", **T)).text

    assert ["go", "one"] == await scene.texts()
    assert "memory.raise_fence:before" not in scene.points
