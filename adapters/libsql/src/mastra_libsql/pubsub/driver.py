"""The half of the bus that only libSQL has: inserting and claiming in fixed batches.

No step depends on the answer to an earlier one, so a whole batch is one hop to the worker
thread of a file, and one request to a server.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

from sqlalchemy import Executable, func, insert, literal_column, select, update

from mastra_core.base.clock import Clock
from mastra_core.base.ids import Ids
from mastra_core.contracts.pubsub import PubSubCapabilities
from mastra_libsql.doorbell import FileDoorbell
from mastra_libsql.embedded import EmbeddedExecutor
from mastra_libsql.sharing import Place
from mastra_sql.bus import (
    BusDialect,
    BusTables,
    ClaimedRow,
    NewEvent,
    Pace,
    SqlBusDriver,
)
from mastra_sql.bus.dialect import number, words
from mastra_sql.executor import Step, atomic
from mastra_sql.lease import LeaseStatements
from mastra_sql.options import BusLimits
from mastra_sql.statement import Statement

__all__ = ("LibSQLDriver",)

#: Seconds between two looks without a hint: a file has a thread for that, a server nothing.
_FILE_PACE: Final = (1.0, 1.0)
_SERVER_PACE: Final = (0.025, 1.0)


class LibSQLDriver(SqlBusDriver):
    """
    A libSQL database as the event engine sees it.

    Args:
        open_place: Opens the database, brought up to date.
        is_embedded: Whether it runs in this process.
        rest: What every SQL driver needs.
    """

    def __init__(
        self,
        open_place: Callable[[], AbstractAsyncContextManager[Place]],
        *,
        is_embedded: bool,
        dialect: BusDialect,
        tables: BusTables,
        leases: LeaseStatements,
        limits: BusLimits,
        clock: Clock,
        ids: Ids,
        capabilities: PubSubCapabilities,
        namespace: str = "",
    ) -> None:
        super().__init__(
            open_place,
            dialect=dialect,
            tables=tables,
            leases=leases,
            limits=limits,
            clock=clock,
            ids=ids,
            capabilities=capabilities,
            namespace=namespace,
        )
        self._pace = Pace(*(_FILE_PACE if is_embedded else _SERVER_PACE))

    def _hint_was_lost(self) -> None:
        if isinstance(self._bell, FileDoorbell):
            self._bell.missed()

    async def _transact(self, operation: str, program: Any, *, durably: bool = False) -> Any:
        executor = self.executor
        if durably and isinstance(executor, EmbeddedExecutor):
            return await executor.transact_durably(operation, program)
        return await executor.transact(operation, program)

    # -- publishing ------------------------------------------------------------------------

    def insert(self, topic: str, events: Sequence[NewEvent]) -> list[Step]:
        count = len(events)
        steps = [Step.of(self.statements.allocate(), {**self.topic_values(topic), "count": count})]
        statement, key = self._insert_event(), self.key(topic)
        for place, event in enumerate(events):
            values = {
                "topic": key,
                "back": count - 1 - place,
                "event_id": event.event_id,
                "type": event.type,
                "run_id": event.run_id,
                "payload": event.payload,
            }
            steps.append(Step.of(statement, values))
        return steps

    def _insert_event(self) -> Statement:
        """One event, at a place that was just allocated."""

        def build() -> Executable:
            topics, events = self.statements.tables.topics, self.statements.tables.events
            row = select(
                topics.c.topicId,
                topics.c.epoch,
                topics.c.lastSeq - number("back"),
                words("event_id"),
                words("type"),
                words("run_id"),
                words("payload"),
                self._dialect.now(),
            ).where(topics.c.topic == words("topic"))
            names = [
                "topicId",
                "epoch",
                "seq",
                "eventId",
                "type",
                "runId",
                "payload",
                "createdAt",
            ]
            return insert(events).from_select(names, row)

        return self.statements.shape("insert_event", build)

    # -- claiming --------------------------------------------------------------------------

    async def _claim(
        self, values: dict[str, Any], *, ordered: bool
    ) -> tuple[list[ClaimedRow], int | None]:
        statements = self.statements
        # Most hints find nothing to do; that must not take the only write lock there is.
        [looked] = await self._read("claim", Step.of(statements.look_for_work(), values))
        if not looked:
            return [], None
        cursor, new, due_ms = looked[0]
        if cursor is not None and new is None and (due_ms is None or due_ms > 0):
            return [], due_ms
        steps = [
            Step.of(statements.join_group("earliest"), values),
            Step.of(self._claim_again(), values),
            Step.of(self._claim_new(ordered=ordered), values),
            Step.of(self._move_cursor(), values),
            Step.of(statements.next_due(), values),
        ]
        [_, again, new, _, due] = await self.executor.transact("claim", atomic(*steps))
        rows = [ClaimedRow(*row) for row in (*again, *new)]
        next_due_ms = due[0][0] if due else None
        return rows, None if next_due_ms is None else max(0, int(next_due_ms))

    def _claim_again(self) -> Statement:
        """What is held or delayed and has waited long enough, lowest first."""

        def build() -> Executable:
            pending = self.statements.tables.pending
            mine = (
                pending.c.topicId == self.statements.topic_id(),
                pending.c.group == words("group"),
            )
            due: Any = (
                select(literal_column("rowid"))
                .select_from(pending)
                .where(*mine, pending.c.visibleAt <= self._dialect.now())
                .order_by(pending.c.seq)
                .limit(number("limit"))
            )
            return (
                update(pending)
                .where(literal_column("rowid").in_(due.scalar_subquery()))
                .values(
                    attempt=pending.c.attempt + literal_column("1"),
                    consumer=words("consumer"),
                    visibleAt=self._dialect.later(number("ack_wait_ms")),
                )
                .returning(
                    pending.c.epoch,
                    pending.c.seq,
                    pending.c.attempt,
                    pending.c.lastError,
                    func.coalesce(pending.c.payload, self.statements.payload_of(pending)),
                )
            )

        return self.statements.shape("claim_again", build)

    def _claim_new(self, *, ordered: bool) -> Statement:
        """What the group has not seen, as far as the limit allows after what came back."""

        def build() -> Executable:
            tables = self.statements.tables
            topics, events, groups = tables.topics, tables.events, tables.groups
            pending = tables.pending
            wanted = [
                topics.c.topic == words("topic"),
                groups.c.group == words("group"),
                events.c.seq > groups.c.cursorSeq,
            ]
            if ordered:
                held: Any = select(literal_column("1")).where(
                    pending.c.topicId == topics.c.topicId, pending.c.group == groups.c.group
                )
                wanted.append(~held.exists())
            joined = topics.join(groups, groups.c.topicId == topics.c.topicId).join(
                events,
                (events.c.topicId == topics.c.topicId) & (events.c.epoch == topics.c.epoch),
            )
            row = (
                select(
                    topics.c.topicId,
                    groups.c.group,
                    topics.c.epoch,
                    events.c.seq,
                    words("consumer"),
                    literal_column("1"),
                    self._dialect.later(number("ack_wait_ms")),
                )
                .select_from(joined)
                .where(*wanted)
                .order_by(events.c.seq)
                # How many came back: the statement before this one changed as many rows.
                .limit(number("limit") - literal_column("changes()"))
            )
            names = ["topicId", "group", "epoch", "seq", "consumer", "attempt", "visibleAt"]
            return (
                insert(pending)
                .from_select(names, row)
                .returning(
                    pending.c.epoch,
                    pending.c.seq,
                    pending.c.attempt,
                    pending.c.lastError,
                    self.statements.payload_of(pending),
                )
            )

        return self.statements.shape("claim_new", build, ordered)

    def _move_cursor(self) -> Statement:
        """The group has seen everything that it holds."""

        def build() -> Executable:
            groups, pending = self.statements.tables.groups, self.statements.tables.pending
            last = (
                select(func.max(pending.c.seq))
                .where(
                    pending.c.topicId == groups.c.topicId,
                    pending.c.group == groups.c.group,
                    pending.c.epoch == groups.c.epoch,
                )
                .scalar_subquery()
            )
            return (
                update(groups)
                .where(
                    groups.c.topicId == self.statements.topic_id(),
                    groups.c.group == words("group"),
                    groups.c.cursorSeq < last,
                )
                .values(cursorSeq=last)
            )

        return self.statements.shape("move_cursor", build)
