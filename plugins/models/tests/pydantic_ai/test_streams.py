"""Streams in the providers' own formats, through their own client libraries, over a socket."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Callable
from typing import Any

import pytest

from mastra_core.contracts.model import ModelRequest, ToolSchema
from mastra_core.errors import ModelError, ModelHTTPError

pytestmark = pytest.mark.anyio

OPENAI = ("openai-chat", "openai-responses")
PROTOCOLS = (*OPENAI, "anthropic", "google")
#: The first user turn of every request.
QUESTION = [{"role": "user", "content": [{"type": "text", "text": "How much is 2 + 2?"}]}]

of_every_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)


def kinds(parts: list[dict[str, Any]]) -> list[str]:
    return [part["type"] for part in parts]


@of_every_protocol
async def test_a_text_arrives_in_the_pieces_that_were_sent(
    provider: Any, ask: Callable[..., Any], protocol: str
) -> None:
    provider.streams(protocol, "text")

    parts = await ask(provider.model(protocol))

    assert [
        "stream-start",
        "response-metadata",
        "text-start",
        *["text-delta"] * 3,
        "text-end",
        "finish",
    ] == kinds(parts)
    assert ["Grüß", " Gott", ", world."] == [p["delta"] for p in parts if p["type"] == "text-delta"]
    assert "stop" == parts[-1]["finishReason"]


@of_every_protocol
async def test_usage_of_the_last_event_is_told(
    provider: Any, ask: Callable[..., Any], protocol: str
) -> None:
    provider.streams(protocol, "text")

    usage = (await ask(provider.model(protocol)))[-1]["usage"]

    # What was read from a cache is a part of what went in.
    assert (31, 17, 48) == tuple(usage[f"{k}Tokens"] for k in ("input", "output", "total"))
    assert 16 == usage["cachedInputTokens"]
    told_apart = {"anthropic": ("cacheCreationInputTokens", 4)}
    name, count = told_apart.get(protocol, ("reasoningTokens", 9))
    assert count == usage[name]


@of_every_protocol
async def test_who_answered_is_told_before_the_first_word(
    provider: Any, ask: Callable[..., Any], protocol: str
) -> None:
    provider.streams(protocol, "text")

    parts = await ask(provider.model(protocol))

    (told,) = [part for part in parts if part["type"] == "response-metadata"]
    assert told["id"]
    assert told["modelId"].startswith(provider.model(protocol).model_id)


@of_every_protocol
async def test_two_calls_are_told_apart_while_they_stream(
    provider: Any, ask: Callable[..., Any], protocol: str, deploy: ToolSchema, notify: ToolSchema
) -> None:
    provider.streams(protocol, "tools")

    parts = await ask(provider.model(protocol), tools=[deploy, notify])

    calls = [part for part in parts if part["type"] == "tool-call"]
    assert [
        ("deploy", {"env": "prod", "reason": "tests are green"}),
        ("notify", {"who": "ops"}),
    ] == [(call["toolName"], json.loads(call["input"])) for call in calls]
    for call in calls:
        of_call = [p for p in parts if call["toolCallId"] in (p.get("id"), p.get("toolCallId"))]
        pieces = [p["delta"] for p in of_call if p["type"] == "tool-input-delta"]
        assert call["input"] == "".join(pieces)
        shown = dict.fromkeys(kinds(of_call))
        names = ("tool-input-start", "tool-input-delta", "tool-input-end", "tool-call")
        assert list(names) == list(shown)
    assert "tool-calls" == parts[-1]["finishReason"]


@pytest.mark.parametrize("protocol", [*OPENAI, "anthropic"])
async def test_arguments_come_in_pieces(
    provider: Any, ask: Callable[..., Any], protocol: str, deploy: ToolSchema, notify: ToolSchema
) -> None:
    """Google's calls come whole; the others write theirs letter by letter."""
    provider.streams(protocol, "tools")

    parts = await ask(provider.model(protocol), tools=[deploy, notify])

    pieces = [part["delta"] for part in parts if part["type"] == "tool-input-delta"]
    assert ['{"en', 'v":"pr', 'od","reason":"tests are green"}', '{"who":', '"ops"}'] == pieces


@of_every_protocol
async def test_reasoning_streams_before_the_text(
    provider: Any, ask: Callable[..., Any], protocol: str, text_of: Callable[..., str]
) -> None:
    provider.streams(protocol, "reasoning")

    parts = await ask(provider.model(protocol))

    assert ("Two and two.", "4.") == (text_of(parts, "reasoning-delta"), text_of(parts))
    assert kinds(parts).index("reasoning-end") < kinds(parts).index("text-start")
    assert kinds(parts).count("reasoning-start") == kinds(parts).count("reasoning-end") == 1


