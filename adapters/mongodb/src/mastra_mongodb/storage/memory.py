"""The memory domain: threads, messages, resources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

from mastra_core.contracts.pubsub import FenceToken
from mastra_core.contracts.storage import PruneOptions, PrunePolicy, PruneResult
from mastra_core.errors import CapabilityNotSupportedError
from mastra_core.rules import pruning
from mastra_core.wire.tables import FENCES, MESSAGES, RESOURCES, THREADS
from mastra_mongodb.pool import Document, Session
from mastra_mongodb.storage.host import STORE, Host
from mastra_mongodb.storage.memory_messages import MessageStore
from mastra_mongodb.storage.memory_resources import ResourceStore
from mastra_mongodb.storage.memory_threads import ThreadStore
from mastra_mongodb.storage.pruning import Prunable, prune

__all__ = ("MongoMemory",)


class MongoMemory(ThreadStore, MessageStore, ResourceStore):
    """Domain ``memory``; see ``contracts.storage.memory``."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def guarded(self, fence: FenceToken) -> MongoMemory:
        """The same documents; what is written carries the fence, in a transaction with it."""
        self._check_transactions()
        view = copy(self)
        view._fence = fence  # noqa: SLF001 - its own
        return view

    async def raise_fence(self, fence: FenceToken) -> None:
        """Refuse writes with an older fence from now on."""
        self._check_transactions()
        with self._host.errors("raise_fence"):
            await self._host.raise_fence(fence)

    def _check_transactions(self) -> None:
        if not self._host.pool.is_replicated:
            raise CapabilityNotSupportedError(
                adapter=STORE,
                capability="storage.guarded_writes",
                hint="A standalone server has no transactions; make it a replica set of one.",
            )

    async def prune(
        self, policies: Sequence[PrunePolicy], options: PruneOptions | None = None
    ) -> list[PruneResult]:
        """Delete rows strictly older than their policy, in batches."""
        known = {
            pruning.THREADS: Prunable(
                collection=THREADS, anchor="updatedAt", delete=self._prune_threads
            ),
            pruning.MESSAGES: Prunable(collection=MESSAGES, anchor="createdAt"),
            pruning.RESOURCES: Prunable(collection=RESOURCES, anchor="updatedAt"),
        }
        with self._host.errors("prune"):
            return await prune(self._host, "memory", known, policies, options)

    async def _prune_threads(self, found: Sequence[Document], wanted: Mapping[str, Any]) -> int:
        """Threads that still are old, with their messages."""
        keys = [document["_id"] for document in found]

        async def body(session: Session | None) -> int:
            old = {**wanted, "_id": {"$in": keys}}
            documents = await self._threads.find(old, {"id": 1}, session=session).to_list()
            ids = [document["id"] for document in documents]
            if not ids:
                return 0
            # A thread that somebody wrote to just now is no longer among them.
            result = await self._threads.delete_many(
                {**wanted, "id": {"$in": ids}}, session=session
            )
            if result.deleted_count != len(ids):
                kept = await self._threads.distinct("id", {"id": {"$in": ids}}, session=session)
                ids = [thread_id for thread_id in ids if thread_id not in set(kept)]
            await self._messages.delete_many({"thread_id": {"$in": ids}}, session=session)
            return len(ids)

        return await self._host.together("prune", body)

    async def dangerously_clear_all(self) -> None:
        """Delete every thread, message and resource."""
        with self._host.errors("dangerously_clear_all"):
            await self._messages.delete_many({})
            await self._threads.delete_many({})
            await self._resources.delete_many({})
            await self._host.collection(FENCES).delete_many({})
