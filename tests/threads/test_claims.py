"""Threads that a session claims, and the ways to it from other processes (signals.md 18)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from mastra_conformance import case
from mastra_core import Agent, Mastra
from mastra_core.base.clock import SystemClock
from mastra_core.contracts.signal_sink import Accepted
from mastra_core.errors import ConfigError, DeliveryError, RunArgumentError
from mastra_core.inmemory.pubsub import InMemoryPubSub
from mastra_core.inmemory.storage import InMemoryStorage
from mastra_core.messages.signals import create_signal, wire_form
from mastra_core.testing.scripted_model import Gates, ScriptedModel, text
from mastra_core.testing.thread_scene import waiting
from mastra_core.threads.claims import ClaimTimes
from mastra_core.threads.discovery import OWNER_DISCOVERY, PEER_DISCOVERY
from mastra_core.threads.thread_key import thread_key, thread_topic
from mastra_core.wire.events import Event

pytestmark = pytest.mark.anyio

T = {"thread_id": "t", "resource_id": "r"}
CLAIMED = {"if_idle": {"require_claimed_owner": True}}

OpenSite = Callable[..., Awaitable["Site"]]


class Site:
    """One application, as if it were a process, with an agent ``a``."""

    def __init__(self, mastra: Mastra, agent: Agent, model: ScriptedModel) -> None:
        self.mastra = mastra
        self.agent = agent
        self.model = model

    async def idle(self) -> None:
        """Wait until nothing runs here any more."""
        for _ in range(5):
            await self.mastra.threads.tasks.join()
            await self.mastra.runs.join()


@pytest.fixture
async def open_site() -> AsyncIterator[OpenSite]:
    """Open applications that share a store, a bus and its leases."""
    store = InMemoryStorage()
    async with AsyncExitStack() as stack:
        bus = await stack.enter_async_context(InMemoryPubSub())
        lease = bus.get_lease_provider()

        async def open_one(*calls: Any, gates: Gates | None = None, **options: Any) -> Site:
            model = ScriptedModel(calls, gates=gates)
            agent = Agent(id="a", **{"model": model, **options})
            mastra = Mastra(storage=store, pubsub=bus, lease=lease, agents=[agent])
            await stack.enter_async_context(mastra)
            return Site(mastra, agent, model)

        yield open_one


async def _until(condition: Callable[[], bool]) -> None:
    """Wait until something is so; nobody tells that it is."""
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - see above
            await asyncio.sleep(0.01)


@case("signals", 135)
async def test_a_wake_from_elsewhere_runs_in_the_session(open_site: OpenSite) -> None:
    """With the session's options; the sender is told the id of its run."""
    contexts: list[Any] = []

    def note(args: Any) -> None:
        contexts.append(dict(args.request_context))

    owner = await open_site([text("here")])
    other = await open_site([text("wrong")])
    options = {"request_context": {"by": "owner"}, "prepare_step": note}
    claimed = await owner.agent.claim_thread_ownership(**T, stream_options=lambda: options)
    subscription = owner.agent.subscribe_to_thread(**T)

    accepted = await other.agent.send_message("hi", **T, **CLAIMED).accepted
    first = await anext(subscription.stream)
    await owner.idle()

    assert (True, "deliver", first["runId"]) == (
        claimed.claimed,
        accepted.action,
        accepted.run_id,
    )
    assert ([{"by": "owner"}], []) == (contexts, other.model.requests)


@case("signals", 135)
async def test_without_an_owner_nothing_runs(open_site: OpenSite) -> None:
    """The sender learns it within the deadline; also after the claim was given up."""
    owner = await open_site([text("wrong")])
    other = await open_site([text("wrong")])
    claimed = await owner.agent.claim_thread_ownership(**T)
    await claimed.unsubscribe()
    await claimed.unsubscribe()

    async with asyncio.timeout(30):
        with pytest.raises(DeliveryError, match="No claimed thread owner responded"):
            await other.agent.send_message("hi", **T, **CLAIMED).accepted

    assert ([], []) == (owner.model.requests, other.model.requests)
    assert [] == other.mastra.threads.known_threads()


