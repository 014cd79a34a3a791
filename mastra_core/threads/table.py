"""The threads that this process knows something of, by key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mastra_core.threads.queues import QueueLimits, QueueMeter, ThreadQueues
from mastra_core.threads.record import ThreadRecord
from mastra_core.threads.thread_key import thread_key

if TYPE_CHECKING:
    from mastra_core.threads.claims import ThreadClaims
    from mastra_core.threads.outside import OutsideThreads

__all__ = ("ThreadTable",)


class ThreadTable:
    """Records of threads; one that holds nothing is forgotten."""

    def __init__(self, limits: QueueLimits) -> None:
        self._records: dict[str, ThreadRecord] = {}
        self._meter = QueueMeter(limits)
        #: Shares the threads with other processes; None if nobody else can reach them.
        self.outside: OutsideThreads | None = None
        #: Threads that sessions claim; None where there is no bus.
        self.claims: ThreadClaims | None = None

    def __iter__(self) -> Iterator[ThreadRecord]:
        """All of them; the table may change meanwhile."""
        return iter(list(self._records.values()))

    def __len__(self) -> int:
        return len(self._records)

    def __contains__(self, record: ThreadRecord) -> bool:
        """Is this the record of its thread still?"""
        return self._records.get(record.key) is record

    def counts(self) -> dict[str, int]:
        """How many threads are known, and how much waits on all of them."""
        waiting = {"signals": self._meter.signals, "bytes": self._meter.size}
        return {"threads": len(self._records), **waiting}

    def keys(self) -> list[str]:
        """The keys of the threads that are known."""
        return list(self._records)

    def of(self, resource_id: str | None, thread_id: str) -> ThreadRecord:
        """The record of a thread, made when needed."""
        key = thread_key(resource_id, thread_id)
        record = self._records.get(key)
        if record is None:
            queues = ThreadQueues(self._meter)
            record = ThreadRecord(
                key=key, thread_id=thread_id, resource_id=resource_id or "", queues=queues
            )
            watchers = record.watchers
            queues.changed = lambda: watchers.tell(queues)
            self._records[key] = record
        return record

    def current(self, record: ThreadRecord) -> ThreadRecord:
        """The record that the thread of this one has now."""
        return self.of(record.resource_id, record.thread_id)

    def find(self, resource_id: str | None, thread_id: str) -> ThreadRecord | None:
        """The record of a thread that is known."""
        return self._records.get(thread_key(resource_id, thread_id))

    def by_key(self, key: str) -> ThreadRecord | None:
        """The record under a key."""
        return self._records.get(key)

    def of_run(self, run_id: str) -> ThreadRecord | None:
        """The thread that this run has, or is going to get."""
        return next((record for record in self if record.holds(run_id)), None)

    def drop_if_forgettable(self, record: ThreadRecord) -> None:
        """Forget a thread of which nothing is left to know."""
        if record.is_forgettable and record in self:
            del self._records[record.key]
