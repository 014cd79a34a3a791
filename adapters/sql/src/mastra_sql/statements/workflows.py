"""Statements of run snapshots (snapshots.md 5, 8, 12)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Executable,
    Table,
    and_,
    case,
    delete,
    func,
    literal_column,
    or_,
    select,
    true,
)

from mastra_sql.statement import Statement
from mastra_sql.statements.base import StatementSet, equal, parameter

__all__ = (
    "OWNER_PATHS",
    "RESOURCE_PATHS",
    "STREAM_STATE_PATH",
    "THREAD_PATHS",
    "WorkflowStatements",
)

_STREAM_STATE: Final = ("context", "executionWorkflow", "suspendPayload", "__streamState")
_REGULAR_INFO: Final = (*_STREAM_STATE, "messageList", "memoryInfo")
_DURABLE_INFO: Final = ("context", "input", "messageListState", "memoryInfo")

OWNER_PATHS: Final = (
    ("context", "executionWorkflow", "suspendPayload", "__agentId"),
    ("context", "input", "agentId"),
)
"""Where the owner stands in an agent's outer row, first hit wins (snapshots.md 13.2)."""

STREAM_STATE_PATH: Final = _STREAM_STATE
"""If anything stands here it decides about thread and resource, even by saying null (4.4)."""

THREAD_PATHS: Final = ((*_REGULAR_INFO, "threadId"), (*_DURABLE_INFO, "threadId"))
RESOURCE_PATHS: Final = ((*_REGULAR_INFO, "resourceId"), (*_DURABLE_INFO, "resourceId"))

#: Members of a suspended document that listing doesn't need; most of its bytes are here.
_HEAVY: Final = (
    _STREAM_STATE,
    ("context", "executionWorkflow", "payload"),
    ("context", "input", "messageListState"),
    ("context", "input", "accumulatedSteps"),
    ("context", "input", "output"),
    ("serializedStepGraph",),
    ("requestContext",),
    ("value",),
    ("result",),
)


