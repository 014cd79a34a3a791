"""Data of the memory domain, with the orders that keep its lists cheap."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from mastra_core.base import jsonjs
from mastra_core.contracts.pubsub import FenceToken
from mastra_core.errors import FencedOutError
from mastra_core.inmemory.storage.copies import copied, ms
from mastra_core.inmemory.storage.domain import Tables
from mastra_core.inmemory.storage.sorted_keys import SortedKeys
from mastra_core.rules.messages import without_filler
from mastra_core.rules.snapshots import next_updated_at
from mastra_core.wire.base import trusted
from mastra_core.wire.messages import Message
from mastra_core.wire.threads import Resource, Thread

__all__ = (
    "MemoryTables",
    "MessageOrder",
    "StoredMessage",
    "ThreadOrder",
    "TimeKey",
)

TimeKey = tuple[int, str]


@dataclass(slots=True)
class ThreadOrder:
    """Threads of one resource, or all of them, by their times."""

    created: SortedKeys[TimeKey] = field(default_factory=SortedKeys)
    updated: SortedKeys[TimeKey] = field(default_factory=SortedKeys)


@dataclass(slots=True)
class MessageOrder:
    """Messages of one thread by time, and how many belong to which resource."""

    keys: SortedKeys[TimeKey] = field(default_factory=SortedKeys)
    resources: Counter[str] = field(default_factory=Counter)


class StoredMessage:
    """A message row; its content is kept encoded."""

    __slots__ = ("_content", "key", "metadata", "row")

    def __init__(self, message: Message, content: bytes) -> None:
        """``content``: the content of the message, encoded."""
        self._content = content
        metadata = jsonjs.decode(content).get("metadata") if "metadata" in message.content else None
        #: Members of ``content.metadata``, for filters; never handed out.
        self.metadata = metadata if isinstance(metadata, dict) else None
        #: The message without its content.
        self.row: Message = copied(without_filler(message), (), content={})
        self.key: TimeKey = (ms(message.created_at), message.id)

    def message(self) -> Message:
        """A copy that nobody shares."""
        return self._with(jsonjs.decode(self._content))

    def of_resource(self, resource_id: str) -> StoredMessage:
        """The same message, of another resource."""
        return StoredMessage(self.message().replace(resource_id=resource_id), self._content)

    def created(self, at: datetime) -> StoredMessage:
        """The same message, with another creation time."""
        return StoredMessage(self.message().replace(created_at=at), self._content)

    def _with(self, content: dict[str, Any]) -> Message:
        row = self.row
        if row.__pydantic_extra__:
            return copied(row, (), content=content)
        values = {**row.__dict__, "content": content}
        return trusted(Message, values, row.__pydantic_fields_set__.copy())

    @staticmethod
    def of(messages: Sequence[Message]) -> list[StoredMessage]:
        """
        Rows of some messages.

        Raises:
            WireEncodeError: A content has no JSON form.
        """
        contents = jsonjs.encode_each([m.content for m in messages], path_prefix="$.content")
        return list(map(StoredMessage, messages, contents))

    @staticmethod
    def given_out(rows: Sequence[StoredMessage]) -> list[Message]:
        """Copies of many messages."""
        contents = jsonjs.decode_each([row._content for row in rows])  # noqa: SLF001 - its own
        return list(map(StoredMessage._with, rows, contents))


class MemoryTables(Tables):
    """Threads, messages and resources of one store."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self.threads: dict[str, Thread] = {}
        self.all_threads = ThreadOrder()
        self.threads_of: dict[str, ThreadOrder] = {}
        self.messages: dict[str, StoredMessage] = {}
        self.messages_of: dict[str, MessageOrder] = {}
        self.messages_of_resource: dict[str, SortedKeys[TimeKey]] = {}
        self.resources: dict[str, Resource] = {}
        self._fences: dict[str, int] = {}

    # -- owners -------------------------------------------------------------------------------

    def admit(self, fence: FenceToken | None) -> None:
        """
        A write comes, with no await up to its end; remember the fence that it carries.

        Raises:
            FencedOutError: A newer one of its key is known.
        """
        if fence is None:
            return
        key, token = fence
        newest = self._fences.get(key, token)
        if token < newest:
            raise FencedOutError(key=key, fence=token, current=newest)
        self._fences[key] = token

    # -- threads ------------------------------------------------------------------------------

    def put_thread(self, thread: Thread) -> None:
        """Write a thread that nobody else holds."""
        created, updated = (ms(thread.created_at), thread.id), (ms(thread.updated_at), thread.id)
        old = self.threads.get(thread.id)
        if old is not None and (old.resource_id, old.created_at) == (
            thread.resource_id,
            thread.created_at,
        ):
            was_updated = (ms(old.updated_at), old.id)
            for order in (self.all_threads, self.threads_of[thread.resource_id]):
                order.updated.discard(was_updated)
                order.updated.add(updated)
        else:
            self.drop_thread(thread.id)
            mine = self.threads_of.setdefault(thread.resource_id, ThreadOrder())
            for order in (self.all_threads, mine):
                order.created.add(created)
                order.updated.add(updated)
        self.threads[thread.id] = thread

    def drop_thread(self, thread_id: str) -> None:
        """Delete a thread row, if there is one; its messages stay."""
        thread = self.threads.pop(thread_id, None)
        if thread is None:
            return
        mine = self.threads_of[thread.resource_id]
        for order in (self.all_threads, mine):
            order.created.discard((ms(thread.created_at), thread.id))
            order.updated.discard((ms(thread.updated_at), thread.id))
        if not mine.created:
            del self.threads_of[thread.resource_id]

    def drop_thread_with_messages(self, thread_id: str) -> None:
        """Delete the messages of a thread, then the thread."""
        for stored in self.rows_of_thread(thread_id):
            self.drop_message(stored.row.id)
        self.drop_thread(thread_id)

    def touch(self, thread_ids: Iterable[str], now: datetime) -> None:
        """Give threads a new ``updated_at``, as far as they exist."""
        for thread_id in thread_ids:
            thread = self.threads.get(thread_id)
            if thread is not None:
                at = next_updated_at(now, thread.updated_at)
                self.put_thread(thread.replace(updated_at=at))

    # -- messages -----------------------------------------------------------------------------

    def put_message(self, stored: StoredMessage) -> None:
        """Write a message row."""
        row = stored.row
        old = self.messages.get(row.id)
        self.messages[row.id] = stored
        if old is not None:
            places = (old.row.thread_id, old.row.resource_id, old.key)
            if places == (row.thread_id, row.resource_id, stored.key):
                return
            self._unlink(old)
        thread_id, resource_id = row.thread_id or "", row.resource_id or ""
        order = self.messages_of.get(thread_id)
        if order is None:
            order = self.messages_of[thread_id] = MessageOrder()
        order.keys.add(stored.key)
        order.resources[resource_id] += 1
        mine = self.messages_of_resource.get(resource_id)
        if mine is None:
            mine = self.messages_of_resource[resource_id] = SortedKeys()
        mine.add(stored.key)

    def drop_message(self, message_id: str) -> StoredMessage | None:
        """Delete a message row; what it was, or None."""
        stored = self.messages.pop(message_id, None)
        if stored is not None:
            self._unlink(stored)
        return stored

    def _unlink(self, stored: StoredMessage) -> None:
        thread_id, resource_id = stored.row.thread_id or "", stored.row.resource_id or ""
        order = self.messages_of[thread_id]
        order.keys.discard(stored.key)
        order.resources[resource_id] -= 1
        if not order.resources[resource_id]:
            del order.resources[resource_id]
        if not order.keys:
            del self.messages_of[thread_id]
        mine = self.messages_of_resource[resource_id]
        mine.discard(stored.key)
        if not mine:
            del self.messages_of_resource[resource_id]

    def rows_of_thread(self, thread_id: str) -> list[StoredMessage]:
        """All messages of a thread, oldest first."""
        order = self.messages_of.get(thread_id)
        return [self.messages[key[1]] for key in order.keys] if order else []