async def test_what_is_sent_while_the_owner_is_looked_for_goes_the_same_way(
    open_site: OpenSite,
) -> None:
    """A plain message doesn't start a run beside it (row 6)."""
    owner = await open_site([text("one")], [text("two")])
    other = await open_site([text("wrong")])
    await owner.agent.claim_thread_ownership(**T)

    first = other.agent.send_message("one", **T, **CLAIMED)
    await asyncio.sleep(0)
    second = other.agent.send_message("two", **T)
    actions = [(await sent.accepted).action for sent in (first, second)]
    await owner.idle()

    assert (["deliver", "deliver"], []) == (actions, other.model.requests)
    prompts = str([request.prompt for request in owner.model.requests])
    assert all(words in prompts for words in ("'one'", "'two'"))


async def test_a_busy_owner_queues_what_comes(open_site: OpenSite) -> None:
    """It gets a run of its own, whose id the sender is told."""
    gates = Gates()
    owner = await open_site(waiting("g"), [text("next")], gates=gates)
    other = await open_site()
    await owner.agent.claim_thread_ownership(**T)
    running = await owner.agent.send_message("go", **T).accepted
    await gates.reached("g")

    accepted = await other.agent.send_message("later", **T, **CLAIMED).accepted
    gates.open("g")
    await owner.idle()

    assert "deliver" == accepted.action
    assert accepted.run_id not in (None, running.run_id)
    assert "later" not in str(owner.model.requests[0].prompt)
    assert 2 == len(owner.model.requests)


async def test_an_owner_that_cant_start_says_why(open_site: OpenSite) -> None:
    """The error's text arrives at the sender."""
    owner = await open_site(model="nobody/knows")
    other = await open_site()
    await owner.agent.claim_thread_ownership(**T)

    with pytest.raises(DeliveryError, match="nobody"):
        await other.agent.send_message("hi", **T, **CLAIMED).accepted


async def test_a_wake_in_the_owners_process_is_its_sessions(open_site: OpenSite) -> None:
    """Whichever agent sends, the session runs it; of the caller only the context counts."""
    contexts: list[Any] = []

    def note(args: Any) -> None:
        contexts.append((args.agent_id, dict(args.request_context)))

    owner = await open_site([text("here")])
    helper = Agent(id="b", model=ScriptedModel([[text("wrong")]]))
    owner.mastra.add_agent(helper)
    await owner.agent.claim_thread_ownership(
        **T, stream_options={"request_context": {"by": "owner"}, "prepare_step": note}
    )

    accepted = await helper.send_message(
        "hi", **T, if_idle={"stream_options": {"request_context": {"by": "me"}, "max_steps": 1}}
    ).accepted
    await owner.idle()

    assert ("wake", [("a", {"by": "me"})]) == (accepted.action, contexts)


@case("signals", 136)
async def test_a_message_that_is_sent_again_runs_once(open_site: OpenSite) -> None:
    """Both senders are told the same run; another message of that peer is another one."""
    owner = await open_site([text("one")], [text("two")])
    other = await open_site()
    await owner.agent.claim_thread_ownership(**T)

    def message(number: str) -> dict[str, Any]:
        return {"contents": number, "attributes": {"messageId": number, "sourcePeerId": "p"}}

    runs = [
        (await other.agent.send_message(message(number), **T, **CLAIMED).accepted).run_id
        for number in ("1", "1", "2")
    ]
    await owner.idle()

    assert runs[0] == runs[1] != runs[2]
    assert 2 == len(owner.model.requests)


async def test_a_message_that_led_to_no_run_may_come_again(open_site: OpenSite) -> None:
    """Its identity is free again."""
    owner = await open_site(model="nobody/knows")
    other = await open_site()
    await owner.agent.claim_thread_ownership(**T)
    message = {"contents": "x", "attributes": {"messageId": "1", "sourcePeerId": "p"}}

    for _ in range(2):
        with pytest.raises(DeliveryError, match="nobody"):
            await other.agent.send_message(message, **T, **CLAIMED).accepted


