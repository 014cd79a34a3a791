"""The half of the bus that only PostgreSQL has: inserting and claiming, one statement each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

import psycopg

from mastra_core.base.clock import Clock
from mastra_core.base.ids import Ids
from mastra_core.bus import Outgoing
from mastra_core.contracts.pubsub import PubSubCapabilities
from mastra_postgres.bus_schema import BusSchema
from mastra_postgres.dialect import array_text
from mastra_postgres.listener import PostgresDoorbell
from mastra_postgres.schema import table_name
from mastra_postgres.sharing import Place
from mastra_sql.bus import (
    Appended,
    BusDialect,
    ClaimedRow,
    NewEvent,
    Pace,
    SqlBusDriver,
    appended_from,
)
from mastra_sql.executor import Rows, Step, atomic
from mastra_sql.lease import LeaseStatements
from mastra_sql.options import BusLimits
from mastra_sql.statement import Statement, plain

__all__ = ("PostgresDriver",)

#: Seconds between two looks: with a listener, and without.
_SAFETY: Final = 1.0
_POLLING: Final = 0.1

#: A crash of the server takes the last moments of a relaxed log with it, but readers have seen
#: them. Its numbers go on beyond what they can have seen, or they would wait for them again.
_LOST_TAIL: Final = 1_000

_RELAX: Final = plain(
    "SELECT set_config('synchronous_commit', 'off', true)", columns=("synchronous_commit",)
)


class PostgresDriver(SqlBusDriver):
    """
    A PostgreSQL database as the event engine sees it.

    Args:
        open_place: Opens the database, brought up to date.
        schema: Where the tables are.
        rest: What every SQL driver needs.
    """

    def __init__(
        self,
        open_place: Callable[[], AbstractAsyncContextManager[Place]],
        *,
        schema: BusSchema,
        dialect: BusDialect,
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
            tables=schema.bus,
            leases=leases,
            limits=limits,
            clock=clock,
            ids=ids,
            capabilities=capabilities,
            namespace=namespace,
        )
        self._pace = Pace(_SAFETY, _SAFETY)
        texts = _Texts(schema)
        self._insert_one = texts.insert_one()
        self._insert_many = texts.insert_many()
        self._lock_group = texts.lock_group()
        self._claim_any = texts.claim(ordered=False)
        self._claim_ordered = texts.claim(ordered=True)

    @property
    def bell(self) -> PostgresDoorbell | None:
        """What carries notifications, from ``open`` to ``close``."""
        return self._bell if isinstance(self._bell, PostgresDoorbell) else None

    def _seconds_to_next_look(self) -> float:
        return _SAFETY if self.bell is not None and self.bell.is_listening else _POLLING

    async def _run(
        self, operation: str, steps: Sequence[Step], *, durably: bool = False
    ) -> list[Rows]:
        """All of them or none, in one round trip."""
        if durably or operation == "publish":
            # A publish says itself how safe it is to be.
            return await self.executor.transact(operation, atomic(*steps))
        # Settling and claiming may be undone by a crash of the server: the event comes again.
        return (await self.executor.transact(operation, atomic(Step(_RELAX), *steps)))[1:]

    # -- publishing ------------------------------------------------------------------------

    def insert(self, topic: str, events: Sequence[NewEvent]) -> list[Step]:
        values = {
            **self.topic_values(topic),
            "count": len(events),
            "commit": "local" if self.is_durable(topic) else "off",
        }
        if len(events) == 1:
            return [Step.of(self._insert_one, {**values, **events[0]._asdict()})]
        lists = {name: array_text([getattr(one, name) for one in events]) for name in _MEMBERS}
        return [Step.of(self._insert_many, {**values, **lists})]

    async def _append_all(self, topic: str, events: Sequence[NewEvent]) -> Appended:
        bell = self.bell
        if bell is None or not bell.is_listening:
            return await super()._append_all(topic, events)
        # Others hear of it a round trip earlier.
        name = f"t:{self.key(topic)}"
        rows, *_ = await bell.write_and_ring("publish", self.insert(topic, events), name)
        return appended_from(rows, is_told=True)

    def _tell_here(self, topic: str) -> None:
        super()._tell_here(topic)
        if self.bell is not None:
            self.bell.tell(f"t:{self.key(topic)}", self._hints)

    async def append_within(
        self, connection: psycopg.AsyncConnection[Any], topic: str, outgoing: Outgoing
    ) -> None:
        """
        Append within somebody else's transaction, who is told of by its commit.

        Raises:
            psycopg.Error: As the connection raises it, which isn't ours.
        """
        cursor = psycopg.AsyncRawCursor(connection)
        if outgoing.dedupe_id is not None:
            for lock in self._locks(topic, [outgoing]):
                await cursor.execute(lock.statement.sql.encode(), lock.values)
            ids = array_text([self._dialect.text_of(outgoing.event.id)])
            known = Step.of(self.statements.known_ids(), {"topic": self.key(topic), "ids": ids})
            await cursor.execute(known.statement.sql.encode(), known.values)
            if await cursor.fetchone() is not None:
                return
        [insert] = self.insert(topic, [self._new(outgoing)])
        values = list(insert.values)
        # How safe the transaction is to be is its owner's business.
        values[insert.statement.parameters.index("commit")] = "local"
        await cursor.execute(insert.statement.sql.encode(), values)
        if self.bell is not None:
            notify = self.bell.notification(f"t:{self.key(topic)}")
            await cursor.execute(notify.statement.sql.encode(), notify.values)

    # -- claiming --------------------------------------------------------------------------

    async def _claim(
        self, values: dict[str, Any], *, ordered: bool
    ) -> tuple[list[ClaimedRow], int | None]:
        rows, looked = await self._claim_once(values, ordered=ordered)
        if looked and looked[0][0] is None:
            # The topic is there, but not the group: it is gone, or never was.
            await self._run("claim", [Step.of(self.statements.join_group("earliest"), values)])
            rows, looked = await self._claim_once(values, ordered=ordered)
        due_ms = looked[0][2] if looked else None
        return [ClaimedRow(*row) for row in rows], None if due_ms is None else max(0, int(due_ms))

    async def _claim_once(self, values: dict[str, Any], *, ordered: bool) -> tuple[Rows, Rows]:
        claim = Step.of(self._claim_ordered if ordered else self._claim_any, values)
        look = Step.of(self.statements.look_for_work(), values)
        if ordered:
            # Whoever waited here must see what the other one did.
            lock = Step.of(self._lock_group, values)
            _, rows, looked = await self._run("claim", [lock, claim, look])
        else:
            rows, looked = await self._run("claim", [claim, look])
        return rows, looked


_MEMBERS: Final = NewEvent._fields


class _Texts:
    """Statements that no other database understands."""

    def __init__(self, schema: BusSchema) -> None:
        bus = schema.bus
        self._topics = table_name(bus.topics)
        self._events = table_name(bus.events)
        self._groups = table_name(bus.groups)
        self._pending = table_name(bus.pending)

    def insert_one(self) -> Statement:
        """Allocate one number and insert one event."""
        rows = (
            "SELECT $6::text AS event_id, $7::text AS type, $8::text AS run_id, "
            "$9::text AS payload, 1 AS place"
        )
        return self._insert(rows, "bus.insert_one")

    def insert_many(self) -> Statement:
        """Allocate as many numbers as there are events in the lists, and insert those."""
        rows = (
            "SELECT * FROM unnest($6::text[], $7::text[], $8::text[], $9::text[]) "
            "WITH ORDINALITY AS one(event_id, type, run_id, payload, place)"
        )
        return self._insert(rows, "bus.insert_many")

    def _insert(self, rows: str, name: str) -> Statement:
        sql = f"""
        WITH log AS (
          INSERT INTO {self._topics} AS t ("topic", "epoch", "lastSeq", "firstSeq", "revision",
            "lastWriteAt", "idleTtlMs", "class")
          VALUES ($1, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, $2::bigint, 1, 1,
            clock_timestamp(), $3::bigint, $4)
          ON CONFLICT ("topic") DO UPDATE SET "lastSeq" = t."lastSeq" + $2::bigint
              + CASE WHEN $5::text = 'off' AND t."lastWriteAt" < pg_postmaster_start_time()
                THEN {_LOST_TAIL} ELSE 0 END,
            "revision" = t."revision" + 1, "lastWriteAt" = clock_timestamp(),
            "idleTtlMs" = $3::bigint
          RETURNING "topicId", "epoch", "lastSeq", "firstSeq"
        ), added AS (
          INSERT INTO {self._events} ("topicId", "epoch", "seq", "eventId", "type", "runId",
            "payload", "createdAt")
          SELECT log."topicId", log."epoch", log."lastSeq" - $2::bigint + new.place, new.event_id,
            new.type, new.run_id, new.payload, clock_timestamp()
          FROM log, ({rows}) AS new
        )
        SELECT "topicId", "epoch", "lastSeq", "firstSeq",
          set_config('synchronous_commit',
            CASE WHEN $5::text = 'off' THEN 'off' ELSE current_setting('synchronous_commit') END,
            true)
        FROM log
        """  # noqa: S608 - names of ours
        return _statement(
            name,
            sql,
            ("topic", "count", "idle_ttl_ms", "class", "commit", *_MEMBERS),
            ("topicId", "epoch", "lastSeq", "firstSeq", "commit"),
        )

    def lock_group(self) -> Statement:
        """Claim for a group one after the other."""
        sql = f"""
        SELECT 1 FROM {self._groups} AS g JOIN {self._topics} AS t USING ("topicId")
        WHERE t."topic" = $1 AND g."group" = $2 FOR UPDATE OF g
        """  # noqa: S608 - names of ours
        return _statement("bus.lock_group", sql, ("topic", "group"), ("locked",), writes=False)

    def claim(self, *, ordered: bool) -> Statement:
        """What came back and isn't being claimed by another one; then what is new."""
        unheld = ""
        if ordered:
            unheld = (
                f"AND NOT EXISTS (SELECT 1 FROM {self._pending} AS p "  # noqa: S608
                'WHERE p."topicId" = g."topicId" AND p."group" = g."group")'
            )
        sql = f"""
        WITH log AS (
          SELECT "topicId", "epoch" FROM {self._topics} WHERE "topic" = $1
        ), due AS (
          SELECT p."topicId", p."group", p."epoch", p."seq"
          FROM {self._pending} AS p JOIN log USING ("topicId")
          WHERE p."group" = $2 AND p."visibleAt" <= clock_timestamp()
          ORDER BY p."seq" LIMIT $4::bigint FOR UPDATE OF p SKIP LOCKED
        ), again AS (
          UPDATE {self._pending} AS p SET "attempt" = p."attempt" + 1, "consumer" = $3,
            "visibleAt" = clock_timestamp() + $5::bigint * interval '1 millisecond'
          FROM due WHERE (p."topicId", p."group", p."epoch", p."seq")
            = (due."topicId", due."group", due."epoch", due."seq")
          RETURNING p."topicId", p."epoch", p."seq", p."attempt", p."lastError", p."payload"
        ), place AS (
          SELECT g."topicId", g."group", g."cursorSeq", log."epoch"
          FROM {self._groups} AS g JOIN log USING ("topicId")
          WHERE g."group" = $2 AND (SELECT count(*) FROM again) < $4::bigint {unheld}
          FOR UPDATE OF g SKIP LOCKED
        ), fresh AS (
          SELECT e."topicId", place."group", e."epoch", e."seq", e."payload"
          FROM place JOIN {self._events} AS e ON e."topicId" = place."topicId"
            AND e."epoch" = place."epoch" AND e."seq" > place."cursorSeq"
          ORDER BY e."seq" LIMIT $4::bigint - (SELECT count(*) FROM again)
        ), held AS (
          INSERT INTO {self._pending} ("topicId", "group", "epoch", "seq", "consumer", "attempt",
            "visibleAt")
          SELECT "topicId", "group", "epoch", "seq", $3, 1,
            clock_timestamp() + $5::bigint * interval '1 millisecond'
          FROM fresh
        ), moved AS (
          UPDATE {self._groups} AS g SET "cursorSeq" = seen.last, "lastSeenAt" = clock_timestamp()
          FROM (SELECT "topicId", "group", max("seq") AS last FROM fresh GROUP BY 1, 2) AS seen
          WHERE g."topicId" = seen."topicId" AND g."group" = seen."group"
        )
        SELECT "epoch", "seq", "attempt", "lastError", coalesce("payload", (
            SELECT e."payload" FROM {self._events} AS e WHERE e."topicId" = again."topicId"
              AND e."epoch" = again."epoch" AND e."seq" = again."seq"))
        FROM again
        UNION ALL
        SELECT "epoch", "seq", 1, NULL, "payload" FROM fresh
        """  # noqa: S608 - names of ours
        name = "bus.claim_ordered" if ordered else "bus.claim"
        return _statement(
            name,
            sql,
            ("topic", "group", "consumer", "limit", "ack_wait_ms"),
            ("epoch", "seq", "attempt", "lastError", "payload"),
        )


def _statement(
    name: str,
    sql: str,
    parameters: Sequence[str],
    columns: Sequence[str],
    *,
    writes: bool = True,
) -> Statement:
    return Statement(
        name=name,
        sql=" ".join(sql.split()),
        parameters=tuple(parameters),
        columns=tuple(columns),
        writes=writes,
        documents=False,
        volatile=False,
        bind=lambda values: tuple(values[parameter] for parameter in parameters),
    )
