"""Structured output: what a run ends with (streaming.md 5.7)."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

import pytest
from pydantic import BaseModel

from mastra_conformance import case
from mastra_core import Agent, tool
from mastra_core.errors import RunArgumentError, StructuredOutputError
from mastra_core.streaming.objects import ObjectSchema, PartialObject
from mastra_core.testing.scripted_model import ScriptedModel, text, tool_call

pytestmark = pytest.mark.anyio

MakeAgent = Callable[..., Agent]
THREAD = {"thread_id": "t1", "resource_id": "u1"}


class Person(BaseModel):
    name: str
    age: int


class Mood(Enum):
    GOOD = "good"
    BAD = "bad"


JANE = '{"name": "Jane", "age": 3}'


def model_of(agent: Agent) -> ScriptedModel:
    model = agent.resolve_models(None)[0]
    assert isinstance(model, ScriptedModel)
    return model


async def objects_of(output: Any) -> list[tuple[str, Any]]:
    return [
        (chunk["type"], chunk["object"])
        async for chunk in output.full_stream
        if chunk["type"].startswith("object")
    ]


@case("streaming", 31)
async def test_partial_objects_come_before_the_whole(make_agent: MakeAgent) -> None:
    agent = make_agent([text(JANE)])
    output = await agent.stream("who", structured_output=Person)
    seen = await objects_of(output)

    assert [
        ("object", {}),
        ("object", {"name": "Jane"}),
        ("object", {"name": "Jane", "age": 3}),
        ("object-result", {"name": "Jane", "age": 3}),
    ] == seen
    assert Person(name="Jane", age=3) == await output.object
    assert await output.used_fallback_value is False
    [request] = model_of(agent).requests
    assert request.response_format is not None
    assert "json" == request.response_format["type"]
    assert ["name", "age"] == request.response_format["schema"]["required"]


@case("streaming", 32)
async def test_a_fallback_stands_in(make_agent: MakeAgent) -> None:
    nobody = {"name": "none", "age": 0}
    agent = make_agent([text("not json")])
    output = await agent.stream(
        "who",
        structured_output={
            "schema": Person,
            "error_strategy": "fallback",
            "fallback_value": nobody,
        },
    )

    assert nobody == await output.object
    assert await output.used_fallback_value is True
    assert "success" == output.status


@case("streaming", 33)
@pytest.mark.parametrize("said", ["not json", '{"name": "Jane"}', '{"name": "Jane", "age": "old"}'])
async def test_an_answer_that_does_not_fit_fails_the_run(make_agent: MakeAgent, said: str) -> None:
    agent = make_agent([text(said)])
    output = await agent.stream("who", structured_output=Person, **THREAD)

    with pytest.raises(StructuredOutputError):
        await output.object
    assert "error" == await output.finish_reason
    assert "failed" == output.status
    assert agent.memory is not None
    page = await agent.memory.store.list_messages("t1")
    assert ["user", "assistant"] == [message.role for message in page.messages]


async def test_generate_raises_for_an_answer_that_does_not_fit(make_agent: MakeAgent) -> None:
    agent = make_agent([text("not json")])

    with pytest.raises(StructuredOutputError):
        await agent.generate("who", structured_output=Person)


async def test_a_warning_is_enough_if_one_says_so(make_agent: MakeAgent) -> None:
    agent = make_agent([text("not json")])
    answer = await agent.generate(
        "who", structured_output={"schema": Person, "error_strategy": "warn"}
    )

    assert answer["object"] is None
    assert "not json" == answer["text"]


async def test_the_object_is_that_of_the_last_step(make_agent: MakeAgent) -> None:
    @tool
    async def look(name: str) -> str:
        """Look somebody up."""
        return name

    agent = make_agent([tool_call("look", {"name": "Jane"})], [text(JANE)], tools=[look])
    answer = await agent.generate("who", structured_output=Person)

    assert Person(name="Jane", age=3) == answer["object"]


async def test_the_object_is_kept_with_its_message(make_agent: MakeAgent) -> None:
    agent = make_agent([text(JANE)])
    await agent.generate("who", structured_output=Person, **THREAD)

    assert agent.memory is not None
    page = await agent.memory.store.list_messages("t1")
    metadata = page.messages[-1].content["metadata"]
    assert {"name": "Jane", "age": 3} == metadata["structuredOutput"]


async def test_lists_come_element_by_element(make_agent: MakeAgent) -> None:
    said = '{"elements": [{"name": "A", "age": 1}, {"name": "B", "age": 2}]}'
    agent = make_agent([text(said)])
    output = await agent.stream("who", structured_output=list[Person])

    assert [{"name": "A", "age": 1}, {"name": "B", "age": 2}] == [
        element async for element in output.element_stream
    ]
    assert [Person(name="A", age=1), Person(name="B", age=2)] == await output.object


async def test_a_choice_is_wrapped_for_the_model(make_agent: MakeAgent) -> None:
    agent = make_agent([text('{"result": "good"}')])
    answer = await agent.generate("how", structured_output=Mood)

    assert Mood.GOOD == answer["object"]


async def test_a_plain_schema_is_checked_at_every_depth(make_agent: MakeAgent) -> None:
    schema = {
        "type": "object",
        "properties": {"people": {"type": "array", "items": {"type": "object", "required": ["n"]}}},
        "required": ["people"],
    }
    agent = make_agent([text('{"people": [{"n": 1}, {}]}')])

    with pytest.raises(StructuredOutputError, match=r"people\.1\.n: is missing"):
        await agent.generate("who", structured_output={"schema": schema})


@pytest.mark.parametrize(
    ("mode", "role"), [(True, "system"), ("system", "system"), ("inline", "user")]
)
async def test_the_schema_may_be_told_in_words(make_agent: MakeAgent, mode: Any, role: str) -> None:
    agent = make_agent([text(JANE)])
    await agent.generate("who", structured_output={"schema": Person, "json_prompt_injection": mode})

    [request] = model_of(agent).requests
    assert request.response_format is None
    told = [turn for turn in request.prompt if "JSON schema" in str(turn["content"])]
    assert [role] == [turn["role"] for turn in told]


async def test_a_fence_around_the_answer_does_no_harm(make_agent: MakeAgent) -> None:
    agent = make_agent([text(f"```json\n{JANE}\n```")])

    assert (
        Person(name="Jane", age=3)
        == (await agent.generate("who", structured_output=Person))["object"]
    )


# -- with a model of its own -------------------------------------------------------------------


async def test_a_second_model_makes_the_object(make_agent: MakeAgent) -> None:
    maker = ScriptedModel([[text(JANE)]])
    agent = make_agent([text("Jane is three.")])
    output = await agent.stream("who", structured_output={"schema": Person, "model": maker})
    seen = await objects_of(output)

    assert ("object-result", {"name": "Jane", "age": 3}) == seen[-1]
    assert "Jane is three." == await output.text
    assert "Jane is three." in str(maker.requests[0].prompt)
    assert model_of(agent).requests[0].response_format is None


@case("processors", 51)
@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (text("nonsense"), "Structured output validation failed"),
        ({"type": "throw", "message": "maker is down"}, "maker is down"),
        ({"type": "error", "message": "maker is down"}, "maker is down"),
    ],
)
async def test_a_failed_object_has_the_step_repeated(
    make_agent: MakeAgent, failure: Any, reason: str
) -> None:
    maker = ScriptedModel([[failure], [text(JANE)]])
    agent = make_agent(
        [text("first")], [text("second")], max_processor_retries=1, output_processors=[_Quiet()]
    )
    answer = await agent.generate("who", structured_output={"schema": Person, "model": maker})

    assert Person(name="Jane", age=3) == answer["object"]
    assert reason in str(model_of(agent).requests[1].prompt)


class _Quiet:
    """Does nothing; repeats work with and without processors of one's own."""

    id = "quiet"

    def process_output_step(self, args: Any) -> None:
        """Nothing."""


