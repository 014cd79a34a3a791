"""Statements of the inbox (notifications.md 3, 13)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Executable,
    and_,
    case,
    delete,
    literal_column,
    or_,
    select,
    update,
)

from mastra_sql.statement import Statement
from mastra_sql.statements.base import StatementSet, equal, parameter

__all__ = ("NotificationStatements",)


class NotificationStatements(StatementSet):
    """Records and their sidecars."""

    domain = "notifications"

    # -- one record ------------------------------------------------------------------------

    def insert(self) -> Statement:
        """Add a record unless the pair exists; a row comes back if it was added."""

        def build() -> Executable:
            table = self.tables.notifications
            values = self.new_values(table)
            exists = (
                select(literal_column("1"))
                .where(table.c.threadId == parameter("threadId"), table.c.id == parameter("id"))
                .exists()
            )
            source = select(*values.values()).where(~exists)
            statement: Any = self.dialect.insert(table).from_select(
                list(values), source, include_defaults=False
            )
            if not self.dialect.is_alone:
                # Somebody may add the pair after this looked.
                statement = statement.on_conflict_do_nothing()
            return statement.returning(literal_column("1"))  # type: ignore[no-any-return]

        return self._shape("insert", build)

    def get(self) -> Statement:
        """The record of a pair; the latest, if a peer wrote several."""

        def build() -> Executable:
            table = self.tables.notifications
            return (
                self.by_key(table, "threadId", "id")
                .order_by(self.dialect.time_out(table.c.updatedAt).desc())
                .limit(literal_column("1"))
                .with_for_update()
            )

        return self._shape("get", build)

    def find_match(self) -> Statement:
        """The pending record that an event with these keys goes into, and its sidecar (3.2)."""

        def build() -> Executable:
            table, claims = self.tables.notifications, self.tables.claims
            by_dedupe = and_(
                parameter("dedupeKey") != literal_column("''"),
                table.c.dedupeKey == parameter("dedupeKey"),
            )
            by_coalesce = and_(
                parameter("coalesceKey") != literal_column("''"),
                table.c.coalesceKey == parameter("coalesceKey"),
            )
            return (
                select(*self.all_of(table), *self._sidecar_columns())
                .select_from(table.outerjoin(claims, self._sidecar_of()))
                .where(
                    equal(table, "threadId", "source", "kind"),
                    table.c.status == literal_column("'pending'"),
                    table.c.agentId.is_not_distinct_from(parameter("agentId")),
                    table.c.resourceId.is_not_distinct_from(parameter("resourceId")),
                    or_(by_dedupe, by_coalesce),
                )
                .order_by(
                    self.dialect.time_out(table.c.updatedAt).desc(),
                    self.dialect.time_out(table.c.createdAt).desc(),
                    table.c.id,
                )
                .limit(literal_column("1"))
                .with_for_update(of=table)
            )

        return self._shape("find_match", build)

    def update(self, columns: Collection[str]) -> Statement:
        """Write these columns of one pair."""
        return self._shape(
            "update",
            lambda: self.change(self.tables.notifications, columns, "threadId", "id"),
            frozenset(columns),
        )

    def patch(
        self, columns: Collection[str], *, expect_status: bool, expect_count: bool
    ) -> Statement:
        """Write these columns of one pair if it is as expected, and return the record."""

        def build() -> Executable:
            table = self.tables.notifications
            statement = self.change(table, columns, "threadId", "id")
            if expect_status:
                expected = self.dialect.one_of(table.c.status, parameter("expected_statuses"))
                statement = statement.where(expected)
            if expect_count:
                statement = statement.where(table.c.coalescedCount == parameter("expected_count"))
            return statement.returning(*self.all_of(table))  # type: ignore[no-any-return]

        return self._shape("patch", build, frozenset(columns), expect_status, expect_count)

    def set_status(self, timestamp: str | None, *, expect_status: bool) -> Statement:
        """One status for many records of one thread (3.7)."""

        def build() -> Executable:
            table = self.tables.notifications
            columns = {"status", "updatedAt"} | ({timestamp} if timestamp else set())
            conditions = [
                table.c.threadId == parameter("key_threadId"),
                self.dialect.one_of(table.c.id, parameter("ids")),
            ]
            if expect_status:
                conditions.append(
                    self.dialect.one_of(table.c.status, parameter("expected_statuses"))
                )
            return (
                update(table)
                .where(*conditions)
                .values(self.new_values(table, columns))
                .returning(*self.all_of(table))
            )

        return self._shape("set_status", build, timestamp, expect_status)

    def mark_delivered(self) -> Statement:
        """Always both facts; the status only if it is still pending (3.7)."""

        def build() -> Executable:
            table = self.tables.notifications
            is_pending = table.c.status == literal_column("'pending'")
            values: dict[str, ColumnElement[Any]] = {
                "deliveredSignalId": parameter("deliveredSignalId"),
                "lastDeliveryAttemptAt": parameter("lastDeliveryAttemptAt"),
                "updatedAt": parameter("updatedAt"),
                "deliveredAt": case(
                    (is_pending, parameter("updatedAt")), else_=table.c.deliveredAt
                ),
                "status": case((is_pending, literal_column("'delivered'")), else_=table.c.status),
            }
            return (
                update(table)
                .where(
                    table.c.threadId == parameter("key_threadId"),
                    table.c.id == parameter("key_id"),
                )
                .values(self.dialect.assignments(table, values))
                .returning(*self.all_of(table))
            )

        return self._shape("mark_delivered", build)

    # -- lists -----------------------------------------------------------------------------

    def page(self, filters: Collection[str], *, limited: bool) -> Statement:
        """The inbox of one thread, latest first (3.4)."""

        def build() -> Executable:
            table = self.tables.notifications
            conditions = [table.c.threadId == parameter("threadId")]
            conditions += [
                table.c[name] == parameter(name)
                for name in ("source", "resourceId", "agentId")
                if name in filters
            ]
            conditions += [
                self.dialect.one_of(table.c[name], parameter(name))
                for name in ("status", "priority")
                if name in filters
            ]
            if "search" in filters:
                conditions.append(
                    or_(
                        *(
                            self.dialect.contains_ignoring_case(table.c[name], parameter("search"))
                            for name in ("summary", "kind", "source")
                        )
                    )
                )
            statement = (
                select(*self.all_of(table))
                .where(*conditions)
                .order_by(
                    self.dialect.time_out(table.c.updatedAt).desc(),
                    self.dialect.time_out(table.c.createdAt).desc(),
                    table.c.id,
                )
            )
            return statement.limit(parameter("limit")) if limited else statement

        return self._shape("page", build, frozenset(filters), limited)

    def due(self, filters: Collection[str], *, limited: bool) -> Statement:
        """Pending records whose time has come, earliest first (3.5)."""

        def build() -> Executable:
            table = self.tables.notifications
            conditions = self._due_conditions()
            conditions += [
                table.c[name] == parameter(name)
                for name in ("resourceId", "agentId")
                if name in filters
            ]
            statement = select(*self.all_of(table)).where(*conditions).order_by(*self._due_order())
            return statement.limit(parameter("limit")) if limited else statement

        return self._shape("due", build, frozenset(filters), limited)

    def claimable(self, filters: Collection[str], *, only_keys: bool = False) -> Statement:
        """Due records that no standing claim holds, each with its sidecar (S10)."""

        def build() -> Executable:
            table, claims = self.tables.notifications, self.tables.claims
            joined = table.outerjoin(claims, self._sidecar_of())
            conditions = self._due_conditions()
            conditions.append(
                or_(
                    claims.c.owner.is_(None),
                    claims.c.expiresAt.is_(None),
                    self.dialect.time_out(claims.c.expiresAt) <= self._store_now(),
                )
            )
            if "agentIds" in filters:
                conditions.append(
                    or_(
                        table.c.agentId.is_(None),
                        self.dialect.one_of(table.c.agentId, parameter("agentIds")),
                    )
                )
            if "threadId" in filters:
                conditions.append(table.c.threadId == parameter("threadId"))
            return (
                select(*self._pair_columns(only_keys=only_keys))
                .select_from(joined)
                .where(*conditions)
                .order_by(*self._due_order())
                .limit(parameter("limit"))
                .with_for_update(of=table, skip_locked=True)
            )

        return self._shape("claimable", build, frozenset(filters), only_keys)

    def unconfirmed(self, filters: Collection[str], *, only_keys: bool = False) -> Statement:
        """Records whose accepted signal nobody has seen as a message row (S21)."""

        def build() -> Executable:
            table, claims = self.tables.notifications, self.tables.claims
            conditions = [
                claims.c.acceptedSignalId.is_not(None),
                self.dialect.time_out(claims.c.acceptedAt) < parameter("accepted_before"),
                table.c.status.in_((literal_column("'pending'"), literal_column("'delivered'"))),
                or_(
                    claims.c.owner.is_(None),
                    claims.c.expiresAt.is_(None),
                    self.dialect.time_out(claims.c.expiresAt) <= self._store_now(),
                ),
            ]
            if "agentIds" in filters:
                conditions.append(
                    or_(
                        table.c.agentId.is_(None),
                        self.dialect.one_of(table.c.agentId, parameter("agentIds")),
                    )
                )
            return (
                select(*self._pair_columns(only_keys=only_keys))
                .select_from(claims.join(table, self._sidecar_of()))
                .where(*conditions)
                .order_by(self.dialect.time_out(claims.c.acceptedAt), table.c.id)
                .limit(parameter("limit"))
                .with_for_update(of=table, skip_locked=True)
            )

        return self._shape("unconfirmed", build, frozenset(filters), only_keys)

    # -- sidecars --------------------------------------------------------------------------

    def get_with_sidecar(self) -> Statement:
        """The record of a pair and its sidecar, all in one row."""

        def build() -> Executable:
            table, claims = self.tables.notifications, self.tables.claims
            return (
                select(*self.all_of(table), *self._sidecar_columns())
                .select_from(table.outerjoin(claims, self._sidecar_of()))
                .where(equal(table, "threadId", "id"))
                .order_by(self.dialect.time_out(table.c.updatedAt).desc())
                .limit(literal_column("1"))
                .with_for_update(of=table)
            )

        return self._shape("get_with_sidecar", build)

    def save_sidecar(self) -> Statement:
        """Write the whole sidecar of a pair."""

        def build() -> Executable:
            claims = self.tables.claims
            replaced = [c.name for c in claims.columns if not c.primary_key]
            return self.upsert(  # type: ignore[no-any-return]
                claims, ("threadId", "notificationId"), replaced=replaced
            )

        return self._shape("save_sidecar", build)

    def delete_sidecar(self) -> Statement:
        """Forget the sidecar of a pair."""

        def build() -> Executable:
            claims = self.tables.claims
            return delete(claims).where(equal(claims, "threadId", "notificationId"))

        return self._shape("delete_sidecar", build)

    def delete_orphaned_sidecars(self) -> Statement:
        """Forget the sidecars of records that were pruned."""

        def build() -> Executable:
            claims = self.tables.claims
            owner = select(literal_column("1")).where(self._sidecar_of()).exists()
            return delete(claims).where(~owner.correlate(claims))

        return self._shape("delete_orphaned_sidecars", build)

    # -- parts -----------------------------------------------------------------------------

    def _store_now(self) -> ColumnElement[Any]:
        inside = self.dialect.now_inside()
        return parameter("store_now") if inside is None else inside

    def _sidecar_of(self) -> ColumnElement[bool]:
        table, claims = self.tables.notifications, self.tables.claims
        return and_(claims.c.threadId == table.c.threadId, claims.c.notificationId == table.c.id)

    def _pair_columns(self, *, only_keys: bool) -> list[ColumnElement[Any]]:
        table = self.tables.notifications
        if only_keys:
            return [table.c.threadId, table.c.id]
        return [*self.all_of(table), *self._sidecar_columns()]

    def _sidecar_columns(self) -> list[ColumnElement[Any]]:
        columns = [self.readable(c) for c in self.tables.claims.columns]
        return [column.label(f"claim_{index}") for index, column in enumerate(columns)]

    def _due_conditions(self) -> list[ColumnElement[bool]]:
        # Worded as the partial index mpy_notifications_due_idx words it, constants included.
        table = self.tables.notifications
        return [
            table.c.status == literal_column("'pending'"),
            or_(table.c.deliverAt.is_not(None), table.c.summaryAt.is_not(None)),
            self._due_time() <= parameter("now"),
        ]

    def _due_time(self) -> ColumnElement[Any]:
        table = self.tables.notifications
        return self.dialect.earliest(
            self.dialect.time_out(table.c.deliverAt), self.dialect.time_out(table.c.summaryAt)
        )

    def _due_order(self) -> list[ColumnElement[Any]]:
        table = self.tables.notifications
        return [self._due_time(), self.dialect.time_out(table.c.updatedAt), table.c.id]
