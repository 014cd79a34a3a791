"""Statements of threads, messages and resources (streaming.md 10.5-10.7)."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from sqlalchemy import (
    ColumnElement,
    Executable,
    Table,
    case,
    delete,
    func,
    select,
    tuple_,
    update,
)

from mastra_core.contracts.storage import OrderBy
from mastra_sql.statement import Statement
from mastra_sql.statements.base import StatementSet, equal, parameter
from mastra_sql.tables import data_columns

__all__ = ("MemoryStatements", "MessageFilter", "ThreadFilter")


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadFilter:
    """Which threads; the shape of the conditions and their parameters."""

    by_resource: bool
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageFilter:
    """Which messages; the shape of the conditions and their parameters."""

    scope: Literal["thread", "threads", "resource"]
    by_resource: bool = False
    #: Bounds on the creation time that are given: ``>=`` and ``<``.
    bounds: frozenset[str] = frozenset()
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def shape(self) -> tuple[Hashable, ...]:
        """What the conditions depend on, apart from the metadata."""
        return (self.scope, self.by_resource, self.bounds)


class MemoryStatements(StatementSet):
    """Rows of the three tables."""

    domain = "memory"

    # -- threads ---------------------------------------------------------------------------

    def save_thread(self) -> Statement:
        """Upsert the whole thread; the creation time stays."""

        def build() -> Executable:
            table = self.tables.threads
            statement = self.upsert(
                table, ("id",), replaced=("resourceId", "title", "metadata", "updatedAt")
            )
            return statement.returning(*self.all_of(table))  # type: ignore[no-any-return]

        return self._shape("save_thread", build)

    def create_thread(self) -> Statement:
        """Insert if absent; the stored thread comes back, whoever wrote it."""

        def build() -> Executable:
            table = self.tables.threads
            # Writing the key over itself changes nothing and makes the row come back.
            statement = self.upsert(table, ("id",), replaced=("id",))
            return statement.returning(*self.all_of(table))  # type: ignore[no-any-return]

        return self._shape("create_thread", build)

    def get_thread(self) -> Statement:
        return self._shape(
            "get_thread", lambda: self.by_key(self.tables.threads, "id").with_for_update()
        )

    def update_thread(self, columns: Collection[str]) -> Statement:
        return self._shape(
            "update_thread",
            lambda: self.change(self.tables.threads, columns, "id"),
            frozenset(columns),
        )

    def delete_thread(self) -> tuple[Statement, Statement]:
        """Its messages, then the thread."""
        messages, threads = self.tables.messages, self.tables.threads
        return (
            self._shape(
                "delete_messages_of_thread",
                lambda: delete(messages).where(messages.c.thread_id == parameter("id")),
            ),
            self._shape("delete_thread", lambda: delete(threads).where(equal(threads, "id"))),
        )

    def touch_threads(self) -> Statement:
        """Move ``updatedAt`` of some threads."""

        def build() -> Executable:
            table = self.tables.threads
            return (
                update(table)
                .where(self.dialect.one_of(table.c.id, parameter("ids")))
                .values(self.new_values(table, {"updatedAt"}))
            )

        return self._shape("touch_threads", build)

    def prune_messages_of_threads(self) -> Statement:
        """Delete the messages of the threads that ``prune`` deletes next."""

        def build() -> Executable:
            messages, threads = self.tables.messages, self.tables.threads
            row_id = self.dialect.row_id(threads)
            old = (
                select(threads.c.id)
                .where(self.dialect.time_out(threads.c.updatedAt) < parameter("before"))
                .order_by(row_id)
                .limit(parameter("batch"))
            )
            return delete(messages).where(messages.c.thread_id.in_(old.scalar_subquery()))

        return self._shape("prune_messages_of_threads", build)

    def threads_page(
        self, wanted: ThreadFilter, order: OrderBy, *, limited: bool
    ) -> tuple[Statement, dict[str, Any]]:
        """Threads in their order, and the parameters of the metadata filter."""
        words, values = self._members(wanted.metadata)

        def build() -> Executable:
            table = self.tables.threads
            statement = (
                select(*self.all_of(table))
                .where(*self._thread_conditions(wanted, words))
                .order_by(*self._order(table, order.field, order.direction))
            )
            if limited:
                statement = statement.limit(parameter("limit")).offset(parameter("offset"))
            return statement

        key = (wanted.by_resource, words, order.field, order.direction, limited)
        return self._shape("threads_page", build, *key), values

    def threads_count(self, wanted: ThreadFilter) -> Statement:
        words, _ = self._members(wanted.metadata)
        table = self.tables.threads
        return self._shape(
            "threads_count",
            lambda: (
                select(func.count())
                .select_from(table)
                .where(*self._thread_conditions(wanted, words))
            ),
            wanted.by_resource,
            words,
        )

    def _thread_conditions(
        self, wanted: ThreadFilter, words: tuple[str, ...]
    ) -> list[ColumnElement[bool]]:
        table = self.tables.threads
        conditions: list[ColumnElement[bool]] = []
        if wanted.by_resource:
            conditions.append(table.c.resourceId == parameter("resourceId"))
        return conditions + self._member_conditions(table.c.metadata, words)

    # -- messages --------------------------------------------------------------------------

    def known_messages(self) -> Statement:
        """Thread and creation time of the messages that exist."""

        def build() -> Executable:
            table = self.tables.messages
            created_at = self.dialect.time_out(table.c.createdAt).label("createdAt")
            return (
                select(table.c.id, table.c.thread_id, created_at)
                .where(self.dialect.one_of(table.c.id, parameter("ids")))
                .with_for_update()
            )

        return self._shape("known_messages", build)

    def save_message(self) -> Statement:
        """Upsert one message; the creation time stays."""
        replaced = ("thread_id", "content", "role", "type", "resourceId")

        def build() -> Executable:
            table = self.tables.messages
            if self.dialect.is_alone:
                return self.upsert(table, ("id",), replaced=replaced)  # type: ignore[no-any-return]
            # Somebody may have put the id into another thread since it was looked for. Then
            # this is no value for the column, the transaction ends, and is tried again.
            statement = self.dialect.insert(table).values(self.new_values(table))
            excluded = statement.excluded
            same = case((table.c.thread_id == excluded.thread_id, excluded.thread_id))
            return statement.on_conflict_do_update(  # type: ignore[no-any-return]
                index_elements=[table.c.id],
                set_={**{name: excluded[name] for name in replaced}, "thread_id": same},
            )

        return self._shape("save_message", build)

    def update_message(self, columns: Collection[str]) -> Statement:
        return self._shape(
            "update_message",
            lambda: self.change(self.tables.messages, columns, "id"),
            frozenset(columns),
        )

    def messages_by_id(self) -> Statement:
        """The messages that exist, by (created_at, id)."""

        def build() -> Executable:
            table = self.tables.messages
            return (
                select(*self.all_of(table))
                .where(self.dialect.one_of(table.c.id, parameter("ids")))
                .order_by(*self._order(table, "createdAt", "ASC"))
                .with_for_update()
            )

        return self._shape("messages_by_id", build)

    def delete_messages(self) -> Statement:
        def build() -> Executable:
            table = self.tables.messages
            return delete(table).where(self.dialect.one_of(table.c.id, parameter("ids")))

        return self._shape("delete_messages", build)

    def messages_page(
        self, wanted: MessageFilter, direction: Literal["ASC", "DESC"], *, limited: bool
    ) -> tuple[Statement, dict[str, Any]]:
        """Messages in their order, and the parameters of the metadata filter."""
        words, values = self._members(wanted.metadata)

        def build() -> Executable:
            table = self.tables.messages
            statement = (
                select(*self.all_of(table))
                .where(*self._message_conditions(wanted, words))
                .order_by(*self._order(table, "createdAt", direction))
            )
            if limited:
                statement = statement.limit(parameter("limit")).offset(parameter("offset"))
            return statement

        return self._shape("messages_page", build, *wanted.shape, words, direction, limited), values

    def messages_count(self, wanted: MessageFilter) -> Statement:
        words, _ = self._members(wanted.metadata)
        return self._shape(
            "messages_count",
            lambda: (
                select(func.count())
                .select_from(self.tables.messages)
                .where(*self._message_conditions(wanted, words))
            ),
            *wanted.shape,
            words,
        )

    def _message_conditions(
        self, wanted: MessageFilter, words: tuple[str, ...]
    ) -> list[ColumnElement[bool]]:
        table = self.tables.messages
        conditions: list[ColumnElement[bool]] = []
        if wanted.scope == "thread":
            conditions.append(table.c.thread_id == parameter("threadId"))
        elif wanted.scope == "threads":
            conditions.append(self.dialect.one_of(table.c.thread_id, parameter("threadIds")))
        if wanted.by_resource or wanted.scope == "resource":
            conditions.append(table.c.resourceId == parameter("resourceId"))
        created_at = self.dialect.time_out(table.c.createdAt)
        bounds = {
            ">=": created_at >= parameter("start"),
            "<": created_at < parameter("end"),
        }
        conditions += [bound for word, bound in bounds.items() if word in wanted.bounds]
        metadata = self.dialect.text_json_at(table.c.content, "metadata")
        return conditions + self._member_conditions(metadata, words)

    def neighbours(self, *, by_resource: bool) -> Statement:
        """
        One message with those around it in its own thread (field report O8).

        It may lie in another thread than those that were asked for, but no row of another
        resource comes back.
        """

        def build() -> Executable:
            table, time_out = self.tables.messages, self.dialect.time_out
            target = (
                select(table.c.thread_id, time_out(table.c.createdAt).label("at"), table.c.id)
                .where(table.c.id == parameter("id"))
                .cte("target")
            )
            other = table.alias("other")
            joined = other.join(target, other.c.thread_id == target.c.thread_id)
            at = time_out(other.c.createdAt)
            here = tuple_(at, other.c.id)
            there = tuple_(target.c.at, target.c.id)
            columns = [self.readable(column, other) for column in data_columns(table)]
            before = (
                select(*columns)
                .select_from(joined)
                .where(here <= there)
                .order_by(at.desc(), other.c.id.desc())
                .limit(parameter("before"))
                .subquery("before")
            )
            after = (
                select(*columns)
                .select_from(joined)
                .where(here > there)
                .order_by(at, other.c.id)
                .limit(parameter("after"))
                .subquery("after")
            )
            around = select(before).union_all(select(after)).subquery("around")
            statement = select(around)
            if by_resource:
                statement = statement.where(around.c.resourceId == parameter("resourceId"))
            return statement

        return self._shape("neighbours", build, by_resource)

    def messages_of_thread(self) -> Statement:
        """All messages of one thread, oldest first, for a copy of it."""

        def build() -> Executable:
            table = self.tables.messages
            return (
                select(*self.all_of(table))
                .where(table.c.thread_id == parameter("threadId"))
                .order_by(*self._order(table, "createdAt", "ASC"))
            )

        return self._shape("messages_of_thread", build)

    def move_messages(self) -> Statement:
        """Give all messages of a thread another resource."""

        def build() -> Executable:
            table = self.tables.messages
            return (
                update(table)
                .where(table.c.thread_id == parameter("key_thread_id"))
                .values(self.new_values(table, {"resourceId"}))
            )

        return self._shape("move_messages", build)

    # -- resources -------------------------------------------------------------------------

    def get_resource(self) -> Statement:
        return self._shape(
            "get_resource", lambda: self.by_key(self.tables.resources, "id").with_for_update()
        )

    def save_resource(self) -> Statement:
        """Upsert the whole resource; the creation time stays."""

        def build() -> Executable:
            table = self.tables.resources
            statement = self.upsert(
                table, ("id",), replaced=("workingMemory", "metadata", "updatedAt")
            )
            return statement.returning(*self.all_of(table))  # type: ignore[no-any-return]

        return self._shape("save_resource", build)

    # -- parts -----------------------------------------------------------------------------

    def _order(
        self, table: Table, field_name: str, direction: Literal["ASC", "DESC"]
    ) -> list[ColumnElement[Any]]:
        """By (field, id), both in one direction, so that pages never overlap."""
        columns = (self.dialect.time_out(table.c[field_name]), table.c.id)
        if direction == "ASC":
            return [column.asc() for column in columns]
        return [column.desc() for column in columns]

    def _members(self, wanted: Mapping[str, Any]) -> tuple[tuple[str, ...], dict[str, Any]]:
        """The shape of a metadata filter, and its parameters."""
        words: list[str] = []
        values: dict[str, Any] = {}
        for index, (key, value) in enumerate(wanted.items()):
            word, bound = self.dialect.member_values(key, f"member_{index}", value)
            words.append(word)
            values |= bound
        return tuple(words), values

    def _member_conditions(
        self, document: ColumnElement[Any], words: tuple[str, ...]
    ) -> list[ColumnElement[bool]]:
        return [
            self.dialect.member_equals(document, f"member_{index}", word)
            for index, word in enumerate(words)
        ]
