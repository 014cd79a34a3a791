"""The inbox (notifications.md 3, 13).

What an event, a patch or a claim does to a record is ``mastra_core.rules``. The common
writes are one command each: a pipeline that the server applies in one step.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from weakref import WeakValueDictionary

from pymongo import ReturnDocument
from pymongo.errors import DuplicateKeyError

from mastra_core.base.jsonjs import encode_bytes
from mastra_core.base.pace import in_turns
from mastra_core.contracts.storage import PruneOptions, PrunePolicy, PruneResult
from mastra_core.errors import (
    NotificationExistsError,
    NotificationNotFoundError,
)
from mastra_core.rules import notification_claims as claims
from mastra_core.rules import notifications as rules
from mastra_core.rules import pruning
from mastra_core.rules.arguments import check_limit, check_text, choices, moment
from mastra_core.rules.notification_claims import Sidecar
from mastra_core.wire.notifications import (
    CreateNotification,
    NotificationPatch,
    NotificationRecord,
)
from mastra_core.wire.tables import NOTIFICATION_CLAIMS, NOTIFICATIONS
from mastra_mongodb.documents import ODD
from mastra_mongodb.pool import Document, Session
from mastra_mongodb.schema import MUTEXES
from mastra_mongodb.storage.host import Host, LostRaceError
from mastra_mongodb.storage.notification_claims import ClaimStore, due_stages
from mastra_mongodb.storage.notification_pairs import (
    NO_SIDECAR,
    RECORDS,
    Change,
    Pair,
    sidecar_key,
    sidecar_members,
)
from mastra_mongodb.storage.pruning import Prunable, prune

__all__ = ("MongoNotifications",)

#: Ids in one command of a bulk update.
_BULK = 1_000
#: How many records are read in one round of the event loop.
_RECORDS_AT_ONCE = 100

_INBOX = (("updatedAt", -1), ("createdAt", -1), ("id", 1))
_MAPS = ("attributes", "metadata")


@dataclass(frozen=True, slots=True)
class _Draft:
    """An event, and what becomes of it if it is merged into nothing."""

    event: CreateNotification
    record: NotificationRecord
    sidecar: Sidecar
    document: Document
    now: datetime
    guard_until: datetime | None

    @property
    def sidecar_key(self) -> Document:
        """The ``_id`` of its sidecar."""
        return sidecar_key(self.record.thread_id, self.record.id)

    @property
    def touches_guard(self) -> bool:
        """Whether merging it may put up a guard, or take one away."""
        times = (self.guard_until, self.event.deliver_at, self.event.summary_at)
        return any(time is not None for time in times)


class MongoNotifications(ClaimStore):
    """Domain ``notifications``; see ``contracts.storage.notifications``."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._gates: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    # -- create ----------------------------------------------------------------------------

    async def create_notification(
        self,
        notification: CreateNotification,
        *,
        on_conflict: Literal["raise", "return"] = "raise",
        guard_until: datetime | None = None,
    ) -> NotificationRecord:
        """Insert, or merge into the pending record with the same key."""
        rules.check_create(notification)
        now = self._host.now()
        if guard_until is not None:
            guard_until = moment(guard_until, "guard_until")
        new_id = notification.id or self._host.ids.new("notification")
        record, sidecar = claims.create_guarded(
            notification, notification_id=new_id, now=now, guard_until=guard_until
        )
        draft = _Draft(notification, record, sidecar, RECORDS.document(record), now, guard_until)
        with self._host.errors("create_notification"):
            if rules.has_key(notification):
                created = await self._create_keyed(draft)
            else:
                created = await self._insert(draft)
            if created is None:
                return await self._existing(record, on_conflict)
            return created

    async def _insert(self, draft: _Draft) -> NotificationRecord | None:
        """A record that can't be merged into another; None if the pair is there."""
        if draft.sidecar != NO_SIDECAR:
            # The sidecar of a record that is there must not be touched.
            if draft.event.id is not None and await self._is_there(draft.record):
                return None
            await self._put_sidecar(draft)
        try:
            await self._records.insert_one(dict(draft.document))
        except DuplicateKeyError:
            return None
        return draft.record

    async def _is_there(self, record: NotificationRecord) -> bool:
        """Whether there is a record of this identity."""
        return await self._records.find_one(_identity(record), {"_id": 1}) is not None

    async def _put_sidecar(self, draft: _Draft) -> None:
        """
        Write the guard of a record that is written next.

        Without its record it means nothing, so it comes first; and it needs no journal of
        its own, since the record's write waits for everything before it.
        """
        await self._host.relaxed(NOTIFICATION_CLAIMS).update_one(
            {"_id": draft.sidecar_key},
            {"$set": sidecar_members(draft.sidecar)},
            upsert=True,
        )

    async def _create_keyed(self, draft: _Draft) -> NotificationRecord | None:
        """One record per scope and key, whoever creates it at the same time (S1)."""
        if draft.event.id is not None and await self._is_there(draft.record):
            return None
        mutex = _mutex_key(draft.event)
        # Of the callers of one process one is sent ahead; the others merge into its record.
        gate = self._gates.setdefault(mutex, asyncio.Lock())

        async def attempt() -> NotificationRecord | None:
            merged = await self._merge(draft, None)
            if merged is not None:
                return merged
            if gate.locked():
                async with gate:
                    pass
                raise LostRaceError
            async with gate:
                return await create()

        async def create() -> NotificationRecord | None:
            if self._host.pool.is_replicated:
                return await self._create_in_transaction(mutex, draft)
            return await self._create_under_mutex(mutex, draft)

        return await self._host.swap("create_notification", attempt)

    async def _create_in_transaction(self, mutex: str, draft: _Draft) -> NotificationRecord | None:
        async def body(session: Session) -> NotificationRecord | None:
            # Whoever else creates in this scope writes to this document, too; one loses.
            await self._host.collection(MUTEXES).update_one(
                {"_id": mutex},
                {"$set": {"at": draft.record.updated_at}},
                upsert=True,
                session=session,
            )
            merged = await self._merge(draft, session)
            if merged is not None:
                return merged
            if draft.sidecar != NO_SIDECAR:
                await self._sidecars.update_one(
                    {"_id": draft.sidecar_key},
                    {"$set": sidecar_members(draft.sidecar)},
                    upsert=True,
                    session=session,
                )
            await self._records.insert_one(dict(draft.document), session=session)
            return draft.record

        try:
            return await self._host.once(body)
        except DuplicateKeyError:
            return None

    async def _create_under_mutex(self, mutex: str, draft: _Draft) -> NotificationRecord | None:
        async with self._mutex(mutex):
            merged = await self._merge(draft, None)
            return merged if merged is not None else await self._insert(draft)

    async def _merge(self, draft: _Draft, session: Session | None) -> NotificationRecord | None:
        """Merge into the pending record with the key, if there is one."""
        scope = _scope(draft.event)
        changes = None if draft.touches_guard else _merge_stage(draft.event, draft.now)
        if changes is None:
            if await self._records.find_one(scope, {"_id": 1}, session=session) is None:
                return None
            return await self._merge_pair(draft, scope, session)
        document = await self._records.find_one_and_update(
            scope,
            changes,
            sort=list(_INBOX),
            return_document=ReturnDocument.AFTER,
            session=session,
        )
        if document is None:
            return None
        if _is_odd(document):
            return await self._merge_pair(draft, scope, session)
        return RECORDS.model(document)

    async def _merge_pair(
        self, draft: _Draft, scope: Mapping[str, Any], session: Session | None
    ) -> NotificationRecord | None:
        """Read record and sidecar, apply the rule, write both."""
        stages: list[Document] = [
            {"$match": dict(scope)},
            {"$sort": dict(_INBOX)},
            {"$limit": 1},
            *self._joined(),
        ]

        async def body(session: Session | None) -> NotificationRecord | None:
            found, _ = await self._read_pairs(stages, session)
            if not found:
                return None
            [pair] = found
            merged = claims.merge_guarded(
                pair.record,
                pair.sidecar,
                draft.event,
                now=draft.now,
                guard_until=draft.guard_until,
            )
            await self._write([Change(pair, *merged)], session, claiming=True)
            return merged[0]

        if session is not None:
            return await body(session)
        return await self._host.together("create_notification", body)

    async def _existing(
        self, record: NotificationRecord, on_conflict: Literal["raise", "return"]
    ) -> NotificationRecord:
        stored = await self._records.find_one(_identity(record))
        if on_conflict == "return" and stored is not None:
            return RECORDS.model(stored)
        raise NotificationExistsError(thread_id=record.thread_id, notification_id=record.id)

    # -- read ------------------------------------------------------------------------------

    async def get_notification(
        self, thread_id: str, notification_id: str
    ) -> NotificationRecord | None:
        """Exactly that pair, or None."""
        with self._host.errors("get_notification"):
            document = await self._records.find_one({"threadId": thread_id, "id": notification_id})
            return None if document is None else RECORDS.model(document)

    async def list_notifications(
        self,
        thread_id: str,
        *,
        status: str | Sequence[str] | None = None,
        priority: str | Sequence[str] | None = None,
        source: str | None = None,
        resource_id: str | None = None,
        agent_id: str | None = None,
        search: str | None = None,
        limit: int | None = None,
    ) -> list[NotificationRecord]:
        """The inbox, latest updated first."""
        rules.check_list(status=status, priority=priority, search=search, limit=limit)
        wanted: dict[str, Any] = {"threadId": thread_id}
        for name, given in (("status", choices(status)), ("priority", choices(priority))):
            if given is not None:
                if not given:
                    return []
                wanted[name] = given[0] if len(given) == 1 else {"$in": list(given)}
        equal = {"source": source, "resourceId": resource_id, "agentId": agent_id}
        wanted |= {name: value for name, value in equal.items() if value}
        # The server folds the case of letters one by one; other searches are ours to do.
        folds = not search or search.isascii()
        if search and folds:
            pattern = {"$regex": re.escape(search), "$options": "i"}
            wanted["$or"] = [{name: pattern} for name in ("summary", "kind", "source")]
        with self._host.errors("list_notifications"):
            cursor = self._records.find(wanted).sort(list(_INBOX))
            if limit is not None and folds:
                cursor = cursor.limit(limit)
            found = await cursor.to_list()
        records = await in_turns(found, RECORDS.models, at_once=_RECORDS_AT_ONCE)
        if folds:
            return records
        return [record for record in records if rules.matches_search(record, search)][:limit]

    async def list_due_notifications(
        self,
        now: datetime,
        *,
        limit: int | None = None,
        agent_id: str | None = None,
        resource_id: str | None = None,
    ) -> list[NotificationRecord]:
        """Pending records due at ``now``, earliest first."""
        check_limit(limit)
        equal = {"agentId": agent_id, "resourceId": resource_id}
        filters = {name: value for name, value in equal.items() if value}
        stages = due_stages(self._host.names(NOTIFICATIONS), moment(now), filters, limit=limit)
        with self._host.errors("list_due_notifications"):
            documents = await (await self._records.aggregate(stages)).to_list()
        unique = {document["_id"]: document for document in documents}
        records = RECORDS.models(unique.values())
        return sorted(records, key=rules.due_key)[:limit]

    # -- change ----------------------------------------------------------------------------

    async def update_notification(
        self,
        thread_id: str,
        notification_id: str,
        patch: NotificationPatch,
        *,
        expected_statuses: Sequence[str] | None = None,
        settle_guard: bool = False,
        expected_count: int | None = None,
    ) -> NotificationRecord | None:
        """Write the members that are set, in one atomic step."""
        rules.check_patch(patch)
        now = self._host.now()
        if settle_guard or "deliver_at" in patch.model_fields_set:

            def change(record: NotificationRecord, sidecar: Sidecar) -> Pair | None:
                return claims.patch_expected(
                    record,
                    sidecar,
                    patch,
                    now=now,
                    settle_guard=settle_guard,
                    expected_statuses=expected_statuses,
                    expected_count=expected_count,
                )

            changed = await self._change("update_notification", thread_id, notification_id, change)
        else:
            wanted: Document = {"threadId": thread_id, "id": notification_id}
            if expected_statuses is not None:
                wanted["status"] = {"$in": list(expected_statuses)}
            if expected_count is not None:
                wanted["coalescedCount"] = expected_count
            changed = await self._patch(wanted, patch, now)
        if changed is None and not await self.get_notification(thread_id, notification_id):
            raise NotificationNotFoundError(thread_id=thread_id, notification_id=notification_id)
        return changed

    async def _patch(
        self, wanted: Document, patch: NotificationPatch, now: datetime
    ) -> NotificationRecord | None:
        """One command: no sidecar is involved."""
        fields = {name: getattr(patch, name) for name in patch.model_fields_set - {"status"}}
        if patch.status:
            fields |= _status_fields(patch.status, now)
        members = RECORDS.given({**fields, "updated_at": now})
        with self._host.errors("update_notification"):
            document = await self._records.find_one_and_update(
                wanted, {"$set": members}, return_document=ReturnDocument.AFTER
            )
            return None if document is None else RECORDS.model(document)

    async def update_notifications_status(
        self,
        thread_id: str,
        notification_ids: Sequence[str],
        status: str,
        *,
        expected_statuses: Sequence[str] | None = None,
    ) -> list[NotificationRecord]:
        """One status for many records; those that were changed."""
        rules.check_status(status)
        now = self._host.now()
        ids = list(dict.fromkeys(notification_ids))
        changed: dict[str, NotificationRecord] = {}
        for start in range(0, len(ids), _BULK):
            wanted: dict[str, Any] = {
                "threadId": thread_id,
                "id": {"$in": ids[start : start + _BULK]},
            }
            if expected_statuses is not None:
                wanted["status"] = {"$in": list(expected_statuses)}
            with self._host.errors("update_notifications_status"):
                portion = await self._set_status(wanted, status, now)
            changed |= {record.id: record for record in portion}
        return [changed[each] for each in ids if each in changed]

    async def _set_status(
        self, wanted: Mapping[str, Any], status: str, now: datetime
    ) -> list[NotificationRecord]:
        members = RECORDS.given({**_status_fields(status, now), "updated_at": now})

        async def body(session: Session | None) -> list[NotificationRecord]:
            if session is None:
                return await self._set_status_one_by_one(wanted, members)
            documents = await self._records.find(dict(wanted), session=session).to_list()
            keys = [document["_id"] for document in documents]
            if keys:
                await self._records.update_many(
                    {"_id": {"$in": keys}}, {"$set": members}, session=session
                )
            return RECORDS.models({**document, **members} for document in documents)

        return await self._host.together("update_notifications_status", body)

    async def _set_status_one_by_one(
        self, wanted: Mapping[str, Any], members: Mapping[str, Any]
    ) -> list[NotificationRecord]:
        """Without a transaction each record says by itself whether it was changed."""
        candidates = await self._records.find(dict(wanted), {"_id": 1}).to_list()
        documents = [
            await self._records.find_one_and_update(
                {**wanted, "_id": candidate["_id"]},
                {"$set": dict(members)},
                return_document=ReturnDocument.AFTER,
            )
            for candidate in candidates
        ]
        return RECORDS.models(document for document in documents if document is not None)

    async def mark_notification_delivered(
        self,
        thread_id: str,
        notification_id: str,
        *,
        delivered_signal_id: str,
        last_delivery_attempt_at: datetime,
    ) -> NotificationRecord | None:
        """Both facts always, the status only from pending; None if missing."""
        check_text(delivered_signal_id, "delivered_signal_id")
        at = moment(last_delivery_attempt_at, "last_delivery_attempt_at")
        now = self._host.now()
        is_pending = {"$eq": ["$status", "pending"]}
        changes = {
            "deliveredSignalId": {"$literal": delivered_signal_id},
            "lastDeliveryAttemptAt": at,
            "updatedAt": now,
            "status": {"$cond": [is_pending, "delivered", "$status"]},
            "deliveredAt": {"$cond": [is_pending, now, {"$ifNull": ["$deliveredAt", None]}]},
        }
        with self._host.errors("mark_notification_delivered"):
            document = await self._records.find_one_and_update(
                {"threadId": thread_id, "id": notification_id},
                [{"$set": changes}],
                return_document=ReturnDocument.AFTER,
            )
            return None if document is None else RECORDS.model(document)

    async def requeue(self, thread_id: str, notification_id: str) -> NotificationRecord:
        """A failed record, pending and due now."""
        now = self._host.now()

        def change(record: NotificationRecord, sidecar: Sidecar) -> Pair:
            return claims.requeue(record, sidecar, now=now)

        changed = await self._change("requeue", thread_id, notification_id, change)
        if changed is None:
            raise NotificationNotFoundError(thread_id=thread_id, notification_id=notification_id)
        return changed

    # -- retention -------------------------------------------------------------------------

    async def prune(
        self, policies: Sequence[PrunePolicy], options: PruneOptions | None = None
    ) -> list[PruneResult]:
        """Delete records created strictly before the limit, whatever their status."""
        known = {
            pruning.NOTIFICATIONS: Prunable(
                collection=NOTIFICATIONS, anchor="createdAt", after=self._drop_sidecars
            )
        }
        with self._host.errors("prune"):
            return await prune(self._host, "notifications", known, policies, options)

    async def _drop_sidecars(self, deleted: Sequence[Document]) -> None:
        """Forget what was remembered about records that are gone."""
        keys = [
            sidecar_key(document["threadId"], document["id"])
            for document in deleted
            if "threadId" in document and "id" in document
        ]
        await self._sidecars.delete_many({"_id": {"$in": keys}})

    async def dangerously_clear_all(self) -> None:
        """Delete every record, claim and guard."""
        with self._host.errors("dangerously_clear_all"):
            await self._records.delete_many({})
            await self._sidecars.delete_many({})
            await self._host.collection(MUTEXES).delete_many({})