async def test_what_a_provider_signs_has_the_names_that_node_uses(
    provider: Any, ask: Callable[..., Any]
) -> None:
    """A thread of the one peer is continued by the other, reasoning included."""
    signed: dict[str, Any] = {}
    for protocol in ("openai-responses", "anthropic", "google"):
        provider.streams(protocol, "reasoning")
        parts = await ask(provider.model(protocol))
        signed |= next(p["providerMetadata"] for p in reversed(parts[:-1]) if _is_signed(p))
    provider.streams("anthropic", "hidden")
    hidden = await ask(provider.model("anthropic"))

    assert {"itemId": "rs_0c43", "reasoningEncryptedContent": "gAAAAABencrypted"} == signed[
        "openai"
    ]
    assert {"signature": "EqQBsigned"} == signed["anthropic"]
    assert {"thoughtSignature": "CsIBc2lnbmVk"} == signed["google"]
    (end,) = [part for part in hidden if part["type"] == "reasoning-end"]
    assert {"anthropic": {"redactedData": "EmwKhidden"}} == end["providerMetadata"]


def _is_signed(part: dict[str, Any]) -> bool:
    (facts,) = (part.get("providerMetadata") or {"": {}}).values()
    return bool(facts.keys() & {"signature", "reasoningEncryptedContent", "thoughtSignature"})


async def test_reasoning_goes_back_as_it_came(provider: Any, ask: Callable[..., Any]) -> None:
    """The next request of a thread hands a provider its own signed reasoning."""
    sent: dict[str, Any] = {}
    for protocol in PROTOCOLS:
        provider.streams(protocol, "reasoning")
        provider.streams(protocol, "text")
        first = await ask(provider.model(protocol))
        answered = {"role": "assistant", "content": _content(first)}
        again = {"role": "user", "content": [{"type": "text", "text": "Sure?"}]}
        await ask(provider.model(protocol), prompt=[*QUESTION, answered, again])
        sent[protocol] = provider.requests[-1].body

    thinking = {"type": "thinking", "thinking": "Two and two.", "signature": "EqQBsigned"}
    assert thinking == sent["anthropic"]["messages"][1]["content"][0]
    reasoning = next(i for i in sent["openai-responses"]["input"] if i.get("type") == "reasoning")
    assert ("rs_0c43", "gAAAAABencrypted") == (reasoning["id"], reasoning["encrypted_content"])
    assert "Two and two." == sent["openai-chat"]["messages"][1]["reasoning_content"]
    parts = sent["google"]["contents"][1]["parts"]
    assert "CsIBc2lnbmVk" == parts[-1]["thoughtSignature"]


async def test_a_signed_call_goes_back_with_its_signature(
    provider: Any, ask: Callable[..., Any], deploy: ToolSchema, notify: ToolSchema
) -> None:
    provider.streams("google", "tools")
    provider.streams("google", "text")
    tools = [deploy, notify]
    first = await ask(provider.model("google"), tools=tools)
    calls = [part for part in first if part["type"] == "tool-call"]
    results = [
        {
            "type": "tool-result",
            "toolCallId": call["toolCallId"],
            "toolName": call["toolName"],
            "output": {"type": "json", "value": {"ok": True}},
        }
        for call in calls
    ]
    prompt = [
        *QUESTION,
        {"role": "assistant", "content": _content(first)},
        {"role": "tool", "content": results},
    ]

    await ask(provider.model("google"), prompt=prompt, tools=tools)

    parts = provider.requests[-1].body["contents"][1]["parts"]
    assert ["deploy", "notify"] == [part["functionCall"]["name"] for part in parts]
    assert "CsIBc2lnbmVk" == parts[0]["thoughtSignature"]


