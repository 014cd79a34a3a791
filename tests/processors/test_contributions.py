"""Processors that plugins add to an agent's own (processors.md 10.3)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from mastra_conformance import case
from mastra_core import Agent, Mastra
from mastra_core.errors import ConfigError, PluginBrokenError
from mastra_core.plugins import Placed, hookimpl
from mastra_core.testing.scripted_model import ScriptedModel, text

pytestmark = pytest.mark.anyio


class Contributor:
    """A plugin that adds one input processor."""

    def __init__(self, name: str, order: int, seen: list[str]) -> None:
        self._name, self._order, self._seen = name, order, seen

    @hookimpl
    def mastra_input_processors(self) -> Any:
        yield Placed(processor=noting(self._name, self._seen), slot="user", order=self._order)


def noting(name: str, seen: list[str], said: str | None = None) -> Any:
    return SimpleNamespace(id=name, process_input=lambda args: seen.append(said or name))


async def run(*plugins: object, own: Any) -> str:
    agent = Agent(id="helper", model=ScriptedModel([[text("ok")]]), input_processors=[own])
    async with Mastra(storage="memory:", agents=[agent], plugins=plugins):
        return str((await agent.generate("go"))["text"])


@case("processors", 45)
@pytest.mark.parametrize("is_turned", [False, True])
async def test_the_order_of_registration_does_not_count(is_turned: bool) -> None:
    seen: list[str] = []
    plugins = [Contributor("after", 1, seen), Contributor("before", -1, seen)]
    if is_turned:
        plugins.reverse()

    await run(*plugins, own=noting("own", seen))

    assert ["before", "own", "after"] == seen


@case("processors", 46)
async def test_the_agents_own_wins_over_one_of_the_same_id() -> None:
    seen: list[str] = []

    await run(Contributor("same", -1, seen), own=noting("same", seen, "the agent's"))

    assert ["the agent's"] == seen


async def test_what_is_no_processor_is_the_plugins_fault() -> None:
    """One that the user named fails the call, by its name; others are put aside."""

    class Wrong:
        @hookimpl
        def mastra_input_processors(self) -> Any:
            yield Placed(processor=42)  # type: ignore[arg-type] # a plugin's mistake

    with pytest.raises(PluginBrokenError, match="'Wrong'"):
        await run(Wrong(), own=noting("own", []))


@pytest.mark.parametrize("made", [42, SimpleNamespace(id="idle")], ids=["number", "idle"])
async def test_a_named_processor_that_is_none_is_refused(made: Any) -> None:
    class Makes:
        @hookimpl
        def mastra_create_processor(self, processor_id: str) -> Any:
            return made

    with pytest.raises(ConfigError, match="What plugins offer as 'acme'"):
        await run(Makes(), own="acme")
