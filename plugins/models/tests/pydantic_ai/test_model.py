"""Requests and answers through pydantic-ai's own models for tests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from pydantic_ai.exceptions import UnexpectedModelBehavior
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models.function import AgentInfo, DeltaThinkingPart, DeltaToolCall, FunctionModel
from pydantic_ai.models.test import TestModel

from mastra_core.contracts.model import Model, ModelRequest, ToolSchema
from mastra_core.errors import ModelError, ModelOutputError, ToolNotFoundError
from mastra_models import PydanticAIModel

pytestmark = pytest.mark.anyio

Chunks = AsyncIterator[str | dict[int, DeltaToolCall] | dict[int, DeltaThinkingPart]]


def model_of(function: Callable[[list[ModelMessage], AgentInfo], Chunks]) -> PydanticAIModel:
    return PydanticAIModel(FunctionModel(stream_function=function))  # type: ignore[arg-type]


def kinds(parts: list[dict[str, Any]]) -> list[str]:
    return [part["type"] for part in parts]


def test_it_is_a_model() -> None:
    model = PydanticAIModel(TestModel(), provider="acme")

    assert isinstance(model, Model)
    assert ("acme", "test") == (model.provider, model.model_id)


async def test_text_is_streamed_between_a_start_and_an_end(ask: Callable[..., Any]) -> None:
    parts = await ask(PydanticAIModel(TestModel(custom_output_text="two words")))

    assert "stream-start" == parts[0]["type"]
    assert {"text-start", "text-delta", "text-end"} <= set(kinds(parts))
    assert "two words" == "".join(p["delta"] for p in parts if p["type"] == "text-delta")
    assert ("finish", "stop") == (parts[-1]["type"], parts[-1]["finishReason"])
    usage = parts[-1]["usage"]
    assert usage["totalTokens"] == usage["inputTokens"] + usage["outputTokens"] > 0


async def test_a_tool_call_is_streamed_and_then_whole(
    ask: Callable[..., Any], deploy: ToolSchema
) -> None:
    async def answer(messages: list[ModelMessage], info: AgentInfo) -> Chunks:
        yield "I will."
        yield {1: DeltaToolCall(name="deploy", tool_call_id="c1")}
        yield {1: DeltaToolCall(json_args='{"env": ')}
        yield {1: DeltaToolCall(json_args='"prod"}')}

    parts = await ask(model_of(answer), tools=[deploy])

    start = kinds(parts).index("tool-input-start")
    assert {"type": "tool-input-start", "id": "c1", "toolName": "deploy"} == parts[start]
    assert "tool-input-end" == kinds(parts)[kinds(parts).index("tool-call") - 1]
    call = next(part for part in parts if part["type"] == "tool-call")
    assert ("c1", "deploy") == (call["toolCallId"], call["toolName"])
    assert {"env": "prod"} == json.loads(call["input"])
    assert "tool-calls" == parts[-1]["finishReason"]
    assert kinds(parts).count("text-end") == kinds(parts).count("text-start") == 1


async def test_broken_arguments_are_handed_on_as_they_are(
    ask: Callable[..., Any], deploy: ToolSchema
) -> None:
    async def answer(messages: list[ModelMessage], info: AgentInfo) -> Chunks:
        yield {0: DeltaToolCall(name="deploy", json_args='{"env": ', tool_call_id="c1")}

    parts = await ask(model_of(answer), tools=[deploy])

    assert '{"env": ' == next(p["input"] for p in parts if p["type"] == "tool-call")


async def test_reasoning_keeps_its_signature(ask: Callable[..., Any]) -> None:
    async def answer(messages: list[ModelMessage], info: AgentInfo) -> Chunks:
        yield {0: DeltaThinkingPart(content="hm")}
        yield {0: DeltaThinkingPart(signature="s1")}
        yield "Done."

    parts = await ask(model_of(answer))

    end = next(part for part in parts if part["type"] == "reasoning-end")
    assert {"function": {"signature": "s1"}} == end["providerMetadata"]
    assert kinds(parts).index("reasoning-end") < kinds(parts).index("text-start")


async def test_tools_and_settings_reach_the_provider(
    ask: Callable[..., Any], deploy: ToolSchema
) -> None:
    seen: list[AgentInfo] = []

    async def answer(messages: list[ModelMessage], info: AgentInfo) -> Chunks:
        seen.append(info)
        yield "ok"

    parts = await ask(
        model_of(answer),
        tools=[deploy],
        tool_choice={"type": "tool", "toolName": "deploy"},
        settings={"maxOutputTokens": 7, "topP": 0.5, "stopSequences": ["x"], "flavour": "mint"},
        provider_options={"function": {"reasoningEffort": "low"}, "other": {"a": 1}},
    )

    (info,) = seen
    assert ["deploy"] == [tool.name for tool in info.function_tools]
    assert deploy.input_schema == info.function_tools[0].parameters_json_schema
    settings = dict(info.model_settings or {})
    assert ["deploy"] == settings["tool_choice"]
    assert (7, 0.5, ["x"]) == tuple(settings[k] for k in ("max_tokens", "top_p", "stop_sequences"))
    assert "low" == settings["function_reasoning_effort"]
    assert [{"type": "unsupported-setting", "setting": "flavour"}] == parts[0]["warnings"]


async def test_a_tool_that_is_not_offered_cannot_be_forced(
    ask: Callable[..., Any], deploy: ToolSchema
) -> None:
    with pytest.raises(ToolNotFoundError):
        await ask(
            PydanticAIModel(TestModel()),
            tools=[deploy],
            tool_choice={"type": "tool", "toolName": "nope"},
        )


async def test_a_structured_answer_carries_its_schema(ask: Callable[..., Any]) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    seen: list[AgentInfo] = []

    async def answer(messages: list[ModelMessage], info: AgentInfo) -> Chunks:
        seen.append(info)
        yield '{"n": 1}'

    await ask(model_of(answer), response_format={"type": "json", "schema": schema, "name": "count"})

    (info,) = seen
    output = info.model_request_parameters.output_object
    assert output is not None
    assert "count" == output.name


async def test_what_a_provider_does_unexpectedly_is_a_model_error(ask: Callable[..., Any]) -> None:
    async def answer(messages: list[ModelMessage], info: AgentInfo) -> Chunks:
        raise UnexpectedModelBehavior("two heads")
        yield ""

    with pytest.raises(ModelOutputError, match="two heads"):
        await ask(model_of(answer))


async def test_a_bug_in_a_provider_is_a_model_error(ask: Callable[..., Any]) -> None:
    async def answer(messages: list[ModelMessage], info: AgentInfo) -> Chunks:
        raise KeyError("oops")
        yield ""

    with pytest.raises(ModelError, match="oops") as caught:
        await ask(model_of(answer))

    assert isinstance(caught.value.__cause__, KeyError)


async def test_abort_ends_the_answer_without_an_error() -> None:
    never, abort = asyncio.Event(), asyncio.Event()

    async def answer(messages: list[ModelMessage], info: AgentInfo) -> Chunks:
        yield "first"
        await never.wait()
        yield "never"

    request = ModelRequest(prompt=[{"role": "user", "content": "hi"}], abort=abort)
    seen = []
    async for part in model_of(answer).stream(request):
        seen.append(part)
        if part["type"] == "text-delta":
            abort.set()

    assert "finish" not in kinds(seen)
