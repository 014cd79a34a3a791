"""Claims and confirmations of inbox records (notifications.md 13)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any

from mastra_core.contracts.storage import ClaimRef, NotificationClaim
from mastra_core.errors import StorageArgumentError
from mastra_core.rules import notification_claims as claims
from mastra_core.rules.arguments import check_limit, check_text, moment
from mastra_core.rules.notification_claims import Sidecar
from mastra_core.rules.notifications import due_key
from mastra_core.wire.notifications import NotificationRecord
from mastra_core.wire.tables import NOTIFICATIONS
from mastra_mongodb.schema import EPOCH
from mastra_mongodb.storage.host import LostRaceError
from mastra_mongodb.storage.notification_pairs import Change, Found, Pair, PairStore

__all__ = ("ClaimStore", "due_stages", "first_due")

#: What is to be written, and what then is granted.
_Chosen = tuple[list[Change], list[NotificationClaim]]

#: The sidecar holds no claim, or one that lapsed by the server's clock.
_CLAIMABLE = {
    "$or": [
        {"_sidecar.owner": None},
        {"_sidecar.expiresAt": None},
        {"$expr": {"$lte": ["$_sidecar.expiresAt", "$$NOW"]}},
    ]
}


def due_stages(
    collection: str,
    now: datetime,
    filters: Mapping[str, Any],
    *,
    limit: int | None,
    each: Sequence[Mapping[str, Any]] = (),
) -> list[dict[str, Any]]:
    """
    Stages that find due records by the earlier of their two times.

    The first ones by either time, merged, hold the first ones by the earlier time, so no
    more than twice the limit is read, in the order of an index each.

    Args:
        collection: The records.
        now: What counts as due.
        filters: More conditions.
        limit: How many; None for all.
        each: Stages for every candidate before the limit.
    """

    def by(time: str) -> list[dict[str, Any]]:
        stages: list[dict[str, Any]] = [
            {"$match": {"status": "pending", time: {"$gt": EPOCH, "$lte": now}, **filters}},
            {"$sort": {time: 1, "updatedAt": 1, "id": 1}},
            *map(dict, each),
        ]
        return [*stages, {"$limit": limit}] if limit is not None else stages

    return [
        *by("deliverAt"),
        {"$unionWith": {"coll": collection, "pipeline": by("summaryAt")}},
    ]


def first_due(found: Sequence[Found], limit: int | None) -> list[Found]:
    """The pairs in the order of their due times, each once."""
    unique = {pair.key: pair for pair in found}
    ordered = sorted(unique.values(), key=lambda pair: due_key(pair.record))
    return ordered if limit is None else ordered[:limit]


class ClaimStore(PairStore):
    """The part of the inbox that hands records out."""

    async def claim_due(
        self,
        now: datetime,
        owner: str,
        *,
        limit: int = 100,
        visibility_ms: int = 120_000,
        agent_ids: Sequence[str] | None = None,
        thread_id: str | None = None,
    ) -> list[NotificationClaim]:
        """Take due records, each for exactly one claimer."""
        _check_claim(owner, limit, visibility_ms)
        now = moment(now)
        filters: dict[str, Any] = {}
        if agent_ids is not None:
            filters["agentId"] = {"$in": [*agent_ids, None]}
        if thread_id is not None:
            filters["threadId"] = thread_id
        stages = due_stages(
            self._host.names(NOTIFICATIONS),
            now,
            filters,
            limit=limit,
            each=[*self._joined(), {"$match": _CLAIMABLE}],
        )

        async def choose(limit: int) -> _Chosen:
            found, store_now = await self._read_pairs(stages, None)
            changes: list[Change] = []
            granted: list[NotificationClaim] = []
            if store_now is None:
                return changes, granted
            for pair in first_due(found, limit):
                claimed = claims.claim_due(
                    pair.record,
                    pair.sidecar,
                    owner=owner,
                    now=now,
                    store_now=store_now,
                    visibility_ms=visibility_ms,
                )
                changes.append(Change(pair, claimed.record, claimed.sidecar))
                granted.append(claimed.claim)
            return changes, granted

        with self._host.errors("claim_due"):
            return await self._claimed("claim_due", choose, limit)

    async def claim_unconfirmed(
        self,
        accepted_before: datetime,
        owner: str,
        *,
        limit: int = 100,
        visibility_ms: int = 120_000,
        agent_ids: Sequence[str] | None = None,
    ) -> list[NotificationClaim]:
        """Take records whose accepted signal nobody has seen as a message row."""
        _check_claim(owner, limit, visibility_ms)
        before = moment(accepted_before, "accepted_before")
        filters: dict[str, Any] = {"status": {"$in": ["pending", "delivered"]}}
        if agent_ids is not None:
            filters["agentId"] = {"$in": [*agent_ids, None]}

        async def choose(limit: int) -> _Chosen:
            stages = self._unconfirmed_stages(before, filters, limit)
            cursor = await self._sidecars.aggregate(stages)
            documents = await cursor.to_list()
            changes: list[Change] = []
            granted: list[NotificationClaim] = []
            for pair, store_now in ((self._found(one), one["_now"]) for one in documents):
                claimed = claims.claim_unconfirmed(
                    pair.record,
                    pair.sidecar,
                    owner=owner,
                    store_now=store_now,
                    visibility_ms=visibility_ms,
                )
                changes.append(Change(pair, claimed.record, claimed.sidecar))
                granted.append(claimed.claim)
            return changes, granted

        with self._host.errors("claim_unconfirmed"):
            return await self._claimed("claim_unconfirmed", choose, limit)

    def _unconfirmed_stages(
        self, before: datetime, filters: Mapping[str, Any], limit: int
    ) -> list[dict[str, Any]]:
        wanted = {
            "acceptedAt": {"$gt": EPOCH, "$lt": before},
            "acceptedSignalId": {"$ne": None},
            "$or": [
                {"owner": None},
                {"expiresAt": None},
                {"$expr": {"$lte": ["$expiresAt", "$$NOW"]}},
            ],
        }
        return [
            {"$match": wanted},
            {"$sort": {"acceptedAt": 1}},
            {
                "$lookup": {
                    "from": self._host.names(NOTIFICATIONS),
                    "let": {"t": "$_id.threadId"},
                    "localField": "_id.notificationId",
                    "foreignField": "id",
                    "pipeline": [{"$match": {"$expr": {"$eq": ["$threadId", "$$t"]}, **filters}}],
                    "as": "record",
                }
            },
            {"$match": {"record": {"$ne": []}}},
            {"$limit": limit},
            {
                "$replaceWith": {
                    "$mergeObjects": [
                        {"$first": "$record"},
                        {"_sidecar": {"$unsetField": {"field": "record", "input": "$$ROOT"}}},
                        {"_now": "$$NOW"},
                    ]
                }
            },
        ]

    async def _claimed(
        self, operation: str, choose: Callable[[int], Awaitable[_Chosen]], limit: int
    ) -> list[NotificationClaim]:
        """
        All at once, or if others claim the same records at this moment, one by one.

        In a crowd every transaction would meet another one; one by one they share, and go on
        until there are enough or nothing is left: fewer than the limit means that nothing
        else is due. What is claimed is read outside, since a transaction can't read two
        indexes at once; what is written is compared with what was read.
        """
        changes, granted = await choose(limit)
        if not granted:
            return []
        if self._host.pool.is_replicated:
            with suppress(LostRaceError):
                await self._host.once(partial(self._write, changes, claiming=True))
                return granted
            changes, granted = await choose(limit)
        won: list[NotificationClaim] = []

        async def attempt() -> list[NotificationClaim]:
            nonlocal changes, granted
            while granted:
                more = await self._one_by_one(changes, granted)
                won.extend(more)
                is_contended = len(more) < len(granted)
                if len(won) >= limit or not is_contended:
                    break
                changes, granted = await choose(limit - len(won))
                if not more:
                    # Others took every one of them.
                    raise LostRaceError
            return won

        return await self._host.swap(operation, attempt)

    async def _one_by_one(
        self, changes: Sequence[Change], granted: Sequence[NotificationClaim]
    ) -> list[NotificationClaim]:
        """Write claims, each by itself; only those that won count."""
        won: list[NotificationClaim] = []
        for change, claim in zip(changes, granted, strict=True):
            try:
                await self._write([change], None, claiming=True)
            except LostRaceError:
                continue
            won.append(claim)
        return won

    async def extend_claim(self, ref: ClaimRef, *, visibility_ms: int = 120_000) -> bool:
        """Keep it longer; False if the token is not current."""
        check_limit(visibility_ms, "visibility_ms")

        def decide(pairs: list[Found | None], now: datetime | None) -> tuple[list[Change], bool]:
            [pair] = pairs
            if pair is None or now is None:
                return [], False
            extended = claims.extend(
                pair.record, pair.sidecar, store_now=now, visibility_ms=visibility_ms
            )
            return [Change(pair, *extended)], True

        return await self._with_claims("extend_claim", [ref], decide)

    async def finalize_full(
        self, ref: ClaimRef, *, delivered_signal_id: str, at: datetime
    ) -> NotificationRecord | None:
        """A full delivery was accepted; None if the token is not current."""
        at = moment(at, "at")
        check_text(delivered_signal_id, "delivered_signal_id")
        now = self._host.now()

        def decide(
            pairs: list[Found | None], _: datetime | None
        ) -> tuple[list[Change], NotificationRecord | None]:
            [pair] = pairs
            if pair is None:
                return [], None
            done = claims.finalize_full(
                pair.record, pair.sidecar, delivered_signal_id=delivered_signal_id, at=at, now=now
            )
            return [Change(pair, *done)], done[0]

        return await self._with_claims("finalize_full", [ref], decide)

    async def finalize_summary(
        self, refs: Sequence[ClaimRef], *, summary_signal_id: str, at: datetime
    ) -> bool:
        """A summary was accepted; False, and nothing is written, if any token is not current."""
        at = moment(at, "at")
        check_text(summary_signal_id, "summary_signal_id")
        now = self._host.now()

        def decide(pairs: list[Found | None], _: datetime | None) -> tuple[list[Change], bool]:
            current = [pair for pair in pairs if pair is not None]
            if len(current) < len(pairs):
                return [], False
            changes = [
                Change(
                    pair,
                    *claims.finalize_summary(
                        pair.record,
                        pair.sidecar,
                        summary_signal_id=summary_signal_id,
                        at=at,
                        now=now,
                    ),
                )
                for pair in current
            ]
            return changes, True

        return await self._with_claims("finalize_summary", list(dict.fromkeys(refs)), decide)

    async def fail_claims(
        self,
        refs: Sequence[ClaimRef],
        *,
        error: str,
        at: datetime,
        retry_at: Sequence[datetime],
        max_attempts: int,
    ) -> list[NotificationRecord]:
        """Count one failure for each current claim; the records that changed."""
        if len(refs) != len(retry_at):
            raise StorageArgumentError(
                f"There are {len(refs)} claims but {len(retry_at)} times to retry at."
            )
        at = moment(at, "at")
        times = [moment(value, "retry_at") for value in retry_at]
        now = self._host.now()

        def decide(
            pairs: list[Found | None], _: datetime | None
        ) -> tuple[list[Change], list[NotificationRecord]]:
            changes: list[Change] = []
            failed: list[NotificationRecord] = []
            for pair, due_at in zip(pairs, times, strict=True):
                if pair is None:
                    continue
                record, sidecar, counted = claims.fail(
                    pair.record,
                    pair.sidecar,
                    error=error,
                    at=at,
                    retry_at=due_at,
                    max_attempts=max_attempts,
                    now=now,
                )
                changes.append(Change(pair, record, sidecar))
                if counted:
                    failed.append(record)
            return changes, failed

        return await self._with_claims("fail_claims", refs, decide)

    async def release_claims(
        self, refs: Sequence[ClaimRef], *, due_at: datetime | None = None
    ) -> int:
        """Give claims back without counting an attempt; how many were current."""

        def decide(pairs: list[Found | None], _: datetime | None) -> tuple[list[Change], int]:
            current = [pair for pair in pairs if pair is not None]
            changes = [
                Change(pair, *claims.release(pair.record, pair.sidecar, due_at=due_at))
                for pair in current
            ]
            return changes, len(current)

        return await self._with_claims("release_claims", refs, decide)

    async def confirm_delivery(
        self, thread_id: str, notification_id: str, *, signal_id: str
    ) -> bool:
        """The message row exists: forget the acceptance; False if it isn't that signal."""

        def change(record: NotificationRecord, sidecar: Sidecar) -> Pair | None:
            confirmed = claims.confirm(sidecar, signal_id=signal_id)
            return None if confirmed is None else (record, confirmed)

        changed = await self._change("confirm_delivery", thread_id, notification_id, change)
        return changed is not None

    async def record_acceptance(
        self, thread_id: str, notification_id: str, *, signal_id: str, at: datetime
    ) -> None:
        """Remember that a signal was accepted; nothing for a record that is gone."""
        moment(at, "at")
        check_text(signal_id, "signal_id")

        def change(record: NotificationRecord, sidecar: Sidecar) -> Pair:
            return record, claims.accept(sidecar, signal_id=signal_id, at=at)

        await self._change("record_acceptance", thread_id, notification_id, change)


def _check_claim(owner: str, limit: int, visibility_ms: int) -> None:
    check_text(owner, "owner")
    check_limit(limit)
    check_limit(visibility_ms, "visibility_ms")
