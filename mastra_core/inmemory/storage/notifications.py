"""Inbox records of the in-memory store (notifications.md 3)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from itertools import islice
from typing import Literal

from mastra_core.base.clock import Clock
from mastra_core.base.ids import Ids
from mastra_core.base.pace import Pace, in_turns
from mastra_core.contracts.storage.pruning import PruneOptions, PrunePolicy, PruneResult
from mastra_core.errors import (
    NotificationExistsError,
    NotificationNotFoundError,
)
from mastra_core.inmemory.storage.domain import Domain
from mastra_core.inmemory.storage.notification_claims import ClaimStore
from mastra_core.inmemory.storage.notification_tables import (
    NotificationTables,
    given_out,
    taken_in,
)
from mastra_core.rules import notification_claims as claims
from mastra_core.rules import notifications as rules
from mastra_core.rules import pruning
from mastra_core.rules.arguments import check_limit, check_text, choices, moment
from mastra_core.wire.notifications import (
    CreateNotification,
    NotificationPatch,
    NotificationRecord,
)

__all__ = ("InMemoryNotifications",)

#: How many records one stretch without an await changes, or gives out.
_BULK = 100


class InMemoryNotifications(ClaimStore, Domain[NotificationTables]):
    """Domain ``notifications``; see ``contracts.storage.notifications``."""

    def __init__(self, clock: Clock, ids: Ids) -> None:
        self.attach(None)
        self._clock = clock
        self._pace = Pace()
        self._ids = ids

    async def create_notification(
        self,
        notification: CreateNotification,
        *,
        on_conflict: Literal["raise", "return"] = "raise",
        guard_until: datetime | None = None,
    ) -> NotificationRecord:
        """Insert or merge, in one step without an await."""
        await self._pace.turn()
        rules.check_create(notification)
        tables, now = self._tables, self._clock.now()
        match = tables.match(notification)
        if match is None:
            record, sidecar = claims.create_guarded(
                notification,
                notification_id=notification.id or self._ids.new("notification"),
                now=now,
                guard_until=guard_until,
            )
            record = taken_in(record)
        else:
            record, sidecar = claims.merge_guarded(
                match,
                tables.sidecar((match.thread_id, match.id)),
                taken_in(notification),
                now=now,
                guard_until=guard_until,
            )
        key = (notification.thread_id, notification.id or "")
        if found := tables.records.get(key):
            if on_conflict == "return":
                return given_out(found)
            raise NotificationExistsError(notification_id=found.id, thread_id=found.thread_id)
        tables.put(record, sidecar)
        return given_out(record)

    async def get_notification(
        self, thread_id: str, notification_id: str
    ) -> NotificationRecord | None:
        """Exactly that pair, or None."""
        await self._pace.turn()
        record = self._tables.records.get((thread_id, notification_id))
        return None if record is None else given_out(record)

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
        """The inbox, latest updated first; costs what is passed over, not the table."""
        await self._pace.turn()
        rules.check_list(status=status, priority=priority, search=search, limit=limit)
        priorities = choices(priority)
        found = (
            record
            for record in self._tables.inbox(thread_id, choices(status))
            if (priorities is None or record.priority in priorities)
            and (not source or record.source == source)
            and (not resource_id or record.resource_id == resource_id)
            and (not agent_id or record.agent_id == agent_id)
            and rules.matches_search(record, search)
        )
        return await in_turns(list(islice(found, limit)), _given_out, at_once=_BULK)

    async def list_due_notifications(
        self,
        now: datetime,
        *,
        limit: int | None = None,
        agent_id: str | None = None,
        resource_id: str | None = None,
    ) -> list[NotificationRecord]:
        """Pending records due at ``now``, earliest first."""
        await self._pace.turn()
        check_limit(limit)
        found = (
            record
            for record in self._tables.due(moment(now))
            if (not agent_id or record.agent_id == agent_id)
            and (not resource_id or record.resource_id == resource_id)
        )
        return await in_turns(list(islice(found, limit)), _given_out, at_once=_BULK)

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
        """Write the members that are set, in one step without an await."""
        await self._pace.turn()
        rules.check_patch(patch)
        change = taken_in(patch)
        key = (thread_id, notification_id)
        record = self._record(thread_id, notification_id)
        pair = claims.patch_expected(
            record,
            self._tables.sidecar(key),
            change,
            now=self._clock.now(),
            settle_guard=settle_guard,
            expected_statuses=expected_statuses,
            expected_count=expected_count,
        )
        if pair is None:
            return None
        changed, sidecar = pair
        self._tables.put(changed, sidecar)
        return given_out(changed)

    async def update_notifications_status(
        self,
        thread_id: str,
        notification_ids: Sequence[str],
        status: str,
        *,
        expected_statuses: Sequence[str] | None = None,
    ) -> list[NotificationRecord]:
        """One status for many records; lets other tasks run between portions."""
        rules.check_status(status)
        now = self._clock.now()
        changed: list[NotificationRecord] = []
        for count, notification_id in enumerate(dict.fromkeys(notification_ids), start=1):
            if count % _BULK == 0:
                await asyncio.sleep(0)
            record = self._tables.records.get((thread_id, notification_id))
            if record is None:
                continue
            if expected_statuses is not None and record.status not in expected_statuses:
                continue
            after = rules.apply_status(record, status, now=now)
            self._tables.put(after)
            changed.append(given_out(after))
        return changed

    async def mark_notification_delivered(
        self,
        thread_id: str,
        notification_id: str,
        *,
        delivered_signal_id: str,
        last_delivery_attempt_at: datetime,
    ) -> NotificationRecord | None:
        """Both facts always, the status only from pending; None if missing."""
        await self._pace.turn()
        at = moment(last_delivery_attempt_at, "last_delivery_attempt_at")
        check_text(delivered_signal_id, "delivered_signal_id")
        record = self._tables.records.get((thread_id, notification_id))
        if record is None:
            return None
        marked = rules.delivered_record(
            record,
            delivered_signal_id=delivered_signal_id,
            last_delivery_attempt_at=at,
            now=self._clock.now(),
        )
        self._tables.put(marked)
        return given_out(marked)

    async def requeue(self, thread_id: str, notification_id: str) -> NotificationRecord:
        """A failed record, pending and due now, in one step without an await."""
        await self._pace.turn()
        record = self._record(thread_id, notification_id)
        sidecar = self._tables.sidecar((thread_id, notification_id))
        again, closed = claims.requeue(record, sidecar, now=self._clock.now())
        self._tables.put(again, closed)
        return given_out(again)

    async def prune(
        self, policies: Sequence[PrunePolicy], options: PruneOptions | None = None
    ) -> list[PruneResult]:
        """Delete records created strictly before the limit, whatever their status."""
        options = pruning.check_policies(policies, options, (pruning.NOTIFICATIONS,))
        return [await self._prune(policy, options) for policy in policies]

    async def _prune(self, policy: PrunePolicy, options: PruneOptions) -> PruneResult:
        limit = pruning.cutoff(policy, self._clock.now())
        waiting = [k for k, row in self._tables.records.items() if row.created_at < limit]

        async def count() -> int:
            return len(waiting)

        async def delete(wanted: int) -> int:
            batch = waiting[-wanted:]
            del waiting[-wanted:]
            return sum(self._tables.drop(key) for key in batch)

        return await pruning.prune_table(
            policy,
            options,
            domain="notifications",
            count=count,
            delete=delete,
            sleep=self._clock.sleep,
        )

    async def dangerously_clear_all(self) -> None:
        """Delete every record, claim and guard."""
        self._tables.clear()

    def _record(self, thread_id: str, notification_id: str) -> NotificationRecord:
        record = self._tables.records.get((thread_id, notification_id))
        if record is None:
            raise NotificationNotFoundError(notification_id=notification_id, thread_id=thread_id)
        return record


def _given_out(records: Sequence[NotificationRecord]) -> list[NotificationRecord]:
    return list(map(given_out, records))
