"""Providers watch something outside and put events into inboxes (signals.md 15)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from mastra_conformance import case
from mastra_core import Agent, FunctionTool, Mastra, SignalProvider, WebhookRequest, WebhookSignals
from mastra_core.errors import ConfigError, SignalError
from mastra_core.inmemory.storage import InMemoryStorage
from mastra_core.processors.arguments import ProcessorArgs
from mastra_core.testing.fake_clock import FakeClock
from mastra_core.testing.scripted_model import ScriptedModel, text
from mastra_core.threads.providers import Subscription

pytestmark = pytest.mark.anyio

T = {"thread_id": "t", "resource_id": "r"}


def agent_with(*providers: SignalProvider, **options: Any) -> Agent:
    model = ScriptedModel([[text("ok")]] * 9)
    return Agent(id="a", model=model, signals=providers, **options)


async def inbox(mastra: Mastra, thread_id: str = "t") -> list[Any]:
    return list(await mastra.storage.notifications.list_notifications(thread_id=thread_id))


class Poller(SignalProvider):
    """Takes as long as a test says, and raises when a test says."""

    def __init__(self) -> None:
        super().__init__(id="poller", poll_interval_ms=1000)
        self.at_work = 0
        self.most_at_work = 0
        self.polls: list[Sequence[Subscription]] = []
        self.go_on = asyncio.Event()

    async def poll(self, subscriptions: Sequence[Subscription]) -> None:
        """The first is slow, the second fails."""
        self.polls.append(subscriptions)
        self.at_work += 1
        self.most_at_work = max(self.most_at_work, self.at_work)
        try:
            if len(self.polls) == 1:
                await self.go_on.wait()
            if len(self.polls) == 2:
                raise RuntimeError("no network")
        finally:
            self.at_work -= 1


@case("signals", 116)
async def test_polls_never_overlap_and_go_on_after_errors(clock: FakeClock) -> None:
    """A slow poll delays the next one; a failed one is logged."""
    poller = Poller()
    async with Mastra(storage="memory:", agents=[agent_with(poller)], clock=clock):
        await clock.advance(5)
        without_subscription = len(poller.polls)
        await poller.subscribe("repo", **T)

        await clock.advance(5)
        slow = len(poller.polls)
        poller.go_on.set()
        await clock.advance(3)

    assert (0, 1, 1) == (without_subscription, slow, poller.most_at_work)
    assert len(poller.polls) >= 3
    assert ["repo"] == [s.external_resource_id for s in poller.polls[-1]]


async def test_polling_starts_once_and_stops_with_the_application(clock: FakeClock) -> None:
    """Starting it again changes nothing; afterwards nobody polls."""
    poller = Poller()
    poller.go_on.set()
    async with Mastra(storage="memory:", agents=[agent_with(poller)], clock=clock):
        poller.start_polling()
        await poller.subscribe("repo", **T)
        await clock.advance(1)

        assert 1 == len(poller.polls)

    poller.start_polling()
    await clock.advance(5)
    assert (1, []) == (len(poller.polls), poller.subscriptions())


@case("signals", 117)
async def test_a_webhook_tells_every_thread_that_subscribed() -> None:
    """Two threads, two notifications; who didn't subscribe isn't told."""
    hooks = WebhookSignals()
    async with Mastra(storage="memory:", agents=[agent_with(hooks)]) as mastra:
        await hooks.subscribe("pr/1", thread_id="one", resource_id="r")
        await hooks.subscribe("pr/1", thread_id="two", resource_id="r")
        await hooks.subscribe("pr/2", thread_id="three", resource_id="r")

        answer = await hooks.handle_webhook(WebhookRequest(body={"resource": "pr/1", "x": 1}))

        assert (200, {"matched": 2}) == (answer.status, answer.body)
        found = [len(await inbox(mastra, thread)) for thread in ("one", "two", "three")]
        assert [1, 1, 0] == found
        record = (await inbox(mastra, "one"))[0]
        assert ("webhook-signals", "webhook-event", "medium", "Webhook event for pr/1") == (
            record.source,
            record.kind,
            record.priority,
            record.summary,
        )


async def test_a_webhook_that_comes_again_has_the_same_key() -> None:
    """Equal payloads are one delivery, whatever the order of their members (G21)."""
    hooks = WebhookSignals()
    subscription = await hooks.subscribe("pr/1", **T)

    keys = [
        hooks.notification(payload, subscription)["dedupe_key"]
        for payload in ({"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 2, "b": 2})
    ]

    assert keys[0] == keys[1] != keys[2]


async def test_payloads_may_be_about_several_things() -> None:
    """A thread that asked for two of them is told once; the functions are the caller's."""
    hooks = WebhookSignals(
        extract_resource_id=lambda payload: payload["about"],
        build_notification=lambda payload, subscription: {
            "source": "mine",
            "kind": "own",
            "priority": "low",
            "summary": subscription.external_resource_id,
        },
    )
    async with Mastra(storage="memory:", agents=[agent_with(hooks)]) as mastra:
        await hooks.subscribe("a", **T)
        await hooks.subscribe("b", **T)

        answer = await hooks.handle_webhook(WebhookRequest(body={"about": ["a", "b", "a"]}))
        nothing = await hooks.handle_webhook(WebhookRequest(body={"about": None}))

        assert ({"matched": 1}, {"matched": 0}) == (answer.body, nothing.body)
        assert ["a"] == [record.summary for record in await inbox(mastra)]


