"""Threads of the in-memory store (streaming.md 10.6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from mastra_core.base.clock import Clock
from mastra_core.base.ids import Ids
from mastra_core.base.pace import Pace
from mastra_core.base.unset import UNSET, Unset
from mastra_core.contracts.pubsub import FenceToken
from mastra_core.contracts.storage.memory import ClonedThread, OrderBy, ThreadPage
from mastra_core.errors import StorageConflictError, ThreadNotFoundError
from mastra_core.inmemory.storage.copies import copied
from mastra_core.inmemory.storage.memory_tables import MemoryTables, StoredMessage, ThreadOrder
from mastra_core.rules.arguments import check_text
from mastra_core.rules.cloning import cloned_messages, cloned_thread, messages_to_clone
from mastra_core.rules.metadata import check_metadata_filter, metadata_matches
from mastra_core.rules.paging import check_order, check_page, has_more
from mastra_core.rules.snapshots import next_updated_at
from mastra_core.wire.threads import Thread

__all__ = ("ThreadStore",)

_JSON = ("metadata",)
_DEFAULT_ORDER = OrderBy(field="createdAt", direction="DESC")


class ThreadStore:
    """The part of the memory domain that knows threads."""

    _pace: Pace
    _tables: MemoryTables
    _clock: Clock
    _ids: Ids
    #: What the writes carry; None for whoever owns nothing.
    _fence: FenceToken | None = None

    async def save_thread(self, thread: Thread) -> Thread:
        """Upsert; an existing row keeps its ``created_at``."""
        await self._pace.turn()
        mine = _checked(thread)
        stored = self._tables.threads.get(mine.id)
        if stored is not None:
            mine = mine.replace(created_at=stored.created_at)
        self._tables.admit(self._fence)
        self._tables.put_thread(mine)
        return copied(mine, _JSON)

    async def create_thread(self, thread: Thread) -> Thread:
        """Insert if absent; returns what is stored."""
        await self._pace.turn()
        mine = _checked(thread)
        self._tables.admit(self._fence)
        if mine.id not in self._tables.threads:
            self._tables.put_thread(mine)
        return copied(self._tables.threads[mine.id], _JSON)

    async def get_thread_by_id(
        self, thread_id: str, *, resource_id: str | None = None
    ) -> Thread | None:
        """The thread; None if it is absent or belongs to another resource."""
        await self._pace.turn()
        thread = self._tables.threads.get(thread_id)
        if thread is None or (resource_id is not None and thread.resource_id != resource_id):
            return None
        return copied(thread, _JSON)

    async def update_thread(
        self,
        thread_id: str,
        *,
        title: str | Unset = UNSET,
        metadata: Mapping[str, Any] | Unset = UNSET,
        expected_title: str | Unset = UNSET,
    ) -> Thread:
        """Title and metadata in one step without an await."""
        await self._pace.turn()
        thread = self._thread(thread_id)
        changes: dict[str, Any] = {
            "updated_at": next_updated_at(self._clock.now(), thread.updated_at)
        }
        if title is not UNSET and (expected_title is UNSET or expected_title == thread.title):
            changes["title"] = title
        if metadata is not UNSET:
            changes["metadata"] = {**(thread.metadata or {}), **metadata}
        changed = copied(thread.replace(**changes), _JSON)
        self._tables.admit(self._fence)
        self._tables.put_thread(changed)
        return copied(changed, _JSON)

    async def delete_thread(self, thread_id: str) -> None:
        """Messages first, then the thread."""
        self._tables.admit(self._fence)
        self._tables.drop_thread_with_messages(thread_id)

    async def list_threads(
        self,
        *,
        resource_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        page: int = 0,
        per_page: int | Literal[False] = 100,
        order_by: OrderBy | None = None,
    ) -> ThreadPage:
        """One page; without a metadata filter it costs the page, not the table."""
        await self._pace.turn()
        place = check_page(page, per_page, store="inmemory", operation="list_threads")
        wanted = check_metadata_filter(metadata)
        order = check_order(order_by or _DEFAULT_ORDER)
        tables = self._tables
        threads = (
            tables.all_threads
            if resource_id is None
            else tables.threads_of.get(resource_id, ThreadOrder())
        )
        keys = threads.updated if order.field == "updatedAt" else threads.created
        read = keys.descending if order.direction == "DESC" else keys.ascending
        if wanted:
            found = [
                thread
                for _, thread_id in read()
                if metadata_matches((thread := tables.threads[thread_id]).metadata, wanted)
            ]
            total, rows = len(found), found[place.offset : place.end]
        else:
            total = len(keys)
            start, stop = place.offset, total if place.end is None else min(place.end, total)
            if order.direction == "DESC":
                start, stop = total - stop, max(0, total - start)
            rows = [tables.threads[key[1]] for key in read(start, stop)]
        return ThreadPage(
            threads=[copied(thread, _JSON) for thread in rows],
            total=total,
            page=page,
            per_page=per_page,
            has_more=has_more(place, total),
        )

    async def update_thread_resource_id(self, thread_id: str, resource_id: str) -> Thread:
        """The thread and all its messages, in one step without an await."""
        check_text(resource_id, "resource_id")
        thread = self._thread(thread_id)
        moved = thread.replace(
            resource_id=resource_id,
            updated_at=next_updated_at(self._clock.now(), thread.updated_at),
        )
        for stored in self._tables.rows_of_thread(thread_id):
            self._tables.put_message(stored.of_resource(resource_id))
        self._tables.put_thread(moved)
        return copied(moved, _JSON)

    async def clone_thread(
        self,
        source_thread_id: str,
        *,
        new_thread_id: str | None = None,
        resource_id: str | None = None,
        title: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        message_limit: int | None = None,
        message_ids: Sequence[str] | None = None,
    ) -> ClonedThread:
        """Copy a thread with new ids, in one step without an await."""
        source = self._thread(source_thread_id)
        thread_id = new_thread_id or self._ids.new("thread")
        if thread_id in self._tables.threads:
            raise StorageConflictError(
                f"Thread {thread_id!r} exists already; nothing was copied.",
                what="thread",
                expected=None,
                found=thread_id,
            )
        originals = messages_to_clone(
            StoredMessage.given_out(self._tables.rows_of_thread(source_thread_id)),
            message_limit=message_limit,
            message_ids=message_ids,
        )
        thread = cloned_thread(
            source,
            originals,
            thread_id=thread_id,
            now=self._clock.now(),
            resource_id=resource_id,
            title=title,
            metadata=metadata,
        )
        thread = copied(thread, _JSON)
        copies = cloned_messages(originals, thread=thread, new_id=lambda: self._ids.new("message"))
        self._tables.put_thread(thread)
        for stored in StoredMessage.of(copies):
            self._tables.put_message(stored)
        return ClonedThread(
            thread=copied(thread, _JSON),
            cloned_messages=copies,
            message_id_map={old.id: new.id for old, new in zip(originals, copies, strict=True)},
        )

    async def copy_thread(
        self, source_thread_id: str, *, new_thread_id: str | None = None
    ) -> Thread:
        """As ``clone_thread`` without the messages."""
        return (await self.clone_thread(source_thread_id, new_thread_id=new_thread_id)).thread

    def _thread(self, thread_id: str) -> Thread:
        thread = self._tables.threads.get(thread_id)
        if thread is None:
            raise ThreadNotFoundError(thread_id=thread_id)
        return thread


def _checked(thread: Thread) -> Thread:
    check_text(thread.id, "id")
    check_text(thread.resource_id, "resource_id")
    return copied(thread, _JSON)
