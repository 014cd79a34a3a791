"""``mastra/response-cache``: what is asked once only."""

from __future__ import annotations

from typing import Any

import pytest

from mastra_core import tool
from mastra_core.inmemory.cache import InMemoryCache
from mastra_core.plugins import AdapterContext
from mastra_core.testing.fake_clock import FakeClock
from mastra_core.testing.scripted_model import ScriptedModel, text, tool_call
from mastra_processors import ResponseCache, StreamErrorRetry
from mastra_processors.response_cache import CacheKeyFacts, cache_key

pytestmark = pytest.mark.anyio


@tool
async def look() -> str:
    """Look."""
    return "seen"


def requests(agent: Any) -> int:
    return len(agent.resolve_models(None)[0].requests)


async def test_the_same_question_is_asked_once(make_agent: Any) -> None:
    agent = make_agent([text("42")], input_processors=[ResponseCache()])

    first = await agent.generate("What?")
    second = await agent.generate("What?")

    assert ["42", "42"] == [first["text"], second["text"]]
    assert 1 == requests(agent)
    assert first["usage"] == second["usage"]
    assert "stop" == second["finishReason"]


async def test_each_step_of_a_run_is_kept(make_agent: Any) -> None:
    agent = make_agent(
        [tool_call("look", {})], [text("done")], tools=[look], input_processors=[ResponseCache()]
    )

    for _ in range(2):
        assert "done" == (await agent.generate("go"))["text"]

    assert 2 == requests(agent)


async def test_an_answer_is_kept_for_its_time(make_agent: Any) -> None:
    clock = FakeClock()
    cache = ResponseCache(None, AdapterContext(clock=clock), ttl=60)
    agent = make_agent([text("a")], [text("b")], input_processors=[cache])

    await agent.generate("x")
    await clock.advance(59)
    assert "a" == (await agent.generate("x"))["text"]
    await clock.advance(2)
    assert "b" == (await agent.generate("x"))["text"]


async def test_users_do_not_see_each_others_answers(make_agent: Any) -> None:
    agent = make_agent([text("a")], [text("b")], input_processors=[ResponseCache()])

    first = await agent.generate("x", thread_id="t1", resource_id="u1")
    second = await agent.generate("x", thread_id="t2", resource_id="u2")
    third = await agent.generate("x", thread_id="t3", resource_id="u1")

    assert ["a", "b", "a"] == [first["text"], second["text"], third["text"]]


async def test_all_share_answers_if_wanted(make_agent: Any) -> None:
    agent = make_agent([text("a")], [text("b")], input_processors=[ResponseCache(scope=None)])

    await agent.generate("x", thread_id="t1", resource_id="u1")
    second = await agent.generate("x", thread_id="t2", resource_id="u2")

    assert "a" == second["text"]


async def test_a_call_may_ask_anew(make_agent: Any) -> None:
    agent = make_agent([text("a")], [text("b")], input_processors=[ResponseCache()])
    await agent.generate("x")

    anew = await agent.generate("x", request_context=ResponseCache.context(bust=True))
    later = await agent.generate("x")

    assert ["b", "b"] == [anew["text"], later["text"]]


async def test_a_call_may_name_its_key(make_agent: Any) -> None:
    agent = make_agent([text("a")], [text("b")], input_processors=[ResponseCache()])
    context = ResponseCache.context({"mine": 1}, key="one for all")
    assert 1 == context["mine"]

    first = await agent.generate("x", request_context=context)
    second = await agent.generate("y", request_context=context)

    assert ["a", "a"] == [first["text"], second["text"]]


async def test_a_function_may_make_the_key(make_agent: Any) -> None:
    seen: list[CacheKeyFacts] = []

    async def key(facts: CacheKeyFacts) -> str:
        seen.append(facts)
        return "same"

    agent = make_agent([text("a")], input_processors=[ResponseCache(key=key)])
    await agent.generate("x")
    await agent.generate("y")

    assert 1 == requests(agent)
    assert ("helper", 0, "mock-1") == (
        seen[0].agent_id,
        seen[0].step_number,
        seen[0].model["modelId"],
    )


async def test_a_function_that_fails_costs_nothing_but_a_warning(
    make_agent: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(facts: CacheKeyFacts) -> str:
        raise ValueError("no key")

    agent = make_agent([text("a")], input_processors=[ResponseCache(key=broken)])
    await agent.generate("x")
    await agent.generate("x")

    assert 1 == requests(agent)
    assert "key of an answer can't be made" in caplog.text


async def test_a_broken_cache_never_stops_a_run(
    make_agent: Any, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(InMemoryCache):
        async def get(self, key: str) -> Any:
            raise ConnectionError("gone")

        async def set(self, key: str, value: Any, ttl_ms: int | None = None) -> None:
            raise ConnectionError("gone")

    agent = make_agent([text("a")], input_processors=[ResponseCache(cache=Broken())])

    assert "a" == (await agent.generate("x"))["text"]
    assert "cache can't be read" in caplog.text
    assert "cache can't be written" in caplog.text


async def test_a_failed_answer_is_not_kept(make_agent: Any) -> None:
    from mastra_core.errors import ModelError

    agent = make_agent(
        [text("half"), {"type": "error", "message": "cut"}],
        [text("whole")],
        input_processors=[ResponseCache()],
    )
    with pytest.raises(ModelError):
        await agent.generate("x")

    assert "whole" == (await agent.generate("x"))["text"]


async def test_a_repeated_step_is_the_same_step(make_agent: Any) -> None:
    model = ScriptedModel([[{"type": "throw", "message": "busy"}], [text("a")], [text("b")]])
    agent = make_agent(
        model=model,
        input_processors=[ResponseCache()],
        error_processors=[StreamErrorRetry(retry_unknown_errors=True)],
    )

    for _ in range(2):
        assert "a" == (await agent.generate("x"))["text"]


async def test_other_questions_models_and_agents_have_other_keys(make_agent: Any) -> None:
    cache = InMemoryCache()
    answers = []
    for agent_id, model_id, question in (
        ("a", "m", "x"),
        ("a", "m", "y"),
        ("a", "n", "x"),
        ("b", "m", "x"),
    ):
        model = ScriptedModel([[text(str(len(answers)))]], model_id=model_id)
        agent = make_agent(id=agent_id, model=model, input_processors=[ResponseCache(cache=cache)])
        answers.append((await agent.generate(question))["text"])

    assert ["0", "1", "2", "3"] == answers


def test_when_something_was_said_does_not_matter() -> None:
    def facts(stamp: int, temperature: int) -> CacheKeyFacts:
        options = {"mastra": {"createdAt": stamp}, "openai": {"x": temperature}}
        part = {"type": "text", "text": "a", "providerOptions": options}
        return CacheKeyFacts(
            agent_id="a",
            scope=None,
            model={},
            prompt=[{"role": "user", "content": [part]}],
            step_number=0,
        )

    assert cache_key(facts(1, 1)) == cache_key(facts(2, 1))
    assert cache_key(facts(1, 1)) != cache_key(facts(1, 2))