@case("signals", 137)
async def test_old_questions_have_no_effect(open_site: OpenSite) -> None:
    """Neither a reply nor a run comes of a request that nobody waits for any more."""
    owner = await open_site([text("wrong")], [text("right")])
    other = await open_site()
    await owner.agent.claim_thread_ownership(**T)
    replies: list[Any] = []

    async def note(event: Event) -> None:
        replies.append(event.data["type"])

    pubsub, clock, ids = other.mastra.pubsub, other.mastra.clock, other.mastra.ids
    await pubsub.subscribe("replies", note)
    signal = create_signal({"type": "user", "contents": "old"}, clock=clock, ids=ids)
    owner_id = owner.mastra.threads.claims._source_id  # type: ignore[union-attr]  # what replies carry

    async def ask(kind: str, topic: str, *, expires_at: int, **members: Any) -> None:
        data = {
            "type": kind,
            "requestId": ids.new("request"),
            "replyTopic": "replies",
            "sourceId": "them",
            "expiresAt": expires_at,
            **members,
        }
        await pubsub.publish(topic, Event(type=kind, run_id="x", data=data))

    long_ago = clock.now_ms() - 60_000
    wake = {"runId": "x", "signal": wire_form(signal), "targetSourceId": owner_id}
    key = thread_key("r", "t")
    for expires_at in (long_ago, clock.now_ms() + 60_000):
        await ask("thread-owner-request", OWNER_DISCOVERY, expires_at=expires_at, key=key)
        await ask("thread-peer-request", PEER_DISCOVERY, expires_at=expires_at)
        await ask("idle-signal-enqueued", thread_topic("r", "t"), expires_at=expires_at, **wake)
    await _until(lambda: len(replies) == 3)
    await pubsub.flush()
    await owner.idle()

    assert ["idle-signal-accepted", "thread-owner-response", "thread-peer-response"] == sorted(
        replies
    )
    assert 1 == len(owner.model.requests)


async def test_a_request_that_is_delivered_twice_is_answered_alike(open_site: OpenSite) -> None:
    """It starts one run; both answers name it."""
    owner = await open_site([text("one")], [text("wrong")])
    other = await open_site()
    await owner.agent.claim_thread_ownership(**T)
    replies: list[Any] = []

    async def note(event: Event) -> None:
        replies.append(event.data["runId"])

    pubsub, clock, ids = other.mastra.pubsub, other.mastra.clock, other.mastra.ids
    await pubsub.subscribe("replies", note)
    signal = create_signal({"type": "user", "contents": "twice"}, clock=clock, ids=ids)
    data = {
        "type": "idle-signal-enqueued",
        "requestId": "same",
        "replyTopic": "replies",
        "sourceId": "them",
        "expiresAt": clock.now_ms() + 60_000,
        "runId": "x",
        "signal": wire_form(signal),
        "targetSourceId": owner.mastra.threads.claims._source_id,  # type: ignore[union-attr]  # whom it is for
    }
    for _ in range(2):
        await pubsub.publish(
            thread_topic("r", "t"), Event(type=str(data["type"]), run_id="x", data=dict(data))
        )
    await _until(lambda: len(replies) == 2)
    await owner.idle()

    assert replies[0] == replies[1]
    assert 1 == len(owner.model.requests)


@case("signals", 138)
async def test_a_holder_lets_go_if_it_is_willing(open_site: OpenSite) -> None:
    """Then the asker has the claim and the holder is told; else nothing changes."""
    first, second, third = [await open_site([text(name)]) for name in ("1", "2", "3")]
    told: list[str] = []
    await first.agent.claim_thread_ownership(
        **T, yield_ownership=lambda: True, on_ownership_yielded=lambda: told.append("yielded")
    )

    taken = await second.agent.claim_thread_ownership(**T)
    refused = await third.agent.claim_thread_ownership(**T)
    await refused.unsubscribe()
    await third.agent.send_message("hi", **T, **CLAIMED).accepted
    await second.idle()

    assert (True, False, ["yielded"]) == (taken.claimed, refused.claimed, told)
    assert ([0, 1, 0]) == [len(site.model.requests) for site in (first, second, third)]


async def test_a_second_claim_of_a_process_replaces_the_first(open_site: OpenSite) -> None:
    """Giving up the replaced one changes nothing."""
    owner = await open_site([text("here")])
    other = await open_site()
    replaced = await owner.agent.claim_thread_ownership(**T)
    again = await owner.agent.claim_thread_ownership(**T)

    await replaced.unsubscribe()
    accepted = await other.agent.send_message("hi", **T, **CLAIMED).accepted
    await owner.idle()

    assert (True, "deliver") == (again.claimed, accepted.action)


