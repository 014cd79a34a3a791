"""``background-work-signals``: what is told of calls that went into the background, and when."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mastra_core import Agent, tool
from mastra_core.errors import StorageError
from mastra_core.testing.scripted_model import ScriptedModel, text, tool_call
from mastra_processors import BackgroundWorkSignals

pytestmark = pytest.mark.anyio

THREAD = {"thread_id": "t1", "resource_id": "u1"}


class Workshop:
    """A tool that works until it is told to end, and an agent that uses it."""

    def __init__(self, *, disposition: str = "deferred", fails: bool = False) -> None:
        self.gate = asyncio.Event()

        @tool(background={"default_disposition": disposition})
        async def build(what: str) -> str:
            """Build something."""
            await self.gate.wait()
            if fails:
                raise RuntimeError("broken")
            return f"built {what}"

        self.model = ScriptedModel(
            [[tool_call("build", {"what": "a"}, id="c1")], [text("started")], [text("later")]]
        )
        self.agent = Agent(
            id="builder",
            model=self.model,
            tools=[build],
            input_processors=[BackgroundWorkSignals()],
        )

    async def signals(self) -> list[tuple[str, str, Any]]:
        """(tag, text, metadata) of the notification signals in the thread."""
        assert self.agent.memory is not None
        page = await self.agent.memory.store.list_messages("t1")
        found = []
        for message in page.messages:
            if message.role == "signal":
                signal = message.content["metadata"]["signal"]
                assert "notification" == signal["type"]
                found.append(
                    (signal["tagName"], message.content["parts"][0]["text"], signal["metadata"])
                )
        return found


async def ended(mastra: Any) -> None:
    """Wait until no task waits or runs."""
    async with asyncio.timeout(30):
        while await mastra.background_tasks.store.get_running_count():  # noqa: ASYNC110 – a row
            await asyncio.sleep(0.01)


async def test_the_start_is_told_in_the_next_step(application: Any) -> None:
    shop = Workshop()
    mastra = await application(shop.agent, background_tasks=True)

    answer = await shop.agent.generate("go", **THREAD)

    [(tag, words, metadata)] = await shop.signals()
    assert ("work-deferred", "work-deferred: c1") == (tag, words)
    assert {
        "originRunId": answer["runId"],
        "originToolCallId": "c1",
        "invocationKind": "tool",
        "disposition": "deferred",
        "status": "running",
    } == {name: value for name, value in metadata.items() if name != "taskId"}
    assert "<work-deferred>work-deferred: c1</work-deferred>" in str(shop.model.requests[1].prompt)
    shop.gate.set()
    await ended(mastra)


@pytest.mark.parametrize(("fails", "expected"), [(False, "work-completed"), (True, "work-failed")])
async def test_the_end_is_told_once_also_in_a_later_run(
    application: Any, fails: bool, expected: str
) -> None:
    shop = Workshop(fails=fails)
    mastra = await application(shop.agent, background_tasks=True)
    await shop.agent.generate("go", **THREAD)
    shop.gate.set()
    await ended(mastra)

    await shop.agent.generate("and now?", **THREAD)
    await shop.agent.generate("and now?", **THREAD)

    told = await shop.signals()
    assert ["work-deferred", expected] == [tag for tag, _, _ in told]
    assert expected.removeprefix("work-") == told[1][2]["status"]


async def test_awaited_work_is_told_with_its_end(application: Any) -> None:
    shop = Workshop(disposition="awaited")
    shop.gate.set()
    await application(shop.agent, background_tasks=True)

    await shop.agent.generate("go", **THREAD)

    assert ["work-awaited", "work-completed"] == [tag for tag, _, _ in await shop.signals()]


async def test_a_store_that_fails_never_fails_the_run(application: Any, caplog: Any) -> None:
    shop = Workshop()
    mastra = await application(shop.agent, background_tasks=True)
    assert mastra.background_tasks is not None
    store = mastra.background_tasks.store
    get_task = store.get_task

    async def broken(task_id: str) -> Any:
        raise StorageError("gone")

    store.get_task = broken
    try:
        answer = await shop.agent.generate("go", **THREAD)
    finally:
        store.get_task = get_task
    shop.gate.set()
    await ended(mastra)

    assert "started" == answer["text"]
    assert "background work can't be told" in caplog.text


async def test_without_background_tasks_nothing_is_told(application: Any) -> None:
    shop = Workshop()
    shop.gate.set()
    await application(shop.agent)

    await shop.agent.generate("go", **THREAD)

    assert [] == await shop.signals()
