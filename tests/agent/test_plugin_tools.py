"""Tools that plugins add to an agent (hook ``mastra_agent_tools``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from mastra_core import Agent, Mastra, tool
from mastra_core.contracts.tool import Tool
from mastra_core.errors import ConfigError, PluginBrokenError
from mastra_core.inmemory.storage import InMemoryStorage
from mastra_core.plugins import hookimpl
from mastra_core.testing.scripted_model import ScriptedModel, text, tool_call

pytestmark = pytest.mark.anyio


@tool
async def search(what: str) -> str:
    """Look something up."""
    return f"found {what}"


@tool(require_approval=True)
async def order(what: str) -> str:
    """Buy something."""
    return f"ordered {what}"


@tool
async def greet() -> str:
    """Say hello."""
    return "hello"


class Shelf:
    """A plugin with tools for researchers, and one for guests."""

    @hookimpl
    def mastra_agent_tools(self, agent: Any, request_context: Mapping[str, Any]) -> Iterator[Tool]:
        if agent.id == "researcher":
            yield search
            yield order
        if request_context.get("guest"):
            yield greet


class Broken:
    """A plugin that fails when it is asked."""

    @hookimpl
    def mastra_agent_tools(self) -> Iterator[Tool]:
        yield search
        raise RuntimeError("no shelf")


def model(*turns: Any) -> ScriptedModel:
    return ScriptedModel([*turns, [text("done")]])


async def offered_tools(agent_id: str, *plugins: object, **options: Any) -> list[str]:
    """What the model of an agent without tools of its own may call."""
    scripted = model()
    agent = Agent(id=agent_id, model=scripted)
    async with Mastra(storage="memory:", agents=[agent], plugins=plugins):
        await agent.generate("go", **options)
    return sorted(offered.name for offered in scripted.requests[-1].tools)


async def test_an_agent_has_the_tools_that_plugins_give_it() -> None:
    """By agent and request context; called like its own."""
    agent = Agent(id="researcher", model=model([tool_call("search", {"what": "x"})]))
    async with Mastra(storage="memory:", agents=[agent], plugins=[Shelf()]):
        output = await agent.generate("go")

    assert "found x" == output["toolResults"][0]["payload"]["result"]
    assert ["order", "search"] == await offered_tools("researcher", Shelf())
    assert [] == await offered_tools("writer", Shelf())
    assert ["greet"] == await offered_tools("writer", Shelf(), request_context={"guest": True})


async def test_the_agents_own_tool_wins_over_one_of_the_same_name() -> None:
    @tool(id="search")
    async def own(what: str) -> str:
        """Its own."""
        return f"own {what}"

    agent = Agent(id="researcher", model=model([tool_call("search", {"what": "x"})]), tools=[own])
    async with Mastra(storage="memory:", agents=[agent], plugins=[Shelf()]):
        output = await agent.generate("go")

    assert "own x" == output["toolResults"][0]["payload"]["result"]


async def test_a_tool_of_a_plugin_waits_for_approval_and_goes_on_elsewhere() -> None:
    """The application that approves has the plugin, too."""
    async with InMemoryStorage() as store:
        first = Agent(id="researcher", model=model([tool_call("order", {"what": "x"})]))
        async with Mastra(storage=store, agents=[first], plugins=[Shelf()]):
            output = await first.stream("go", thread_id="t", resource_id="r")
            assert "suspended" == await output.finish_reason
        second = Agent(id="researcher", model=model())
        async with Mastra(storage=store, agents=[second], plugins=[Shelf()]):
            [run] = (await second.list_suspended_runs()).runs
            answer = await second.approve_tool_call_generate(run.run_id)

    assert "ordered x" == answer["toolResults"][0]["payload"]["result"]


async def test_a_named_plugin_that_fails_is_the_callers_to_know() -> None:
    """Before the model is asked; one that was only found would be put aside."""
    with pytest.raises(PluginBrokenError, match="no shelf"):
        await offered_tools("researcher", Broken(), Shelf())


async def test_two_plugins_with_one_tool_name_are_a_conflict() -> None:
    """Nobody wins silently."""
    agent = Agent(id="researcher", model=model())
    async with Mastra(storage="memory:", agents=[agent], plugins=[Shelf(), Shelf()]):
        with pytest.raises(ConfigError, match="Two tools are called 'search'"):
            await agent.generate("go")
