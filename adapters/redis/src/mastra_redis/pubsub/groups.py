"""Consumer groups: who holds what is the server's, when to look again is remembered here.

Consumers are named so that a TypeScript peer takes over what they hold as it would from one
of its own, and that we know which of them are ours and should be heard of.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from redis.exceptions import RedisError

from mastra_core.bus import (
    Ack,
    Claim,
    Claims,
    Dead,
    GiveBack,
    Nack,
    Position,
    Settlement,
)
from mastra_core.contracts.pubsub import DeadLetter
from mastra_core.errors import PubSubClosedError, WireDecodeError
from mastra_core.wire.events import Event
from mastra_redis.keys import raw, text
from mastra_redis.link import Argument, LinkClosedError, LostReplyError
from mastra_redis.pool import Server
from mastra_redis.pubsub.events import FIELD, event_of, id_of, position_of
from mastra_redis.pubsub.streams import StreamNames
from mastra_redis.settings import RedisPubSubSettings

__all__ = ("GroupState",)

logger = logging.getLogger(__name__)

#: A first delivery of a TypeScript peer has attempt 1; more is a retry that went to all groups.
_RETRIED: Final = 2
_FIRST: Final = (0, 0)


@dataclass(slots=True)
class _Held:
    """What must be known of a claimed event to settle it."""

    #: How often the server delivered it, this time included.
    deliveries: int
    #: The same as handlers count it.
    attempt: int
    event: Event


@dataclass(slots=True)
class _Group:
    """One group as this process knows it."""

    consumers: set[str] = field(default_factory=set)
    #: Where it begins anew if the server lost it.
    begins: str = "0"
    last: Position = _FIRST
    #: When something that is held or delayed comes back, by the loop's clock; None: nothing.
    look_at: float | None = 0.0
    held: dict[Position, _Held] = field(default_factory=dict)


class GroupState:
    """The groups of one bus."""

    def __init__(self, names: StreamNames, settings: RedisPubSubSettings) -> None:
        self._names = names
        self._settings = settings
        self._wait_ms = settings.ack_wait_ms
        self._groups: dict[tuple[str, str], _Group] = {}
        self._server: Server | None = None

    def attach(self, server: Server | None) -> None:
        """Work with this server; None for a closed bus."""
        self._server = server

    def look_soon(self, topic: str | None) -> None:
        """Something may have come back, in one topic or any."""
        for (name, _), group in self._groups.items():
            if topic is None or name == topic:
                group.look_at = 0.0

    def cleared(self, topic: str) -> None:
        """The topic begins anew; what was held is gone."""
        for (name, _), group in self._groups.items():
            if name == topic:
                group.held.clear()
                group.begins = "0"
                group.look_at = 0.0

    async def beat(self) -> None:
        """Say again and again that the consumers of this process are alive."""
        ttl_ms = self._settings.heartbeat_ttl_ms
        while True:
            await asyncio.sleep(ttl_ms / 3000)
            try:
                await self._beat_once(ttl_ms)
            except (RedisError, OSError, LinkClosedError, LostReplyError, TimeoutError):
                logger.debug("heartbeat failed", exc_info=True)

    async def _beat_once(self, ttl_ms: int) -> None:
        commands: list[tuple[Argument, ...]] = [
            ("SET", self._names.beside(topic) + b":hb:" + raw(consumer), "1", "PX", ttl_ms)
            for (topic, _), group in self._groups.items()
            for consumer in group.consumers
        ]
        if commands and self._server is not None:
            await self._server.link.call_all(commands, repeatable=True)

    async def _run(
        self, script: str, topic: str, args: Sequence[Argument], *, repeatable: bool = False
    ) -> Any:
        if self._server is None:
            raise PubSubClosedError
        return await self._server.scripts.run(
            script,
            [self._names.stream(topic)],
            [self._names.beside(topic), *args],
            repeatable=repeatable,
        )

    # -- members -------------------------------------------------------------------------------

    async def join(
        self, topic: str, group: str, consumer: str, begins: str, idle_ttl_ms: int
    ) -> None:
        """Make the group unless it is there, and count the consumer in."""
        await self._run(
            "bus_join",
            topic,
            [raw(group), raw(consumer), begins, self._settings.heartbeat_ttl_ms, idle_ttl_ms],
            repeatable=True,
        )
        state = self._groups.setdefault((topic, group), _Group())
        state.consumers.add(consumer)
        if begins == "$":
            # Whoever makes it anew must not go back behind this moment.
            found = await self._last_id(topic)
            state.begins = found
        else:
            state.begins = begins

    async def _last_id(self, topic: str) -> str:
        if self._server is None:
            raise PubSubClosedError
        found = await self._server.link.call(
            "XREVRANGE", self._names.stream(topic), "+", "-", "COUNT", 1, repeatable=True
        )
        return found[0][0].decode() if found else "0"

    async def leave(self, topic: str, group: str, consumer: str) -> None:
        """Forget the consumer; what it holds goes to whoever asks first."""
        state = self._groups.get((topic, group))
        if state is not None:
            state.consumers.discard(consumer)
            if not state.consumers:
                del self._groups[topic, group]
        await self._run(
            "bus_leave",
            topic,
            [raw(group), raw(consumer), self._wait_ms, self._names.hints, raw(topic)],
            repeatable=True,
        )

    # -- claiming ------------------------------------------------------------------------------

    async def claim(
        self,
        topic: str,
        group: str,
        consumer: str,
        *,
        limit: int,
        ack_wait_ms: int,
        ordered: bool,
    ) -> Claims:
        """Take what came back, then what is new."""
        state = self._groups.setdefault((topic, group), _Group())
        loop = asyncio.get_running_loop()
        asked_at = loop.time()
        looks = ordered or (state.look_at is not None and state.look_at <= asked_at)
        anew = id_of(state.last) if state.last > _FIRST else state.begins
        answer = await self._run(
            "bus_claim",
            topic,
            [
                *(raw(group), raw(consumer), limit, ack_wait_ms, int(ordered), int(looks)),
                *(anew, min(self._settings.heartbeat_ttl_ms, ack_wait_ms)),
            ],
        )
        due_ms, lost = answer[0], answer[1]
        if lost:
            logger.warning(
                "events were trimmed before their group settled them",
                extra={"topic": topic, "group": group, "events": lost},
            )
        self._plan(state, looks, asked_at, due_ms)
        found = self._claimed(topic, group, state, answer[2:])
        claims = await self._without_settled(topic, group, consumer, state, found)
        if looks and len(found) >= limit:
            state.look_at = 0.0  # there may be more of it
        next_due = None
        if state.look_at is not None:
            next_due = max(0, int((state.look_at - loop.time()) * 1000) + 1)
        if found and not claims:
            # All of it was settled already: there may be more behind it.
            return await self.claim(
                topic, group, consumer, limit=limit, ack_wait_ms=ack_wait_ms, ordered=ordered
            )
        return Claims(claims, next_due)

    def _plan(self, state: _Group, looks: bool, asked_at: float, due_ms: int) -> None:  # noqa: FBT001 - private
        """When to look again for what came back."""
        due = None if due_ms < 0 else asked_at + due_ms / 1000
        if looks or state.look_at is None:
            state.look_at = due
        elif due is not None:
            state.look_at = min(state.look_at, due)

    def _claimed(
        self, topic: str, group: str, state: _Group, words: Sequence[Any]
    ) -> list[tuple[Claim | None, str, int, bool]]:
        """Claims; None in place of one for an entry without a readable event."""
        found: list[tuple[Claim | None, str, int, bool]] = []
        for at in range(0, len(words), 5):
            queued, entry_id, deliveries, error, fields = words[at : at + 5]
            position = position_of(entry_id)
            is_queued = bool(queued)
            if is_queued:
                position = (-position[0], position[1])
            elif position > state.last:
                state.last = position
            try:
                event = event_of(fields, topic=topic, entry_id=entry_id)
            except WireDecodeError:
                logger.warning("malformed entry settled", extra={"topic": topic, "group": group})
                found.append((None, id_of(position), int(deliveries), is_queued))
                continue
            base = 1 if is_queued else event.delivery_attempt
            attempt = base + int(deliveries) - 1
            state.held[position] = _Held(int(deliveries), attempt, event)
            claim = Claim(
                position,
                event,
                attempt,
                error.decode("utf-8", "replace") if error else None,
            )
            found.append((claim, id_of(position), int(deliveries), is_queued))
        return found

    async def _without_settled(
        self,
        topic: str,
        group: str,
        consumer: str,
        state: _Group,
        found: Sequence[tuple[Claim | None, str, int, bool]],
    ) -> list[Claim]:
        """Drop what is no event, and retries of TypeScript peers that this group has settled."""
        retries = [
            claim.event.id
            for claim, _, deliveries, is_queued in found
            if claim is not None
            and deliveries == 1
            and not is_queued
            and claim.event.delivery_attempt >= _RETRIED
        ]
        known = await self._settled_ids(topic, group, retries)
        claims: list[Claim] = []
        done: list[Argument] = []
        for claim, entry_id, deliveries, is_queued in found:
            if claim is not None and claim.event.id not in known:
                claims.append(claim)
                continue
            event_id = "" if claim is None else raw(claim.event.id)
            if claim is not None:
                state.held.pop(claim.position, None)
            done += ["ack", "1" if is_queued else "", entry_id, deliveries, 0, "", event_id, 0]
        if done:
            await self._run("bus_settle", topic, [*self._settling(topic, group, consumer), *done])
        return claims

    async def _settled_ids(self, topic: str, group: str, event_ids: Sequence[str]) -> set[str]:
        if not event_ids or self._server is None:
            return set()
        key = self._names.beside(topic) + b":ak:" + raw(group)
        scores = await self._server.link.call("ZMSCORE", key, *map(raw, event_ids), repeatable=True)
        return {name for name, score in zip(event_ids, scores, strict=True) if score is not None}

    # -- settling ------------------------------------------------------------------------------

    def _settling(self, topic: str, group: str, consumer: str) -> list[Argument]:
        return [
            *(raw(group), raw(consumer), self._wait_ms),
            *(self._names.hints, raw(topic), self._settings.dead_retention_ms),
        ]

    async def settle(
        self, topic: str, group: str, consumer: str, settlements: Sequence[Settlement]
    ) -> list[DeadLetter]:
        """Settle what this consumer holds; the dead letters that this made."""
        state = self._groups.get((topic, group)) or _Group()
        args: list[Argument] = []
        told: list[tuple[Settlement, _Held]] = []
        for settlement in settlements:
            held = state.held.get(settlement.position)
            if held is None or held.attempt != settlement.attempt:
                continue
            told.append((settlement, held))
            verdict, delay_ms, error = _verdict(settlement)
            is_queued = settlement.position[0] < 0
            args += [
                *(verdict, "1" if is_queued else "", id_of(settlement.position)),
                *(held.deliveries, delay_ms, _error_text(error), raw(held.event.id)),
                settlement.attempt,
            ]
        if not args:
            return []
        # Done twice it changes nothing: what isn't held any more is left alone.
        answer = await self._run(
            "bus_settle",
            topic,
            [*self._settling(topic, group, consumer), *args],
            repeatable=True,
        )
        loop = asyncio.get_running_loop()
        for settlement, held in told:
            if state.held.get(settlement.position) is held:
                del state.held[settlement.position]
            if isinstance(settlement, Nack | GiveBack):
                delay_s = getattr(settlement, "delay_ms", 0) / 1000
                at = loop.time() + delay_s
                state.look_at = at if state.look_at is None else min(state.look_at, at)
        return [
            self._letter(topic, group, told, answer[at : at + 4]) for at in range(0, len(answer), 4)
        ]

    def _letter(
        self,
        topic: str,
        group: str,
        told: Sequence[tuple[Settlement, _Held]],
        words: Sequence[Any],
    ) -> DeadLetter:
        place, letter_id, _, at_ms = words
        settlement, held = told[(place - 8) // 8]
        _, _, error = _verdict(settlement)
        return DeadLetter(
            id=_letter_id(letter_id, group),
            topic=topic,
            group=group,
            event=held.event.copy(),
            attempts=settlement.attempt,
            last_error=error,
            dead_at_ms=int(at_ms),
        )

    async def extend(
        self, topic: str, group: str, consumer: str, held: Sequence[tuple[Position, int]]
    ) -> None:
        """Start the time of what this consumer still holds anew."""
        state = self._groups.get((topic, group)) or _Group()
        args: list[Argument] = []
        for position, attempt in held:
            known = state.held.get(position)
            if known is not None and known.attempt == attempt:
                args += ["1" if position[0] < 0 else "", id_of(position), known.deliveries]
        if args:
            await self._run(
                "bus_extend", topic, [raw(group), raw(consumer), *args], repeatable=True
            )

    # -- dead letters --------------------------------------------------------------------------

    async def list_dead(self, topic: str, group: str | None) -> list[DeadLetter]:
        """Dead letters, oldest first."""
        answer = await self._run(
            "bus_dead", topic, ["" if group is None else raw(group), ""], repeatable=True
        )
        letters: list[DeadLetter] = []
        for name, entries in zip(answer[1::2], answer[2::2], strict=True):
            for entry_id, fields in entries:
                letter = _dead_letter(topic, text(name), entry_id, fields)
                if letter is not None:
                    letters.append(letter)
        return sorted(letters, key=lambda letter: (letter.dead_at_ms, letter.id))

    async def requeue_dead(self, topic: str, dead_letter_id: str) -> bool:
        """Give it to its group again; False if it isn't there."""
        entry_id, mark, group = dead_letter_id.partition("@")
        try:
            position_of(entry_id)
        except ValueError:
            return False
        if not mark:
            return False
        found = await self._run(
            "bus_requeue", topic, [raw(group), entry_id, self._names.hints, raw(topic)]
        )
        self.look_soon(topic)
        return bool(found)


def _verdict(settlement: Settlement) -> tuple[str, int, str | None]:
    match settlement:
        case Ack():
            return "ack", 0, None
        case Nack(delay_ms=delay_ms, error=error):
            return "nack", delay_ms, error
        case GiveBack():
            return "back", 0, None
        case Dead(error=error):
            return "dead", 0, error


def _error_text(error: str | None) -> bytes:
    return b"" if error is None else error.encode("utf-8", "replace")


def _letter_id(entry_id: bytes, group: str) -> str:
    return f"{entry_id.decode()}@{group}"


def _dead_letter(
    topic: str, group: str, entry_id: bytes, fields: Sequence[bytes]
) -> DeadLetter | None:
    found = dict(zip(fields[::2], fields[1::2], strict=True))
    try:
        event = event_of([FIELD, found.get(FIELD, b"")], topic=topic, entry_id=entry_id)
    except WireDecodeError:
        return None
    event.cursor = None
    return DeadLetter(
        id=_letter_id(entry_id, group),
        topic=topic,
        group=group,
        event=event,
        attempts=int(found.get(b"attempts", b"0")),
        last_error=found[b"error"].decode("utf-8", "replace") if found.get(b"error") else None,
        dead_at_ms=int(found.get(b"at", b"0")),
    )