def _identity(record: NotificationRecord) -> dict[str, str]:
    return {"threadId": record.thread_id, "id": record.id}


def _scope(notification: CreateNotification) -> dict[str, Any]:
    """The pending records that an event may go into."""
    keys = [
        {name: key}
        for name, key in (
            ("dedupeKey", notification.dedupe_key),
            ("coalesceKey", notification.coalesce_key),
        )
        if key
    ]
    scope: dict[str, Any] = {
        "threadId": notification.thread_id,
        "source": notification.source,
        "kind": notification.kind,
        "status": "pending",
        "agentId": notification.agent_id,
        "resourceId": notification.resource_id,
    }
    return {**scope, **keys[0]} if len(keys) == 1 else {**scope, "$or": keys}


def _mutex_key(notification: CreateNotification) -> str:
    """The name of everything that an event might be merged with."""
    scope = [
        notification.thread_id,
        notification.source,
        notification.kind,
        notification.agent_id,
        notification.resource_id,
    ]
    return hashlib.sha256(encode_bytes(scope)).hexdigest()


def _merge_stage(notification: CreateNotification, now: datetime) -> list[dict[str, Any]] | None:
    """
    What ``rules.merged_record`` does, as the server does it; None if it can't.

    A map that BSON can't hold is kept as text, which only we can merge: such a record is
    left as it is.
    """
    given = RECORDS.given(
        {
            name: value
            for name in ("payload", "priority", "delivery_reason", "attributes", "metadata")
            if (value := getattr(notification, name)) is not None
        }
    )
    changes: dict[str, Any] = {
        "summary": {"$literal": notification.summary},
        "coalescedCount": {"$add": [{"$ifNull": ["$coalescedCount", 1]}, 1]},
        "updatedAt": now,
    }
    for name, value in given.items():
        if name in _MAPS:
            if ODD in value:
                return None
            stored = {"$ifNull": [f"${name}", {}]}
            changes[name] = {"$mergeObjects": [stored, {"$literal": value}]}
        elif value != "" or name == "payload":
            changes[name] = {"$literal": value}
    is_odd = {"$or": [{"$ne": [{"$type": f"${name}.{ODD}"}, "missing"]} for name in _MAPS]}
    merged = {"$mergeObjects": ["$$ROOT", changes]}
    return [{"$replaceWith": {"$cond": [is_odd, "$$ROOT", merged]}}]


def _is_odd(document: Mapping[str, Any]) -> bool:
    """Whether a map of the record is kept as text."""
    return any(ODD in (document.get(name) or ()) for name in _MAPS)


def _status_fields(status: str, now: datetime) -> dict[str, Any]:
    timestamp = rules.STATUS_TIMESTAMPS.get(status)
    return {"status": status, **({timestamp: now} if timestamp else {})}
