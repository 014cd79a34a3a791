"""The inbox on SQL (notifications.md 3, 13).

What an event, a patch or a claim does to a record is ``mastra_core.rules``; here the rows
are read, handed to a rule and written, in one transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final, Literal

from mastra_core.base.pace import in_turns
from mastra_core.contracts.storage import (
    ClaimRef,
    NotificationClaim,
    PruneOptions,
    PrunePolicy,
    PruneResult,
)
from mastra_core.errors import (
    NotificationExistsError,
    NotificationNotFoundError,
    StorageArgumentError,
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
from mastra_sql.executor import Program, Row, Rows, Step
from mastra_sql.rows.codec import RowCodec
from mastra_sql.rows.sidecars import SidecarCodec
from mastra_sql.statement import Statement
from mastra_sql.statements.notifications import NotificationStatements
from mastra_sql.storage.host import SqlHost
from mastra_sql.storage.pruning import Prunable, prune
from mastra_sql.tables import data_columns

__all__ = (
    "Pair",
    "SqlNotifications",
)

Pair = tuple[NotificationRecord, Sidecar]

#: How many rows of a long list are converted in one round of the event loop.
_ROWS_AT_ONCE: Final = 100

#: The sidecar of a record that has none.
_NONE: Final = Sidecar()


class SqlNotifications:
    """Domain ``notifications`` of a SQL store."""

    def __init__(self, host: SqlHost) -> None:
        self._host = host
        self._run = host.run
        self._sql = NotificationStatements(host.dialect, host.tables)
        self._codec = RowCodec(NotificationRecord, host.tables.notifications, host.dialect)
        self._sidecars = SidecarCodec(host.dialect)
        self._width = len(data_columns(host.tables.notifications))

    # -- create ----------------------------------------------------------------------------

    async def create_notification(
        self,
        notification: CreateNotification,
        *,
        on_conflict: Literal["raise", "return"] = "raise",
        guard_until: datetime | None = None,
    ) -> NotificationRecord:
        rules.check_create(notification)
        await self._host.pace.turn()
        now = self._host.clock.now()
        if guard_until is not None:
            guard_until = moment(guard_until, "guard_until")
        new_id = notification.id or self._host.ids.new("notification")
        record, sidecar = rules.new_record(notification, notification_id=new_id, now=now), _NONE
        if guard_until is not None:
            record, sidecar = claims.create_guarded(
                notification, notification_id=new_id, now=now, guard_until=guard_until
            )
        insert = Step.of(self._sql.insert(), self._codec.values(record))
        if not rules.has_key(notification) and sidecar == _NONE:
            if await self._run.write("create_notification", insert):
                return record
            return await self._existing(record, on_conflict)

        def program() -> Program[NotificationRecord | None]:
            exists, match = yield from self._match(notification, record)
            if exists:
                return None
            if match is not None:
                merged = claims.merge_guarded(
                    *match, notification, now=now, guard_until=guard_until
                )
                yield self._save(match, merged)
                return merged[0]
            yield (insert, *self._save_sidecar(record, _NONE, sidecar))
            return record

        created = await self._run.transact("create_notification", program)
        return created if created is not None else await self._existing(record, on_conflict)

    def _match(
        self, notification: CreateNotification, record: NotificationRecord
    ) -> Program[tuple[bool, Pair | None]]:
        """
        Whether the record exists already, and the pending one that the event goes into.

        Later writers of the same scope wait.
        """
        get = self._get_step(record.thread_id, record.id)
        if not rules.has_key(notification):
            if notification.id is None:
                return False, None
            [rows] = yield (get,)
            return bool(rows), None
        scope = {
            "threadId": notification.thread_id,
            "source": notification.source,
            "kind": notification.kind,
            "agentId": notification.agent_id,
            "resourceId": notification.resource_id,
            "dedupeKey": notification.dedupe_key or "",
            "coalesceKey": notification.coalesce_key or "",
        }
        find = Step.of(self._sql.find_match(), scope)
        more = () if notification.id is None else (get,)
        # Found again behind the lock on what was found first, see ``settled``.
        finds = (find,) if self._host.dialect.is_alone else (find, find)
        found = yield from self._host.locked(_key_scopes(scope), *more, *finds)
        rows = found[-1]
        return any(found[: len(more)]), self._pair(rows[0]) if rows else None

    async def _existing(
        self, record: NotificationRecord, on_conflict: Literal["raise", "return"]
    ) -> NotificationRecord:
        stored = await self.get_notification(record.thread_id, record.id)
        if on_conflict == "return" and stored is not None:
            return stored
        raise NotificationExistsError(thread_id=record.thread_id, notification_id=record.id)

    # -- read ------------------------------------------------------------------------------

    async def get_notification(
        self, thread_id: str, notification_id: str
    ) -> NotificationRecord | None:
        [rows] = await self._run.read(
            "get_notification", self._get_step(thread_id, notification_id)
        )
        return self._codec.model(rows[0]) if rows else None

    def _get_step(self, thread_id: str, notification_id: str) -> Step:
        return Step.of(self._sql.get(), {"threadId": thread_id, "id": notification_id})

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
        rules.check_list(status=status, priority=priority, search=search, limit=limit)
        values: dict[str, Any] = {"threadId": thread_id}
        for name, given in (("status", choices(status)), ("priority", choices(priority))):
            if given is not None:
                if not given:
                    return []
                values[name] = self._host.dialect.list_value(given)
        equal = {"source": source, "resourceId": resource_id, "agentId": agent_id}
        values |= {name: value for name, value in equal.items() if value}
        # Databases fold the case of ASCII letters only; other searches are ours to do.
        folds = not search or search.isascii()
        if search and folds:
            values["search"] = search
        limited = limit is not None and folds
        filters = frozenset(values) - {"threadId"}
        if limited:
            values["limit"] = limit
        statement = self._sql.page(filters, limited=limited)
        [rows] = await self._run.read("list_notifications", Step.of(statement, values))
        records = await self._models(rows)
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
        check_limit(limit)
        values: dict[str, Any] = {"now": self._time(moment(now))}
        equal = {"agentId": agent_id, "resourceId": resource_id}
        filters = {name: value for name, value in equal.items() if value}
        values |= filters
        if limit is not None:
            values["limit"] = limit
        statement = self._sql.due(filters.keys(), limited=limit is not None)
        [rows] = await self._run.read("list_due_notifications", Step.of(statement, values))
        return await self._models(rows)

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
        rules.check_patch(patch)
        touches_guard = settle_guard or "deliver_at" in patch.model_fields_set
        if touches_guard:
            changed = await self._update_guarded(
                thread_id,
                notification_id,
                patch,
                expected_statuses=expected_statuses,
                settle_guard=settle_guard,
                expected_count=expected_count,
            )
        else:
            changed = await self._update_plain(
                thread_id, notification_id, patch, expected_statuses, expected_count
            )
        if changed is None and not await self.get_notification(thread_id, notification_id):
            raise NotificationNotFoundError(thread_id=thread_id, notification_id=notification_id)
        return changed

    async def _update_plain(
        self,
        thread_id: str,
        notification_id: str,
        patch: NotificationPatch,
        expected_statuses: Sequence[str] | None,
        expected_count: int | None,
    ) -> NotificationRecord | None:
        """One statement: no sidecar is involved."""
        now = self._host.clock.now()
        fields = {name: getattr(patch, name) for name in patch.model_fields_set - {"status"}}
        if patch.status:
            fields["status"] = patch.status
            timestamp = rules.STATUS_TIMESTAMPS.get(patch.status)
            if timestamp is not None:
                fields[timestamp] = now
        values = self._codec.given({**fields, "updated_at": now})
        statement = self._sql.patch(
            values.keys(),
            expect_status=expected_statuses is not None,
            expect_count=expected_count is not None,
        )
        values |= {"key_threadId": thread_id, "key_id": notification_id}
        if expected_statuses is not None:
            values["expected_statuses"] = self._host.dialect.list_value(expected_statuses)
        if expected_count is not None:
            values["expected_count"] = expected_count
        rows = await self._run.write("update_notification", Step.of(statement, values))
        return self._codec.model(rows[0]) if rows else None

    async def _update_guarded(
        self,
        thread_id: str,
        notification_id: str,
        patch: NotificationPatch,
        *,
        expected_statuses: Sequence[str] | None,
        settle_guard: bool,
        expected_count: int | None,
    ) -> NotificationRecord | None:
        now = self._host.clock.now()

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

        return await self._change("update_notification", thread_id, notification_id, change)

    async def update_notifications_status(
        self,
        thread_id: str,
        notification_ids: Sequence[str],
        status: str,
        *,
        expected_statuses: Sequence[str] | None = None,
    ) -> list[NotificationRecord]:
        rules.check_status(status)
        if not notification_ids:
            return []
        timestamp = rules.STATUS_TIMESTAMPS.get(status)
        fields: dict[str, Any] = {"status": status, "updated_at": self._host.clock.now()}
        if timestamp is not None:
            fields[timestamp] = fields["updated_at"]
        values = self._codec.given(fields)
        column = next((c for c in values if c not in {"status", "updatedAt"}), None)
        values |= {
            "key_threadId": thread_id,
            "ids": self._host.dialect.list_value(list(dict.fromkeys(notification_ids))),
        }
        if expected_statuses is not None:
            values["expected_statuses"] = self._host.dialect.list_value(expected_statuses)
        statement = self._sql.set_status(column, expect_status=expected_statuses is not None)
        rows = await self._run.write("update_notifications_status", Step.of(statement, values))
        changed = {record.id: record for record in await self._models(rows)}
        return [changed[each] for each in dict.fromkeys(notification_ids) if each in changed]

    async def mark_notification_delivered(
        self,
        thread_id: str,
        notification_id: str,
        *,
        delivered_signal_id: str,
        last_delivery_attempt_at: datetime,
    ) -> NotificationRecord | None:
        check_text(delivered_signal_id, "delivered_signal_id")
        values = {
            "key_threadId": thread_id,
            "key_id": notification_id,
            "deliveredSignalId": delivered_signal_id,
            "lastDeliveryAttemptAt": self._time(
                moment(last_delivery_attempt_at, "last_delivery_attempt_at")
            ),
            "updatedAt": self._time(self._host.clock.now()),
        }
        rows = await self._run.write(
            "mark_notification_delivered", Step.of(self._sql.mark_delivered(), values)
        )
        return self._codec.model(rows[0]) if rows else None

    async def requeue(self, thread_id: str, notification_id: str) -> NotificationRecord:
        now = self._host.clock.now()

        def change(record: NotificationRecord, sidecar: Sidecar) -> Pair:
            return claims.requeue(record, sidecar, now=now)

        changed = await self._change("requeue", thread_id, notification_id, change)
        if changed is None:
            raise NotificationNotFoundError(thread_id=thread_id, notification_id=notification_id)
        return changed

    async def _change(
        self,
        operation: str,
        thread_id: str,
        notification_id: str,
        change: Callable[[NotificationRecord, Sidecar], Pair | None],
    ) -> NotificationRecord | None:
        """Apply a rule to one pair; None if it is missing or the rule declines."""

        def program() -> Program[NotificationRecord | None]:
            pair = yield from self._read_pair(thread_id, notification_id)
            changed = change(*pair) if pair is not None else None
            if pair is None or changed is None:
                return None
            steps = self._save(pair, changed)
            if steps:
                yield steps
            return changed[0]

        return await self._run.transact(operation, program)

    # -- claims ----------------------------------------------------------------------------

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
        _check_claim(owner, limit, visibility_ms)
        now = moment(now)
        values: dict[str, Any] = {"now": self._time(now), "limit": limit}
        if agent_ids is not None:
            values["agentIds"] = self._host.dialect.list_value(agent_ids)
        if thread_id is not None:
            values["threadId"] = thread_id
        filters = values.keys() & {"agentIds", "threadId"}
        find = partial(self._sql.claimable, filters)

        def program() -> Program[list[NotificationClaim]]:
            store_now, pairs = yield from self._claimed_first(find, values)
            steps: list[Step] = []
            granted: list[NotificationClaim] = []
            for pair in pairs:
                claimed = claims.claim_due(
                    *pair,
                    owner=owner,
                    now=now,
                    store_now=store_now,
                    visibility_ms=visibility_ms,
                )
                steps += self._save(pair, (claimed.record, claimed.sidecar))
                granted.append(claimed.claim)
            if steps:
                yield steps
            return granted

        return await self._run.transact("claim_due", program)

    async def claim_unconfirmed(
        self,
        accepted_before: datetime,
        owner: str,
        *,
        limit: int = 100,
        visibility_ms: int = 120_000,
        agent_ids: Sequence[str] | None = None,
    ) -> list[NotificationClaim]:
        _check_claim(owner, limit, visibility_ms)
        values: dict[str, Any] = {
            "accepted_before": self._time(moment(accepted_before, "accepted_before")),
            "limit": limit,
        }
        if agent_ids is not None:
            values["agentIds"] = self._host.dialect.list_value(agent_ids)
        filters = values.keys() & {"agentIds"}
        find = partial(self._sql.unconfirmed, filters)

        def program() -> Program[list[NotificationClaim]]:
            store_now, pairs = yield from self._claimed_first(find, values)
            steps: list[Step] = []
            granted: list[NotificationClaim] = []
            for pair in pairs:
                claimed = claims.claim_unconfirmed(
                    *pair, owner=owner, store_now=store_now, visibility_ms=visibility_ms
                )
                steps += self._save(pair, (claimed.record, claimed.sidecar))
                granted.append(claimed.claim)
            if steps:
                yield steps
            return granted

        return await self._run.transact("claim_unconfirmed", program)

    async def extend_claim(self, ref: ClaimRef, *, visibility_ms: int = 120_000) -> bool:
        check_limit(visibility_ms, "visibility_ms")

        def program() -> Program[bool]:
            store_now = yield from self._host.store_now()
            pair = yield from self._read_claim(ref)
            if pair is None:
                return False
            extended = claims.extend(*pair, store_now=store_now, visibility_ms=visibility_ms)
            yield self._save(pair, extended)
            return True

        return await self._run.transact("extend_claim", program)

    async def finalize_full(
        self, ref: ClaimRef, *, delivered_signal_id: str, at: datetime
    ) -> NotificationRecord | None:
        at = moment(at, "at")
        check_text(delivered_signal_id, "delivered_signal_id")
        now = self._host.clock.now()

        def program() -> Program[NotificationRecord | None]:
            pair = yield from self._read_claim(ref)
            if pair is None:
                return None
            done = claims.finalize_full(
                *pair, delivered_signal_id=delivered_signal_id, at=at, now=now
            )
            yield self._save(pair, done)
            return done[0]

        return await self._run.transact("finalize_full", program)

    async def finalize_summary(
        self, refs: Sequence[ClaimRef], *, summary_signal_id: str, at: datetime
    ) -> bool:
        at = moment(at, "at")
        check_text(summary_signal_id, "summary_signal_id")
        now = self._host.clock.now()
        refs = list(dict.fromkeys(refs))

        def program() -> Program[bool]:
            pairs = yield from self._read_claims(refs)
            current = [pair for pair in pairs if pair is not None]
            if len(current) < len(pairs):
                return False
            steps: list[Step] = []
            for pair in current:
                done = claims.finalize_summary(
                    *pair, summary_signal_id=summary_signal_id, at=at, now=now
                )
                steps += self._save(pair, done)
            if steps:
                yield steps
            return True

        return await self._run.transact("finalize_summary", program)

    async def fail_claims(
        self,
        refs: Sequence[ClaimRef],
        *,
        error: str,
        at: datetime,
        retry_at: Sequence[datetime],
        max_attempts: int,
    ) -> list[NotificationRecord]:
        if len(refs) != len(retry_at):
            raise StorageArgumentError(
                f"There are {len(refs)} claims but {len(retry_at)} times to retry at."
            )
        at = moment(at, "at")
        times = [moment(value, "retry_at") for value in retry_at]
        now = self._host.clock.now()

        def program() -> Program[list[NotificationRecord]]:
            pairs = yield from self._read_claims(refs)
            steps: list[Step] = []
            failed: list[NotificationRecord] = []
            for pair, due_at in zip(pairs, times, strict=True):
                if pair is None:
                    continue
                record, sidecar, counted = claims.fail(
                    *pair, error=error, at=at, retry_at=due_at, max_attempts=max_attempts, now=now
                )
                steps += self._save(pair, (record, sidecar))
                if counted:
                    failed.append(record)
            if steps:
                yield steps
            return failed

        return await self._run.transact("fail_claims", program)

    async def release_claims(
        self, refs: Sequence[ClaimRef], *, due_at: datetime | None = None
    ) -> int:
        def program() -> Program[int]:
            pairs = yield from self._read_claims(refs)
            steps: list[Step] = []
            current = [pair for pair in pairs if pair is not None]
            for pair in current:
                steps += self._save(pair, claims.release(*pair, due_at=due_at))
            if steps:
                yield steps
            return len(current)

        return await self._run.transact("release_claims", program)

    async def confirm_delivery(
        self, thread_id: str, notification_id: str, *, signal_id: str
    ) -> bool:
        def change(record: NotificationRecord, sidecar: Sidecar) -> Pair | None:
            confirmed = claims.confirm(sidecar, signal_id=signal_id)
            return None if confirmed is None else (record, confirmed)

        changed = await self._change("confirm_delivery", thread_id, notification_id, change)
        return changed is not None

    async def record_acceptance(
        self, thread_id: str, notification_id: str, *, signal_id: str, at: datetime
    ) -> None:
        def change(record: NotificationRecord, sidecar: Sidecar) -> Pair:
            return record, claims.accept(sidecar, signal_id=signal_id, at=at)

        moment(at, "at")
        check_text(signal_id, "signal_id")
        # There is nothing to remember for a record that is gone.
        await self._change("record_acceptance", thread_id, notification_id, change)

    # -- retention -------------------------------------------------------------------------

    async def prune(
        self, policies: Sequence[PrunePolicy], options: PruneOptions | None = None
    ) -> list[PruneResult]:
        known = {
            pruning.NOTIFICATIONS: Prunable(
                table=self._host.tables.notifications,
                anchor="createdAt",
                leftovers=(self._sql.delete_orphaned_sidecars(),),
            )
        }
        return await prune(self._host, self._sql, known, policies, options)

    async def dangerously_clear_all(self) -> None:
        tables = self._host.tables

        def program() -> Program[None]:
            yield [Step(s) for s in self._sql.clear(tables.notifications, tables.claims)]

        await self._run.transact("dangerously_clear_all", program)

    # -- rows ------------------------------------------------------------------------------

    async def _models(self, rows: Rows) -> list[NotificationRecord]:
        return await in_turns(rows, self._codec.models, at_once=_ROWS_AT_ONCE)

    def _pair(self, row: Row) -> Pair:
        sidecar = self._sidecars.sidecar(row[self._width :])
        return self._codec.model(row[: self._width]), sidecar or _NONE

    def _read_pair(self, thread_id: str, notification_id: str) -> Program[Pair | None]:
        key = {"threadId": thread_id, "id": notification_id}
        [rows] = yield from self._host.settled(Step.of(self._sql.get_with_sidecar(), key))
        return self._pair(rows[0]) if rows else None

    def _claimed_first(
        self, find: Callable[..., Statement], values: Mapping[str, Any]
    ) -> Program[tuple[datetime, list[Pair]]]:
        """
        The store's time, and the pairs that a claim finds; nobody else gets or changes them.

        Where others write at the same time, only those count that were locked by a first
        look: what a second look finds besides may have a sidecar that is being changed.
        """
        is_alone = self._host.dialect.is_alone

        def read(store_now: datetime | None) -> list[Step]:
            bound = {**values, "store_now": self._time_or_none(store_now)}
            looks = [Step.of(find(), bound)]
            return looks if is_alone else [Step.of(find(only_keys=True), bound), *looks]

        store_now, results = yield from self._host.timed(read)
        pairs = [self._pair(row) for row in results[-1]]
        if not is_alone:
            locked = {(thread_id, found) for thread_id, found in results[0]}
            pairs = [(r, s) for r, s in pairs if (r.thread_id, r.id) in locked]
        return store_now, pairs

    def _read_claim(self, ref: ClaimRef) -> Program[Pair | None]:
        """The pair of a claim that is still current."""
        [pair] = yield from self._read_claims([ref])
        return pair

    def _read_claims(self, refs: Sequence[ClaimRef]) -> Program[list[Pair | None]]:
        statement = self._sql.get_with_sidecar()
        # Locked in one order everywhere, so that no two wait for each other.
        keys = sorted({(ref.thread_id, ref.notification_id) for ref in refs})
        found = yield from self._host.settled(
            *(Step.of(statement, {"threadId": thread, "id": found}) for thread, found in keys)
        )
        stored = {key: self._pair(rows[0]) for key, rows in zip(keys, found, strict=True) if rows}
        pairs = [stored.get((ref.thread_id, ref.notification_id)) for ref in refs]
        return [
            pair if pair is not None and claims.is_current(pair[1], ref) else None
            for ref, pair in zip(refs, pairs, strict=True)
        ]

    def _save(self, before: Pair, after: Pair) -> list[Step]:
        """Write what differs."""
        record, sidecar = after
        steps = []
        changes = self._codec.changes(before[0], record)
        if changes:
            statement = self._sql.update(changes.keys())
            key = {"key_threadId": record.thread_id, "key_id": record.id}
            steps.append(Step.of(statement, {**changes, **key}))
        return steps + self._save_sidecar(record, before[1], sidecar)

    def _save_sidecar(
        self, record: NotificationRecord, before: Sidecar, after: Sidecar
    ) -> list[Step]:
        if before is after or before == after:
            return []
        if after == _NONE:
            key = {"threadId": record.thread_id, "notificationId": record.id}
            return [Step.of(self._sql.delete_sidecar(), key)]
        values = self._sidecars.values(record.thread_id, record.id, after)
        return [Step.of(self._sql.save_sidecar(), values)]

    def _time_or_none(self, at: datetime | None) -> Any:
        return None if at is None else self._time(at)

    def _time(self, at: datetime) -> Any:
        return self._host.dialect.time_value(at)


def _key_scopes(scope: Mapping[str, Any]) -> list[list[str]]:
    """What creates with an equal key have in common; a record may match by either key."""
    where = [str(scope[name]) for name in ("threadId", "source", "kind", "agentId", "resourceId")]
    keys = ("dedupeKey", "coalesceKey")
    return [[*where, name, scope[name]] for name in keys if scope[name]]


def _check_claim(owner: str, limit: int, visibility_ms: int) -> None:
    check_text(owner, "owner")
    check_limit(limit)
    check_limit(visibility_ms, "visibility_ms")
