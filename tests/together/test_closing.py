"""An application that closes cuts off what it says, and loses nothing of it (signals.md G1)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mastra_core import Agent, FunctionTool, Mastra
from mastra_core.streaming.output import ModelOutput
from mastra_core.testing.scripted_model import Gates, ScriptedModel, text, tool_call

pytestmark = pytest.mark.anyio

T = {"thread_id": "t", "resource_id": "r"}
_DEADLINE = 30.0
CUT_OFF = [text("half "), {"type": "gate", "name": "speaking"}, text("whole")]
GoOn = Callable[..., Any]


class Places:
    """One application after the other on one file."""

    def __init__(self, path: Path) -> None:
        self._url = f"file:{path / 'app.db'}"
        self.paid: list[Any] = []

    def open(self, *calls: Any, gates: Gates | None = None) -> tuple[Mastra, Agent, ScriptedModel]:
        async def pay(args: Any, context: Any) -> str:
            self.paid.append(args)
            return "paid"

        model = ScriptedModel(calls, gates=gates)
        tools = [
            FunctionTool(id="pay", execute=pay),
            FunctionTool(id="buy", execute=pay, require_approval=True),
        ]
        agent = Agent(id="a", model=model, tools=tools)
        mastra = Mastra(storage=self._url, agents=[agent], threads={"lease_ttl_ms": 1000})
        return mastra, agent, model

    async def rows(self) -> list[str]:
        mastra, _, _ = self.open()
        async with mastra:
            return await rows_of(mastra)


async def rows_of(mastra: Mastra) -> list[str]:
    """Text and results of the stored messages, in order."""
    rows = (await mastra.storage.memory.list_messages("t")).messages
    return [
        "".join(
            str(part.get("text", (part.get("toolInvocation") or {}).get("result", "")))
            for part in row.content["parts"]
        )
        for row in rows
    ]


async def until(condition: Callable[[], Any]) -> None:
    """Wait until something is so; nobody tells that it is."""
    async with asyncio.timeout(_DEADLINE):
        while not await condition():  # noqa: ASYNC110 - see above
            await asyncio.sleep(0.02)


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path)


async def kinds_of(output: ModelOutput) -> list[str]:
    async with asyncio.timeout(_DEADLINE):
        return [chunk["type"] async for chunk in output.full_stream]


async def test_a_cut_off_answer_to_a_signal_is_given_anew(places: Places) -> None:
    """By whoever has the thread next; of the half one nothing is left."""
    gates = Gates()
    first, agent, _ = places.open(CUT_OFF, gates=gates)
    async with first:
        accepted = await agent.send_message("hello", **T).accepted
        await gates.reached("speaking")
    assert accepted.output is not None
    kinds = await kinds_of(accepted.output)
    between = await places.rows()
    second, _, model = places.open([text("answer")])
    async with second:

        async def is_answered() -> bool:
            return "answer" in await rows_of(second)

        await until(is_answered)
        rows = await rows_of(second)

    assert ["abort", "finish"] == kinds[-2:]
    assert (1, 1) == (kinds.count("abort"), kinds.count("finish"))
    assert "aborted" == await accepted.output.finish_reason
    assert ["hello"] == between
    assert (["hello", "answer"], 1) == (rows, len(model.requests))


async def test_what_a_cut_off_run_has_done_is_not_done_again(places: Places) -> None:
    gates = Gates()
    first, agent, _ = places.open([tool_call("pay", {})], CUT_OFF, gates=gates)
    async with first:
        await agent.send_message("pay", **T).accepted
        await gates.reached("speaking")
    second, _, model = places.open([text("answer")])
    async with second:

        async def is_answered() -> bool:
            return "answer" in await rows_of(second)

        await until(is_answered)
        rows = await rows_of(second)

    assert (["pay", "paid", "answer"], [{}]) == (rows, places.paid)
    assert "paid" in str(model.requests[0].prompt)


async def test_a_cut_off_answer_that_nobody_gives_anew_is_kept(places: Places) -> None:
    """A caller of ``stream`` gets what an abort gives (streaming.md 2.7)."""
    gates, told = Gates(), list[str]()
    first, agent, _ = places.open(CUT_OFF, gates=gates)
    async with first:
        output = await agent.stream(
            "hello",
            **T,
            on_abort=lambda facts: told.append("abort"),
            on_finish=lambda facts: told.append(facts["finishReason"]),
        )
        await gates.reached("speaking")
    kinds = await kinds_of(output)

    assert ["abort", "finish"] == kinds[-2:]
    assert (["abort", "aborted"], "canceled") == (told, output.status)
    assert ["hello", "half "] == await places.rows()


async def test_a_cut_off_answer_of_a_resumed_run_is_given_anew(places: Places) -> None:
    """The run waits again, and its tool isn't called twice."""
    gates = Gates()
    first, agent, _ = places.open([tool_call("buy", {})], CUT_OFF, gates=gates)
    async with first:
        parked = await agent.stream("buy", **T)
        await parked.wait()
        cut_off = await agent.approve_tool_call(parked.run_id)
        await gates.reached("speaking")
    kinds = await kinds_of(cut_off)
    between = await places.rows()
    second, agent, _ = places.open([text("answer")])
    async with second:
        again = await agent.approve_tool_call(parked.run_id)
        await again.wait()
        rows = await rows_of(second)

    assert ["abort", "finish"] == kinds[-2:]
    assert ["buy", "paid"] == between
    assert (["buy", "paid", "answer"], [{}]) == (rows, places.paid)


async def test_a_finished_answer_is_told_so_although_the_application_closes(
    places: Places,
) -> None:
    """Closed while ``on_finish`` goes on: stored, answered, and with its last chunk."""
    finishing = asyncio.Event()

    async def linger(facts: Any) -> None:
        finishing.set()
        await asyncio.Event().wait()

    first, agent, _ = places.open([text("answer")])
    async with first:
        output = await agent.stream("hello", **T, on_finish=linger)
        async with asyncio.timeout(_DEADLINE):
            await finishing.wait()
    kinds = await kinds_of(output)

    assert ("finish", 1, 0) == (kinds[-1], kinds.count("finish"), kinds.count("abort"))
    assert ("stop", "success") == (await output.finish_reason, output.status)
    assert ["hello", "answer"] == await places.rows()