@pytest.mark.parametrize("failure", [text("nonsense"), {"type": "throw", "message": "down"}])
async def test_a_fallback_stands_in_for_a_second_model_that_failed(
    make_agent: MakeAgent, failure: Any
) -> None:
    wanted = {"schema": Person, "model": ScriptedModel([[failure]])}
    answer = await make_agent([text("first")]).generate(
        "who",
        structured_output={
            **wanted,
            "error_strategy": "fallback",
            "fallback_value": {"name": "none", "age": 0},
        },
    )

    assert ({"name": "none", "age": 0}, "first") == (answer["object"], answer["text"])


@case("processors", 51)
@pytest.mark.parametrize("failure", [text("nonsense"), {"type": "throw", "message": "down"}])
async def test_a_failed_object_without_budget_ends_the_run(
    make_agent: MakeAgent, failure: Any
) -> None:
    agent = make_agent([text("first")])
    output = await agent.stream(
        "who", structured_output={"schema": Person, "model": ScriptedModel([[failure]])}
    )
    last = [chunk async for chunk in output.full_stream][-1]

    assert "tripwire" == last["type"]
    assert {"processorId": "structured-output", "retry": True}.items() <= last["payload"].items()


# -- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"schema": None},
        {"schema": Person, "nonsense": 1},
        {"schema": Person, "error_strategy": "shrug"},
        {"schema": Person, "error_strategy": "fallback"},
        {"schema": Person, "json_prompt_injection": "sideways"},
        3,
    ],
)
async def test_what_cannot_be_wanted_is_refused_before_the_run(
    make_agent: MakeAgent, given: Any
) -> None:
    agent = make_agent([text(JANE)])

    with pytest.raises(RunArgumentError):
        await agent.stream("who", structured_output=given)
    assert [] == model_of(agent).requests


def test_a_long_answer_is_not_read_anew_with_each_piece() -> None:
    partial = PartialObject(ObjectSchema({"type": "object"}))
    seen = 0
    partial.feed('{"a": "')
    for _ in range(20_000):
        seen += partial.feed("0123456789") is not None

    assert seen < 1000
