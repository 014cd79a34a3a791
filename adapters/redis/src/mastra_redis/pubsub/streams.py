"""The log of topics: names of streams, and one waiting read for all of them.

One connection waits for new entries of every topic in use. What it reads is handed to the
fan-out readers that stand where it stood, so that an event crosses the network once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from typing import Any, Final

from hiredis import PushNotification
from redis.asyncio.connection import AbstractConnection

from mastra_core.bus import Position
from mastra_redis.keys import raw, sibling_key
from mastra_redis.link import pack_command
from mastra_redis.pool import Server
from mastra_redis.pubsub.events import id_of, position_of

__all__ = ("Chunk", "StreamNames", "Tail", "idle_ttl_of")

_HOUR_MS: Final = 3_600_000
_WEEK_MS: Final = 7 * 24 * _HOUR_MS
#: Entries of one stream that a waiting read hands out at once; fewer of large ones.
_COUNT: Final = 100
_LARGE: Final = 4 * 1024 * 1024
#: How long an answer may be late before its connection counts as dead.
_LATE_S: Final = 10.0
_FIRST_PAUSE_S: Final = 0.002
_NOBODY: Final[frozenset[str]] = frozenset()

#: Work queues: nothing of them vanishes by age (pubsub_and_lease.md 3.9).
_WORK: Final = frozenset(
    {"workflows", "workflows-finish", "background-tasks", "background-tasks-result"}
    | {"agent-schedules", "nested-watch", "scheduler"}
)
#: Topics of one run or one question.
_SHORT_LIVED: Final = ("agent.stream.", "agent.control.", "workflow.events.v2.")
_REPLIES: Final = (".idle-acceptance.", "owner-discovery.", "peer-discovery.")


def idle_ttl_of(topic: str) -> int:
    """How long the stream of a topic stays when nobody writes to it, in ms; 0 for ever."""
    if topic in _WORK or topic.startswith("background-tasks:"):
        return 0
    if topic.startswith(_SHORT_LIVED) or any(word in topic for word in _REPLIES):
        return _HOUR_MS
    return _WEEK_MS


class StreamNames:
    """Keys of topics under one prefix."""

    def __init__(self, prefix: str) -> None:
        self._prefix = raw(prefix) + b":"
        #: Where processes tell each other that a group has something to take back.
        self.hints = self._prefix + b"py-hints"

    def stream(self, topic: str) -> bytes:
        """The stream of a topic."""
        return self._prefix + raw(topic)

    def beside(self, topic: str) -> bytes:
        """What keys beside the stream begin with."""
        return sibling_key(self.stream(topic))

    def lease(self, key: str) -> bytes:
        """The key of a lease."""
        return self._prefix + b"lease:" + raw(key)


@dataclass(slots=True)
class Chunk:
    """Entries that a waiting read gave, and after which position they come."""

    start: Position
    end: Position
    entries: Sequence[Any]


@dataclass(slots=True)
class _Followed:
    topic: str
    #: The waiting read goes on after this.
    cursor: Position
    #: Whether somebody reads what the waiting read gives, and not only groups that claim.
    reads: bool = False
    #: How many doubts about the waiting read the server has dispelled by now.
    dispelled: int = 0
    #: The server has told of entries up to here, which the waiting read may not know yet.
    known: Position = (0, 0)
    chunk: Chunk | None = None


@dataclass(slots=True)
class _Reading:
    """A connection with a read that waits."""

    connection: AbstractConnection
    client_id: int
    stack: AsyncExitStack
    reply: asyncio.Task[Any] | None = None
    #: What it was asked for.
    asked: dict[bytes, _Followed] = field(default_factory=dict)


class Tail:
    """The ends of all streams in use."""

    def __init__(self, server: Server, names: StreamNames, *, poll_ms: int) -> None:
        self._server = server
        self._names = names
        self._poll_ms = poll_ms
        self._count = _COUNT
        self._followed: dict[str, _Followed] = {}
        self._reading: _Reading | None = None
        self._opening = asyncio.Lock()
        self._hinted: set[str] = set()
        self._news = asyncio.Event()
        #: Grows when the topics change, and follows once a read knows of them.
        self._wanted = 0
        self._armed = 0
        self._rearmed = asyncio.Event()
        self._changed = asyncio.Event()
        #: How often somebody wanted to know what is there now, not what the waiting read has told.
        self._doubts = 0

    async def follow(self, topics: Collection[str]) -> None:
        """Wait for exactly these topics from when this returns."""
        new = [topic for topic in topics if topic not in self._followed]
        doubts = self._doubts
        tails = await self._ends(new)
        followed = {topic: self._followed[topic] for topic in topics if topic not in tails}
        followed |= {topic: _Followed(topic, tails[topic], dispelled=doubts) for topic in new}
        self._followed = followed
        self._wanted += 1
        self._changed.set()
        await self._interrupt()

    async def _ends(self, topics: Sequence[str]) -> dict[str, Position]:
        if not topics:
            return {}
        replies = await self._server.link.call_all(
            [("XREVRANGE", self._names.stream(topic), "+", "-", "COUNT", 1) for topic in topics],
            repeatable=True,
        )
        return {
            topic: position_of(reply[0][0]) if reply else (0, 0)
            for topic, reply in zip(topics, replies, strict=True)
        }

    async def _interrupt(self) -> None:
        """End a read that waits for the old topics; it may just be on its way."""
        pause = _FIRST_PAUSE_S
        while self._armed < self._wanted:
            reading = self._reading
            if reading is None or reading.reply is None:
                return  # the next read takes the new topics
            self._rearmed.clear()
            await self._server.link.call("CLIENT", "UNBLOCK", reading.client_id, repeatable=True)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._rearmed.wait()
            pause = min(pause * 2, 0.1)

    def hint(self, topic: str) -> None:
        """There may be news of a topic that no entry of its stream tells."""
        self._hinted.add(topic)
        self._news.set()

    async def wait(self) -> Collection[str] | None:
        """Topics with news; None if there may be news of any, at least once per poll."""
        while True:
            if self._hinted:
                hinted, self._hinted = self._hinted, set()
                self._news.clear()
                return hinted
            reading = await self._arm()
            reply = reading.reply
            assert reply is not None
            news = asyncio.ensure_future(self._news.wait())
            try:
                done, _ = await asyncio.wait(
                    {reply, news},
                    timeout=self._poll_ms / 1000 + _LATE_S,
                    return_when=asyncio.FIRST_COMPLETED,
                )
            finally:
                news.cancel()
            if reply in done:
                topics = await self._take(reading, reply)
                if topics is not None:
                    return topics or None
            elif not done:
                await self._drop()
                raise TimeoutError("A waiting read was never answered.")

    async def _take(self, reading: _Reading, reply: asyncio.Task[Any]) -> Collection[str] | None:
        """What a read gave: topics, none after the poll time, None if it was interrupted."""
        reading.reply = None
        try:
            answer = reply.result()
        except Exception:
            await self._drop()
            raise
        if not answer:
            return None if self._armed < self._wanted else _NOBODY
        topics = []
        size = 0
        for key, entries in _streams(answer):
            followed = reading.asked.get(key)
            if followed is None or not entries:
                continue
            end = position_of(entries[-1][0])
            size += sum(len(value) for _, fields in entries for value in fields)
            followed.chunk = Chunk(followed.cursor, end, entries) if followed.reads else None
            followed.cursor = end
            topics.append(followed.topic)
        larger = size > _LARGE
        self._count = max(1, self._count // 4) if larger else min(_COUNT, self._count * 2)
        return topics

    async def _arm(self) -> _Reading:
        """A connection with a read that waits for the topics of now."""
        async with self._opening:
            reading = self._reading
            if reading is None:
                reading = self._reading = await self._open()
            if reading.reply is None:
                self._armed = self._wanted
                self._changed.clear()
                self._rearmed.set()
                reading.asked = {
                    self._names.stream(topic): followed
                    for topic, followed in self._followed.items()
                }
                reading.reply = asyncio.create_task(self._read(reading), name="redis-tail")
            return reading

    async def _read(self, reading: _Reading) -> Any:
        if not reading.asked:
            # Nothing to wait for but hints and topics.
            with suppress(TimeoutError):
                async with asyncio.timeout(self._poll_ms / 1000):
                    await self._changed.wait()
            return None
        ids = [id_of(followed.cursor) for followed in reading.asked.values()]
        command = ("XREAD", "COUNT", self._count, "BLOCK", self._poll_ms, "STREAMS")
        packed = pack_command((*command, *reading.asked, *ids))
        await reading.connection.send_packed_command(packed, check_health=False)
        return await _reply(reading.connection)

    async def _open(self) -> _Reading:
        stack = AsyncExitStack()
        try:
            connection = await stack.enter_async_context(self._server.dedicated())
            command = pack_command(("CLIENT", "ID"))
            async with asyncio.timeout(_LATE_S):
                await connection.send_packed_command(command, check_health=False)
                client_id = await _reply(connection)
        except BaseException:
            await stack.aclose()
            raise
        return _Reading(connection, int(client_id), stack)

    async def _drop(self) -> None:
        reading, self._reading = self._reading, None
        if reading is None:
            return
        if reading.reply is not None:
            reading.reply.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await reading.reply
        await reading.stack.aclose()

    async def aclose(self) -> None:
        """Stop waiting."""
        await self._drop()

    # -- what was read already -----------------------------------------------------------------

    def has_nothing_after(self, topic: str, position: Position) -> bool:
        """Whether the read that waits will tell of whatever comes after the position."""
        followed = self._followed.get(topic)
        if followed is None:
            return False
        followed.reads = True
        return (
            followed.cursor == position
            and followed.known <= position
            and followed.dispelled == self._doubts
            and self._reading is not None
        )

    def chunk_after(self, topic: str, position: Position) -> Iterable[Any] | None:
        """Entries that follow the position without a gap, if they were just read."""
        followed = self._followed.get(topic)
        chunk = followed.chunk if followed else None
        if followed is None or chunk is None or not chunk.start <= position < chunk.end:
            return None
        followed.chunk = None  # whoever stood elsewhere reads from the server
        return [entry for entry in chunk.entries if position_of(entry[0]) > position]

    def doubt(self) -> None:
        """The waiting read may know less than the server: it is to be asked for each topic."""
        self._doubts += 1

    def asks(self, topic: str, position: Position) -> Callable[[Position], None]:
        """The server is asked for what comes after a position; to be told how far it answered."""
        followed, doubts = self._followed.get(topic), self._doubts

        def answered(end: Position) -> None:
            if followed is None:
                return
            followed.known = max(followed.known, end)
            if position >= followed.cursor:
                followed.dispelled = max(followed.dispelled, doubts)

        return answered

    def forget(self, topic: str) -> None:
        """What was read of a topic doesn't count any more."""
        followed = self._followed.get(topic)
        if followed is not None:
            followed.chunk = None
            followed.known = (0, 0)


async def _reply(connection: AbstractConnection) -> Any:
    while True:
        reply = await connection.read_response(
            disable_decoding=True,
            disconnect_on_error=False,
            push_request=True,
        )
        if type(reply) is not PushNotification:
            return reply


def _streams(answer: Any) -> Iterable[tuple[bytes, Sequence[Any]]]:
    return answer.items() if isinstance(answer, dict) else answer
