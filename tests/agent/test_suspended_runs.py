"""Listing suspended runs where there is little or no storage (snapshots.md 8.1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mastra_conformance import case
from mastra_core import Agent, FunctionTool, Mastra
from mastra_core.errors import RunArgumentError
from mastra_core.inmemory.storage import InMemoryStorage
from mastra_core.testing.scripted_model import text, tool_call

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


def _waiting_tool() -> Any:
    async def nothing(args: Any, context: Any) -> None:
        return None

    return FunctionTool(id="nothing", execute=nothing, require_approval=True)
