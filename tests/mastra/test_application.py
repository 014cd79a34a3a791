"""Putting an application together, opening and closing it (design 4.4)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn, Self

import pytest

from mastra_core import Agent, FunctionTool, Mastra, ToolContext
from mastra_core.config import load_settings
from mastra_core.errors import (
    CapabilityNotSupportedError,
    ConfigError,
    MastraError,
    ModelNotFoundError,
    PluginBrokenError,
    RunNotFoundError,
    UnknownSchemeError,
)
from mastra_core.inmemory.storage import InMemoryStorage
from mastra_core.plugins import hookimpl
from mastra_core.testing.scripted_model import ScriptedModel, text, tool_call

pytestmark = pytest.mark.anyio


async def test_it_can_be_opened_again() -> None:
    """Agents, runs and dispatcher start anew."""
    agent = Agent(id="a", model=ScriptedModel([[text("one")], [text("two")]]))
    mastra = Mastra(storage="memory:", agents=[agent])

    answers = []
    for _ in range(2):
        async with mastra:
            answers.append((await agent.generate("hi"))["text"])

    assert ["one", "two"] == answers


async def test_opening_and_closing_twice_is_harmless() -> None:
    """The second call finds it done."""
    mastra = Mastra(storage="memory:")
    await mastra.open()
    await mastra.open()
    assert mastra.is_open

    await mastra.aclose()
    await mastra.aclose()

    assert not mastra.is_open


async def test_a_closed_application_says_so() -> None:
    """With the way out."""
    mastra = Mastra(storage="memory:")

    with pytest.raises(ConfigError, match="isn't open"):
        _ = mastra.storage


async def test_two_applications_know_nothing_of_each_other() -> None:
    """Same thread id, same process, different worlds (field report R97)."""
    one = Agent(id="a", model=ScriptedModel([[text("one")]]))
    two = Agent(id="a", model=ScriptedModel([[text("two")]]))
    async with (
        Mastra(storage="memory:", agents=[one]) as first,
        Mastra(storage="memory:", agents=[two]),
    ):
        await (await one.stream("hi", thread_id="t", resource_id="r")).wait()

        assert two.memory is not None
        assert await two.memory.store.get_thread_by_id("t") is None
        assert await first.storage.memory.get_thread_by_id("t") is not None


async def test_an_agent_can_not_serve_two_open_applications() -> None:
    """It would not know where to store."""
    agent = Agent(id="a")
    async with Mastra(storage="memory:", agents=[agent]):
        with pytest.raises(ConfigError, match="attached to another"):
            Mastra(storage="memory:", agents=[agent])


def test_agent_ids_are_unique() -> None:
    """They own runs in storage."""
    with pytest.raises(ConfigError, match="'a'"):
        Mastra(agents=[Agent(id="a"), Agent(id="a")])


def test_an_unknown_agent_lists_the_known_ones() -> None:
    """The message helps."""
    with pytest.raises(ConfigError, match="Known: a"):
        Mastra(agents=[Agent(id="a")]).get_agent("b")


@pytest.mark.parametrize("name", ["smollm2", "/x", "x/"])
async def test_a_model_name_needs_its_provider(name: str) -> None:
    """``provider/model``."""
    async with Mastra(storage="memory:", agents=[Agent(id="a", model=name)]) as mastra:
        with pytest.raises(ModelNotFoundError, match="provider/model"):
            await mastra.get_agent("a").stream("hi")


async def test_a_store_that_can_not_be_had_opens_nothing() -> None:
    """Typed, and the application stays closed."""
    mastra = Mastra(storage="postgress://db/app")

    with pytest.raises(UnknownSchemeError):
        await mastra.open()

    assert not mastra.is_open


async def test_options_of_a_file_are_for_the_url_beside_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store, or another URL, that is given instead has nothing to do with them."""
    (tmp_path / "mastra.toml").write_text(
        "[storage]\nurl = 'postgres://db/app'\npool_size = 3\n[lease]\nurl = 'memory:'\n"
    )
    monkeypatch.chdir(tmp_path)

    async with Mastra(storage="memory:") as by_url:
        pass
    async with Mastra(storage=InMemoryStorage()):
        pass
    async with Mastra(storage="memory:", settings=load_settings()):
        pass

    assert {} == by_url.settings.storage.options
    assert "memory:" == by_url.settings.storage.url


@pytest.mark.parametrize("role", ["storage", "pubsub", "lease"])
async def test_parameters_that_would_do_nothing_are_refused(role: str) -> None:
    """``memory:?foo=1`` isn't a store of the name ``?foo=1``."""
    with pytest.raises(ConfigError, match="no parameters"):
        async with Mastra(**{"storage": "memory:", role: "memory:?foo=1"}):  # type: ignore[arg-type] # one of them
            pass


async def test_opening_at_the_same_time_opens_once() -> None:
    """Both callers wait for one opening; one closing closes all of it."""
    opened: list[str] = []

    class Counted(InMemoryStorage):
        async def __aenter__(self) -> Self:
            opened.append("store")
            return await super().__aenter__()

    mastra = Mastra(storage=Counted(), own=True)

    await asyncio.gather(mastra.open(), mastra.open(), mastra.open())
    await asyncio.gather(mastra.aclose(), mastra.aclose())

    assert ["store"] == opened
    assert not mastra.is_open


async def test_what_could_not_be_opened_is_not_there() -> None:
    """A store that was open for a moment isn't handed out afterwards."""

    @hookimpl
    def mastra_startup(mastra: Mastra) -> None:
        raise ValueError("not today")

    plugin = ModuleType("refuses")
    plugin.mastra_startup = mastra_startup  # type: ignore[attr-defined] # a module of a test
    mastra = Mastra(storage="memory:", plugins=[plugin])

    with pytest.raises(PluginBrokenError):
        await mastra.open()

    with pytest.raises(ConfigError):
        _ = mastra.storage


async def test_a_store_without_runs_opens() -> None:
    """Agents work; only what needs an answer fails, and says why."""

    class OnlyThreads(InMemoryStorage):
        def __init__(self) -> None:
            super().__init__()
            self.capabilities = frozenset({"memory"})

        @property
        def workflows(self) -> NoReturn:
            raise CapabilityNotSupportedError(capability="workflows", adapter="threads")

    async def act(args: Any, context: ToolContext) -> str:
        return "acted"

    tool = FunctionTool(id="act", execute=act, require_approval=True)
    model = ScriptedModel([[text("hello")], [tool_call("act", {})]])
    agent = Agent(id="a", model=model, tools=[tool])
    async with Mastra(storage=OnlyThreads(), agents=[agent], own=True) as mastra:
        first = await agent.generate("hi", thread_id="t", resource_id="r")
        with pytest.raises(MastraError) as raised:
            await agent.generate("act", thread_id="t", resource_id="r")
        with pytest.raises(RunNotFoundError):
            await agent.approve_tool_call("any")
        with pytest.raises(CapabilityNotSupportedError):
            _ = mastra.snapshots

        assert "hello" == first["text"]
        assert "AGENT_SUSPEND_NO_STORAGE" == raised.value.id
        assert not await agent.cancel_run("any")
