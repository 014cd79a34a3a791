"""Records of the inbox with their sidecars: reading and writing both.

The sidecar of a record is a document of ours in ``mastra_py_notification_claims``. On a
replica set both are written in one transaction. On a standalone server they are written one
after the other, in an order in which a crash between them loses nothing: a claim stands in
the sidecar before the columns move, and it is closed after the record was written.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import fields
from datetime import datetime
from typing import Any, Final, NamedTuple, TypeVar

from pymongo import DeleteOne, ReturnDocument, UpdateOne
from pymongo.errors import DuplicateKeyError

from mastra_core.base.jsonjs import encode_bytes
from mastra_core.base.tasks import shielded
from mastra_core.contracts.storage import ClaimRef
from mastra_core.rules import notification_claims as claims
from mastra_core.rules.notification_claims import Sidecar
from mastra_core.wire.notifications import NotificationRecord
from mastra_core.wire.tables import NOTIFICATION_CLAIMS, NOTIFICATIONS
from mastra_mongodb.documents import DocumentCodec
from mastra_mongodb.errors import is_duplicate
from mastra_mongodb.pool import Collection, Session
from mastra_mongodb.schema import MUTEXES
from mastra_mongodb.storage.host import Host, LostRaceError

__all__ = (
    "NO_SIDECAR",
    "RECORDS",
    "Change",
    "Found",
    "Pair",
    "PairStore",
    "sidecar_key",
    "sidecar_members",
)

T = TypeVar("T")

Pair = tuple[NotificationRecord, Sidecar]

NO_SIDECAR: Final = Sidecar()

#: How long a mutex is held at most.
_MUTEX_MS: Final = 10_000

RECORDS: Final = DocumentCodec(
    NotificationRecord,
    NOTIFICATIONS,
    json=("payload", "attributes", "metadata"),
    times=(
        "created_at",
        "updated_at",
        "delivered_at",
        "seen_at",
        "dismissed_at",
        "archived_at",
        "discarded_at",
        "deliver_at",
        "summary_at",
        "last_delivery_attempt_at",
    ),
)

#: Members of a sidecar with their names in the document.
_SIDECAR: Final = tuple(
    (
        item.name,
        "".join(part if i == 0 else part.title() for i, part in enumerate(item.name.split("_"))),
    )
    for item in fields(Sidecar)
)
#: What a rule looks at, so that a write must find it as it was read.
_OBSERVED: Final = ("status", "deliverAt", "summaryAt", "coalescedCount", "updatedAt")


class Found(NamedTuple):
    """A pair as it was read, with what it takes to write it back."""

    key: Any
    document: Mapping[str, Any]
    record: NotificationRecord
    sidecar: Sidecar
    has_sidecar: bool


class Change(NamedTuple):
    """A pair before and after."""

    before: Found
    record: NotificationRecord
    sidecar: Sidecar


def sidecar_key(thread_id: str, notification_id: str) -> dict[str, str]:
    """The ``_id`` of a sidecar."""
    return {"threadId": thread_id, "notificationId": notification_id}


def _sidecar_from(document: Mapping[str, Any] | None) -> Sidecar:
    if document is None:
        return NO_SIDECAR
    values: dict[str, Any] = {field: document.get(name) for field, name in _SIDECAR}
    for field in ("token", "generation", "claimed_count"):
        values[field] = values[field] or 0
    for field in ("full_due", "summary_due"):
        values[field] = bool(values[field])
    return Sidecar(**values)


def sidecar_members(sidecar: Sidecar) -> dict[str, Any]:
    """All members of a sidecar's document."""
    return {name: getattr(sidecar, field) for field, name in _SIDECAR}


