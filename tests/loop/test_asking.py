"""Models that fail in unusual ways: the next one is asked, and the thread stays storable."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from mastra_core import Agent
from mastra_core.contracts.model import ModelPart, ModelRequest
from mastra_core.errors import ModelError
from mastra_core.testing.scripted_model import ScriptedModel, text

pytestmark = pytest.mark.anyio

MakeAgent = Callable[..., Agent]
T = {"thread_id": "t", "resource_id": "r"}


class RaisesAtOnce(ScriptedModel):
    """Fails before it has an iterator."""

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelPart]:
        raise ValueError("no such endpoint")


class CancelledInside(ScriptedModel):
    """Something that it waits for is cancelled."""

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelPart]:
        return self._cancelled()

    async def _cancelled(self) -> AsyncIterator[ModelPart]:
        waiting = asyncio.get_running_loop().create_future()
        waiting.cancel()
        await waiting
        yield {}


class Says(ScriptedModel):
    """Says these parts, then finishes."""

    def __init__(self, *parts: Any) -> None:
        super().__init__()
        self.parts = parts

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelPart]:
        self.requests.append(request)
        return self._said()

    async def _said(self) -> AsyncIterator[ModelPart]:
        for part in self.parts:
            yield part
        yield {"type": "finish", "finishReason": "stop", "usage": {}}


@pytest.mark.parametrize("first", [RaisesAtOnce(), CancelledInside()])
async def test_the_next_model_answers(make_agent: MakeAgent, first: ScriptedModel) -> None:
    """Whatever way a model fails in, its successor is asked."""
    agent = make_agent(model=[first, ScriptedModel([[text("here")]])])

    output = await agent.stream("go", **T)

    assert "here" == await output.text
    assert "success" == output.status


@pytest.mark.parametrize(
    "part",
    [
        5,
        {},
        {"type": None},
        {"type": "text-delta", "id": "1", "delta": 5},
        {"type": "text-delta", "id": "1", "delta": "x", "providerMetadata": {"a": object()}},
        {"type": "source", "url": object()},
        {"type": "file", "data": object()},
        {"type": "response-metadata", "headers": object()},
        {"type": "step-finish"},
        {"type": "tool-call-approval", "payload": {}},
    ],
)
async def test_what_can_not_be_stored_fails_the_model_and_not_the_thread(
    make_agent: MakeAgent, stored: Callable[..., Any], part: Any
) -> None:
    """The error is the model's, and what the user said is kept."""
    agent = make_agent(model=Says(part))

    output = await agent.stream("go", **T)

    with pytest.raises(ModelError):
        await output.text
    assert ["user", "assistant"] == [row.role for row in await stored(agent)]


async def test_arguments_that_are_no_json_are_empty(
    make_agent: MakeAgent, stored: Callable[..., Any]
) -> None:
    """Also those that only Python's reader would take."""
    calls = [
        {"type": "tool-call", "toolCallId": "a", "toolName": "x", "input": '{"n": NaN}'},
        {"type": "tool-call", "toolCallId": "b", "toolName": "x", "input": "[" * 5000},
        {"type": "tool-call", "toolCallId": "c", "toolName": "x", "input": {"n": float("nan")}},
    ]
    agent = make_agent(model=Says(*calls))

    output = await agent.stream("go", max_steps=1, **T)

    called = [call["payload"]["args"] for call in await output.tool_calls]
    assert [{}, {}, {"n": None}] == called
    assert "assistant" == (await stored(agent))[-1].role


async def test_an_answer_that_is_not_wanted_is_not_read_on(make_agent: MakeAgent) -> None:
    """When a processor stops the run, the model's stream is closed before the run ends."""
    closed: list[str] = []

    class Watched(ScriptedModel):
        def stream(self, request: ModelRequest) -> AsyncIterator[ModelPart]:
            return self._watched()

        async def _watched(self) -> AsyncIterator[ModelPart]:
            try:
                yield {"type": "text-delta", "id": "1", "delta": "bad"}
                yield {"type": "text-delta", "id": "1", "delta": "more"}
            finally:
                closed.append("model")

    class Guard:
        id = "guard"

        def process_output_stream(self, args: Any) -> Any:
            if args.part["type"] == "text-delta":
                args.abort("no")
            return args.part

    async def on_finish(facts: Any) -> None:
        closed.append("run")

    agent = make_agent(model=Watched(), output_processors=[Guard()])

    output = await agent.stream("go", on_finish=on_finish, **T)

    assert "other" == await output.finish_reason
    assert ["model", "run"] == closed