def _content(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What a runtime keeps of an answer, as the turn of a prompt."""
    content: list[dict[str, Any]] = []
    for part in parts:
        kind = part["type"]
        facts = {"providerOptions": part["providerMetadata"]} if "providerMetadata" in part else {}
        if kind in ("text-start", "reasoning-start"):
            content.append({"type": kind.partition("-")[0], "text": ""})
        elif kind in ("text-delta", "reasoning-delta"):
            content[-1] |= {"text": content[-1]["text"] + part["delta"], **facts}
        elif kind == "tool-call":
            call = {name: part[name] for name in ("type", "toolCallId", "toolName")}
            content.append({**call, "input": json.loads(part["input"]), **facts})
    return content


@pytest.mark.parametrize(
    ("scene", "reason"), [("length", "length"), ("filtered", "content-filter")]
)
@of_every_protocol
async def test_the_reason_of_an_early_end_is_told(
    provider: Any, ask: Callable[..., Any], protocol: str, scene: str, reason: str
) -> None:
    provider.streams(protocol, scene)

    parts = await ask(provider.model(protocol))

    assert reason == parts[-1]["finishReason"]


@of_every_protocol
async def test_an_error_in_mid_stream_follows_what_was_said(
    provider: Any, protocol: str, text_of: Callable[..., str]
) -> None:
    provider.streams(protocol, "failing")
    seen: list[dict[str, Any]] = []

    async def read() -> None:
        async for part in provider.model(protocol).stream(ModelRequest(prompt=QUESTION)):
            seen.append(part)  # noqa: PERF401 - what came before the error counts

    with pytest.raises(ModelHTTPError) as caught:
        await read()

    assert "Grüß Gott" == text_of(seen)
    statuses = {"anthropic": 529, "google": 503}
    assert statuses.get(protocol, 500) == caught.value.status
    assert caught.value.retryable
    assert 1 == len(provider.requests), "what was said isn't said twice"


@of_every_protocol
async def test_an_answer_that_breaks_off_is_no_answer(
    provider: Any, ask: Callable[..., Any], protocol: str
) -> None:
    """The body ends, properly, before the answer does."""
    provider.streams(protocol, "cut")

    with pytest.raises(ModelError, match="broke off") as caught:
        await ask(provider.model(protocol))

    assert "MODEL_STREAM_CUT" == caught.value.id
    assert caught.value.retryable


@of_every_protocol
async def test_a_connection_that_breaks_is_an_answer_that_breaks_off(
    provider: Any, ask: Callable[..., Any], protocol: str
) -> None:
    provider.streams(protocol, "cut", ending="cut")

    with pytest.raises(ModelError) as caught:
        await ask(provider.model(protocol))

    assert "MODEL_STREAM_CUT" == caught.value.id


@of_every_protocol
async def test_an_abort_hangs_up(provider: Any, protocol: str) -> None:
    """The provider sees its client go; nobody pays for what nobody reads."""
    provider.streams(protocol, "cut", ending="wait")
    abort = asyncio.Event()
    seen: list[str] = []

    async with asyncio.timeout(60):
        async for part in provider.model(protocol).stream(
            ModelRequest(prompt=QUESTION, abort=abort)
        ):
            seen.append(part["type"])
            if part["type"] == "text-delta":
                abort.set()
        # Google's client library leaves the connection to the collector: a cycle holds it.
        while protocol == "google" and not provider.left.is_set():
            gc.collect()
            await asyncio.sleep(0)
        await provider.left.wait()

    assert "finish" not in seen


@of_every_protocol
async def test_key_and_address_are_those_that_were_given(
    provider: Any, ask: Callable[..., Any], protocol: str
) -> None:
    provider.streams(protocol, "text")

    await ask(provider.model(protocol))

    (asked,) = provider.requests
    key = asked.headers["x-goog-api-key" if protocol == "google" else "authorization"]
    assert key.endswith("k-123")
    paths = {
        "openai-chat": "/v1/chat/completions",
        "openai-responses": "/v1/responses",
        "anthropic": "/v1/messages",
        "google": "/v1beta/models/gemini-2.5-flash:streamGenerateContent",
    }
    assert asked.path.startswith(paths[protocol])


@of_every_protocol
async def test_settings_and_tools_have_the_providers_names(
    provider: Any, ask: Callable[..., Any], protocol: str, deploy: ToolSchema
) -> None:
    provider.streams(protocol, "text")

    await ask(
        provider.model(protocol),
        tools=[deploy],
        tool_choice="required",
        settings={"maxOutputTokens": 77, "headers": {"x-trace": "t1"}},
        prompt=[{"role": "system", "content": "Be brief."}, *QUESTION],
    )

    (asked,) = provider.requests
    body = json.dumps(asked.body)
    assert "t1" == asked.headers["x-trace"]
    limits = {
        "openai-chat": "max_completion_tokens",
        "openai-responses": "max_output_tokens",
        "anthropic": "max_tokens",
        "google": "maxOutputTokens",
    }
    assert f'"{limits[protocol]}": 77' in body
    assert "Be brief." in body
    assert '"deploy"' in body
    assert "staging" in body, "the schema of the tool"


async def test_a_setting_without_effect_is_a_warning_of_the_answer(
    provider: Any, ask: Callable[..., Any]
) -> None:
    provider.streams("openai-responses", "text")

    parts = await ask(provider.model("openai-responses"), settings={"stopSequences": ["x"]})

    assert [{"type": "unsupported-setting", "setting": "stopSequences"}] == parts[0]["warnings"]


@pytest.mark.parametrize(
    ("protocol", "option", "expected"),
    [
        (
            "anthropic",
            {"anthropic": {"thinking": {"type": "enabled", "budgetTokens": 2048}}},
            '"thinking": {"type": "enabled", "budget_tokens": 2048}',
        ),
        (
            "google",
            {"google": {"thinkingConfig": {"thinkingBudget": 64, "includeThoughts": True}}},
            '"thinking_budget": 64',
        ),
        ("openai-responses", {"openai": {"reasoningEffort": "low"}}, '"effort": "low"'),
        ("openai-chat", {"openai": {"reasoningEffort": "low"}}, '"reasoning_effort": "low"'),
        ("openai-chat", {"other": {"secret": "kept"}}, '"model": "gpt-5-mini"'),
    ],
)
async def test_options_of_a_provider_have_the_names_that_node_uses(
    provider: Any,
    ask: Callable[..., Any],
    protocol: str,
    option: dict[str, Any],
    expected: str,
) -> None:
    provider.streams(protocol, "text")
    # The last of Anthropic's models that is told how much to think.
    name = "anthropic/claude-haiku-4-5" if protocol == "anthropic" else None

    await ask(
        provider.model(protocol, name),
        provider_options=option,
        settings={"maxOutputTokens": 4096},
    )

    sent = json.dumps(provider.requests[0].body)
    assert expected in sent
    assert "kept" not in sent
