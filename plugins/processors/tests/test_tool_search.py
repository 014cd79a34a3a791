"""``tool-search``: tools that are found, loaded, hidden and forgotten."""

from __future__ import annotations

from typing import Any

import pytest

from mastra_core import tool
from mastra_core.errors import ConfigError
from mastra_core.plugins import AdapterContext
from mastra_core.testing.fake_clock import FakeClock
from mastra_core.testing.scripted_model import text, tool_call
from mastra_processors import ToolSearch
from mastra_processors.search_index import SearchIndex
from mastra_processors.tool_search import ToolSearchFilter

pytestmark = pytest.mark.anyio

THREAD = {"thread_id": "t1", "resource_id": "u1"}


@tool
async def create_issue(title: str) -> str:
    """Create an issue in the tracker."""
    return f"created {title}"


@tool
async def send_mail(to: str) -> str:
    """Send a mail to somebody."""
    return f"sent to {to}"


@tool
async def weather(place: str) -> str:
    """Tell the weather of a place."""
    return "sunny"


SHELF = [create_issue, send_mail, weather]
SEARCH = [tool_call("search_tools", {"query": "open issues"}, id="s")]
LOAD = [tool_call("load_tool", {"toolName": "create_issue"}, id="l")]
USE = [tool_call("create_issue", {"title": "bug"}, id="u")]
DONE = [text("done")]


def offered(agent: Any, request: int) -> list[str]:
    return [one.name for one in agent.resolve_models(None)[0].requests[request].tools]


async def results(agent: Any, **options: Any) -> list[Any]:
    answer = await agent.generate("go", **options)
    return [
        result["payload"]["result"] if "payload" in result else result["result"]
        for step in answer["steps"]
        for result in step["toolResults"]
    ]


async def test_a_tool_is_found_loaded_and_used(make_agent: Any) -> None:
    agent = make_agent(SEARCH, LOAD, USE, DONE, input_processors=[ToolSearch(tools=SHELF)])

    found, loaded, used = await results(agent)

    assert ["create_issue"] == [one["name"] for one in found["results"]]
    assert loaded["success"]
    assert "created bug" == used
    meta = ["search_tools", "load_tool"]
    assert [meta, meta, [*meta, "create_issue"]] == [offered(agent, n) for n in range(3)]


async def test_what_is_found_may_be_loaded_at_once(make_agent: Any) -> None:
    shelf = ToolSearch(tools=SHELF, search={"auto_load": True})
    agent = make_agent(SEARCH, USE, DONE, input_processors=[shelf])

    found, used = await results(agent)

    assert ["create_issue"] == found["loaded"]
    assert "created bug" == used
    assert ["search_tools"] == offered(agent, 0)


async def test_a_thread_keeps_its_tools_and_others_do_not_have_them(make_agent: Any) -> None:
    agent = make_agent(LOAD, DONE, DONE, DONE, input_processors=[ToolSearch(tools=SHELF)])

    await agent.generate("go", **THREAD)
    await agent.generate("go", **THREAD)
    assert "create_issue" in offered(agent, 2)
    await agent.generate("go", thread_id="t2", resource_id="u1")
    assert "create_issue" not in offered(agent, 3)


async def test_a_run_without_a_thread_has_its_tools_for_itself(make_agent: Any) -> None:
    agent = make_agent(LOAD, DONE, DONE, input_processors=[ToolSearch(tools=SHELF)])

    await agent.generate("go")
    assert "create_issue" in offered(agent, 1)
    await agent.generate("go")
    assert "create_issue" not in offered(agent, 2)


async def test_tools_are_forgotten_after_their_time(make_agent: Any) -> None:
    clock = FakeClock()
    shelf = ToolSearch(None, AdapterContext(clock=clock), tools=SHELF, ttl=1000)
    agent = make_agent(LOAD, DONE, DONE, DONE, input_processors=[shelf])

    await agent.generate("go", **THREAD)
    await clock.advance(0.9)
    await agent.generate("go", **THREAD)
    assert "create_issue" in offered(agent, 2)
    await clock.advance(1.1)
    await agent.generate("go", **THREAD)
    assert "create_issue" not in offered(agent, 3)
    assert 0 == len(shelf.loaded)