class PairStore:
    """The part of the inbox that knows both collections."""

    _host: Host

    @property
    def _records(self) -> Collection:
        return self._host.collection(NOTIFICATIONS)

    @property
    def _sidecars(self) -> Collection:
        return self._host.collection(NOTIFICATION_CLAIMS)

    # -- reading ---------------------------------------------------------------------------

    def _joined(self) -> list[dict[str, Any]]:
        """Stages that put its sidecar and the server's time beside each record."""
        return [
            {"$set": {"_key": {"threadId": "$threadId", "notificationId": "$id"}}},
            {
                "$lookup": {
                    "from": self._sidecars.name,
                    "localField": "_key",
                    "foreignField": "_id",
                    "as": "_sidecar",
                }
            },
            {"$set": {"_sidecar": {"$first": "$_sidecar"}, "_now": "$$NOW"}},
        ]

    def _found(self, document: Mapping[str, Any]) -> Found:
        sidecar = document.get("_sidecar")
        return Found(
            document["_id"],
            document,
            RECORDS.model(document),
            _sidecar_from(sidecar),
            sidecar is not None,
        )

    async def _read_pairs(
        self, stages: Sequence[Mapping[str, Any]], session: Session | None
    ) -> tuple[list[Found], datetime | None]:
        """Pairs that a pipeline finds, and the server's time if there are any."""
        cursor = await self._records.aggregate(list(stages), session=session)
        documents = await cursor.to_list()
        now = documents[0]["_now"] if documents else None
        return [self._found(document) for document in documents], now

    async def _read_refs(
        self, keys: Sequence[tuple[str, str]], session: Session | None
    ) -> tuple[dict[tuple[str, str], Found], datetime | None]:
        """The pairs of these identities, as far as they exist."""
        by_thread: dict[str, list[str]] = {}
        for thread_id, notification_id in keys:
            by_thread.setdefault(thread_id, []).append(notification_id)
        wanted = [
            {"threadId": thread_id, "id": ids[0] if len(ids) == 1 else {"$in": ids}}
            for thread_id, ids in by_thread.items()
        ]
        if not wanted:
            return {}, None
        match = wanted[0] if len(wanted) == 1 else {"$or": wanted}
        found, now = await self._read_pairs([{"$match": match}, *self._joined()], session)
        return {(pair.record.thread_id, pair.record.id): pair for pair in found}, now

    # -- writing ---------------------------------------------------------------------------

    async def _write(
        self, changes: Sequence[Change], session: Session | None, *, claiming: bool = False
    ) -> None:
        """
        Write what differs.

        Raises:
            LostRaceError: Something isn't any more as it was read. Without a transaction
                sidecars may have been written; whoever begins anew reads them.
        """
        if claiming:
            await self._write_sidecars(changes, session)
            await self._write_records(changes, session)
        else:
            await self._write_records(changes, session)
            await self._write_sidecars(changes, session)

    async def _write_records(self, changes: Sequence[Change], session: Session | None) -> None:
        writes = [
            UpdateOne(
                {
                    "_id": change.before.key,
                    **{name: change.before.document.get(name) for name in _OBSERVED},
                },
                {"$set": members},
            )
            for change in changes
            if (members := RECORDS.changes(change.before.record, change.record))
        ]
        if not writes:
            return
        result = await self._records.bulk_write(writes, ordered=False, session=session)
        if result.matched_count != len(writes):
            raise LostRaceError

    async def _write_sidecars(self, changes: Sequence[Change], session: Session | None) -> None:
        writes: list[UpdateOne | DeleteOne] = []
        for change in changes:
            write = self._sidecar_write(change)
            if write is not None:
                writes.append(write)
        if not writes:
            return
        try:
            result = await self._sidecars.bulk_write(writes, ordered=False, session=session)
        except Exception as exc:
            if is_duplicate(exc):
                raise LostRaceError from exc
            raise
        done = result.matched_count + result.upserted_count + result.deleted_count
        if done != len(writes):
            raise LostRaceError

    def _sidecar_write(self, change: Change) -> UpdateOne | DeleteOne | None:
        before, after = change.before.sidecar, change.sidecar
        if before == after:
            return None
        key = sidecar_key(change.record.thread_id, change.record.id)
        # A token changes with every claim, the rest with what its holder does.
        observed = {
            "_id": key,
            "token": before.token,
            "owner": before.owner,
            "expiresAt": before.expires_at,
            "acceptedSignalId": before.accepted_signal_id,
        }
        if after == NO_SIDECAR:
            return DeleteOne(observed)
        if change.before.has_sidecar:
            return UpdateOne(observed, {"$set": sidecar_members(after)})
        # If there is one by now, this upsert meets its key and fails.
        return UpdateOne(
            {"_id": key, "token": {"$exists": False}}, {"$set": sidecar_members(after)}, upsert=True
        )

    # -- without transactions --------------------------------------------------------------

    @asynccontextmanager
    async def _mutex(self, name: str) -> AsyncIterator[None]:
        """
        Be the only one at something, on a server without transactions.

        Raises:
            LostRaceError: Somebody else is.
        """
        holder = self._host.ids.new("mutex")
        is_taken = True  # for all we know, if we are cancelled meanwhile
        try:
            is_taken = await self._take_mutex(name, holder)
            if not is_taken:
                raise LostRaceError
            yield
        finally:
            if is_taken:
                await shielded(self._give_up_mutex(name, holder), _MUTEX_MS / 1000)

    async def _give_up_mutex(self, name: str, holder: str) -> None:
        await self._host.relaxed(MUTEXES).delete_one({"_id": name, "holder": holder})

    async def _take_mutex(self, mutex: str, holder: str) -> bool:
        """Take it if it is free, or its holder died with it, by the server's clock."""
        is_free = {
            "$or": [
                {"$eq": [{"$ifNull": ["$holder", None]}, None]},
                {"$lte": ["$until", "$$NOW"]},
            ]
        }
        until = {"$add": ["$$NOW", _MUTEX_MS]}
        taken = {"_id": "$_id", "holder": {"$literal": holder}, "until": until, "at": "$$NOW"}
        try:
            document = await self._host.relaxed(MUTEXES).find_one_and_update(
                {"_id": mutex},
                [{"$replaceWith": {"$cond": [is_free, taken, "$$ROOT"]}}],
                upsert=True,
                return_document=ReturnDocument.AFTER,
            )
        except DuplicateKeyError:
            return False
        return document is not None and document["holder"] == holder

    # -- one rule on one pair --------------------------------------------------------------

    async def _change(
        self,
        operation: str,
        thread_id: str,
        notification_id: str,
        change: Callable[[NotificationRecord, Sidecar], Pair | None],
    ) -> NotificationRecord | None:
        """Apply a rule to one pair; None if it is missing or the rule declines."""

        async def body(session: Session | None) -> NotificationRecord | None:
            key = (thread_id, notification_id)
            pairs, _ = await self._read_refs([key], session)
            pair = pairs.get(key)
            changed = change(pair.record, pair.sidecar) if pair is not None else None
            if pair is None or changed is None:
                return None
            await self._write([Change(pair, *changed)], session)
            return changed[0]

        with self._host.errors(operation):
            return await self._host.together(operation, body)

    async def _with_claims(
        self,
        operation: str,
        refs: Sequence[ClaimRef],
        decide: Callable[[list[Found | None], datetime | None], tuple[list[Change], T]],
    ) -> T:
        """Read the pairs of claims, None for those that aren't current, and write a decision."""

        keys = [(ref.thread_id, ref.notification_id) for ref in refs]

        async def body(session: Session | None) -> T:
            pairs, now = await self._read_refs(list(dict.fromkeys(keys)), session)
            found: list[Found | None] = []
            for ref, key in zip(refs, keys, strict=True):
                pair = pairs.get(key)
                current = pair is not None and claims.is_current(pair.sidecar, ref)
                found.append(pair if current else None)
            changes, answer = decide(found, now)
            if changes:
                await self._write(changes, session)
            return answer

        async def alone(session: Session | None) -> T:
            if session is not None:
                return await body(session)
            # A record and its sidecar aren't read in one step here; of two who settle a
            # claim one would see what the other has written by half.
            async with AsyncExitStack() as stack:
                for thread_id in sorted({thread_id for thread_id, _ in keys}):
                    await stack.enter_async_context(self._mutex(_settling(thread_id)))
                return await body(None)

        with self._host.errors(operation):
            return await self._host.together(operation, alone)


def _settling(thread_id: str) -> str:
    """The name of the mutex for the claims of a thread."""
    return f"claims:{hashlib.sha256(encode_bytes(thread_id)).hexdigest()}"
