"""The real small model: text, forced calls, structured answers, refusals."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from mastra_core.contracts.model import Model, ToolSchema
from mastra_core.errors import ModelHTTPError, ModelOutputError
from mastra_models import LocalModel, PydanticAIModel

pytestmark = pytest.mark.anyio


def text_of(parts: list[dict[str, Any]]) -> str:
    return "".join(part["delta"] for part in parts if part["type"] == "text-delta")


def call_of(parts: list[dict[str, Any]]) -> tuple[str, Any]:
    call = next(part for part in parts if part["type"] == "tool-call")
    return call["toolName"], json.loads(call["input"])


async def test_it_writes_text(ask: Callable[..., Any], local: LocalModel) -> None:
    parts = await ask(local, "What is the capital of France?")

    assert isinstance(local, Model)
    assert "Paris" in text_of(parts)
    assert ["stream-start", "response-metadata", "text-start"] == [p["type"] for p in parts[:3]]
    assert ["text-end", "finish"] == [p["type"] for p in parts[-2:]]
    usage = parts[-1]["usage"]
    assert 0 < usage["inputTokens"] < usage["totalTokens"]


async def test_the_same_question_gets_the_same_answer(
    ask: Callable[..., Any], local: LocalModel
) -> None:
    first = await ask(local, "Name a colour.", settings={"maxOutputTokens": 12})
    second = await ask(local, "Name a colour.", settings={"maxOutputTokens": 12})

    assert text_of(first) == text_of(second) != ""


async def test_a_forced_call_fits_the_schema(
    ask: Callable[..., Any], local: LocalModel, deploy: ToolSchema
) -> None:
    choice = {"type": "tool", "toolName": "deploy"}

    parts = await ask(local, "Please deploy to prod.", tools=[deploy], tool_choice=choice)

    name, arguments = call_of(parts)
    assert "deploy" == name
    assert {"env", "reason"} == set(arguments)
    assert arguments["env"] in {"staging", "prod"}
    streamed = "".join(p["delta"] for p in parts if p["type"] == "tool-input-delta")
    assert arguments == json.loads(streamed)
    assert "tool-calls" == parts[-1]["finishReason"]


async def test_of_several_tools_it_names_one(
    ask: Callable[..., Any], local: LocalModel, deploy: ToolSchema, notify: ToolSchema
) -> None:
    parts = await ask(local, "Tell Ann.", tools=[deploy, notify], tool_choice="required")

    name, arguments = call_of(parts)
    assert (name, set(arguments)) in [("deploy", {"env", "reason"}), ("notify", {"who"})]
    assert name == next(p["toolName"] for p in parts if p["type"] == "tool-input-start")


async def test_a_free_choice_gives_text(
    ask: Callable[..., Any], local: LocalModel, deploy: ToolSchema
) -> None:
    parts = await ask(local, "Hello!", tools=[deploy], settings={"maxOutputTokens": 8})

    assert text_of(parts)


async def test_a_structured_answer_fits_its_schema(
    ask: Callable[..., Any], local: LocalModel
) -> None:
    schema = {
        "type": "object",
        "properties": {
            "level": {"enum": ["low", "high"]},
            "tags": {"type": "array", "items": {"type": "string", "maxLength": 8}, "maxItems": 2},
        },
        "required": ["level", "tags"],
    }

    parts = await ask(local, "Rate this.", response_format={"type": "json", "schema": schema})

    assert {"level", "tags"} == set(json.loads(text_of(parts)))


async def test_a_call_that_is_cut_off_is_an_error(
    ask: Callable[..., Any], local: LocalModel, deploy: ToolSchema
) -> None:
    with pytest.raises(ModelOutputError, match="cut off"):
        await ask(local, tools=[deploy], tool_choice="required", settings={"maxOutputTokens": 2})


async def test_a_prompt_that_is_too_long_is_refused(
    ask: Callable[..., Any], local: LocalModel
) -> None:
    with pytest.raises(ModelHTTPError, match="context") as caught:
        await ask(local, "word " * 9000)

    assert 400 == caught.value.status
    assert "Shorten" in (caught.value.hint or "")


async def test_questions_at_the_same_time_all_get_answers(
    ask: Callable[..., Any], local: LocalModel
) -> None:
    settings = {"maxOutputTokens": 4}

    answers = await asyncio.gather(
        *(ask(local, f"Say {word}.", settings=settings) for word in ("one", "two", "three"))
    )

    assert ["finish"] * 3 == [parts[-1]["type"] for parts in answers]


async def test_its_server_speaks_the_openai_protocol(
    ask: Callable[..., Any], local: LocalModel
) -> None:
    """The translation for hosted providers works against a real server of that protocol."""
    server = await local.start()
    provider = OpenAIProvider(base_url=f"{server['address']}/v1", api_key=server["key"])
    model = PydanticAIModel(OpenAIChatModel("smollm2", provider=provider))

    parts = await ask(model, "Say hello.", settings={"temperature": 0.0, "maxOutputTokens": 30})

    assert text_of(parts)
    assert sum(part["type"] == "text-delta" for part in parts) > 1
    assert parts[-1]["finishReason"] in {"stop", "length"}
    assert parts[-1]["usage"]["outputTokens"] > 0


async def test_its_server_lets_nobody_else_in(ask: Callable[..., Any], local: LocalModel) -> None:
    server = await local.start()
    provider = OpenAIProvider(base_url=f"{server['address']}/v1", api_key="guess")
    model = PydanticAIModel(OpenAIChatModel("smollm2", provider=provider))

    with pytest.raises(ModelHTTPError) as caught:
        await ask(model)

    assert 401 == caught.value.status