async def test_a_closed_application_gives_its_claims_up(open_site: OpenSite) -> None:
    """Another one has them at once."""
    first, second = await open_site(), await open_site()
    await first.agent.claim_thread_ownership(**T)

    await first.mastra.aclose()

    assert (await second.agent.claim_thread_ownership(**T)).claimed


async def test_peers_are_found_here_and_elsewhere(open_site: OpenSite) -> None:
    """By id; what a claim advertises can be changed, and need not be told."""
    here, there = await open_site(), await open_site()
    await here.agent.claim_thread_ownership(
        **T, peer={"id": "z", "label": "one", "metadata": {"n": 1}}
    )
    await there.agent.claim_thread_ownership(thread_id="u", resource_id="r 1")
    await there.agent.claim_thread_ownership(thread_id="secret", resource_id="r", peer=False)

    changed = [
        here.agent.update_thread_peer_advertisement(**T, title="A title"),
        here.agent.update_thread_peer_advertisement(thread_id="x", resource_id="r", title="no"),
        there.agent.update_thread_peer_advertisement(
            thread_id="secret", resource_id="r", title="no"
        ),
    ]
    found = await here.agent.discover_thread_peers(timeout_ms=500)

    assert [True, False, False] == changed
    assert ["a:r%201:u", "z"] == [peer["id"] for peer in found]
    assert ("one", "A title", {"n": 1}, True) == tuple(
        found[1].get(name) for name in ("label", "title", "metadata", "self_advertised")
    )
    assert "self_advertised" not in found[0]
    assert {"source_id", "discovered_at", "agent_id", "thread_id"} <= set(found[0])


@pytest.mark.parametrize(
    "peer",
    [
        "text",
        {"label": 3},
        {"unknown": "x"},
        {"id": ""},
        {"metadata": "x"},
        {"metadata": {"a": object()}},
    ],
)
async def test_malformed_peers_are_refused(open_site: OpenSite, peer: Any) -> None:
    """Nothing is claimed."""
    site = await open_site()

    with pytest.raises(RunArgumentError):
        await site.agent.claim_thread_ownership(**T, peer=peer)

    assert (await site.agent.claim_thread_ownership(**T)).claimed


async def test_a_claim_needs_an_application() -> None:
    """An agent by itself has nobody to share with."""
    agent = Agent(id="a", model=ScriptedModel([]))

    with pytest.raises(ConfigError, match="need an open application"):
        await agent.claim_thread_ownership(**T)
    with pytest.raises(DeliveryError):
        await agent.send_message("x", **T, **CLAIMED).accepted
    await agent.aclose()


async def test_clocks_may_differ_by_a_few_seconds(open_site: OpenSite) -> None:
    """A question of a process whose clock is slow isn't taken for one of the past (20)."""
    owner = await open_site([text("here")])
    other = await open_site()
    await owner.agent.claim_thread_ownership(**T, peer={"label": "me"})
    slow = _SlowClock()
    claims = other.mastra.threads.claims
    assert claims is not None
    claims._questions._clock = slow  # the process around it keeps its time

    accepted = await other.agent.send_message("hi", **T, **CLAIMED).accepted
    peers = await other.agent.discover_thread_peers()
    await owner.idle()

    assert "deliver" == accepted.action
    assert ["me"] == [peer["label"] for peer in peers]
    assert 1 == len(owner.model.requests)


class _SlowClock(SystemClock):
    def now_ms(self) -> int:
        return super().now_ms() - 3_000


async def test_what_an_owner_cannot_take_in_time_it_refuses(
    open_site: OpenSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its sender waits no more, so it must not be answered later (18.2)."""
    owner = await open_site([text("never")])
    other = await open_site()
    await owner.agent.claim_thread_ownership(**T)
    claims = owner.mastra.threads.claims
    assert claims is not None
    cancelled = asyncio.Event()

    async def take(*_: Any) -> Accepted:
        await cancelled.wait()
        return Accepted(action="discard")

    def cancel(*_: Any) -> list[str]:
        cancelled.set()
        return []

    monkeypatch.setattr(claims, "_take", take)
    monkeypatch.setattr(claims, "_cancel", cancel)
    monkeypatch.setattr(claims, "_times", ClaimTimes(acceptance=20))

    with pytest.raises(DeliveryError, match="acceptance expired for thread t"):
        await other.agent.send_message("hi", **T, **CLAIMED).accepted

    assert [] == owner.model.requests
