"""The memory domain of the in-memory store: threads, messages, resources."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from mastra_core.base.clock import Clock
from mastra_core.base.ids import Ids
from mastra_core.base.pace import Pace
from mastra_core.contracts.pubsub import FenceToken
from mastra_core.contracts.storage.pruning import PruneOptions, PrunePolicy, PruneResult
from mastra_core.inmemory.storage.domain import Domain
from mastra_core.inmemory.storage.memory_messages import MessageStore
from mastra_core.inmemory.storage.memory_resources import ResourceStore
from mastra_core.inmemory.storage.memory_tables import MemoryTables
from mastra_core.inmemory.storage.memory_threads import ThreadStore
from mastra_core.rules import pruning

__all__ = ("InMemoryMemory",)

_PRUNABLE = (pruning.THREADS, pruning.MESSAGES, pruning.RESOURCES)


class InMemoryMemory(ThreadStore, MessageStore, ResourceStore, Domain[MemoryTables]):
    """Domain ``memory``; see ``contracts.storage.memory``."""

    def __init__(self, clock: Clock, ids: Ids) -> None:
        self.attach(None)
        self._clock = clock
        self._pace = Pace()
        self._ids = ids

    def guarded(self, fence: FenceToken) -> InMemoryMemory:
        """The same tables; what is written carries the fence."""
        return _GuardedMemory(fence, lambda: self._tables, self._clock, self._ids)

    async def raise_fence(self, fence: FenceToken) -> None:
        """Refuse writes with an older fence from now on."""
        self._tables.admit(fence)

    async def prune(
        self, policies: Sequence[PrunePolicy], options: PruneOptions | None = None
    ) -> list[PruneResult]:
        """Delete rows strictly older than their policy, in batches."""
        options = pruning.check_policies(policies, options, _PRUNABLE)
        return [await self._prune(policy, options) for policy in policies]

    async def _prune(self, policy: PrunePolicy, options: PruneOptions) -> PruneResult:
        limit = pruning.cutoff(policy, self._clock.now())
        waiting = [name for name in self._names(policy.table) if self._is_old(policy, name, limit)]

        async def count() -> int:
            return len(waiting)

        async def delete(wanted: int) -> int:
            deleted = 0
            while waiting and deleted < wanted:
                name = waiting.pop()
                if self._is_old(policy, name, limit):
                    self._drop(policy.table, name)
                    deleted += 1
            return deleted

        return await pruning.prune_table(
            policy,
            options,
            domain="memory",
            count=count,
            delete=delete,
            sleep=self._clock.sleep,
        )

    def _names(self, table: str) -> Iterable[str]:
        match table:
            case pruning.THREADS:
                return self._tables.threads
            case pruning.MESSAGES:
                return self._tables.messages
            case _:
                return self._tables.resources

    def _is_old(self, policy: PrunePolicy, name: str, limit: datetime) -> bool:
        match policy.table:
            case pruning.THREADS:
                thread = self._tables.threads.get(name)
                return thread is not None and thread.updated_at < limit
            case pruning.MESSAGES:
                message = self._tables.messages.get(name)
                return message is not None and message.row.created_at < limit
            case _:
                resource = self._tables.resources.get(name)
                return resource is not None and resource.updated_at < limit

    def _drop(self, table: str, name: str) -> None:
        match table:
            case pruning.THREADS:
                self._tables.drop_thread_with_messages(name)
            case pruning.MESSAGES:
                self._tables.drop_message(name)
            case _:
                self._tables.resources.pop(name, None)

    async def dangerously_clear_all(self) -> None:
        """Delete every thread, message and resource."""
        self._tables.clear()


class _GuardedMemory(InMemoryMemory):
    """The domain of an owner; open as long as the one that it came from."""

    def __init__(
        self, fence: FenceToken, tables: Callable[[], MemoryTables], clock: Clock, ids: Ids
    ) -> None:
        self._now_open = tables
        super().__init__(clock, ids)
        self._fence = fence

    def attach(self, tables: MemoryTables | None) -> None:
        """It has no tables of its own."""

    @property
    def _tables(self) -> MemoryTables:  # type: ignore[override]  # only looked at
        return self._now_open()
