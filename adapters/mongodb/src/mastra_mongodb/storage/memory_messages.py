"""Messages (streaming.md 10.6, 10.7)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from pymongo import UpdateOne
from pymongo.errors import BulkWriteError, DuplicateKeyError

from mastra_core.base.isotime import from_epoch_ms
from mastra_core.contracts.pubsub import FenceToken
from mastra_core.contracts.storage import DateRange, IncludeMessage, MessagePage, OrderBy
from mastra_core.rules import messages as rules
from mastra_core.rules.arguments import check_thread_ids
from mastra_core.rules.metadata import check_metadata_filter, metadata_matches
from mastra_core.rules.paging import (
    Page,
    PerPage,
    bounds_ms,
    check_order,
    check_page,
    has_more_with_included,
)
from mastra_core.wire.messages import Message
from mastra_core.wire.tables import MESSAGES, THREADS
from mastra_mongodb.errors import is_duplicate
from mastra_mongodb.pool import Collection, Document, Session
from mastra_mongodb.storage.host import STORE, Host, LostRaceError
from mastra_mongodb.storage.memory_documents import message_document, messages_from
from mastra_mongodb.storage.workflow_pipelines import later

__all__ = ("MessageStore",)

_OLDEST_FIRST: Final = OrderBy()
#: Ids in one command.
_BULK: Final = 1_000


class MessageStore:
    """The part of the memory domain that knows messages."""

    _host: Host
    #: What the writes carry; None for whoever owns nothing.
    _fence: FenceToken | None = None

    @property
    def _messages(self) -> Collection:
        return self._host.collection(MESSAGES)

    # -- write -----------------------------------------------------------------------------

    async def save_messages(self, messages: Sequence[Message]) -> list[Message]:
        """
        Upsert all or none.

        A document of the same id in another thread isn't matched, so the insert meets the
        unique id and is refused. On a standalone server a batch is written in its order,
        behind a look for such documents.
        """
        rules.check_messages(messages)
        batch = rules.collapse_batch(messages)
        if not batch:
            return []
        documents = [message_document(message) for message in batch]
        with self._host.errors("save_messages"):
            if len(batch) == 1 and self._fence is None:
                saved = [await self._save_one(batch[0], documents[0])]
                await self._touch(rules.threads_touched(*saved), None, relaxed=True)
                return saved
            return await self._save_many(batch, documents)

    async def _save_one(self, message: Message, document: Document) -> Message:
        wanted, update = _upsert(document)
        for _ in range(2):
            try:
                stored = await self._messages.find_one_and_update(
                    wanted, update, projection={"createdAt": 1, "_id": 0}, upsert=True
                )
            except DuplicateKeyError:
                await self._refuse_moves([message], None)
                continue
            return _as_stored(message, stored)
        raise LostRaceError

    async def _save_many(
        self, batch: Sequence[Message], documents: Sequence[Document]
    ) -> list[Message]:
        async def body(session: Session | None) -> list[Message]:
            if session is None:
                await self._refuse_moves(batch, None)
            writes = [UpdateOne(*_upsert(document), upsert=True) for document in documents]
            try:
                result = await self._messages.bulk_write(writes, ordered=True, session=session)
            except BulkWriteError as exc:
                if not is_duplicate(exc) or session is not None:
                    raise
                await self._refuse_moves(batch, None)
                raise LostRaceError from exc
            new = set(result.upserted_ids or ())
            known = [message.id for index, message in enumerate(batch) if index not in new]
            stored: dict[str, Document] = {}
            if known:
                cursor = self._messages.find(
                    {"id": {"$in": known}}, {"id": 1, "createdAt": 1}, session=session
                )
                stored = {document["id"]: document async for document in cursor}
            saved = [_as_stored(message, stored.get(message.id)) for message in batch]
            await self._touch(rules.threads_touched(*saved), session)
            return saved

        try:
            return await self._host.guarded("save_messages", self._fence, body)
        except BulkWriteError as exc:
            if is_duplicate(exc):
                await self._refuse_moves(batch, None)
            raise

    async def _refuse_moves(self, batch: Sequence[Message], session: Session | None) -> None:
        """Saving never moves a message to another thread."""
        by_id = {message.id: message for message in batch}
        for ids in _portions(list(by_id)):
            cursor = self._messages.find({"id": {"$in": ids}}, session=session)
            for stored in messages_from(await cursor.to_list()):
                rules.refuse_move(stored, by_id[stored.id])

    async def update_messages(self, patches: Sequence[Mapping[str, Any]]) -> list[Message]:
        """Patch by id, if the documents still are as they were read."""
        for patch in patches:
            rules.check_patch(patch)
        if not patches:
            return []
        ids = list(dict.fromkeys(patch["id"] for patch in patches))

        async def body(session: Session | None) -> list[Message]:
            documents = await self._by_id(ids, session)
            before = {message.id: message for message in messages_from(documents)}
            after = dict(before)
            for patch in patches:
                if patch["id"] in after:
                    after[patch["id"]] = rules.merge_patch(after[patch["id"]], patch)
            writes = [
                _replace(document, after[document["id"]])
                for document in documents
                if document["id"] in after
            ]
            if not writes:
                return []
            result = await self._messages.bulk_write(writes, ordered=True, session=session)
            if result.matched_count != len(writes):
                raise LostRaceError
            touched = rules.threads_touched(*before.values(), *after.values())
            await self._touch(touched, session)
            return list(after.values())

        with self._host.errors("update_messages"):
            return await self._host.guarded("update_messages", self._fence, body)

    async def delete_messages(self, message_ids: Sequence[str]) -> None:
        """Delete by id; the threads involved get a new ``updated_at``."""
        ids = list(dict.fromkeys(message_ids))
        if not ids:
            return

        async def body(session: Session | None) -> None:
            touched: set[str] = set()
            for portion in _portions(ids):
                wanted = {"id": {"$in": portion}}
                found = await self._messages.distinct("thread_id", wanted, session=session)
                if found:
                    await self._messages.delete_many(wanted, session=session)
                    touched.update(found)
            await self._touch(touched, session)

        with self._host.errors("delete_messages"):
            await self._host.guarded("delete_messages", self._fence, body)

    async def _touch(
        self, thread_ids: Iterable[str], session: Session | None, *, relaxed: bool = False
    ) -> None:
        """Give threads a new ``updated_at``, as far as they exist."""
        ids = sorted(thread_ids)
        if not ids:
            return
        threads = self._host.relaxed(THREADS) if relaxed else self._host.collection(THREADS)
        update = [{"$set": {"updatedAt": later(self._host.now())}}]
        wanted = {"id": ids[0] if len(ids) == 1 else {"$in": ids}}
        await threads.update_many(wanted, update, session=session)

    async def _by_id(self, ids: Sequence[str], session: Session | None = None) -> list[Document]:
        found: list[Document] = []
        for portion in _portions(ids):
            cursor = self._messages.find({"id": {"$in": portion}}, session=session)
            found += await cursor.to_list()
        return found

    # -- read ------------------------------------------------------------------------------

    async def list_messages(
        self,
        thread_id: str | Sequence[str],
        *,
        resource_id: str | None = None,
        page: int = 0,
        per_page: PerPage = 40,
        order_by: OrderBy | None = None,
        date_range: DateRange | None = None,
        metadata: Mapping[str, Any] | None = None,
        include: Sequence[IncludeMessage] = (),
        include_total: bool = True,
    ) -> MessagePage:
        """Messages of one or several threads, oldest first by default."""
        thread_ids = check_thread_ids(thread_id)
        place = check_page(page, per_page, store=STORE, operation="list_messages")
        for item in include:
            rules.check_include((item.with_previous_messages, item.with_next_messages))
        wanted: Document = {
            "thread_id": thread_ids[0] if len(thread_ids) == 1 else {"$in": thread_ids},
            **_created_within(date_range),
        }
        if resource_id is not None:
            wanted["resourceId"] = resource_id
        members = check_metadata_filter(metadata)
        order = check_order(order_by or _OLDEST_FIRST, ("createdAt",))
        with self._host.errors("list_messages"):
            if not include:
                return await self._message_page(wanted, members, place, order, counts=include_total)
            found, windows = await asyncio.gather(
                self._message_page(wanted, members, place, order, counts=True),
                self._windows(include, resource_id),
            )
        joined = rules.joined(found.messages, windows, order)
        is_match = rules.matcher(thread_ids, resource_id, date_range, members)
        total = found.total or 0
        return MessagePage(
            messages=joined,
            total=total if include_total else None,
            page=place.number,
            per_page=place.per_page,
            has_more=has_more_with_included(place, total, sum(map(is_match, joined))),
        )

    async def list_messages_by_resource_id(
        self,
        resource_id: str,
        *,
        page: int = 0,
        per_page: PerPage = 40,
        order_by: OrderBy | None = None,
        date_range: DateRange | None = None,
        metadata: Mapping[str, Any] | None = None,
        include_total: bool = True,
    ) -> MessagePage:
        """Like ``list_messages`` over all threads of a resource."""
        place = check_page(page, per_page, store=STORE, operation="list_messages_by_resource_id")
        wanted = {"resourceId": resource_id, **_created_within(date_range)}
        members = check_metadata_filter(metadata)
        order = check_order(order_by or _OLDEST_FIRST, ("createdAt",))
        with self._host.errors("list_messages_by_resource_id"):
            return await self._message_page(wanted, members, place, order, counts=include_total)

    async def _message_page(
        self,
        wanted: Document,
        metadata: Mapping[str, Any],
        place: Page,
        order: OrderBy,
        *,
        counts: bool,
    ) -> MessagePage:
        """The page and a row beyond it, and the count if it is needed."""
        if metadata:
            return await self._filtered_page(wanted, metadata, place, order, counts=counts)
        direction = -1 if order.direction == "DESC" else 1
        cursor = self._messages.find(wanted).sort({"createdAt": direction, "id": direction})
        if place.limit is not None:
            cursor = cursor.skip(place.offset).limit(place.limit + 1)
        total: int | None = None
        if counts and place.limit is not None:
            documents, total = await asyncio.gather(
                cursor.to_list(), self._messages.count_documents(wanted)
            )
        else:
            documents = await cursor.to_list()
            total = len(documents) if counts else None
        more = place.limit is not None and len(documents) > place.limit
        return MessagePage(
            messages=messages_from(documents[: place.limit]),
            total=total,
            page=place.number,
            per_page=place.per_page,
            has_more=more,
        )

    async def _filtered_page(
        self,
        wanted: Document,
        metadata: Mapping[str, Any],
        place: Page,
        order: OrderBy,
        *,
        counts: bool,
    ) -> MessagePage:
        """Contents are text to the server, so their metadata is compared here."""
        direction = -1 if order.direction == "DESC" else 1
        cursor = self._messages.find(wanted).sort({"createdAt": direction, "id": direction})
        found: list[Message] = []
        async for document in cursor:
            found += [
                message
                for message in messages_from([document])
                if metadata_matches(message.content.get("metadata"), metadata)
            ]
            if not counts and place.end is not None and len(found) > place.end:
                break
        more = place.end is not None and len(found) > place.end
        return MessagePage(
            messages=found[place.offset : place.end],
            total=len(found) if counts else None,
            page=place.number,
            per_page=place.per_page,
            has_more=more,
        )

    async def _windows(
        self, include: Sequence[IncludeMessage], resource_id: str | None
    ) -> list[Message]:
        """The messages that are asked for by id, with their neighbours in their threads."""
        wanted: Document = {"id": {"$in": [item.id for item in include]}}
        if resource_id is not None:
            wanted["resourceId"] = resource_id
        centres = {row["id"]: row for row in await self._messages.find(wanted).to_list()}
        reads = [
            self._neighbours(centres[item.id], resource_id, count, direction)
            for item in include
            if item.id in centres
            for count, direction in (
                (item.with_previous_messages, -1),
                (item.with_next_messages, 1),
            )
            if count
        ]
        found = list(centres.values())
        for rows in await asyncio.gather(*reads):
            found += rows
        return messages_from(found)

    async def _neighbours(
        self, centre: Document, resource_id: str | None, count: int, direction: int
    ) -> list[Document]:
        word = "$gt" if direction == 1 else "$lt"
        at = centre["createdAt"]
        wanted: Document = {
            "thread_id": centre["thread_id"],
            "createdAt": {f"{word}e": at},
            "$or": [{"createdAt": {word: at}}, {"id": {word: centre["id"]}}],
        }
        if resource_id is not None:
            wanted["resourceId"] = resource_id
        order = {"createdAt": direction, "id": direction}
        return await self._messages.find(wanted).sort(order).limit(count).to_list()

    async def list_messages_by_id(self, message_ids: Sequence[str]) -> list[Message]:
        """The messages that exist, by (created_at, id)."""
        ids = list(dict.fromkeys(message_ids))
        if not ids:
            return []
        with self._host.errors("list_messages_by_id"):
            messages = messages_from(await self._by_id(ids))
        return sorted(messages, key=lambda message: (message.created_at, message.id))


def _upsert(document: Document) -> tuple[Document, Document]:
    """Which document, and what to write; the creation time of one that is there stays."""
    members = dict(document)
    wanted = {"id": members.pop("id"), "thread_id": members.pop("thread_id")}
    created_at = members.pop("createdAt")
    return wanted, {"$set": members, "$setOnInsert": {"createdAt": created_at}}


def _replace(document: Document, message: Message) -> UpdateOne:
    """Write a patched message over the document that it was made of."""
    observed = {
        name: document.get(name)
        for name in ("_id", "content", "role", "type", "thread_id", "resourceId")
    }
    members = message_document(message)
    del members["id"], members["createdAt"]
    return UpdateOne(observed, {"$set": members})


def _as_stored(message: Message, stored: Mapping[str, Any] | None) -> Message:
    """The message as it is now, over the creation time of its document."""
    if stored is None:
        return rules.without_filler(message)
    return rules.without_filler(message.replace(created_at=stored["createdAt"]))


def _portions(ids: Sequence[str]) -> Iterable[Sequence[str]]:
    return (ids[start : start + _BULK] for start in range(0, len(ids), _BULK))


def _created_within(date_range: DateRange | None) -> Document:
    low, high = bounds_ms(date_range)
    bounds = {"$gte": low, "$lt": high}
    found = {word: from_epoch_ms(bound) for word, bound in bounds.items() if bound is not None}
    return {"createdAt": found} if found else {}