@pytest.mark.parametrize("body", [b"\xff", b"{", "[]", "null", b'"text"'])
async def test_a_body_that_is_no_object_is_refused(body: Any) -> None:
    """The caller learns it."""
    answer = await WebhookSignals().handle_webhook(WebhookRequest(body=body))

    assert 400 == answer.status


async def test_a_notification_that_fails_isnt_counted() -> None:
    """The other threads are told."""

    def build(payload: Mapping[str, Any], subscription: Subscription) -> Mapping[str, Any]:
        if subscription.thread_id == "one":
            raise RuntimeError("no")
        return {"source": "s", "kind": "k", "priority": "low", "summary": "x"}

    hooks = WebhookSignals(build_notification=build)
    async with Mastra(storage="memory:", agents=[agent_with(hooks)]):
        for thread in ("one", "two"):
            await hooks.subscribe("x", thread_id=thread, resource_id="r")

        answer = await hooks.handle_webhook(WebhookRequest(body={"resource": "x"}))

    assert {"matched": 1} == answer.body


@case("signals", 118)
async def test_of_two_tools_with_one_name_the_agents_own_wins() -> None:
    """Processors of a provider stand outside of the agent's: first in, last out."""
    order: list[str] = []

    class Marker:
        def __init__(self, id: str) -> None:
            self.id = id

        def process_input(self, args: ProcessorArgs) -> None:
            order.append(f"in {self.id}")

        def process_output_result(self, args: ProcessorArgs) -> None:
            order.append(f"out {self.id}")

    class Provider(SignalProvider):
        def get_tools(self) -> Any:
            return [_tool("shared", "provider's"), _tool("extra", "provider's")]

        def get_input_processors(self) -> Any:
            return [Marker("provider")]

        def get_output_processors(self) -> Any:
            return [Marker("provider")]

    agent = agent_with(
        Provider(),
        tools=[_tool("shared", "own")],
        input_processors=[Marker("own")],
        output_processors=[Marker("own")],
    )

    await agent.generate("hi")

    described = {name: tool.description for name, tool in agent.tools.items()}
    assert {"shared": "own", "extra": "provider's"} == described
    assert ["in provider", "in own", "out own", "out provider"] == order


def _tool(name: str, description: str) -> FunctionTool:
    return FunctionTool(id=name, description=description, execute=lambda args, context: None)


async def test_subscribing_twice_merges_what_is_known() -> None:
    """The record stays the same one."""
    hooks = WebhookSignals()

    first = await hooks.subscribe("x", **T, metadata={"a": 1})
    second = await hooks.subscribe("x", **T, metadata={"b": 2})
    third = await hooks.subscribe("x", **T)

    assert first.id == second.id == third.id
    assert {"a": 1, "b": 2} == third.metadata
    assert 1 == len(hooks.subscriptions())


