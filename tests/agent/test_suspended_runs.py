"""Listing suspended runs where there is little or no storage (snapshots.md 8.1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mastra_conformance import case
from mastra_conformance.suites.storage.things import durable_run
from mastra_core import Agent, FunctionTool, Mastra
from mastra_core.errors import RunArgumentError, RunNotFoundError, StorageArgumentError
from mastra_core.inmemory.storage import InMemoryStorage
from mastra_core.testing.scripted_model import ScriptedModel, text, tool_call
from mastra_core.wire.snapshots import AGENT_WORKFLOW_NAMES, DURABLE_OUTER_WORKFLOW
from mastra_core.workflows.suspended import list_suspended_runs

pytestmark = pytest.mark.anyio


def memory_only_storage() -> InMemoryStorage:
    """A store that offers threads and nothing else."""
    storage = InMemoryStorage()
    storage.capabilities = frozenset({"memory"})
    return storage


@case("snapshots", 60)
async def test_a_store_without_runs_says_so_and_a_standalone_agent_has_its_own(
    make_agent: Callable[..., Agent],
) -> None:
    """The first is an error with an id; the second lists what it parked itself."""
    poor = Agent(id="poor")
    async with Mastra(storage=memory_only_storage(), agents=[poor]):
        with pytest.raises(RunArgumentError) as raised:
            await poor.list_suspended_runs()
    alone = make_agent([tool_call("nothing", {})], [text("x")], tools=[_waiting_tool()])
    output = await alone.stream("go")
    await output.wait()

    listed = await alone.list_suspended_runs()

    assert "AGENT_LIST_SUSPENDED_RUNS_NO_STORAGE" == raised.value.id
    assert [output.run_id] == [run.run_id for run in listed.runs]


class CarelessRuns:
    """Runs of a store that ignores the thread and resource it is asked for."""

    def __init__(self, runs: Any) -> None:
        self._runs = runs

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runs, name)

    async def list_suspended_runs(self, **options: Any) -> Any:
        return await self._runs.list_suspended_runs(
            **{**options, "thread_id": None, "resource_id": None}
        )


@case("snapshots", 55)
async def test_a_store_that_ignores_filters_shows_no_run_of_others(
    make_agent: Callable[..., Agent],
) -> None:
    """The list checks every row again, and its total counts what is left."""
    storage = InMemoryStorage()
    agent = Agent(
        id="deployer",
        model=ScriptedModel([[tool_call("nothing", {}, id="a")], [tool_call("nothing", {})]]),
        tools=[_waiting_tool()],
    )
    async with Mastra(storage=storage, agents=[agent]):
        mine = await agent.stream("go", thread_id="t1", resource_id="r1")
        await mine.wait()
        other = await agent.stream("go", thread_id="t2", resource_id="r2")
        await other.wait()
        careless = CarelessRuns(storage.workflows)

        async def listed(**filters: Any) -> tuple[list[str], int]:
            page = await list_suspended_runs(careless, agent_id="deployer", **filters)  # type: ignore[arg-type] # as good as
            return [run.run_id for run in page.runs], page.total

        assert ([mine.run_id], 1) == await listed(thread_id="t1")
        assert ([other.run_id], 1) == await listed(resource_id="r2")
        assert ([], 0) == await listed(thread_id="t1", resource_id="r2")
        assert ([], 0) == await listed(thread_id="t9")


async def test_a_run_that_cannot_be_parked_leaves_nothing_to_answer() -> None:
    """Its message must not show an approval that nobody can give."""
    agent = Agent(
        id="deployer", model=ScriptedModel([[tool_call("nothing", {})]]), tools=[_waiting_tool()]
    )
    async with Mastra(storage="memory:?mastra_max_snapshot_bytes=2000", agents=[agent]) as mastra:
        output = await agent.stream("x" * 4000, thread_id="t", resource_id="r")
        await output.wait()
        rows = (await mastra.storage.memory.list_messages("t")).messages
        listed = await agent.list_suspended_runs()

    assert isinstance(output.failure, StorageArgumentError)
    assert ("failed", "SNAPSHOT_TOO_LARGE") == (output.status, output.failure.id)
    assert ["user", "assistant"] == [row.role for row in rows]
    assert "pendingToolApprovals" not in rows[1].content.get("metadata", {})
    assert 0 == listed.total


async def test_half_a_run_of_a_durable_agent_is_listed_and_its_answer_refused() -> None:
    """Its inner row is missing: the error says who can resume it; the row stays as it was."""
    storage = InMemoryStorage()
    agent = Agent(id="agent-a", model=ScriptedModel([]))
    key: dict[str, Any] = {"workflow_name": DURABLE_OUTER_WORKFLOW, "run_id": "run1"}
    async with Mastra(storage=storage, agents=[agent]):
        await storage.workflows.persist_workflow_snapshot(**key, snapshot=durable_run("run1"))
        before = await storage.workflows.load_workflow_run(**key)
        listed = await agent.list_suspended_runs()

        with pytest.raises(RunNotFoundError, match="Only that system can resume it"):
            await agent.approve_tool_call("run1")

        after = await storage.workflows.load_workflow_run(**key)

    assert ["run1"] == [run.run_id for run in listed.runs]
    assert before == after


async def test_an_answer_given_again_after_a_crash_replaces_what_was_said() -> None:
    """The process died between its last message and the end of the run's row."""
    said = [[tool_call("nothing", {})], [text("Deployed.")], [text("It is deployed.")]]
    store = InMemoryStorage()
    agent = Agent(id="deployer", model=ScriptedModel(said), tools=[_waiting_tool()])
    async with Mastra(storage=store, agents=[agent]):
        parked = await agent.stream("go", thread_id="t", resource_id="r")
        await parked.wait()
        rows = {
            name: await store.workflows.load_workflow_snapshot(
                workflow_name=name, run_id=parked.run_id
            )
            for name in AGENT_WORKFLOW_NAMES
        }
        first = await agent.approve_tool_call(parked.run_id)
        await first.wait()
        for name, document in rows.items():
            if document is not None:
                await store.workflows.persist_workflow_snapshot(
                    workflow_name=name, run_id=parked.run_id, snapshot=document
                )
        again = await agent.approve_tool_call(parked.run_id)
        await again.wait()
        answers = [
            part["text"]
            for row in (await store.memory.list_messages("t")).messages
            for part in row.content["parts"]
            if row.role == "assistant" and part["type"] == "text"
        ]

    assert ["It is deployed."] == answers


def _waiting_tool() -> Any:
    async def nothing(args: Any, context: Any) -> None:
        return None

    return FunctionTool(id="nothing", execute=nothing, require_approval=True)
