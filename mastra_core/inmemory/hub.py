"""What all in-memory buses and leases of one name share.

The hub is the "server": it outlives the instances that use it, up to the last one.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from mastra_core.base.clock import Clock
from mastra_core.contracts.pubsub import FenceToken
from mastra_core.errors import FencedOutError
from mastra_core.inmemory.lease_table import LeaseTable
from mastra_core.inmemory.topic_log import LogLimits, TopicLog

__all__ = ("Hints", "Hub", "HubLimits", "hub_key", "open_hub")

_HOUR_MS = 3_600_000
#: The order of use is as coarse as this, since it is kept with every write.
_TOUCH_EVERY_MS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class HubLimits:
    """What bounds the memory of a hub."""

    log: LogLimits = field(default_factory=LogLimits)
    #: The topic that was written longest ago goes first, unless somebody uses it.
    max_topics: int = 10_000
    #: A topic that nobody uses or writes for so long is forgotten.
    idle_ttl_ms: int = _HOUR_MS


class Hints:
    """Topics that another instance wrote to; the in-memory form of a wake-up."""

    __slots__ = ("_changed", "_topics", "_waiter", "watched")

    def __init__(self) -> None:
        self._topics: set[str] = set()
        self._waiter: asyncio.Future[None] | None = None
        self.watched: frozenset[str] = frozenset()

    def tell(self, topic: str) -> None:
        """There is news of a topic."""
        if topic in self.watched:
            self._topics.add(topic)
            if self._waiter is not None and not self._waiter.done():
                self._waiter.set_result(None)

    async def wait(self) -> frozenset[str]:
        """The topics with news since the last call."""
        if not self._topics:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
            self._waiter = None
        topics, self._topics = frozenset(self._topics), set()
        return topics


class Hub:
    """Topics, leases and fences of one name."""

    def __init__(self, clock: Clock, limits: HubLimits | None = None) -> None:
        self.clock = clock
        self.limits = limits or HubLimits()
        self.leases = LeaseTable(clock)
        #: By the time of their last use, the oldest first.
        self._topics: OrderedDict[str, TopicLog] = OrderedDict()
        self._listeners: list[Hints] = []

    def __len__(self) -> int:
        return len(self._topics)

    def topic(self, name: str, now_ms: int) -> TopicLog:
        """The log of a topic that is written or joined; made if it isn't there."""
        log = self._topics.get(name)
        if log is None:
            log = self._topics[name] = TopicLog(name, self.limits.log)
            log.used_ms = now_ms
            self._forget_unused(now_ms)
        elif now_ms - log.used_ms > _TOUCH_EVERY_MS:
            log.used_ms = now_ms
            self._topics.move_to_end(name)
        return log

    def existing(self, name: str) -> TopicLog:
        """The log of a topic that is only read; an empty one if nobody wrote."""
        return self._topics.get(name) or TopicLog(name, self.limits.log)

    def check_fence(self, fence: FenceToken) -> None:
        """
        Remember the newest token of a lease key.

        Raises:
            FencedOutError: A newer owner has been seen.
        """
        key, token = fence
        newest = self.leases.newest_fence(key)
        if token < newest:
            raise FencedOutError(key=key, fence=token, current=newest)
        self.leases.see_fence(key, token)

    def listen(self) -> Hints:
        """Hear of what other instances write."""
        hints = Hints()
        self._listeners.append(hints)
        return hints

    def stop_listening(self, hints: Hints) -> None:
        """Hear no more."""
        if hints in self._listeners:
            self._listeners.remove(hints)

    def tell_others(self, topic: str, but: Hints | None) -> None:
        """There is news of a topic."""
        if len(self._listeners) > 1 or but is None:
            for hints in self._listeners:
                if hints is not but:
                    hints.tell(topic)

    def _forget_unused(self, now_ms: int) -> None:
        watched = frozenset[str]().union(*(hints.watched for hints in self._listeners))
        oldest_ms = now_ms - self.limits.idle_ttl_ms
        excess = len(self._topics) - self.limits.max_topics
        doomed: list[str] = []
        for name, log in self._topics.items():
            if excess <= len(doomed) and log.used_ms > oldest_ms:
                break
            if name not in watched and not log.is_in_use:
                doomed.append(name)
        for name in doomed:
            del self._topics[name]


def hub_key(url: str) -> tuple[str, str]:
    """Under which a context shares the hub of a URL."""
    return ("memory-hub", url.partition("?")[0])


@asynccontextmanager
async def open_hub(make: Callable[[], Hub]) -> AsyncIterator[Hub]:
    """A hub for ``AdapterContext.share``; with its last user everything is gone."""
    yield make()