async def test_subscriptions_end() -> None:
    """One by one, or all of a thread."""
    hooks = WebhookSignals()
    for external in ("x", "y", "z"):
        await hooks.subscribe(external, **T)
    await hooks.subscribe("x", thread_id="other", resource_id="r")

    ended = [await hooks.unsubscribe("x", **T), await hooks.unsubscribe("x", **T)]
    count = await hooks.unsubscribe_all(**T)

    assert ([True, False], 2) == (ended, count)
    assert ["other"] == [s.thread_id for s in hooks.subscriptions_to("x")]
    assert [] == hooks.subscriptions_of_thread("t", "r")


async def test_subscriptions_survive_a_restart() -> None:
    """Whoever opens the same store knows them; what was ended is gone (G21)."""
    store = InMemoryStorage()
    for ends in (False, True):
        hooks = WebhookSignals()
        async with Mastra(storage=store, agents=[agent_with(hooks)]):
            if not ends:
                await hooks.subscribe("x", **T, metadata={"a": 1})
                await hooks.subscribe("y", **T)
                await hooks.unsubscribe("y", **T)
            known = [(s.external_resource_id, dict(s.metadata)) for s in hooks.subscriptions()]

        assert [("x", {"a": 1})] == known


async def test_two_processes_keep_each_others_subscriptions() -> None:
    """They write what changed, not everything."""
    store = InMemoryStorage()
    first, second = WebhookSignals(), WebhookSignals()
    async with (
        Mastra(storage=store, agents=[agent_with(first)]),
        Mastra(storage=store, agents=[agent_with(second)]),
    ):
        await first.subscribe("x", **T)
        await second.subscribe("y", **T)

    third = WebhookSignals()
    async with Mastra(storage=store, agents=[agent_with(third)]):
        assert ["x", "y"] == sorted(s.external_resource_id for s in third.subscriptions())


async def test_a_provider_without_an_agent_can_tell_nobody() -> None:
    """The error names it."""
    with pytest.raises(SignalError, match="'signals' isn't connected"):
        await SignalProvider().notify({}, **T)


async def test_a_provider_that_cant_start_hurts_nobody() -> None:
    """It is logged; the application opens, and an agent that comes later brings its own."""

    class Broken(SignalProvider):
        async def start(self) -> None:
            raise RuntimeError("no")

    late = WebhookSignals(id="late")
    async with Mastra(storage="memory:", agents=[agent_with(Broken())]) as mastra:
        agent = Agent(id="b", model=ScriptedModel([]), signals=[late])
        mastra.add_agent(agent)

        assert late.is_connected


async def test_signals_about_subscriptions_have_their_own_tags() -> None:
    """They are reactive signals with the resource as attribute."""
    hooks = WebhookSignals()

    made = [hooks.subscribe_signal("x"), hooks.unsubscribe_signal("x")]

    assert ["webhook-subscribe", "webhook-unsubscribe"] == [one["tagName"] for one in made]
    assert {"resource": "x"} == made[0]["attributes"]


@pytest.mark.parametrize(
    "make",
    [
        lambda: SignalProvider(poll_interval_ms=-1),
        lambda: SignalProvider(poll_interval_ms="1"),  # type: ignore[arg-type]  # what is refused
        lambda: WebhookSignals(extract_resource_id="x"),  # type: ignore[arg-type]  # what is refused
        lambda: agent_with("github"),  # type: ignore[arg-type]  # what is refused
        lambda: agent_with(SignalProvider(), SignalProvider()),
        lambda: Agent(id="a", signals="github"),  # type: ignore[arg-type]  # what is refused
    ],
)
def test_malformed_providers_are_refused(make: Any) -> None:
    """At construction."""
    with pytest.raises(ConfigError):
        make()


async def test_malformed_subscriptions_are_refused() -> None:
    """Nothing is remembered."""
    hooks = WebhookSignals()

    with pytest.raises(ConfigError, match="external_resource_id"):
        await hooks.subscribe("", **T)

    assert [] == hooks.subscriptions()
    assert 404 == (await SignalProvider().handle_webhook(WebhookRequest(body=b""))).status
