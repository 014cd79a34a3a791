"""Threads and messages (streaming.md 10.5-10.7)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from mastra_core.base.clock import Clock
from mastra_core.base.isotime import epoch_ms, to_iso_ms
from mastra_core.contracts.pubsub import FenceToken
from mastra_core.contracts.storage import (
    DateRange,
    IncludeMessage,
    MemoryStorage,
    MessagePage,
    OrderBy,
    ThreadPage,
)
from mastra_core.rules import messages as rules
from mastra_core.rules.arguments import check_text, check_thread_ids
from mastra_core.rules.metadata import check_metadata_filter, metadata_matches
from mastra_core.rules.paging import (
    bounds_ms,
    check_order,
    check_page,
    has_more,
    has_more_with_included,
)
from mastra_core.rules.snapshots import next_updated_at
from mastra_core.wire.messages import Message
from mastra_core.wire.threads import Thread
from mastra_jsonfile.capabilities import refuse, refused
from mastra_jsonfile.file import Document, JsonFile, row_of

__all__ = ("JsonFileMemory",)


class JsonFileMemory:
    """Domain ``memory``; see ``contracts.storage.memory``."""

    def __init__(self, file: JsonFile, clock: Clock) -> None:
        self._file = file
        self._clock = clock

    # -- threads ------------------------------------------------------------------------------

    async def save_thread(self, thread: Thread) -> Thread:
        """Upsert; an existing row keeps its ``created_at``."""
        row = _thread_row(thread)

        def change(document: Document) -> Thread:
            stored = document["threads"].get(thread.id, row)
            document["threads"][thread.id] = {**row, "createdAt": stored["createdAt"]}
            return Thread.model_validate(document["threads"][thread.id])

        return await self._file.write("save_thread", change)

    async def create_thread(self, thread: Thread) -> Thread:
        """Insert if absent; returns what is stored."""
        row = _thread_row(thread)

        def change(document: Document) -> Thread:
            return Thread.model_validate(document["threads"].setdefault(thread.id, row))

        return await self._file.write("create_thread", change)

    async def get_thread_by_id(
        self, thread_id: str, *, resource_id: str | None = None
    ) -> Thread | None:
        """The thread; None if it is absent or belongs to another resource."""

        def query(document: Document) -> Thread | None:
            row = document["threads"].get(thread_id)
            if row is None or (resource_id is not None and row["resourceId"] != resource_id):
                return None
            return Thread.model_validate(row)

        return await self._file.read("get_thread_by_id", query)

    async def delete_thread(self, thread_id: str) -> None:
        """Its messages and itself, in one step."""

        def change(document: Document) -> None:
            document["threads"].pop(thread_id, None)
            document["messages"] = {
                message_id: row
                for message_id, row in document["messages"].items()
                if row["threadId"] != thread_id
            }

        await self._file.write("delete_thread", change)

    async def list_threads(
        self,
        *,
        resource_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        page: int = 0,
        per_page: int | Literal[False] = 100,
        order_by: OrderBy | None = None,
    ) -> ThreadPage:
        """One page; reads all threads."""
        place = check_page(page, per_page, store="jsonfile", operation="list_threads")
        wanted = check_metadata_filter(metadata)
        order = check_order(order_by or OrderBy(direction="DESC"))

        def query(document: Document) -> list[Thread]:
            return [
                Thread.model_validate(row)
                for row in document["threads"].values()
                if (resource_id is None or row["resourceId"] == resource_id)
                and metadata_matches(row.get("metadata"), wanted)
            ]

        def key(thread: Thread) -> tuple[int, str]:
            by_update = order.field == "updatedAt"
            return (epoch_ms(thread.updated_at if by_update else thread.created_at), thread.id)

        found = await self._file.read("list_threads", query)
        found.sort(key=key, reverse=order.direction == "DESC")
        return ThreadPage(
            threads=found[place.offset : place.end],
            total=len(found),
            page=page,
            per_page=per_page,
            has_more=has_more(place, len(found)),
        )

    # -- messages -----------------------------------------------------------------------------

    async def save_messages(self, messages: Sequence[Message]) -> list[Message]:
        """Upsert all or none."""
        rules.check_messages(messages)
        given = [rules.without_filler(message) for message in rules.collapse_batch(messages)]
        rows = [row_of(message) for message in given]

        def change(document: Document) -> list[Message]:
            table = document["messages"]
            for message, row in zip(given, rows, strict=True):
                if (stored := table.get(message.id)) is not None:
                    rules.refuse_move(Message.model_validate(stored), message)
                    row["createdAt"] = stored["createdAt"]
                table[message.id] = row
            saved = [Message.model_validate(row) for row in rows]
            self._touch(document, rules.threads_touched(*saved))
            return saved

        return await self._file.write("save_messages", change)

    async def update_messages(self, patches: Sequence[Mapping[str, Any]]) -> list[Message]:
        """Patch all or none; unknown ids are skipped."""
        for patch in patches:
            rules.check_patch(patch)

        def change(document: Document) -> list[Message]:
            table = document["messages"]
            changed: dict[str, Message] = {}
            touched: set[str] = set()
            for patch in patches:
                if (row := table.get(patch["id"])) is None:
                    continue
                before = Message.model_validate(row)
                after = rules.merge_patch(before, patch)
                table[after.id] = row_of(after)
                changed[after.id] = Message.model_validate(table[after.id])
                touched |= rules.threads_touched(before, after)
            self._touch(document, touched)
            return list(changed.values())

        return await self._file.write("update_messages", change)

    async def list_messages(
        self,
        thread_id: str | Sequence[str],
        *,
        resource_id: str | None = None,
        page: int = 0,
        per_page: int | Literal[False] = 40,
        order_by: OrderBy | None = None,
        date_range: DateRange | None = None,
        metadata: Mapping[str, Any] | None = None,
        include: Sequence[IncludeMessage] = (),
        include_total: bool = True,
    ) -> MessagePage:
        """One page of some threads, joined with the included messages; reads all messages."""
        place = check_page(page, per_page, store="jsonfile", operation="list_messages")
        threads = check_thread_ids(thread_id)
        order = check_order(order_by or OrderBy(), ["createdAt"])
        low, high = bounds_ms(date_range)
        wanted = check_metadata_filter(metadata)
        for item in include:
            rules.check_include((item.with_previous_messages, item.with_next_messages))

        def matches(message: Message) -> bool:
            at = epoch_ms(message.created_at)
            return (
                message.thread_id in threads
                and (resource_id is None or message.resource_id == resource_id)
                and (low is None or at >= low)
                and (high is None or at < high)
                and metadata_matches(_metadata_of(message), wanted)
            )

        everything = await self._file.read("list_messages", _messages_in_order)
        found = [message for message in everything if matches(message)]
        if order.direction == "DESC":
            found.reverse()
        shown = {message.id: message for message in found[place.offset : place.end]}
        for message in _included(everything, include):
            if resource_id is None or message.resource_id == resource_id:
                shown.setdefault(message.id, message)
        return MessagePage(
            messages=sorted(shown.values(), key=_time_key, reverse=order.direction == "DESC"),
            total=len(found) if include_total else None,
            page=page,
            per_page=per_page,
            has_more=has_more_with_included(place, len(found), sum(map(matches, shown.values()))),
        )

    async def list_messages_by_id(self, message_ids: Sequence[str]) -> list[Message]:
        """Those that exist, by (created_at, id)."""
        wanted = set(message_ids)
        everything = await self._file.read("list_messages_by_id", _messages_in_order)
        return [message for message in everything if message.id in wanted]

    def _touch(self, document: Document, thread_ids: Iterable[str]) -> None:
        """Move ``updatedAt`` of the threads that exist."""
        for thread_id in thread_ids:
            if (row := document["threads"].get(thread_id)) is not None:
                before = Thread.model_validate(row).updated_at
                row["updatedAt"] = to_iso_ms(next_updated_at(self._clock.now(), before))

    async def dangerously_clear_all(self) -> None:
        """Delete every thread and message."""

        def change(document: Document) -> None:
            document.update(threads={}, messages={})

        await self._file.write("clear_memory", change)

    # -- what was never promised --------------------------------------------------------------

    def guarded(self, fence: FenceToken) -> MemoryStorage:
        refuse("storage.guarded_writes")

    raise_fence = refused(MemoryStorage.raise_fence, "storage.guarded_writes")
    update_thread = refused(MemoryStorage.update_thread, "memory.partial_thread_update")
    delete_messages = refused(MemoryStorage.delete_messages, "memory.delete_messages")
    list_messages_by_resource_id = refused(
        MemoryStorage.list_messages_by_resource_id, "memory.messages_by_resource"
    )
    get_resource_by_id = refused(MemoryStorage.get_resource_by_id, "memory.resources")
    save_resource = refused(MemoryStorage.save_resource, "memory.resources")
    update_resource = refused(MemoryStorage.update_resource, "memory.resources")
    update_thread_resource_id = refused(
        MemoryStorage.update_thread_resource_id, "memory.move_thread"
    )
    clone_thread = refused(MemoryStorage.clone_thread, "memory.clone_thread")
    copy_thread = refused(MemoryStorage.copy_thread, "memory.copy_thread")
    prune = refused(MemoryStorage.prune, "storage.retention")


def _thread_row(thread: Thread) -> dict[str, Any]:
    check_text(thread.id, "id")
    check_text(thread.resource_id, "resource_id")
    return row_of(thread)


def _messages_in_order(document: Document) -> list[Message]:
    return sorted(map(Message.model_validate, document["messages"].values()), key=_time_key)


def _time_key(message: Message) -> tuple[int, str]:
    return (epoch_ms(message.created_at), message.id)


def _metadata_of(message: Message) -> Mapping[str, Any] | None:
    metadata = message.content.get("metadata")
    return metadata if isinstance(metadata, dict) else None


def _included(everything: Sequence[Message], include: Sequence[IncludeMessage]) -> list[Message]:
    """The named messages, each with its neighbours in its own thread."""
    found: list[Message] = []
    for item in include:
        thread_ids = [message.thread_id for message in everything if message.id == item.id]
        thread = [message for message in everything if message.thread_id in thread_ids]
        for place, message in enumerate(thread):
            if message.id == item.id:
                first = max(0, place - item.with_previous_messages)
                found += thread[first : place + item.with_next_messages + 1]
    return found
