"""``provider-history-compat``: what each provider doesn't get to see, and what is mended."""

from __future__ import annotations

import re
from typing import Any

import pytest

from mastra_core.errors import ModelError
from mastra_core.testing.scripted_model import ScriptedModel, text
from mastra_processors import ProviderHistoryCompat
from mastra_processors.compat_rules import CompatRule

pytestmark = pytest.mark.anyio

THREAD = {"thread_id": "t1", "resource_id": "u1"}


def reasoning(words: str, **metadata: Any) -> dict[str, Any]:
    part = {
        "type": "reasoning",
        "reasoning": words,
        "details": [{"type": "text", "text": words}],
    }
    return {**part, "providerMetadata": metadata} if metadata else part


def assistant(*parts: Any, **metadata: Any) -> dict[str, Any]:
    content = {"format": 2, "parts": list(parts)}
    if metadata:
        content["metadata"] = metadata
    return {"role": "assistant", "content": content}


def answer(words: str = "b", **metadata: Any) -> dict[str, Any]:
    part = {"type": "text", "text": words}
    return {**part, "providerMetadata": metadata} if metadata else part


def call(call_id: str) -> dict[str, Any]:
    invocation = {"toolCallId": call_id, "toolName": "look", "args": {}}
    return {
        "type": "tool-invocation",
        "toolInvocation": {**invocation, "state": "result", "result": "seen"},
    }


async def prompt_for(
    make_agent: Any, prompt_of: Any, provider: str, *messages: Any, model_id: str = "m"
) -> str:
    model = ScriptedModel([[text("ok")]], provider=provider, model_id=model_id)
    agent = make_agent(model=model, input_processors=[ProviderHistoryCompat()])
    await agent.generate([{"role": "user", "content": "a"}, *messages], **THREAD)
    shown: str = prompt_of(agent)
    return shown


SIGNED = reasoning("thought", anthropic={"signature": "s1"})


@pytest.mark.parametrize(
    ("provider", "message", "expected"),
    [
        ("cerebras", assistant(reasoning("x"), answer()), "b"),
        ("openai", assistant(reasoning("x"), answer()), "(reasoning)b"),
        ("anthropic", assistant(SIGNED, answer()), "(reasoning)b"),
        ("anthropic", assistant(reasoning("x"), answer()), "b"),
        ("anthropic", assistant(reasoning("x", openai={"itemId": "r"}), answer()), "b"),
        ("anthropic", assistant(reasoning("", anthropic={"signature": "s"}), answer()), "b"),
        (
            "anthropic",
            assistant(reasoning("", anthropic={"redactedData": "d"}), answer()),
            "(reasoning)b",
        ),
        ("anthropic", assistant(SIGNED, answer(), provider="kimi"), "b"),
        ("anthropic.messages", assistant(SIGNED, answer(), provider="anthropic"), "(reasoning)b"),
        ("kimi", assistant(SIGNED, answer(), provider="anthropic.messages"), "b"),
    ],
)
async def test_reasoning_goes_to_those_who_take_it(
    make_agent: Any, prompt_of: Any, provider: str, message: Any, expected: str
) -> None:
    shown = await prompt_for(make_agent, prompt_of, provider, message)

    assert f"user:a assistant:{expected}" == shown


async def test_a_later_step_may_be_of_somebody_else(make_agent: Any, prompt_of: Any) -> None:
    other = reasoning("more", anthropic={"signature": "s2"})
    start = {"type": "step-start", "model": "kimi/k2"}
    message = assistant(SIGNED, answer("b"), start, other, answer("c"), provider="anthropic")

    shown = await prompt_for(make_agent, prompt_of, "anthropic", message)

    assert "user:a assistant:(reasoning)b assistant:c" == shown


async def test_a_turn_of_which_nothing_is_left_goes(make_agent: Any, prompt_of: Any) -> None:
    shown = await prompt_for(
        make_agent,
        prompt_of,
        "cerebras",
        assistant(reasoning("x")),
        {"role": "user", "content": "c"},
    )

    assert "user:a user:c" == shown


async def test_reminders_have_another_name_on_azure(make_agent: Any, prompt_of: Any) -> None:
    said = {"role": "user", "content": "<system-reminder>x</system-reminder>"}

    assert "user:a user:<context-note>x</context-note>" == await prompt_for(
        make_agent, prompt_of, "azure.responses", said
    )
    assert "user:a user:<system-reminder>x</system-reminder>" == await prompt_for(
        make_agent, prompt_of, "openai", said
    )


