"""``classifier`` and ``model-selection``: answers about a request, and what they decide."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mastra_core import tool
from mastra_core.errors import ConfigError
from mastra_core.testing.scripted_model import ScriptedModel, text, tool_call
from mastra_processors import ClassifierProcessor, ModelSelection
from mastra_processors.classifier import ClassifierContext
from mastra_processors.model_selection import ModelDecision

pytestmark = pytest.mark.anyio


@tool
async def look() -> str:
    """Look."""
    return "seen"


async def angry(words: str) -> dict[str, float]:
    return {"angry": float(words.count("!"))}


async def streamed(agent: Any) -> tuple[str, Any]:
    output = await agent.stream("go")
    said = "".join([piece async for piece in output.text_stream])
    return said, await output.tripwire


# -- classifier --------------------------------------------------------------------------------


async def test_an_answer_may_stop_the_run(make_agent: Any) -> None:
    def decide(answers: Any, context: ClassifierContext) -> None:
        if answers["angry"] > 1:
            context.abort("Calm down.")

    guard = ClassifierProcessor(classifier=angry, on_result=decide, id="calm")
    agent = make_agent([text("ok")], input_processors=[guard])

    assert "ok" == (await agent.generate("hello!"))["text"]
    tripwire = (await agent.generate("hello!!"))["tripwire"]
    assert ("Calm down.", "calm") == (tripwire["reason"], tripwire["processorId"])


async def test_an_answer_may_take_texts_out(make_agent: Any, prompt_of: Any) -> None:
    phases: list[str] = []

    async def decide(answers: Any, context: ClassifierContext) -> None:
        phases.append(context.phase)
        if answers["angry"]:
            context.filter()

    guard = ClassifierProcessor(classifier=angry, on_result=decide)
    agent = make_agent([text("fine no! fine")], input_processors=[guard], output_processors=[guard])
    output = await agent.stream(["hello", "bad!"])
    said = "".join([piece async for piece in output.text_stream])

    assert "user:hello" == prompt_of(agent)
    assert "fine fine" == said
    assert {"process_input", "process_output_stream", "process_output_result"} == set(phases)


async def test_pieces_are_classified_together(make_agent: Any) -> None:
    seen: list[str] = []

    def note(words: str) -> dict[str, Any]:
        seen.append(words)
        return {}

    guard = ClassifierProcessor(
        classifier=note, on_result=lambda answers, context: None, chunk_window=2, max_input_length=5
    )
    agent = make_agent([text("a b c")], output_processors=[guard])

    await streamed(agent)

    assert ["a ", "a b ", "b c", "a b c"] == seen


async def test_only_the_last_message_may_be_classified(make_agent: Any) -> None:
    seen: list[str] = []

    def note(words: str) -> dict[str, Any]:
        seen.append(words)
        return {}

    guard = ClassifierProcessor(
        classifier=note, on_result=lambda answers, context: None, last_message_only=True
    )
    agent = make_agent([text("ok")], input_processors=[guard])
    await agent.generate(["a", "b"])

    assert ["b"] == seen


@pytest.mark.parametrize("strict", [False, True])
async def test_a_classifier_that_fails(make_agent: Any, caplog: Any, strict: bool) -> None:
    def broken(words: str) -> dict[str, Any]:
        raise ValueError("no model")

    guard = ClassifierProcessor(
        classifier=broken,
        on_result=lambda answers, context: None,
        error_strategy="strict" if strict else "warn",
    )
    agent = make_agent([text("ok")], input_processors=[guard])

    answer = await agent.generate("x")

    if strict:
        assert "classifier couldn't classify: no model" == answer["tripwire"]["reason"]
    else:
        assert "ok" == answer["text"]
        assert "a text couldn't be classified, it passes" in caplog.text


# -- model-selection ---------------------------------------------------------------------------


def named(name: str, *calls: Any) -> ScriptedModel:
    return ScriptedModel(calls or [[text(f"from {name}")]] * 9, model_id=name)


def chooser(choice: str, probability: float | None = 0.9) -> ScriptedModel:
    said = json.dumps({"choice": choice, "probability": probability})
    return ScriptedModel([[text(said)]] * 9)


def selection(model: Any, **options: Any) -> ModelSelection:
    choices = [
        {"model": named("small"), "criteria": "small talk", "name": "small"},
        {"model": named("large"), "criteria": "thinking"},
    ]
    return ModelSelection(choices=choices, model=model, **options)


@pytest.mark.parametrize(
    ("model", "options", "expected", "abstained"),
    [
        (chooser("small"), {}, "from small", None),
        (chooser("mock/large"), {}, "from large", None),
        (chooser("huge"), {}, "from own", "no-model-for-choice"),
        (chooser("small", 0.4), {"min_probability": 0.5}, "from own", "below-threshold"),
        (chooser("small", None), {"min_probability": 0.5}, "from own", "below-threshold"),
        (chooser("small", None), {}, "from small", None),
        (ScriptedModel([[text("what?")]]), {}, "from own", "error"),
    ],
)
async def test_a_model_chooses_who_answers(
    make_agent: Any, model: Any, options: Any, expected: str, abstained: str | None
) -> None:
    told: list[ModelDecision] = []
    chosen = selection(model, on_decision=told.append, **options)
    agent = make_agent(model=named("own"), input_processors=[chosen])

    assert expected == (await agent.generate("hello"))["text"]
    assert [abstained] == [decision.abstained for decision in told]


async def test_it_is_decided_once_per_run(make_agent: Any) -> None:
    judge = chooser("small")
    small = named("small", [tool_call("look", {})], [text("done")])
    chosen = ModelSelection(
        choices=[
            {"model": small, "criteria": "a", "name": "small"},
            {"model": named("large"), "criteria": "b"},
        ],
        model=judge,
    )
    agent = make_agent(model=named("own"), tools=[look], input_processors=[chosen])

    assert "done" == (await agent.generate("hello"))["text"]
    assert (1, 2) == (len(judge.requests), len(small.requests))


async def test_only_the_first_step_may_be_another_models(make_agent: Any) -> None:
    small = named("small", [tool_call("look", {})])
    chosen = ModelSelection(
        classifier=lambda words: {"easy": True},
        select=lambda answers: small if answers["easy"] else None,
        scope="first-step",
    )
    agent = make_agent(model=named("own"), tools=[look], input_processors=[chosen])

    assert "from own" == (await agent.generate("hello"))["text"]
    assert 1 == len(small.requests)


async def test_what_goes_wrong_leaves_the_agents_model(make_agent: Any, caplog: Any) -> None:
    async def broken(words: str) -> dict[str, Any]:
        raise ValueError("down")

    def on_decision(decision: ModelDecision) -> None:
        raise ValueError("nobody listens")

    chosen = ModelSelection(classifier=broken, select=lambda answers: None, on_decision=on_decision)
    agent = make_agent(model=named("own"), input_processors=[chosen])

    assert "from own" == (await agent.generate("hello"))["text"]
    assert "no model was selected" in caplog.text
    assert "on_decision failed" in caplog.text


async def test_without_words_nothing_is_decided(make_agent: Any) -> None:
    told: list[ModelDecision] = []
    chosen = selection(chooser("small"), on_decision=told.append)
    agent = make_agent(model=named("own"), input_processors=[chosen])

    picture = {"type": "file", "data": "aGk=", "mediaType": "image/png"}
    await agent.generate([{"role": "user", "content": [picture]}])

    assert ["no-text"] == [decision.abstained for decision in told]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"choices": [{"model": named("a"), "criteria": "x"}], "model": named("b")},
        {"classifier": angry},
        {"classifier": angry, "select": lambda answers: None, "model": named("a")},
    ],
)
def test_there_is_one_way_to_decide(options: Any) -> None:
    with pytest.raises(ConfigError, match=r"classifier|choices"):
        ModelSelection(**options)
