"""``browser-context`` beside a real Chromium."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from mastra_core import tool
from mastra_core.testing.scripted_model import text, tool_call
from mastra_processors import BrowserContext, DevToolsBrowser

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

THREAD = {"thread_id": "t1", "resource_id": "u1"}


async def shows(browser: Any, is_so: Callable[[Any], bool]) -> Any:
    """The state of the browser once something is so."""
    source = DevToolsBrowser(browser.url)
    async with asyncio.timeout(60):
        while not is_so(state := await source.state()):  # noqa: ASYNC110 – a browser tells nobody
            await asyncio.sleep(0.05)
    return state


async def test_its_page_is_read(chromium: Any, pages: str) -> None:
    tab = chromium.open(f"{pages}/one")
    state = await shows(chromium, lambda state: state.page_title == "Page one")

    assert (f"{pages}/one", True) == (state.current_url, state.is_open)
    tabs = state.tab_count
    chromium.close_tab(tab)
    state = await shows(chromium, lambda state: state.tab_count == tabs - 1)
    assert f"{pages}/one" != state.current_url


async def test_a_browser_that_is_gone_is_closed(chromium: Any) -> None:
    source = DevToolsBrowser(chromium.url)
    assert (await source.state()).is_open

    await chromium.stop()

    state = await source.state()
    assert (False, "error") == (state.is_open, state.close_reason)


async def test_the_model_is_told_what_it_sees_and_then_what_changes(
    make_agent: Any, chromium: Any, pages: str
) -> None:
    """The agent goes to a page with a tool; before its next step, it is told that it is there."""

    @tool
    async def go_to(address: str) -> str:
        """Open a page."""
        chromium.open(address)
        name = address.rpartition("/")[2]
        await shows(chromium, lambda state: state.page_title == f"Page {name}")
        return "opened"

    steps = [[tool_call("go_to", {"address": f"{pages}/{n}"}, id=n)] for n in ("one", "two")]
    agent = make_agent(
        *steps,
        [text("done")],
        [text("still there")],
        tools=[go_to],
        input_processors=[BrowserContext(devtools_url=chromium.url)],
    )
    await agent.generate("Look at both pages.", **THREAD)
    await agent.generate("Where are you?", **THREAD)

    page = await agent.memory.store.list_messages("t1")
    signals = [m.content["metadata"]["signal"] for m in page.messages if m.role == "signal"]
    states = [signal["metadata"]["state"] for signal in signals]
    assert ["snapshot", "delta", "delta"] == [state["mode"] for state in states]
    assert [1, 2, 3] == [state["version"] for state in states]
    assert {"browser"} == {state["id"] for state in states}
    assert "about:blank" == signals[0]["metadata"]["value"]["currentUrl"]
    changes = [signal["metadata"]["delta"] for signal in signals[1:]]
    assert [f"{pages}/one", f"{pages}/two"] == [change["currentUrl"] for change in changes]
    assert ["Page one", "Page two"] == [change["pageTitle"] for change in changes]

    requests = agent.resolve_models(None)[0].requests
    assert f"Address: {pages}/two" in str(requests[2].prompt)
    assert "You have a browser (chromium)." in str(requests[0].prompt)
    # The last run found nothing new, and remembers what it was told.
    assert 1 == str(requests[3].prompt).count(f"Address: {pages}/two")