async def test_the_conversation_may_hold_what_is_loaded(make_agent: Any) -> None:
    """Another process, with the same store, knows it too."""
    agent = make_agent(LOAD, DONE, input_processors=[ToolSearch(tools=SHELF, storage="context")])
    await agent.generate("go", **THREAD)

    other = ToolSearch(tools=SHELF, storage="context")
    await agent.generate("again", input_processors=[other], **THREAD)

    assert "create_issue" in offered(agent, 1)
    assert "create_issue" in offered(agent, 2)
    await agent.generate("else", thread_id="t2", resource_id="u1", input_processors=[other])
    assert "create_issue" not in offered(agent, 3)


@pytest.mark.parametrize("phase", ["search", "load", "active"])
async def test_a_filter_decides_at_each_point(make_agent: Any, phase: str) -> None:
    async def allows(asked: ToolSearchFilter) -> bool:
        assert asked.request_context == {"plan": "free"}
        return asked.phase != phase or asked.tool_name != "create_issue"

    agent = make_agent(
        SEARCH, LOAD, DONE, input_processors=[ToolSearch(tools=SHELF, filter=allows)]
    )
    found, loaded = await results(agent, request_context={"plan": "free"})

    assert (phase != "search") == bool(found["results"])
    assert (phase != "load") == loaded["success"]
    assert (phase == "search") == ("create_issue" in offered(agent, 2))


async def test_a_filter_that_raises_says_no(make_agent: Any, caplog: Any) -> None:
    def broken(asked: ToolSearchFilter) -> bool:
        raise ValueError("no answer")

    agent = make_agent(LOAD, DONE, input_processors=[ToolSearch(tools=SHELF, filter=broken)])

    [loaded] = await results(agent)

    assert not loaded["success"]
    assert "filter of tools failed" in caplog.text


async def test_tools_of_the_agent_may_have_to_be_found_too(make_agent: Any) -> None:
    shelf = ToolSearch(tools=[send_mail], include_resolved_tools=True)
    agent = make_agent(SEARCH, LOAD, USE, DONE, tools=[create_issue], input_processors=[shelf])

    found, _, used = await results(agent)

    assert ["search_tools", "load_tool"] == offered(agent, 0)
    assert "created bug" == used
    assert "create_issue" == found["results"][0]["name"]


async def test_an_unknown_tool_is_refused_with_a_hint(make_agent: Any) -> None:
    load = [tool_call("load_tool", {"toolName": "createIssue"})]
    agent = make_agent(load, DONE, input_processors=[ToolSearch(tools=SHELF)])

    [loaded] = await results(agent)

    assert "There is no tool 'createIssue'. Perhaps: create_issue." == loaded["message"]


async def test_nothing_found_says_so(make_agent: Any) -> None:
    search = [tool_call("search_tools", {"query": "fly to the moon"})]
    agent = make_agent(search, DONE, input_processors=[ToolSearch(tools=SHELF)])

    [found] = await results(agent)

    assert {"results": [], "message": "Nothing fits. Try other words."} == found


async def test_the_other_tools_of_the_agent_stay(make_agent: Any) -> None:
    agent = make_agent(DONE, tools=[weather], input_processors=[ToolSearch(tools=[send_mail])])

    await agent.generate("go")

    assert ["weather", "search_tools", "load_tool"] == offered(agent, 0)


def test_threads_can_be_cleared() -> None:
    from types import SimpleNamespace

    loaded = ToolSearch(tools=SHELF).loaded
    runs: list[Any] = [
        SimpleNamespace(thread_id=name, resource_id="u", state={}) for name in ("a", "b")
    ]
    for args in runs:
        loaded.add(args, ["x", "x"])
    loaded.clear("a")
    assert [[], ["x"]] == [loaded.of(args) for args in runs]
    loaded.clear()
    assert 0 == len(loaded)


def test_only_tools_can_be_found() -> None:
    with pytest.raises(ConfigError, match="no tool"):
        ToolSearch(tools=["send_mail"])


def test_the_best_fit_comes_first() -> None:
    index = SearchIndex(
        {
            "getWeather": "Forecast for a city.",
            "listCities": "All cities of a country.",
            "sendMail": "Send mail.",
        }
    )
    assert ["getWeather"] == [name for name, _ in index.find("weather", limit=5)]
    found = index.find("city weather", limit=5)
    assert [("getWeather", 1.0)] == found[:1]
    assert ["getWeather", "listCities"] == [name for name, _ in found]
    assert [("getWeather", 1.0)] == index.find("city weather", limit=5, min_score=0.9)
    assert [] == index.find("", limit=5)
    assert [] == SearchIndex({}).find("x", limit=5)
