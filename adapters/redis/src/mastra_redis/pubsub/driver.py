"""Redis Streams under the event engine (pubsub_and_lease.md 8.2, 9)."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Collection, Sequence
from contextlib import AsyncExitStack, suppress
from typing import Any, Final

from mastra_core.base.clock import Clock
from mastra_core.bus import (
    Claims,
    Outgoing,
    Page,
    Position,
    Settlement,
    Start,
)
from mastra_core.bus.trimming import is_trimmable
from mastra_core.contracts.pubsub import Cursor, DeadLetter, PubSubCapabilities
from mastra_core.errors import FencedOutError, PubSubClosedError, PubSubError
from mastra_core.plugins.context import AdapterContext
from mastra_core.wire.events import Event
from mastra_redis.capabilities import PUBSUB_CAPABILITIES
from mastra_redis.errors import pubsub_errors
from mastra_redis.keys import fence_key, raw, text
from mastra_redis.link import Argument
from mastra_redis.pool import Server, open_server, place_of_url
from mastra_redis.pubsub.events import encode_event, entry_of, id_of, position_of
from mastra_redis.pubsub.groups import GroupState
from mastra_redis.pubsub.streams import StreamNames, Tail, idle_ttl_of
from mastra_redis.settings import RedisPubSubSettings

__all__ = ("RedisDriver",)

logger = logging.getLogger(__name__)

_RESERVED: Final = ("lease:", "lease-metadata:")
#: Unsettled events of a topic from which on it is worth a warning.
_ALARM: Final = 100_000
_PORTION: Final = 1_000
#: Positions whose place among all events is remembered.
_MAX_COUNTED: Final = 10_000


class RedisDriver:
    """A Redis server as the engine sees it."""

    def __init__(self, settings: RedisPubSubSettings, context: AdapterContext) -> None:
        self.capabilities: PubSubCapabilities = PUBSUB_CAPABILITIES
        self._settings = settings
        self._context = context
        self._clock: Clock = context.clock
        self._where = place_of_url(settings.url)
        namespace = f"{context.namespace}:" if context.namespace else ""
        self._names = StreamNames(namespace + settings.key_prefix)
        self._groups = GroupState(self._names, settings)
        self._opened: AsyncExitStack | None = None
        self._server: Server | None = None
        self._tail: Tail | None = None
        self._beating: asyncio.Task[None] | None = None
        #: Topic and position to the number of events before it, for gaps.
        self._counted: OrderedDict[tuple[str, Position], int] = OrderedDict()
        self._alarmed: set[str] = set()

    # -- life ----------------------------------------------------------------------------------

    async def open(self) -> None:
        """Connect."""
        async with AsyncExitStack() as stack:
            share = self._context.share(
                self._settings.connection_key(), lambda: open_server(self._settings)
            )
            with pubsub_errors("open", self._where):
                self._server = await stack.enter_async_context(share)
            self._opened = stack.pop_all()
        self._tail = Tail(self._server, self._names, poll_ms=self._settings.poll_ms)
        self._groups.attach(self._server)
        self._server.link.listen(self._names.hints, self._hinted)
        self._beating = asyncio.create_task(self._groups.beat(), name="redis-heartbeat")

    async def close(self) -> None:
        """Let go of everything."""
        if self._beating is not None:
            self._beating.cancel()
            with suppress(asyncio.CancelledError):
                await self._beating
        if self._tail is not None:
            await self._tail.aclose()
        if self._server is not None:
            self._server.link.stop_listening(self._names.hints, self._hinted)
        self._server = self._tail = None
        self._groups.attach(None)
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.aclose()

    def held(self) -> dict[str, int]:
        """What is open right now."""
        if self._server is None:
            return {"connections": 0, "waiting_calls": 0}
        return self._server.held()

    @property
    def _open_server(self) -> Server:
        if self._server is None:
            raise PubSubClosedError
        return self._server

    @property
    def _open_tail(self) -> Tail:
        if self._tail is None:
            raise PubSubClosedError
        return self._tail

    def _hinted(self, message: bytes) -> None:
        topic = text(message)
        self._groups.look_soon(topic)
        if self._tail is not None:
            self._tail.hint(topic)

    async def _run(
        self,
        operation: str,
        script: str,
        topic: str,
        args: Sequence[Argument],
        *,
        repeatable: bool = False,
    ) -> Any:
        with pubsub_errors(operation, self._where):
            return await self._open_server.scripts.run(
                script,
                [self._names.stream(topic)],
                [self._names.beside(topic), *args],
                repeatable=repeatable,
            )

    # -- the log -------------------------------------------------------------------------------

    def encode(self, topic: str, event: Event) -> tuple[bytes, int]:
        """The event as JSON text, and the bytes of its data."""
        _check_topic(topic)
        return encode_event(event)

    async def append(self, topic: str, batch: Sequence[Outgoing]) -> Sequence[Exception | None]:
        """Add entries, in this order and in one step."""
        args: list[Argument] = [
            self._settings.max_entries,
            self._idle_ttl(topic),
            self._settings.dedupe_window_ms,
        ]
        repeatable = True
        for outgoing in batch:
            repeatable = repeatable and outgoing.dedupe_id is not None
            lease = fence = b""
            token = 0
            if outgoing.fence is not None:
                lease, token = self._names.lease(outgoing.fence[0]), outgoing.fence[1]
                fence = fence_key(lease)
            dedupe = "" if outgoing.dedupe_id is None else raw(outgoing.dedupe_id)
            args += [outgoing.payload, dedupe, lease, fence, token]
        answer = await self._run("publish", "bus_append", topic, args, repeatable=repeatable)
        self._watch_length(topic, answer[0])
        return [
            None
            if not newer or outgoing.fence is None
            else FencedOutError(key=outgoing.fence[0], fence=outgoing.fence[1], current=int(newer))
            for outgoing, newer in zip(batch, answer[1:], strict=True)
        ]

    def _idle_ttl(self, topic: str) -> int:
        given = self._settings.idle_ttl_ms
        return idle_ttl_of(topic) if given is None else given

    def _watch_length(self, topic: str, length: int) -> None:
        if length < max(_ALARM, 2 * self._settings.max_entries):
            self._alarmed.discard(topic)
        elif topic not in self._alarmed:
            self._alarmed.add(topic)
            logger.warning(
                "a topic grows because a group doesn't settle its events",
                extra={"topic": topic, "entries": length},
            )

    async def locate(self, topic: str, start: Start) -> Position:
        """The position after which a subscription reads."""
        _check_topic(topic)
        if isinstance(start, Cursor):
            try:
                return position_of(start.value)
            except ValueError:
                raise PubSubError(f"{start.value!r} is not a cursor of topic {topic!r}.") from None
        if start != "latest":
            return (0, 0)
        with pubsub_errors("subscribe", self._where):
            found = await self._open_server.link.call(
                "XREVRANGE", self._names.stream(topic), "+", "-", "COUNT", 1, repeatable=True
            )
        return position_of(found[0][0]) if found else (0, 0)

    async def read_after(self, topic: str, position: Position, limit: int) -> Page:
        """Entries after the position; without a round trip if they were just read."""
        tail = self._open_tail
        if tail.has_nothing_after(topic, position):
            return Page([], position)
        entries = tail.chunk_after(topic, position)
        if entries is not None:
            return self._page(topic, position, list(entries)[:limit])
        answered = tail.asks(topic, position)
        with pubsub_errors("read", self._where):
            entries, first, added, length = await self._open_server.scripts.run(
                "bus_read",
                [self._names.stream(topic)],
                [id_of(position), limit],
                repeatable=True,
            )
        page = self._page(topic, position, entries)
        answered(page.position)
        if first:
            page.gap = self._gap(topic, position, position_of(first), added, length)
        return page

    def ask_again(self) -> None:
        """The next read of every topic asks the server."""
        self._open_tail.doubt()

    def _page(self, topic: str, position: Position, entries: Sequence[Any]) -> Page:
        if not entries:
            return Page([], position)
        read = [entry for raw_entry in entries if (entry := entry_of(raw_entry, topic=topic))]
        end = position_of(entries[-1][0])
        before = self._counted.pop((topic, position), None)
        if before is None and position == (0, 0):
            before = 0
        if before is not None:
            self._count(topic, end, before + len(entries))
        if len(read) < len(entries):
            logger.warning(
                "malformed entries skipped",
                extra={"topic": topic, "entries": len(entries) - len(read)},
            )
        return Page(read, end)

    def _count(self, topic: str, position: Position, number: int) -> None:
        self._counted[topic, position] = number
        if len(self._counted) > _MAX_COUNTED:
            self._counted.popitem(last=False)

    def _gap(
        self, topic: str, position: Position, first: Position, added: int, length: int
    ) -> tuple[int, int] | None:
        """Numbers of the first event that is gone and of the first that is there."""
        before = self._counted.get((topic, position))
        if added and before is not None:
            return (before, added - length) if before < added - length else None
        # An older server doesn't count, so the times of both stand for their numbers.
        return (position[0], first[0])

    # -- hints ---------------------------------------------------------------------------------

    async def watch(self, topics: Collection[str]) -> None:
        """Wait for exactly these topics."""
        with pubsub_errors("subscribe", self._where):
            # One that can't be used is refused when it is located or joined.
            await self._open_tail.follow([t for t in topics if not t.startswith(_RESERVED)])

    async def wake(self) -> Collection[str] | None:
        """Topics with news."""
        with pubsub_errors("wait", self._where):
            topics = await self._open_tail.wait()
        if topics is None:
            self._groups.look_soon(None)
        return topics

    # -- groups --------------------------------------------------------------------------------

    async def join_group(self, topic: str, group: str, consumer: str, start: Start) -> None:
        """Make the group if it isn't there; an existing one keeps its place."""
        _check_topic(topic)
        begins = "0"
        if start == "latest":
            begins = "$"
        elif isinstance(start, Cursor):
            begins = id_of(await self.locate(topic, start))
        with pubsub_errors("subscribe", self._where):
            await self._groups.join(topic, group, consumer, begins, self._idle_ttl(topic))

    async def leave_group(self, topic: str, group: str, consumer: str) -> None:
        """Forget the consumer; what it still holds is claimable at once."""
        with pubsub_errors("leave", self._where):
            await self._groups.leave(topic, group, consumer)

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
        """Take events for this consumer in one step of the server."""
        with pubsub_errors("claim", self._where):
            return await self._groups.claim(
                topic, group, consumer, limit=limit, ack_wait_ms=ack_wait_ms, ordered=ordered
            )

    async def settle(
        self, topic: str, group: str, consumer: str, settlements: Sequence[Settlement]
    ) -> Sequence[DeadLetter]:
        """Settle what this consumer holds; the dead letters that this made."""
        with pubsub_errors("settle", self._where):
            return await self._groups.settle(topic, group, consumer, settlements)

    async def extend(
        self,
        topic: str,
        group: str,
        consumer: str,
        held: Sequence[tuple[Position, int]],
        ack_wait_ms: int,
    ) -> None:
        """Start the time of these anew, where they are still this consumer's."""
        with pubsub_errors("extend", self._where):
            await self._groups.extend(topic, group, consumer, held)

    # -- retention -----------------------------------------------------------------------------

    async def clear(self, topic: str) -> None:
        """Forget log and groups; dead letters stay."""
        last, now = await self._run("clear", "bus_clear", topic, [self._names.hints, raw(topic)])
        self._open_tail.forget(topic)
        self._groups.cleared(topic)
        # Ids begin anew with the next millisecond only: nobody may take new events for old ones.
        ms = int(now[0]) * 1000 + int(now[1]) // 1000
        behind = position_of(last)[0] - ms
        if behind >= 0:
            await asyncio.sleep((behind + 1) / 1000)

    async def trim(self, topic: str, *, run_id: str, produced_before_ms: int | None) -> None:
        """Delete the entries of a run."""
        stream, after = self._names.stream(topic), "-"
        with pubsub_errors("trim", self._where):
            while True:
                link = self._open_server.link
                entries = await link.call(
                    "XRANGE", stream, after, "+", "COUNT", _PORTION, repeatable=True
                )
                doomed = [
                    raw_entry[0]
                    for raw_entry in entries
                    if (entry := entry_of(raw_entry, topic=topic)) is not None
                    and is_trimmable(entry.event, run_id, produced_before_ms)
                ]
                if doomed:
                    await link.call("XDEL", stream, *doomed, repeatable=True)
                if len(entries) < _PORTION:
                    break
                after = "(" + entries[-1][0].decode()
        self._open_tail.forget(topic)

    # -- dead letters --------------------------------------------------------------------------

    async def list_dead(self, topic: str, group: str | None) -> list[DeadLetter]:
        """Dead letters, oldest first."""
        with pubsub_errors("list_dead", self._where):
            return await self._groups.list_dead(topic, group)

    async def requeue_dead(self, topic: str, dead_letter_id: str) -> bool:
        """Give it to its group again; False if it isn't there."""
        with pubsub_errors("requeue_dead", self._where):
            return await self._groups.requeue_dead(topic, dead_letter_id)

    async def purge_dead(self, topic: str) -> int:
        """Forget the dead letters of the topic; how many there were."""
        answer = await self._run("purge_dead", "bus_dead", topic, ["", "1"])
        return int(answer[0])


def _check_topic(topic: str) -> None:
    """
    Refuse what would be a key of something else (P13).

    Raises:
        PubSubError: The topic's key is that of a lease.
    """
    if topic.startswith(_RESERVED):
        raise PubSubError(
            f"Topic {topic!r} can't be used: its key would be that of a lease.",
            id="MASTRA_PUBSUB_TOPIC_INVALID",
        )