class WorkflowStatements(StatementSet):
    """Rows of ``mastra_workflow_snapshot``."""

    domain = "workflows"

    @property
    def _table(self) -> Table:
        return self.tables.snapshots

    # -- one row ---------------------------------------------------------------------------

    def persist(self) -> Statement:
        """Upsert the whole document; creation time and a known resource stay (5.1)."""

        def build() -> Executable:
            table = self._table
            statement = self.dialect.insert(table).values(self.new_values(table))
            later = self.dialect.at_least_after(table.c.updatedAt, parameter("updatedAt"))
            replaced: dict[str, ColumnElement[Any]] = {
                "resourceId": func.coalesce(statement.excluded.resourceId, table.c.resourceId),
                "snapshot": statement.excluded.snapshot,
                "updatedAt": later,
            }
            return statement.on_conflict_do_update(  # type: ignore[no-any-return]
                index_elements=[table.c.workflow_name, table.c.run_id],
                set_=self.dialect.assignments(table, replaced),
            )

        return self._shape("persist", build)

    def load(self) -> Statement:
        """The document of one key."""

        def build() -> Executable:
            return select(self.readable(self._table.c.snapshot)).where(
                equal(self._table, "workflow_name", "run_id")
            )

        return self._shape("load", build, documents=True)

    def get(self, *, with_version: bool = False) -> Statement:
        """The row of one key; with the stored bytes of its document if asked for."""

        def build() -> Executable:
            columns = self.all_of(self._table)
            if with_version:
                columns.append(self.dialect.raw_bytes(self._table.c.snapshot).label("raw"))
            return (
                select(*columns)
                .where(equal(self._table, "workflow_name", "run_id"))
                .with_for_update()
            )

        return self._shape("get", build, with_version, documents=True)

    def newest(self) -> Statement:
        """The newest row with a run id, whatever its workflow (5.6)."""

        def build() -> Executable:
            table = self._table
            return (
                self.by_key(table, "run_id")
                .order_by(self.dialect.time_out(table.c.createdAt).desc(), table.c.workflow_name)
                .limit(literal_column("1"))
            )

        return self._shape("newest", build, documents=True)

    def delete(self) -> Statement:
        """Delete one key."""
        return self._shape(
            "delete",
            lambda: delete(self._table).where(equal(self._table, "workflow_name", "run_id")),
        )

    # -- lists of rows ---------------------------------------------------------------------

    def page(self, filters: Collection[str], *, limited: bool, tolerant: bool) -> Statement:
        """Rows by (created_at desc, run_id desc) (5.5)."""

        def build() -> Executable:
            table = self._table
            statement = (
                select(*self.all_of(table))
                .where(*self._conditions(filters, tolerant=tolerant))
                .order_by(self.dialect.time_out(table.c.createdAt).desc(), table.c.run_id.desc())
            )
            if limited:
                statement = statement.limit(parameter("limit")).offset(parameter("offset"))
            return statement

        return self._shape("page", build, frozenset(filters), limited, tolerant, documents=True)

    def count(self, filters: Collection[str], *, tolerant: bool) -> Statement:
        """How many rows ``page`` would return without a limit."""
        return self._shape(
            "count",
            lambda: (
                select(func.count())
                .select_from(self._table)
                .where(*self._conditions(filters, tolerant=tolerant))
            ),
            frozenset(filters),
            tolerant,
        )

    def _conditions(self, filters: Collection[str], *, tolerant: bool) -> list[ColumnElement[bool]]:
        table, dialect = self._table, self.dialect
        created_at = dialect.time_out(table.c.createdAt)
        status: ColumnElement[Any] = dialect.json_at(table.c.snapshot, "status")
        thread: ColumnElement[Any] = dialect.any_suspended_thread(
            table.c.snapshot, parameter("threadId")
        )
        if tolerant:
            # A row that is no JSON must not end the query of all others (field report R1).
            status = dialect.when_valid(table.c.snapshot, status)
            thread = dialect.when_valid(table.c.snapshot, thread)
        possible: dict[str, ColumnElement[bool]] = {
            "workflow_name": table.c.workflow_name == parameter("workflow_name"),
            "resourceId": table.c.resourceId == parameter("resourceId"),
            "from_date": created_at >= parameter("from_date"),
            "to_date": created_at < parameter("to_date"),
            "suspended": status == literal_column("'suspended'"),
            "status": status == parameter("status"),
            "threadId": thread,
        }
        return [condition for name, condition in possible.items() if name in filters]

    def corrupt(self) -> Statement:
        """Rows whose document is no JSON (G15)."""

        def build() -> Executable:
            table = self._table
            return (
                select(*self.all_of(table))
                .where(~self.dialect.json_valid(table.c.snapshot))
                .order_by(self.dialect.time_out(table.c.createdAt).desc(), table.c.run_id.desc())
                .limit(parameter("limit"))
            )

        return self._shape("corrupt", build)

    # -- suspended runs --------------------------------------------------------------------

    def suspended_page(
        self, names: int, filters: Collection[str], *, limited: bool, tolerant: bool
    ) -> Statement:
        """
        Projections of suspended rows of one owner, across ``names`` workflow names (8, G7).

        Keys are found in the index alone; documents are touched for the page only.
        """

        def build() -> Executable:
            table = self._table
            keys = self._suspended_keys(names, filters, limited=limited, tolerant=tolerant)
            page = keys.subquery("page")
            joined = table.join(
                page,
                and_(
                    table.c.workflow_name == page.c.workflow_name,
                    table.c.run_id == page.c.run_id,
                ),
            )
            snapshot, unpacked = self.dialect.unpacked(table.c.snapshot)
            source = joined if unpacked is None else joined.join(unpacked, true())
            return (
                select(*self._projection(snapshot))
                .select_from(source)
                .order_by(self.dialect.time_out(table.c.createdAt).desc(), table.c.run_id.desc())
            )

        shape = (names, frozenset(filters), limited, tolerant)
        return self._shape("suspended_page", build, *shape, documents=True)

    def suspended_count(self, names: int, filters: Collection[str], *, tolerant: bool) -> Statement:
        """How many suspended rows match, from the index alone."""

        def build() -> Executable:
            conditions = self._suspended(counted, tolerant=tolerant)
            return (
                select(func.count()).select_from(self._table).where(self._named(names), *conditions)
            )

        # A cursor moves the page, not the number of matches.
        counted = frozenset(filters) - {"after"}
        return self._shape("suspended_count", build, names, counted, tolerant)

    def _suspended_keys(
        self, names: int, filters: Collection[str], *, limited: bool, tolerant: bool
    ) -> Any:
        table = self._table
        created_at = self.dialect.time_out(table.c.createdAt)

        def of(index: int) -> Any:
            # One ordered walk through the index per name; merged below.
            statement = (
                select(table.c.workflow_name, table.c.run_id, created_at.label("createdAt"))
                .where(
                    table.c.workflow_name == parameter(f"name_{index}"),
                    *self._suspended(filters, tolerant=tolerant),
                )
                .order_by(created_at.desc(), table.c.run_id.desc())
            )
            return statement.limit(parameter("end")) if limited else statement

        if names == 1:
            only = of(0)
            return only.offset(parameter("offset")) if limited else only
        walks = [of(index).subquery(f"walk_{index}") for index in range(names)]
        first, *others = (select(walk) for walk in walks)
        union = first.union_all(*others).subquery("walks")
        merged = select(union).order_by(union.c.createdAt.desc(), union.c.run_id.desc())
        if limited:
            merged = merged.limit(parameter("limit")).offset(parameter("offset"))
        return merged

    def _named(self, names: int) -> ColumnElement[bool]:
        wanted = [parameter(f"name_{index}") for index in range(names)]
        return self._table.c.workflow_name.in_(wanted)

    def _suspended(self, filters: Collection[str], *, tolerant: bool) -> list[ColumnElement[bool]]:
        table, dialect = self._table, self.dialect
        created_at = dialect.time_out(table.c.createdAt)
        status = self._at(("status",), tolerant=tolerant)
        conditions: list[ColumnElement[bool]] = [
            status == literal_column("'suspended'"),
            self._owner(tolerant=tolerant) == parameter("agentId"),
        ]
        possible: dict[str, ColumnElement[bool]] = {
            "threadId": self._memory(THREAD_PATHS, tolerant=tolerant) == parameter("threadId"),
            "resourceId": func.coalesce(
                table.c.resourceId, self._memory(RESOURCE_PATHS, tolerant=tolerant)
            )
            == parameter("resourceId"),
            "from_date": created_at >= parameter("from_date"),
            "to_date": created_at < parameter("to_date"),
            "after": or_(
                created_at < parameter("after_at"),
                and_(created_at == parameter("after_at"), table.c.run_id < parameter("after_run")),
            ),
        }
        conditions += [found for name, found in possible.items() if name in filters]
        return conditions

    def _projection(self, snapshot: ColumnElement[Any]) -> list[ColumnElement[Any]]:
        table, dialect = self._table, self.dialect
        return [
            table.c.workflow_name,
            table.c.run_id,
            table.c.resourceId,
            dialect.time_out(table.c.createdAt).label("createdAt"),
            dialect.time_out(table.c.updatedAt).label("updatedAt"),
            dialect.json_without(snapshot, *_HEAVY).label("document"),
            dialect.json_has(snapshot, *_STREAM_STATE).label("has_state"),
            dialect.json_text_at(snapshot, *_REGULAR_INFO).label("regular_info"),
            dialect.json_text_at(snapshot, *_DURABLE_INFO).label("durable_info"),
        ]

    def _owner(self, *, tolerant: bool) -> ColumnElement[Any]:
        return func.coalesce(*(self._at(path, tolerant=tolerant) for path in OWNER_PATHS))

    def _memory(
        self, paths: tuple[tuple[str, ...], tuple[str, ...]], *, tolerant: bool
    ) -> ColumnElement[Any]:
        """A member of the memory info, from where the stream state says or the input."""
        snapshot = self._table.c.snapshot
        regular, durable = (self.dialect.json_at(snapshot, *path) for path in paths)
        has_state = self.dialect.json_has(snapshot, *STREAM_STATE_PATH)
        found = case((has_state, regular), else_=durable)
        return self.dialect.when_valid(snapshot, found) if tolerant else found

    def _at(self, path: tuple[str, ...], *, tolerant: bool) -> ColumnElement[Any]:
        found = self.dialect.json_at(self._table.c.snapshot, *path)
        return self.dialect.when_valid(self._table.c.snapshot, found) if tolerant else found

    # -- claims ----------------------------------------------------------------------------

    def expired_claims(self, *, tolerant: bool) -> Statement:
        """Keys of rows whose resume claim ran out (G4)."""

        def build() -> Executable:
            table = self._table
            expires_at = self._at(("resumeClaim", "expiresAt"), tolerant=tolerant)
            return (
                select(table.c.workflow_name, table.c.run_id)
                .where(
                    expires_at.is_not(None),
                    expires_at <= parameter("store_now"),
                    self.dialect.one_of(table.c.workflow_name, parameter("names")),
                )
                .order_by(expires_at)
                .limit(parameter("limit"))
            )

        return self._shape("expired_claims", build, tolerant)
