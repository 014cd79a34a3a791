"""Threads, messages and resources (streaming.md 10.5-10.7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Protocol

from mastra_core.base.unset import UNSET, Unset
from mastra_core.contracts.pubsub import FenceToken
from mastra_core.contracts.storage.pruning import PruneOptions, PrunePolicy, PruneResult
from mastra_core.wire.messages import Message
from mastra_core.wire.threads import Resource, Thread

__all__ = (
    "ClonedThread",
    "DateRange",
    "IncludeMessage",
    "MemoryStorage",
    "MessagePage",
    "OrderBy",
    "ThreadPage",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderBy:
    """A sort field from the allow list, and its direction; ties are broken by id."""

    field: Literal["createdAt", "updatedAt"] = "createdAt"
    direction: Literal["ASC", "DESC"] = "ASC"


@dataclass(frozen=True, slots=True, kw_only=True)
class DateRange:
    """Bounds on ``createdAt``, inclusive unless said otherwise."""

    start: datetime | None = None
    end: datetime | None = None
    start_exclusive: bool = False
    end_exclusive: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class IncludeMessage:
    """One message to return whatever the page, with its neighbours in its own thread."""

    id: str
    with_previous_messages: int = 0
    with_next_messages: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadPage:
    """One page of threads."""

    threads: list[Thread]
    total: int
    page: int
    per_page: int | Literal[False]
    has_more: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagePage:
    """One page of messages; ``has_more`` speaks of the requested order (streaming.md 10.7)."""

    messages: list[Message]
    #: None when the caller didn't want the count.
    total: int | None
    page: int
    per_page: int | Literal[False]
    has_more: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ClonedThread:
    """A copy of a thread and which message became which."""

    thread: Thread
    cloned_messages: list[Message]
    message_id_map: dict[str, str]


class MemoryStorage(Protocol):
    """Domain ``memory``.

    Every list is sorted by (field, id) in one direction, so paging neither repeats nor skips
    rows with equal times. A page < 0, or a per_page that is neither an integer >= 0 nor
    False, is a ``StorageArgumentError``; so is a metadata key that doesn't match
    ``^[A-Za-z_][A-Za-z0-9_]*$``, is longer than 128 or is ``__proto__``, ``prototype`` or
    ``constructor``.
    """

    def guarded(self, fence: FenceToken) -> MemoryStorage:
        """
        This domain for whoever owns a lease: its writes carry the fence of the term.

        In the same atomic step as the write the store remembers the fence, or refuses if it
        knows a newer one of that key: ``FencedOutError``, and nothing was written. An equal one
        passes, and keys don't know each other. That holds for ``save_thread``,
        ``create_thread``, ``update_thread``, ``delete_thread``, ``save_messages``,
        ``update_messages`` and ``delete_messages``; a call that would write nothing may be
        answered as if it had no fence. Reads, and calls on the domain itself, are as without
        (pubsub_and_lease.md 6.4, L9; capability ``storage.guarded_writes``).
        """
        ...

    async def raise_fence(self, fence: FenceToken) -> None:
        """
        Refuse guarded writes of older owners from now on.

        The first thing that a new owner does: what it reads afterwards can't be changed by an
        older one any more. Capability ``storage.guarded_writes``.

        Raises:
            FencedOutError: A newer fence of the key is known.
        """
        ...

    async def save_thread(self, thread: Thread) -> Thread:
        """Upsert the whole thread and return it; an existing row keeps its ``created_at``."""
        ...

    async def create_thread(self, thread: Thread) -> Thread:
        """Insert if absent; returns the stored thread, whoever wrote it (one atomic step)."""
        ...

    async def get_thread_by_id(
        self, thread_id: str, *, resource_id: str | None = None
    ) -> Thread | None:
        """The thread; None if it is absent or belongs to another resource."""
        ...

    async def update_thread(
        self,
        thread_id: str,
        *,
        title: str | Unset = UNSET,
        metadata: Mapping[str, Any] | Unset = UNSET,
        expected_title: str | Unset = UNSET,
    ) -> Thread:
        """
        Replace the title, merge metadata one level deep, move ``updated_at``; one atomic step.

        Args:
            thread_id: Which thread.
            title: New title; left alone when not given.
            metadata: Keys to set; keys not named stay.
            expected_title: Write the title only if it is still this (the rest is written
                anyway).

        Raises:
            ThreadNotFoundError: There is no such thread (404).
        """
        ...

    async def delete_thread(self, thread_id: str) -> None:
        """Delete its messages, then the thread, in one transaction; idempotent."""
        ...

    async def list_threads(
        self,
        *,
        resource_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        page: int = 0,
        per_page: int | Literal[False] = 100,
        order_by: OrderBy | None = None,
    ) -> ThreadPage:
        """
        Threads by scalar equality of metadata (ANDed), newest created first by default.

        A filter value of None matches a missing key and a stored null.
        """
        ...

    async def save_messages(self, messages: Sequence[Message]) -> list[Message]:
        """
        Upsert by id in one transaction and move ``updated_at`` of all threads involved.

        Each message needs ``thread_id`` and ``resource_id``. The same id twice in one batch:
        the last content and the first creation time win. An existing row keeps its
        ``created_at``; a row of another thread is moved there only by
        ``update_messages`` - here that is a ``StorageArgumentError``.

        Returns:
            The stored messages, in the order given, duplicates collapsed.
        """
        ...

    async def update_messages(self, patches: Sequence[Mapping[str, Any]]) -> list[Message]:
        """
        Patch by id: ``content`` merges one level deep, ``content.metadata`` likewise, other
        members (``role``, ``type``, ``thread_id``, ``resource_id``) replace.

        Unknown ids are skipped; the old and the new thread of each row get a new
        ``updated_at``. Patches use Python names and need ``id``.
        """
        ...

    async def delete_messages(self, message_ids: Sequence[str]) -> None:
        """Delete by id; unknown ids are ignored, threads involved get a new ``updated_at``."""
        ...

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
        """
        Messages of one or several threads, oldest first by default; ``createdAt`` is the
        only time to order them by.

        ``per_page=0`` returns only ``include``; ``include`` may cross threads but not
        resources (streaming.md 10.6, 10.7).
        """
        ...

    async def list_messages_by_id(self, message_ids: Sequence[str]) -> list[Message]:
        """The messages that exist, by (created_at, id)."""
        ...

    async def list_messages_by_resource_id(
        self,
        resource_id: str,
        *,
        page: int = 0,
        per_page: int | Literal[False] = 40,
        order_by: OrderBy | None = None,
        date_range: DateRange | None = None,
        metadata: Mapping[str, Any] | None = None,
        include_total: bool = True,
    ) -> MessagePage:
        """Like ``list_messages`` over all threads of a resource."""
        ...

    async def get_resource_by_id(self, resource_id: str) -> Resource | None:
        """The resource, or None."""
        ...

    async def save_resource(self, resource: Resource) -> Resource:
        """Upsert the whole resource; an existing row keeps its ``created_at``."""
        ...

    async def update_resource(
        self,
        resource_id: str,
        *,
        working_memory: str | Unset | None = UNSET,
        metadata: Mapping[str, Any] | Unset = UNSET,
    ) -> Resource:
        """Create when missing; replace working memory if given, merge metadata; atomic."""
        ...

    async def update_thread_resource_id(self, thread_id: str, resource_id: str) -> Thread:
        """
        Move a thread and all its messages to another resource, atomically.

        Capability ``memory.move_thread``.

        Raises:
            ThreadNotFoundError: There is no such thread.
        """
        ...

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
        """
        Copy a thread with new ids (capability ``memory.clone_thread``).

        ``metadata.clone`` is ``{sourceThreadId, clonedAt, lastMessageId?}``; the title
        defaults to ``Clone of <title>``. ``message_limit`` keeps the newest n.

        Raises:
            ThreadNotFoundError: The source doesn't exist.
            StorageConflictError: ``new_thread_id`` exists.
        """
        ...

    async def copy_thread(
        self, source_thread_id: str, *, new_thread_id: str | None = None
    ) -> Thread:
        """Like ``clone_thread`` without handing the messages back (``memory.copy_thread``)."""
        ...

    async def prune(
        self, policies: Sequence[PrunePolicy], options: PruneOptions | None = None
    ) -> list[PruneResult]:
        """Delete rows strictly older than their policy, in batches (``storage.retention``)."""
        ...

    async def dangerously_clear_all(self) -> None:
        """Delete every thread, message and resource."""
        ...
