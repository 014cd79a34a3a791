"""``token-cost-control``: who pays, how much, and what happens then."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from mastra_core import tool
from mastra_core.plugins import AdapterContext
from mastra_core.testing.fake_clock import FakeClock
from mastra_core.testing.scripted_model import ScriptedModel, text, tool_call
from mastra_processors import ResponseCache, TokenCostControl
from mastra_processors.cost_ledger import CostEntry, InMemoryCostLedger

pytestmark = pytest.mark.anyio

#: Each answer of the scripted model has 10 tokens in and 5 out: it costs 2.
PRICES = {"mock/mock-1": {"input": 100_000, "output": 200_000}}
ANN = {"thread_id": "t1", "resource_id": "ann"}


@tool
async def look() -> str:
    """Look."""
    return "seen"


def many(count: int = 9) -> list[Any]:
    return [[text("ok")]] * count


async def tripwires(agent: Any, count: int, **options: Any) -> list[bool]:
    """Which of so many runs were stopped."""
    return [(await agent.generate("x", **options))["tripwire"] is not None for _ in range(count)]


async def test_a_resource_is_stopped_at_its_limit(make_agent: Any) -> None:
    control = TokenCostControl(max_cost=4, prices=PRICES)
    agent = make_agent(*many(), input_processors=[control])

    assert [False, False, True] == await tripwires(agent, 3, **ANN)
    assert [False] == await tripwires(agent, 1, thread_id="t2", resource_id="bob")
    stopped = (await agent.generate("x", **ANN))["tripwire"]
    assert "The cost limit is reached: 4 of 4." == stopped["reason"]
    assert {
        "processorId": "token-cost-control",
        "usage": 4,
        "limit": 4,
        "scope": "resource",
        "scopeKey": "ann",
        "threshold": "hard",
    } == stopped["metadata"]


async def test_a_run_is_stopped_between_its_steps(make_agent: Any) -> None:
    control = TokenCostControl(max_cost=4, prices=PRICES, scope="run")
    calls = [[tool_call("look", {}, id=str(n))] for n in range(4)]
    agent = make_agent(*calls, tools=[look], input_processors=[control])

    stopped = (await agent.generate("x"))["tripwire"]

    assert 2 == len(agent.resolve_models(None)[0].requests)
    assert "scopeKey" not in stopped["metadata"]
    agent = make_agent(*many(2), input_processors=[control])
    assert [False, False] == await tripwires(agent, 2)


@pytest.mark.parametrize(
    ("scope", "mine", "other"),
    [
        ("thread", ANN, {"thread_id": "t2", "resource_id": "ann"}),
        ("user", {"request_context": {"userId": 1}}, {"request_context": {"userId": 2}}),
        (
            "organization",
            {"request_context": {"organizationId": "a"}},
            {"request_context": {"organizationId": "b"}},
        ),
        ("session", {"request_context": {"sessionId": "a"}}, {"request_context": {}}),
    ],
)
async def test_costs_count_per_scope(make_agent: Any, scope: Any, mine: Any, other: Any) -> None:
    control = TokenCostControl(max_cost=2, prices=PRICES, scope=scope)
    agent = make_agent(*many(), input_processors=[control])

    assert [False, True] == await tripwires(agent, 2, **mine)
    assert [False] == await tripwires(agent, 1, **other)


async def test_old_costs_count_no_more(make_agent: Any) -> None:
    clock = FakeClock()
    control = TokenCostControl(
        None, AdapterContext(clock=clock), max_cost=2, prices=PRICES, window="1h"
    )
    agent = make_agent(*many(), input_processors=[control])

    assert [False, True] == await tripwires(agent, 2, **ANN)
    await clock.advance(3601)
    assert [False] == await tripwires(agent, 1, **ANN)


async def test_warnings_come_once_per_run_and_threshold(make_agent: Any, caplog: Any) -> None:
    told: list[Any] = []
    control = TokenCostControl(
        max_cost=4,
        prices=PRICES,
        scope="run",
        strategy="warn",
        warn_at_percent=50,
        include_breakdown=True,
        on_violation=told.append,
    )
    calls = [[tool_call("look", {}, id=str(n))] for n in range(4)]
    agent = make_agent(*calls, [text("done")], tools=[look], input_processors=[control])

    with caplog.at_level(logging.WARNING):
        assert "done" == (await agent.generate("x"))["text"]

    assert ["soft", "hard"] == [violation["detail"]["threshold"] for violation in told]
    assert "2 of 4 are spent." == told[0]["message"]
    expected = {"provider": "mock", "model": "mock-1", "estimatedCost": 4, "tokens": 30}
    assert [expected] == told[1]["detail"]["breakdown"]


async def test_the_limit_may_depend_on_the_request(make_agent: Any, caplog: Any) -> None:
    def limit(context: Any) -> float:
        return {"pro": 10.0, "free": 2.0}.get(context.get("tier"), float("nan"))

    control = TokenCostControl(max_cost=limit, prices=PRICES)
    agent = make_agent(*many(), input_processors=[control])

    assert [False, True] == await tripwires(agent, 2, request_context={"tier": "free"}, **ANN)
    assert [False] == await tripwires(agent, 1, request_context={"tier": "pro"}, **ANN)
    assert [False] == await tripwires(agent, 1, **ANN)
    assert "cost limit is no number above 0" in caplog.text


async def test_answers_from_a_cache_and_models_without_a_price_are_free(make_agent: Any) -> None:
    control = TokenCostControl(max_cost=3, prices=PRICES)
    agent = make_agent(*many(), input_processors=[control, ResponseCache()])
    # The second question is the first one's in a thread of its own, so the cache answers.
    for thread in ("t1", "t2", "t3", "t4"):
        assert [False] == await tripwires(agent, 1, thread_id=thread, resource_id="ann")

    agent = make_agent(
        model=ScriptedModel(many(), model_id="other"),
        input_processors=[TokenCostControl(max_cost=3, prices=PRICES)],
    )
    assert [False] * 4 == await tripwires(agent, 4, **ANN)


class Caching(ScriptedModel):
    """A model whose provider had most of the prompt cached."""

    async def stream(self, request: Any) -> AsyncIterator[Any]:
        async for part in super().stream(request):
            is_end = part["type"] == "finish"
            cached = {"usage": {**part["usage"], "cachedInputTokens": 6}} if is_end else {}
            yield {**part, **cached}


async def test_cached_input_has_its_own_price(make_agent: Any) -> None:
    prices = {"mock-1": {"input": 1_000_000, "output": 0, "cachedInput": 500_000}}
    control = TokenCostControl(max_cost=100, prices=prices)
    agent = make_agent(model=Caching(many()), input_processors=[control])

    await agent.generate("x", **ANN)

    [entry] = await control.ledger.entries("resource:ann", since_ms=0)
    assert 7 == entry.cost


async def test_a_broken_ledger_never_stops_a_run(make_agent: Any, caplog: Any) -> None:
    class Broken:
        async def add(self, key: str, entry: CostEntry) -> None:
            raise ConnectionError("gone")

        async def entries(self, key: str, *, since_ms: int) -> list[CostEntry]:
            raise ConnectionError("gone")

    control = TokenCostControl(max_cost=1, prices=PRICES, ledger=Broken())
    agent = make_agent(*many(), input_processors=[control])

    assert [False, False] == await tripwires(agent, 2, **ANN)
    assert "cost can't be noted" in caplog.text
    assert "costs can't be read" in caplog.text


async def test_the_ledger_keeps_one_entry_per_minute_and_model() -> None:
    ledger = InMemoryCostLedger()
    day = 86_400_000
    for at_ms, model in ((0, "a"), (1, "b"), (2, "a"), (60_000, "a")):
        entry = CostEntry(at_ms=at_ms, provider="p", model=model, cost=1, tokens=2)
        await ledger.add("k", entry)

    told = [(e.model, e.cost, e.tokens) for e in await ledger.entries("k", since_ms=0)]
    assert [("a", 2, 4), ("b", 1, 2), ("a", 1, 2)] == told
    late = CostEntry(at_ms=400 * day, provider="p", model="a", cost=1, tokens=2)
    await ledger.add("k", late)
    assert [late] == await ledger.entries("k", since_ms=0)
    assert [] == await ledger.entries("other", since_ms=0)
