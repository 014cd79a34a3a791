"""Threads that one session claims: whoever wakes them has its session do it (signals.md 18)."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from mastra_core.base.clock import Clock
from mastra_core.base.ids import Ids
from mastra_core.base.isotime import to_iso_ms
from mastra_core.base.tasks import TaskSupervisor, call_maybe_async
from mastra_core.bus.timers import first_of
from mastra_core.contracts.lease import LeaseProvider
from mastra_core.contracts.pubsub import PubSub
from mastra_core.contracts.signal_sink import Accepted
from mastra_core.errors import DeliveryError, LeaseLostError, MastraError
from mastra_core.messages.signals import signal_from_wire, wire_form
from mastra_core.threads.discovery import OWNER_DISCOVERY, PEER_DISCOVERY, Questions, is_past
from mastra_core.threads.lease_keeper import LeaseKeeper
from mastra_core.threads.record import ThreadAgent
from mastra_core.threads.signing import EventSigner
from mastra_core.threads.thread_key import quoted_id, split_key, thread_key, thread_topic
from mastra_core.wire.events import Event
from mastra_core.wire.signals import Signal

__all__ = (
    "CancelSignals",
    "Claim",
    "ClaimTimes",
    "Claimed",
    "TakeSignal",
    "ThreadClaims",
    "peer_id",
)

logger = logging.getLogger(__name__)

_REMEMBERED: Final = 10_000

#: Takes the signal and the options of the session; how it was taken.
TakeSignal = Callable[[ThreadAgent, str, str, Signal, Mapping[str, Any]], Awaitable[Accepted]]
#: Takes signals of a thread back; the ids of those that waited.
CancelSignals = Callable[[str, str, Sequence[str]], Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimTimes:
    """Milliseconds (signals.md 20)."""

    #: The first window in which an owner may answer, and the longest altogether.
    discovery: int = 100
    discovery_in_all: int = 1_000
    #: How long the owner has to take a signal.
    acceptance: int = 5_000
    #: How far clocks may be apart.
    grace: int = 5_000


@dataclass(slots=True, kw_only=True)
class Claim:
    """One thread that a session of this process claims."""

    agent: ThreadAgent
    resource_id: str
    thread_id: str
    stream_options: Mapping[str, Any] | Callable[[], Mapping[str, Any]] | None = None
    #: What other processes may know of the session; None if nothing.
    peer: dict[str, Any] | None = None
    yield_ownership: Callable[[], Any] | None = None
    on_yielded: Callable[[], Any] | None = None
    on_lost: Callable[[], Any] | None = None

    @property
    def key(self) -> str:
        """The key of the thread."""
        return thread_key(self.resource_id, self.thread_id)

    def options(self) -> dict[str, Any]:
        """The options of the session's runs, as they are now."""
        given = self.stream_options
        return dict((given() if callable(given) else given) or {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """Whether the thread is the session's; ``unsubscribe`` gives it up."""

    claimed: bool
    unsubscribe: Callable[[], Awaitable[None]]


@dataclass(slots=True)
class _Remembered:
    """What became of things with an identity; the oldest are forgotten."""

    known: OrderedDict[Any, asyncio.Future[Accepted]] = field(default_factory=OrderedDict)

    def get(self, identity: Any) -> asyncio.Future[Accepted] | None:
        return self.known.get(identity)

    def put(self, identity: Any) -> asyncio.Future[Accepted]:
        future: asyncio.Future[Accepted] = asyncio.get_running_loop().create_future()
        # Whoever repeats the request learns of a failure; nobody has to.
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        self.known[identity] = future
        while len(self.known) > _REMEMBERED:
            self.known.popitem(last=False)
        return future


def peer_id(agent_id: str, resource_id: str, thread_id: str) -> str:
    """The id of a peer that chose none."""
    return ":".join(quoted_id(part) for part in (agent_id, resource_id, thread_id))


class ThreadClaims:
    """
    Claims of this process, and the ways to those of others.

    Args:
        pubsub: Reaches other processes.
        lease: Says who has a claim.
        clock: Measures waiting.
        ids: Gives ids of questions.
        source_id: This process.
        ttl_ms: How long a claim outlives its process.
        take: Lets a signal start or join a run here.
        cancel: Takes a signal back that could not be taken in time.
        times: How long is waited for what.
        signer: Tells control events of ours from those of strangers.
    """

    def __init__(
        self,
        *,
        pubsub: PubSub,
        lease: LeaseProvider,
        clock: Clock,
        ids: Ids,
        source_id: str,
        ttl_ms: int,
        take: TakeSignal,
        cancel: CancelSignals,
        times: ClaimTimes | None = None,
        signer: EventSigner | None = None,
    ) -> None:
        self._pubsub = pubsub
        self._clock = clock
        self._source_id = source_id
        self._take = take
        self._cancel = cancel
        self._times = times or ClaimTimes()
        self._signer = signer or EventSigner()
        self._questions = Questions(
            pubsub, clock=clock, ids=ids, source_id=source_id, signer=self._signer
        )
        self._keeper = LeaseKeeper(
            lease, holder=source_id, clock=clock, on_lost=self._lost, ttl_ms=ttl_ms
        )
        self._tasks = TaskSupervisor("thread claims")
        self._claims: dict[str, Claim] = {}
        self._heard: dict[str, Callable[[Event], Awaitable[None]]] = {}
        self._requests = _Remembered()
        self._messages = _Remembered()
        self._new_id = ids.new

    # -- claiming -------------------------------------------------------------------------

    async def claim(self, claim: Claim) -> Claimed:
        """
        Claim a thread; a second claim of this process replaces the first.

        Raises:
            LeaseUnavailableError: Nobody knows who has it.
            PubSubError: Other processes can't be heard.
        """
        key = claim.key
        lease_key = _lease_key(key)
        owner = await self._keeper.take(lease_key, self._source_id)
        if owner is not None and await self._asked_to_yield(key, owner):
            owner = await self._keeper.take(lease_key, self._source_id)
        if owner is not None:
            return Claimed(claimed=False, unsubscribe=_nothing)
        self._claims[key] = claim
        try:
            await self._listen(claim)
        except BaseException:
            await self._release(claim)
            raise

        async def unsubscribe() -> None:
            await self._release(claim)

        return Claimed(claimed=True, unsubscribe=unsubscribe)

    async def _asked_to_yield(self, key: str, holder: str) -> bool:
        """Ask the holder of a claim to let it go; True if it answered."""
        waits = self._times.discovery_in_all
        async with self._questions.asked(
            "thread-owner-request",
            OWNER_DISCOVERY,
            waits_ms=waits,
            key=key,
            intent="claim",
            targetSourceId=holder,
        ) as answers:
            return await answers.first(waits / 1000) is not None

    async def _release(self, claim: Claim) -> None:
        if self._claims.get(claim.key) is not claim:
            return
        del self._claims[claim.key]
        await self._stop_listening(claim.key)
        await self._keeper.let_go(_lease_key(claim.key), self._source_id)

    def _lost(self, lease_key: str, owner: str, error: LeaseLostError) -> None:
        claim = self._claims.get(lease_key.removeprefix(_PREFIX))
        if claim is not None and not self._tasks.is_closed:
            self._tasks.start(self._take_again(claim), name=f"claim:{claim.thread_id}")

    async def _take_again(self, claim: Claim) -> None:
        """A claim that wasn't renewed in time is taken again, or is lost."""
        try:
            owner = await self._keeper.take(_lease_key(claim.key), self._source_id)
        except MastraError:
            logger.warning("claim not taken again", exc_info=True)
            owner = ""
        if owner is not None:
            await self._release(claim)
            await _tell(claim.on_lost)

    def local(self, resource_id: str, thread_id: str) -> Claim | None:
        """The claim of this process on a thread."""
        return self._claims.get(thread_key(resource_id, thread_id))

    async def aclose(self) -> None:
        """Give up all claims."""
        for claim in list(self._claims.values()):
            await self._release(claim)
        await self._tasks.close()
        await self._keeper.aclose()

    # -- waking a claimed thread ----------------------------------------------------------

    async def wake_owner(self, signal: Signal, *, resource_id: str, thread_id: str) -> Accepted:
        """
        Have the owner of a claimed thread take a signal; nothing is started here.

        Raises:
            DeliveryError: There is no owner, or it doesn't take the signal.
            PubSubError: Other processes can't be reached.
        """
        key = thread_key(resource_id, thread_id)
        name = f"thread {thread_id}"
        owner = await self._find_owner(key)
        if owner is None:
            raise DeliveryError(f"No claimed thread owner responded for {name}")
        topic = thread_topic(resource_id, thread_id)
        waits = self._times.acceptance
        async with self._questions.asked(
            "idle-signal-enqueued",
            topic,
            waits_ms=waits,
            reply_prefix=f"{topic}.idle-acceptance",
            runId=self._new_id("run"),
            signal=wire_form(signal),
            targetSourceId=owner,
        ) as answers:
            answer = await answers.first(waits / 1000)
        if answer is None:
            raise DeliveryError(f"Claimed thread owner did not accept signal for {name}")
        if answer.get("type") != "idle-signal-accepted":
            raise DeliveryError(str(answer.get("error") or "the owner refused the signal"))
        return Accepted(action="deliver", run_id=str(answer.get("runId")))

    async def _find_owner(self, key: str) -> str | None:
        """The process that claims a thread; asked again with doubled patience."""
        window, left = self._times.discovery, self._times.discovery_in_all
        while left > 0:
            waits = min(window, left)
            async with self._questions.asked(
                "thread-owner-request", OWNER_DISCOVERY, waits_ms=waits, key=key
            ) as answers:
                answer = await answers.first(waits / 1000)
            if answer is not None and isinstance(answer.get("sourceId"), str):
                return str(answer["sourceId"])
            left -= waits
            window *= 2
        return None

    # -- being the owner ------------------------------------------------------------------

    async def _listen(self, claim: Claim) -> None:
        key = claim.key
        if key not in self._heard:

            async def hear(event: Event) -> None:
                await self._on_thread(key, event)

            self._heard[key] = hear
            if len(self._heard) == 1:
                await self._pubsub.subscribe(OWNER_DISCOVERY, self._on_owner_request)
                await self._pubsub.subscribe(PEER_DISCOVERY, self._on_peer_request)
            await self._pubsub.subscribe(thread_topic(claim.resource_id, claim.thread_id), hear)

    async def _stop_listening(self, key: str) -> None:
        hear = self._heard.pop(key, None)
        if hear is None:
            return
        resource_id, thread_id = key.split("\0", 1)
        await self._pubsub.unsubscribe(thread_topic(resource_id, thread_id), hear)
        if not self._heard:
            await self._pubsub.unsubscribe(OWNER_DISCOVERY, self._on_owner_request)
            await self._pubsub.unsubscribe(PEER_DISCOVERY, self._on_peer_request)

    async def _on_owner_request(self, event: Event) -> None:
        data = event.data
        if not isinstance(data, Mapping) or data.get("sourceId") == self._source_id:
            return
        claim = self._claims.get(str(data.get("key")))
        is_request = data.get("type") == "thread-owner-request"
        if claim is None or not is_request or self._is_past(data, event):
            return
        if not self._signer.is_genuine(OWNER_DISCOVERY, data):
            return
        if data.get("intent") == "claim":
            if data.get("targetSourceId") != self._source_id or not await _wants_to_yield(claim):
                return
            # Answered from a task of its own: it unsubscribes what called us.
            if not self._tasks.is_closed:
                self._tasks.start(self._yield(claim, data), name=f"yield:{claim.thread_id}")
            return
        await self._questions.answer(data, "thread-owner-response", key=claim.key)

    def _is_past(self, data: Mapping[str, Any], event: Event) -> bool:
        """Does nobody wait for an answer any more, as far as clocks can tell?"""
        return is_past(data, event, self._clock, grace_ms=self._times.grace)

    async def _yield(self, claim: Claim, request: Mapping[str, Any]) -> None:
        await self._release(claim)
        try:
            await self._questions.answer(request, "thread-owner-response", key=claim.key)
        finally:
            await _tell(claim.on_yielded)

    async def _on_thread(self, key: str, event: Event) -> None:
        data = event.data
        if not isinstance(data, Mapping) or data.get("type") != "idle-signal-enqueued":
            return
        if data.get("targetSourceId") != self._source_id or self._tasks.is_closed:
            return
        request_id = data.get("requestId")
        topic = thread_topic(*split_key(key))
        if not isinstance(request_id, str) or not self._signer.is_genuine(topic, data):
            return
        known = self._requests.get(request_id)
        if known is None:
            if self._is_past(data, event):
                return
            known = self._requests.put(request_id)
            self._tasks.start(self._act(key, data, known), name=f"claimed:{request_id}")
        # A repeated request gets the same answer again (field report R110).
        self._tasks.start(self._reply(data, known), name=f"reply:{request_id}")

    async def _act(
        self, key: str, data: Mapping[str, Any], answer: asyncio.Future[Accepted]
    ) -> None:
        try:
            answer.set_result(await self._taken(key, data))
        except MastraError as exc:
            answer.set_exception(exc)
        except BaseException:
            answer.cancel()
            raise

    async def _taken(self, key: str, data: Mapping[str, Any]) -> Accepted:
        """Take a signal once; its repetition gets what became of it."""
        claim = self._claims.get(key)
        thread_id = key.split("\0", 1)[1]
        if claim is None:
            raise DeliveryError(f"Claimed thread owner was released for thread {thread_id}")
        signal = signal_from_wire(data.get("signal") or {}, clock=self._clock)
        identity = _identity(claim, signal)
        known = self._messages.get(identity) if identity is not None else None
        if known is not None:
            return await asyncio.shield(known)
        mine = self._messages.put(identity) if identity is not None else None
        try:
            taken = await self._taken_in_time(claim, signal, data)
        except BaseException as exc:
            if mine is not None:
                # It led to no run: whoever repeats it tries again.
                self._messages.known.pop(identity, None)
                if isinstance(exc, Exception):
                    mine.set_exception(exc)
                else:
                    mine.cancel()
            raise
        if mine is not None:
            mine.set_result(taken)
        return taken

    async def _taken_in_time(
        self, claim: Claim, signal: Signal, data: Mapping[str, Any]
    ) -> Accepted:
        """
        Let the session take a signal as long as its sender waits (signals.md 18.2).

        Raises:
            DeliveryError: It was not taken in time, and will not be.
            MastraError: It can't be taken.
        """
        now, expires_at = self._clock.now_ms(), data.get("expiresAt")
        left = self._times.acceptance
        if isinstance(expires_at, int | float) and not isinstance(expires_at, bool):
            left = min(left, int(expires_at) + self._times.grace - now)
        taking = asyncio.ensure_future(
            self._take(claim.agent, claim.resource_id, claim.thread_id, signal, claim.options())
        )
        gone: Sequence[str] = ()
        try:
            await first_of(_done(taking), self._clock.sleep(max(left, 0) / 1000))
            if not taking.done():
                gone = self._cancel(claim.resource_id, claim.thread_id, [signal.id])
            taken = await taking
        finally:
            taking.cancel()
        if gone or taken.action == "discard":
            raise DeliveryError(
                f"Claimed thread owner acceptance expired for thread {claim.thread_id}"
            )
        return taken

    async def _reply(self, data: Mapping[str, Any], answer: asyncio.Future[Accepted]) -> None:
        try:
            taken = await asyncio.shield(answer)
        except MastraError as exc:
            await self._questions.answer(
                data, "idle-signal-rejected", runId=data.get("runId"), error=exc.message
            )
        else:
            await self._questions.answer(
                data, "idle-signal-accepted", runId=taken.run_id or data.get("runId")
            )

    # -- peers ----------------------------------------------------------------------------

    def update_peer(self, claim: Claim, changes: Mapping[str, Any]) -> bool:
        """Change what other processes may know; False if nothing is advertised."""
        if claim.peer is None:
            return False
        claim.peer.update(changes)
        return True

    async def _on_peer_request(self, event: Event) -> None:
        data = event.data
        if not isinstance(data, Mapping) or data.get("sourceId") == self._source_id:
            return
        if data.get("type") != "thread-peer-request" or self._is_past(data, event):
            return
        if not self._signer.is_genuine(PEER_DISCOVERY, data):
            return
        for peer in self._own_peers():
            await self._questions.answer(data, "thread-peer-response", peer=peer)

    def _own_peers(self) -> list[dict[str, Any]]:
        return [
            {**claim.peer, "sourceId": self._source_id}
            for claim in self._claims.values()
            if claim.peer is not None
        ]

    async def discover_peers(self, agent_id: str, *, timeout_ms: int) -> list[dict[str, Any]]:
        """
        Who says that it can be reached, here and in other processes, by id; a look, no promise.

        Raises:
            PubSubError: Nobody can be asked.
        """
        async with self._questions.asked(
            "thread-peer-request", PEER_DISCOVERY, waits_ms=timeout_ms
        ) as answers:
            replies = await answers.all(timeout_ms / 1000)
        found = {str(peer["id"]): peer for peer in self._own_peers()}
        for reply in replies:
            peer = reply.get("peer")
            if isinstance(peer, Mapping) and isinstance(peer.get("id"), str):
                found[peer["id"]] = dict(peer)
        seen_at = to_iso_ms(self._clock.now())
        own = {c.key for c in self._claims.values() if c.agent.id == agent_id}
        return [_shown(found[name], seen_at, own) for name in sorted(found)]


_PREFIX: Final = "thread-claim:"


def _lease_key(key: str) -> str:
    return f"{_PREFIX}{key}"


async def _done(task: asyncio.Future[Accepted]) -> None:
    await asyncio.wait([task])


async def _nothing() -> None:
    """There is nothing to give up."""


def _identity(claim: Claim, signal: Signal) -> tuple[str, ...] | None:
    """What a message is, however often it is sent (signals.md 18.2)."""
    attributes = signal.attributes or {}
    names = attributes.get("messageId"), attributes.get("sourcePeerId")
    if not all(isinstance(name, str) and name for name in names):
        return None
    return (claim.agent.id, claim.key, *map(str, names))


async def _wants_to_yield(claim: Claim) -> bool:
    if claim.yield_ownership is None:
        return False
    try:
        return bool(await call_maybe_async(claim.yield_ownership))
    except Exception:
        logger.exception("yield_ownership failed")
        return False


async def _tell(callback: Callable[[], Any] | None) -> None:
    if callback is None:
        return
    try:
        await call_maybe_async(callback)
    except Exception:
        logger.exception("callback of a claim failed")


def _shown(peer: Mapping[str, Any], seen_at: str, own: set[str]) -> dict[str, Any]:
    """A peer under Python names."""
    names = {
        "id": "id",
        "agentId": "agent_id",
        "resourceId": "resource_id",
        "threadId": "thread_id",
        "label": "label",
        "title": "title",
        "metadata": "metadata",
        "sourceId": "source_id",
    }
    shown = {python: peer[wire] for wire, python in names.items() if wire in peer}
    shown["discovered_at"] = seen_at
    key = thread_key(str(peer.get("resourceId") or ""), str(peer.get("threadId") or ""))
    if key in own:
        shown["self_advertised"] = True
    return shown