async def test_what_is_stored_stays(make_agent: Any) -> None:
    model = ScriptedModel([[text("ok")]], provider="cerebras")
    agent = make_agent(model=model, input_processors=[ProviderHistoryCompat()])

    await agent.generate([assistant(reasoning("x"), answer())], **THREAD)

    page = await agent.memory.store.list_messages("t1")
    assert "reasoning" == page.messages[0].content["parts"][0]["type"]


# -- after a refusal ---------------------------------------------------------------------------


class Refusing(ScriptedModel):
    """Fails with this text as long as the prompt holds something."""

    def __init__(self, words: str, because_of: str) -> None:
        super().__init__([[text("ok")]] * 9)
        self._words, self._because = words, because_of

    def stream(self, request: Any) -> Any:
        if self._because in str(request.prompt):
            self.requests.append(request)
            raise ModelError(self._words)
        return super().stream(request)


BAD_ID = "messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
ORPHAN = "Item 'msg_1' of type 'message' was provided without its required 'reasoning' item: 'rs_1'"


async def test_ids_of_calls_are_mended_and_stored(make_agent: Any) -> None:
    agent = make_agent(
        model=Refusing(BAD_ID, "call.1:x"),
        input_processors=[ProviderHistoryCompat()],
        max_processor_retries=2,
    )
    answered = await agent.generate(
        [{"role": "user", "content": "a"}, assistant(call("call.1:x"))], **THREAD
    )

    assert "ok" == answered["text"]
    page = await agent.memory.store.list_messages("t1")
    stored = str([message.content for message in page.messages])
    assert "call_1_x" in stored
    assert "call.1:x" not in stored


async def test_a_mend_is_tried_once(make_agent: Any) -> None:
    model = Refusing(BAD_ID, "user")
    agent = make_agent(
        model=model, input_processors=[ProviderHistoryCompat()], max_processor_retries=5
    )
    with pytest.raises(ModelError, match="pattern"):
        await agent.generate([{"role": "user", "content": "a"}, assistant(call("c.1"))])

    assert 2 == len(model.requests)


async def test_nothing_to_mend_is_no_repeat(make_agent: Any) -> None:
    model = Refusing(BAD_ID, "user")
    agent = make_agent(
        model=model, input_processors=[ProviderHistoryCompat()], max_processor_retries=5
    )
    with pytest.raises(ModelError):
        await agent.generate([{"role": "user", "content": "a"}, assistant(call("fine_1"))])

    assert 1 == len(model.requests)


@pytest.mark.parametrize(
    ("messages", "is_mended"),
    [
        ([assistant(answer("b", openai={"itemId": "msg_1", "x": 1}))], True),
        ([assistant(answer("b", azure={"itemId": "msg_1"}))], True),
        ([assistant(reasoning("x"), answer("b", openai={"itemId": "msg_1"}))], False),
        ([assistant(reasoning("x")), assistant(answer("b", openai={"itemId": "msg_1"}))], False),
    ],
)
async def test_items_without_their_reasoning_are_told_by_value(
    make_agent: Any, messages: Any, is_mended: bool
) -> None:
    model = Refusing(ORPHAN, "msg_1")
    agent = make_agent(
        model=model, input_processors=[ProviderHistoryCompat()], max_processor_retries=2
    )
    given = [{"role": "user", "content": "a"}, *messages]
    if is_mended:
        assert "ok" == (await agent.generate(given))["text"]
    else:
        with pytest.raises(ModelError):
            await agent.generate(given)


async def test_further_rules_come_last(make_agent: Any, prompt_of: Any) -> None:
    def shout(prompt: Any, model: Any, messages: Any) -> Any:
        return [
            {**turn, "content": [{"type": "text", "text": turn["content"][0]["text"].upper()}]}
            for turn in prompt
        ]

    fixed: list[str] = []

    def fix(messages: Any) -> bool:
        fixed.append("once")
        return True

    rules = [
        CompatRule(name="shout", apply_to_prompt=shout),
        {"name": "odd", "error_patterns": (re.compile("odd"),), "fix": fix},
    ]
    model = Refusing("odd thing", "nowhere")
    agent = make_agent(
        model=model, input_processors=[ProviderHistoryCompat(additional_rules=rules)]
    )
    await agent.generate("a")
    assert "user:A" == prompt_of(agent)

    model = Refusing("odd thing", "user")
    agent = make_agent(
        model=model,
        input_processors=[ProviderHistoryCompat(additional_rules=rules)],
        max_processor_retries=5,
    )
    with pytest.raises(ModelError, match="odd"):
        await agent.generate("a")
    assert (["once"], 2) == (fixed, len(model.requests))
