"""A whole run against a hosted model: its words, its tools, its failures."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mastra_core import Agent, tool
from mastra_core.errors import ModelHTTPError

pytestmark = pytest.mark.anyio

PROTOCOLS = ("openai-chat", "openai-responses", "anthropic", "google")
of_every_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)


@of_every_protocol
async def test_a_run_calls_its_tools_and_hands_the_results_back(
    provider: Any, protocol: str
) -> None:
    done: list[str] = []

    @tool
    async def deploy(env: str, reason: str) -> str:
        """Bring a branch to an environment."""
        done.append(f"{env}: {reason}")
        return "deployed in 42 s"

    @tool
    async def notify(who: str) -> str:
        """Tell somebody."""
        done.append(who)
        return f"{who} was told"

    provider.streams(protocol, "tools")
    provider.streams(protocol, "text")
    agent = Agent(
        id="ops", instructions="Be brief.", model=provider.model(protocol), tools=[deploy, notify]
    )
    output = await agent.stream("Deploy.")

    assert "Grüß Gott, world." == await output.text
    assert ["prod: tests are green", "ops"] == done
    assert 96 == (await output.usage)["totalTokens"]
    assert 2 == len(await output.steps)
    handed_back = json.dumps(provider.requests[1].body)
    assert "deployed in 42 s" in handed_back
    assert "ops was told" in handed_back
    await agent.aclose()


@of_every_protocol
async def test_reasoning_is_told_apart_from_the_text(provider: Any, protocol: str) -> None:
    provider.streams(protocol, "reasoning")
    agent = Agent(id="sums", instructions="", model=provider.model(protocol))
    output = await agent.stream("How much is 2 + 2?")

    assert ("4.", "Two and two.") == (await output.text, await output.reasoning_text)
    await agent.aclose()


@of_every_protocol
async def test_signed_reasoning_is_in_the_next_request_of_the_run(
    provider: Any, protocol: str
) -> None:
    """What a provider signed lies in the message and goes back with the next turn."""
    signs = {"openai-responses": "gAAAAABencrypted", "anthropic": "EqQBsigned"}
    provider.streams(protocol, "reasoning")
    provider.streams(protocol, "text")
    agent = Agent(id="sums", instructions="", model=provider.model(protocol))
    for question in ("How much is 2 + 2?", "Sure?"):
        output = await agent.stream(question, thread_id="t1", resource_id="r1")
        await output.text

    sign = {"google": "CsIBc2lnbmVk", "openai-chat": "Two and two."} | signs
    assert sign[protocol] in json.dumps(provider.requests[1].body)
    await agent.aclose()


@of_every_protocol
async def test_an_error_in_mid_stream_ends_the_run_once(provider: Any, protocol: str) -> None:
    provider.streams(protocol, "failing")
    agent = Agent(id="sums", instructions="", model=provider.model(protocol))
    output = await agent.stream("Hello?")

    chunks = [chunk async for chunk in output.full_stream]

    kinds = [chunk["type"] for chunk in chunks]
    assert ["error", "step-finish", "finish"] == kinds[-3:]
    assert 1 == kinds.count("finish")
    assert "error" == await output.finish_reason
    assert isinstance(await output.error, ModelHTTPError)
    await agent.aclose()


async def test_another_provider_answers_for_one_that_is_down(provider: Any) -> None:
    """A failed attempt leaves no trace in the answer of the next model."""
    provider.streams("openai-responses", "failing")
    provider.streams("anthropic", "text")
    models = [provider.model("openai-responses"), provider.model("anthropic")]
    agent = Agent(id="sums", instructions="", model=models)
    output = await agent.stream("Hello?")

    assert "Grüß Gott, world." == (await output.get_full_output())["text"]
    await agent.aclose()
