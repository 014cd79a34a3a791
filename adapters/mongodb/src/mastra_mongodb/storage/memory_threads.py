"""Threads (streaming.md 10.6)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from pymongo import ReturnDocument
from pymongo.errors import DuplicateKeyError

from mastra_core.base.unset import UNSET, Unset
from mastra_core.contracts.pubsub import FenceToken
from mastra_core.contracts.storage import OrderBy, ThreadPage
from mastra_core.contracts.storage.memory import ClonedThread
from mastra_core.errors import StorageConflictError, ThreadNotFoundError
from mastra_core.rules.arguments import check_text
from mastra_core.rules.cloning import cloned_messages, cloned_thread, messages_to_clone
from mastra_core.rules.metadata import check_metadata_filter, metadata_matches
from mastra_core.rules.paging import Page, PerPage, check_order, check_page, has_more
from mastra_core.rules.snapshots import next_updated_at
from mastra_core.wire.tables import MESSAGES, THREADS
from mastra_core.wire.threads import Thread
from mastra_mongodb.documents import ODD, DocumentCodec, member_from_json
from mastra_mongodb.pool import Collection, Session
from mastra_mongodb.storage.host import STORE, Host, LostRaceError
from mastra_mongodb.storage.memory_documents import message_document, messages_from
from mastra_mongodb.storage.workflow_pipelines import later

__all__ = ("ThreadStore",)

T = TypeVar("T")

_THREADS: Final = DocumentCodec(
    Thread, THREADS, json=("metadata",), times=("created_at", "updated_at")
)
_NEWEST_FIRST: Final = OrderBy(field="createdAt", direction="DESC")


class ThreadStore:
    """The part of the memory domain that knows threads."""

    _host: Host
    #: What the writes carry; None for whoever owns nothing.
    _fence: FenceToken | None = None

    @property
    def _threads(self) -> Collection:
        return self._host.collection(THREADS)

    async def save_thread(self, thread: Thread) -> Thread:
        """Upsert; an existing row keeps its ``created_at``."""
        _check_thread(thread)
        document = _THREADS.document(thread)
        created_at = document.pop("createdAt")
        update = {"$set": document, "$setOnInsert": {"createdAt": created_at}}
        with self._host.errors("save_thread"):
            return await self._upsert_thread(thread.id, update)

    async def create_thread(self, thread: Thread) -> Thread:
        """Insert if absent; returns what is stored."""
        _check_thread(thread)
        document = _THREADS.document(thread)
        with self._host.errors("create_thread"):
            return await self._upsert_thread(thread.id, {"$setOnInsert": document})

    async def _upsert_thread(self, thread_id: str, update: Mapping[str, Any]) -> Thread:
        async def attempt(session: Session | None) -> Thread:
            try:
                document = await self._threads.find_one_and_update(
                    {"id": thread_id},
                    update,
                    upsert=True,
                    return_document=ReturnDocument.AFTER,
                    session=session,
                )
            except DuplicateKeyError as exc:
                raise LostRaceError from exc
            return _THREADS.model(document or {})

        return await self._swap("save_thread", attempt)

    async def _swap(self, operation: str, attempt: Callable[[Session | None], Awaitable[T]]) -> T:
        """One command, until it wins; with a fence in a transaction with it."""
        if self._fence is None:
            return await self._host.swap(operation, lambda: attempt(None))
        return await self._host.guarded(operation, self._fence, attempt)

    async def get_thread_by_id(
        self, thread_id: str, *, resource_id: str | None = None
    ) -> Thread | None:
        """The thread; None if it is absent or belongs to another resource."""
        wanted = {"id": thread_id}
        if resource_id is not None:
            wanted["resourceId"] = resource_id
        with self._host.errors("get_thread_by_id"):
            document = await self._threads.find_one(wanted)
            return None if document is None else _THREADS.model(document)

    async def update_thread(
        self,
        thread_id: str,
        *,
        title: str | Unset = UNSET,
        metadata: Mapping[str, Any] | Unset = UNSET,
        expected_title: str | Unset = UNSET,
    ) -> Thread:
        """Title and metadata in one command."""
        now = self._host.now()
        changes: dict[str, Any] = {"updatedAt": later(now)}
        if title is not UNSET:
            literal: Any = {"$literal": title}
            if expected_title is not UNSET:
                is_expected = {"$eq": ["$title", {"$literal": expected_title}]}
                literal = {"$cond": [is_expected, literal, "$title"]}
            changes["title"] = literal
        wanted: dict[str, Any] = {"id": thread_id}
        given = None if metadata is UNSET else member_from_json(dict(metadata), "$.metadata")
        if given is not None:
            stored = {"$ifNull": ["$metadata", {}]}
            changes["metadata"] = {"$mergeObjects": [stored, {"$literal": given}]}
            # Metadata that is kept as text can be merged only here.
            wanted[f"metadata.{ODD}"] = {"$exists": False}

        def merged(thread: Thread) -> Thread:
            known = {**(thread.metadata or {}), **metadata} if metadata is not UNSET else {}
            more: dict[str, Any] = {"metadata": known}
            if title is not UNSET and expected_title in (UNSET, thread.title):
                more["title"] = title
            return thread.replace(**more)

        async def attempt(session: Session | None) -> Thread:
            document = None
            if given is None or ODD not in given:
                document = await self._threads.find_one_and_update(
                    wanted,
                    [{"$set": changes}],
                    return_document=ReturnDocument.AFTER,
                    session=session,
                )
            if document is not None:
                return _THREADS.model(document)
            if given is None:
                raise ThreadNotFoundError(thread_id=thread_id)
            return await self._rewrite_thread(thread_id, merged, session)

        with self._host.errors("update_thread"):
            return await self._swap("update_thread", attempt)

    async def _rewrite_thread(
        self, thread_id: str, change: Callable[[Thread], Thread], session: Session | None
    ) -> Thread:
        """Read, change, and write if nobody else wrote."""
        document = await self._threads.find_one({"id": thread_id}, session=session)
        if document is None:
            raise ThreadNotFoundError(thread_id=thread_id)
        observed = {"_id": document["_id"], "updatedAt": document["updatedAt"]}
        before = _THREADS.model(document)
        after = change(before)
        after = after.replace(updated_at=next_updated_at(self._host.now(), before.updated_at))
        members = _THREADS.document(after)
        result = await self._threads.update_one(observed, {"$set": members}, session=session)
        if not result.matched_count:
            raise LostRaceError
        return after

    async def update_thread_resource_id(self, thread_id: str, resource_id: str) -> Thread:
        """The thread and all its messages."""
        check_text(resource_id, "resource_id")

        async def body(session: Session | None) -> Thread:
            document = await self._threads.find_one_and_update(
                {"id": thread_id},
                [
                    {
                        "$set": {
                            "resourceId": {"$literal": resource_id},
                            "updatedAt": later(self._host.now()),
                        }
                    }
                ],
                return_document=ReturnDocument.AFTER,
                session=session,
            )
            if document is None:
                raise ThreadNotFoundError(thread_id=thread_id)
            # Without a transaction a crash here is mended by calling again.
            await self._host.collection(MESSAGES).update_many(
                {"thread_id": thread_id}, {"$set": {"resourceId": resource_id}}, session=session
            )
            return _THREADS.model(document)

        with self._host.errors("update_thread_resource_id"):
            return await self._host.together("update_thread_resource_id", body)

    async def delete_thread(self, thread_id: str) -> None:
        """Messages first, then the thread."""

        async def body(session: Session | None) -> None:
            await self._host.collection(MESSAGES).delete_many(
                {"thread_id": thread_id}, session=session
            )
            await self._threads.delete_one({"id": thread_id}, session=session)

        with self._host.errors("delete_thread"):
            await self._host.guarded("delete_thread", self._fence, body)

    async def list_threads(
        self,
        *,
        resource_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        page: int = 0,
        per_page: PerPage = 100,
        order_by: OrderBy | None = None,
    ) -> ThreadPage:
        """One page, newest created first by default."""
        place = check_page(page, per_page, store=STORE, operation="list_threads")
        order = check_order(order_by or _NEWEST_FIRST)
        members = check_metadata_filter(metadata)
        wanted: dict[str, Any] = {}
        if resource_id is not None:
            wanted["resourceId"] = resource_id
        wanted |= _with_metadata(members)
        direction = -1 if order.direction == "DESC" else 1
        with self._host.errors("list_threads"):
            threads, total = await self._thread_page(
                wanted, {order.field: direction, "id": direction}, place
            )
        return ThreadPage(
            threads=[one for one in threads if metadata_matches(one.metadata, members)],
            total=total,
            page=place.number,
            per_page=place.per_page,
            has_more=has_more(place, total),
        )

    async def _thread_page(
        self, wanted: Mapping[str, Any], order: Mapping[str, int], place: Page
    ) -> tuple[list[Thread], int]:
        rows = self._threads
        if place.limit == 0:
            return [], await rows.count_documents(wanted)
        cursor = rows.find(wanted).sort(dict(order))
        if place.limit is None:
            threads = _THREADS.models(await cursor.to_list())
            return threads, len(threads)
        documents, total = await asyncio.gather(
            cursor.skip(place.offset).limit(place.limit).to_list(), rows.count_documents(wanted)
        )
        return _THREADS.models(documents), total

    # -- copies ----------------------------------------------------------------------------

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
        """Copy a thread with new ids."""
        new_id = new_thread_id or self._host.ids.new("thread")
        now = self._host.now()
        messages = self._host.collection(MESSAGES)

        async def body(session: Session | None) -> ClonedThread:
            source = await self._threads.find_one({"id": source_thread_id}, session=session)
            if source is None:
                raise ThreadNotFoundError(thread_id=source_thread_id)
            taken = await self._threads.find_one({"id": new_id}, {"_id": 1}, session=session)
            if taken is not None:
                raise _exists(new_id)
            cursor = messages.find({"thread_id": source_thread_id}, session=session)
            rows = await cursor.sort({"createdAt": 1, "id": 1}).to_list()
            originals = messages_to_clone(
                messages_from(rows), message_limit=message_limit, message_ids=message_ids
            )
            thread = cloned_thread(
                _THREADS.model(source),
                originals,
                thread_id=new_id,
                now=now,
                resource_id=resource_id,
                title=title,
                metadata=metadata,
            )
            copies = cloned_messages(
                originals, thread=thread, new_id=lambda: self._host.ids.new("message")
            )
            # The thread last: it is what makes the copy visible.
            if copies:
                await messages.insert_many(list(map(message_document, copies)), session=session)
            try:
                await self._threads.insert_one(_THREADS.document(thread), session=session)
            except DuplicateKeyError as exc:
                if session is None and copies:
                    await messages.delete_many({"id": {"$in": [copy.id for copy in copies]}})
                raise _exists(new_id) from exc
            pairs = zip(originals, copies, strict=True)
            return ClonedThread(
                thread=thread,
                cloned_messages=copies,
                message_id_map={old.id: new.id for old, new in pairs},
            )

        with self._host.errors("clone_thread"):
            return await self._host.together("clone_thread", body)

    async def copy_thread(
        self, source_thread_id: str, *, new_thread_id: str | None = None
    ) -> Thread:
        """As ``clone_thread`` without the messages."""
        return (await self.clone_thread(source_thread_id, new_thread_id=new_thread_id)).thread


def _with_metadata(members: Mapping[str, Any]) -> dict[str, Any]:
    """
    Scalar equality of members; None matches a missing key and a stored null.

    Compared as values, not as MongoDB does for lists, where one element would be enough.
    """
    conditions = []
    for key, value in members.items():
        stored = {"$getField": {"field": key, "input": "$metadata"}}
        conditions.append({"$eq": [{"$ifNull": [stored, None]}, {"$literal": value}]})
    if not conditions:
        return {}
    named = {f"metadata.{key}": value for key, value in members.items()}
    return {**named, "$expr": {"$and": conditions}}


def _check_thread(thread: Thread) -> None:
    check_text(thread.id, "id")
    check_text(thread.resource_id, "resource_id")


def _exists(thread_id: str) -> StorageConflictError:
    return StorageConflictError(
        f"Thread {thread_id!r} exists already; nothing was copied.", what="thread", found=thread_id
    )
