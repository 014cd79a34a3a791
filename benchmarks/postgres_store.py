"""
The PostgreSQL store, against ``psycopg`` used plainly with the same statements.

What the floor does, so that the comparison is one of like with like:

* the same statements with the same values, in the same transactions, on the same server, in
  tables and indexes of its own; ids and times are new where ours are;
* a caller has Python values and wants Python values, so the floor writes the documents that it
  binds and reads those that it gets with ``pydantic_core``, the quickest codec that there is –
  but it checks nothing, converts nothing, and builds no models of the rows;
* one caller has one connection; 32 callers share a pool of as many as ours, and each statement
  is prepared, as psycopg does by itself;
* both get their inputs ready-made: building an event or a message is the caller's work.

``python benchmarks/postgres_store.py URL [--rounds N] [--only TEXT]`` prints the table.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from itertools import count
from typing import Any

import psycopg
from contents import NOW, document, event, message
from harness import Call, Goal, Result, Scenario, measure, table
from libsql_store import Reader, Recorder, Template
from psycopg.types.string import TextLoader
from psycopg_pool import AsyncConnectionPool

from mastra_core.base.clock import SystemClock
from mastra_core.base.isotime import to_iso_ms
from mastra_core.plugins.context import AdapterContext
from mastra_core.wire.notifications import NotificationPatch
from mastra_postgres import PostgresStorage
from mastra_sql.executor import Step

__all__ = ("open_scenarios",)

BACKEND = "postgres"
FLOOR = "psycopg"
POOL = 4
ONE = Goal(kind="at most times", value=1.3)
MANY = Goal(kind="at least times faster", value=1.6)


class Plain:
    """The driver as anybody would use it: a pool, a cursor per statement."""

    def __init__(self, pool: AsyncConnectionPool[Any], alone: psycopg.AsyncConnection[Any]) -> None:
        self._pool = pool
        self._alone = alone

    async def run(self, calls: Sequence[tuple[bool, Sequence[Any]]], *, alone: bool) -> list[Any]:
        """The rows of every statement; True before statements that are one transaction."""
        if alone:
            return await self._run(self._alone, calls)
        async with self._pool.connection() as connection:
            return await self._run(connection, calls)

    async def _run(self, connection: Any, calls: Sequence[tuple[bool, Sequence[Any]]]) -> list[Any]:
        found = []
        for transaction, steps in calls:
            if transaction:
                async with connection.transaction():
                    found += [await self._rows(connection, *step) for step in steps]
            else:
                found += [await self._rows(connection, *step) for step in steps]
        return found

    async def _rows(self, connection: Any, sql: str, values: Sequence[Any]) -> list[Any]:
        cursor = await connection.execute(sql, values)
        return [] if cursor.description is None else await cursor.fetchall()


class Bench:
    """One open store, the plain driver on tables of its own, and what connects them."""

    def __init__(self, store: PostgresStorage, other: PostgresStorage, plain: Plain) -> None:
        self.store = store
        self.other = other
        self.plain = plain

    async def on_both(self, call: Callable[[PostgresStorage], Awaitable[Any]]) -> None:
        """Do something to both sets of tables."""
        await call(self.store)
        await call(self.other)

    async def floors(self, call: Call, *, fresh: Sequence[str] = ()) -> tuple[Call, Call]:
        """
        The statements of a call, repeated by the plain driver: alone, and with the pool.

        Args:
            call: Is made once with the store, to see its statements.
            fresh: Values that must be new each time; see ``libsql_store``.
        """
        door: Any = self.store._door  # noqa: SLF001 - to see the statements of a call
        client = door.client
        recorder = Recorder(client)
        door.client = recorder
        before = to_iso_ms(SystemClock().now())
        try:
            await call()
        finally:
            door.client = client
        taken = [
            (t, [PlainTemplate(step, before, fresh, locks=t) for step in steps])
            for t, steps in recorder.taken
        ]
        numbers = count(1)
        readers = [Reader() for _, templates in taken for _ in templates]

        def plainly(*, alone: bool) -> Call:
            async def run() -> list[list[Any]]:
                number = next(numbers)
                now = f"2099-01-01T{number // 3600000 % 24:02}:{number // 60000 % 60:02}:{number // 1000 % 60:02}.{number % 1000:03}Z"  # fmt: skip
                bound = [
                    (transaction, [template.bound(number, now) for template in templates])
                    for transaction, templates in taken
                ]
                found = await self.plain.run(bound, alone=alone)
                return [read(rows) for read, rows in zip(readers, found, strict=True)]

            return run

        return plainly(alone=True), plainly(alone=False)


class PlainTemplate(Template):
    """A statement on the tables of the plain driver; outside of transactions it locks no rows."""

    def __init__(self, step: Any, before: str, fresh: Sequence[str], *, locks: bool) -> None:
        # Lists look like documents, but aren't.
        lists = {place for place, value in enumerate(step.values) if str(value).startswith('{"')}
        lists -= _documents(step.statement.sql)
        super().__init__(
            Step(
                step.statement, tuple(None if i in lists else v for i, v in enumerate(step.values))
            ),
            before,
            fresh,
        )
        self._values = step.values
        self._ids += [i for i in lists if any(text in step.values[i] for text in fresh)]
        sql = self._sql.replace("ours_mastra", "plain_mastra")
        self._sql = sql if locks else sql.partition(" FOR UPDATE")[0]


def _documents(sql: str) -> set[int]:
    """Positions of the parameters that are JSON."""
    return {int(number) - 1 for number in re.findall(r"CAST\(\$(\d+) AS JSONB\)", sql)}


@asynccontextmanager
async def open_scenarios(url: str) -> AsyncIterator[AsyncIterator[Scenario]]:
    """The scenarios, in two sets of tables of a database."""
    context = AdapterContext()
    mark = "&" if "?" in url else "?"
    own = f"{url}{mark}mastra_pool_size={POOL}"
    async with (
        PostgresStorage(f"{own}&mastra_prefix=ours_", context) as store,
        PostgresStorage(f"{own}&mastra_prefix=plain_", context) as other,
        AsyncConnectionPool(
            url,
            min_size=POOL,
            max_size=POOL,
            open=False,
            kwargs={"autocommit": True, "cursor_factory": psycopg.AsyncRawCursor},
            configure=_configure,
        ) as pool,
        await psycopg.AsyncConnection.connect(
            url, autocommit=True, cursor_factory=psycopg.AsyncRawCursor
        ) as alone,
    ):
        await _configure(alone)
        for each in (store, other):
            await each.dangerously_clear_all()
        yield _scenarios(Bench(store, other, Plain(pool, alone)))
        for each in (store, other):
            await each.dangerously_clear_all()


async def _configure(connection: psycopg.AsyncConnection[Any]) -> None:
    """Leave documents to the floor's own codec, which is quicker than psycopg's."""
    for name in ("json", "jsonb"):
        connection.adapters.register_loader(name, TextLoader)


async def _scenarios(bench: Bench) -> AsyncIterator[Scenario]:
    async for scenario in _plain_calls(bench):
        yield scenario
    async for scenario in _notifications(bench):
        yield scenario
    async for scenario in _partial_updates(bench):
        yield scenario


def _both(name: str, ours: Call, floors: tuple[Call, Call], calls: int) -> list[Scenario]:
    """One caller against the floor, and 32 against 32."""
    alone, pooled = floors
    return [
        Scenario(name=name, backend=BACKEND, ours=ours, floor=alone, against=FLOOR, goal=ONE,
                 calls=calls),
        Scenario(name=name, backend=BACKEND, ours=ours, floor=pooled, against=FLOOR, goal=MANY,
                 calls=calls * 2, tasks=32),
    ]  # fmt: skip


async def _plain_calls(bench: Bench) -> AsyncIterator[Scenario]:
    inbox, runs, memory = bench.store.notifications, bench.store.workflows, bench.store.memory
    events = iter([event(id=str(uuid.uuid4())) for _ in range(40_000)])

    async def create() -> None:
        await inbox.create_notification(next(events))

    # Scattered ids, as random ones are: they decide which pages an insert touches.
    known = "~known"
    floors = await bench.floors(lambda: inbox.create_notification(event(id=known)), fresh=[known])
    await bench.on_both(lambda store: store.notifications.create_notification(event(id="known")))
    known = "known"
    for scenario in _both("notification create", create, floors, 600):
        yield scenario

    async def get() -> None:
        await inbox.get_notification("thread", known)

    for scenario in _both("notification get", get, await bench.floors(get), 1200):
        yield scenario

    seen = NotificationPatch(status="seen")
    numbers = count()

    async def update() -> None:
        # Records of their own: what 32 callers do to one record is the server's queue.
        await inbox.update_notification("thread", f"seen{next(numbers) % 64}", seen)

    for number in range(64):
        await bench.on_both(
            lambda store, number=number: store.notifications.create_notification(
                event(id=f"seen{number}")
            )
        )
    for scenario in _both("notification update", update, await bench.floors(update), 600):
        yield scenario

    for kilobytes in (2, 50):
        content = document(kilobytes)
        runs_of = count()

        def key(kilobytes: int = kilobytes, runs_of: Any = runs_of) -> dict[str, str]:
            return {"workflow_name": "workflow", "run_id": f"run{kilobytes}-{next(runs_of) % 64}"}

        async def persist(key: Any = key, content: Any = content) -> None:
            await runs.persist_workflow_snapshot(**key(), snapshot=content)

        async def load(key: Any = key) -> None:
            await runs.load_workflow_snapshot(**key())

        calls = 600 if kilobytes == 2 else 200
        for number in range(64):
            await bench.on_both(
                lambda store, number=number, kilobytes=kilobytes, content=content: (
                    store.workflows.persist_workflow_snapshot(
                        workflow_name="workflow",
                        run_id=f"run{kilobytes}-{number}",
                        snapshot=content,
                    )
                )
            )
        floors = await bench.floors(persist)
        for scenario in _both(f"snapshot persist {kilobytes} KB", persist, floors, calls):
            yield scenario
        for scenario in _both(
            f"snapshot load {kilobytes} KB", load, await bench.floors(load), calls
        ):
            yield scenario

    for number in (1, 10):
        batches = iter(
            [[message("saved") for _ in range(number)] for _ in range(max(6000, 20_000 // number))]
        )

        async def save(batches: Any = batches) -> None:
            await memory.save_messages(next(batches))

        batch = [m.replace(id=f"{m.id}#") for m in next(batches)]
        floors = await bench.floors(
            lambda batch=batch: memory.save_messages(batch),  # type: ignore[misc]
            fresh=[m.id for m in batch],
        )
        for scenario in _both(f"message save {number}", save, floors, 300):
            yield scenario

    past = [message("history") for _ in range(400)]
    await bench.on_both(lambda store: store.memory.save_messages(past))

    async def history() -> None:
        await memory.list_messages("history", per_page=40, include_total=False)

    for scenario in _both("history page of 40", history, await bench.floors(history), 300):
        yield scenario


async def _notifications(bench: Bench) -> AsyncIterator[Scenario]:
    inbox = bench.store.notifications

    others = iter([event("other") for _ in range(10_000)])
    merged = event("merged", dedupe_key="one")

    async def create() -> None:
        await inbox.create_notification(next(others))

    async def merge() -> None:
        await inbox.create_notification(merged)

    yield Scenario(
        name="keyed create that merges",
        backend=BACKEND,
        ours=merge,
        floor=create,
        against="a plain create",
        goal=Goal(kind="at most times", value=2),
        calls=400,
    )

    for number in range(20):
        due = event("due", id=f"due{number}", deliver_at=NOW)
        await bench.on_both(lambda store, due=due: store.notifications.create_notification(due))
    later = NOW + timedelta(days=400)

    async def claim() -> None:
        claimed = await inbox.claim_due(later, "bench", limit=20, thread_id="due", visibility_ms=1)
        if len(claimed) == 20:
            await inbox.release_claims([c.ref for c in claimed])

    alone, _ = await bench.floors(claim)
    yield Scenario(
        name="claim 20 due, and give them back",
        backend=BACKEND,
        ours=claim,
        floor=alone,
        against=FLOOR,
        goal=ONE,
        calls=60,
    )


async def _partial_updates(bench: Bench) -> AsyncIterator[Scenario]:
    runs = bench.store.workflows
    key = {"workflow_name": "steps", "run_id": "run"}
    numbers = count()

    async def update() -> None:
        await runs.update_workflow_results(
            **key, step_id=f"step{next(numbers) % 8}", result={"status": "success", "output": 1}
        )

    await bench.on_both(
        lambda store: store.workflows.persist_workflow_snapshot(**key, snapshot=document(2))
    )
    _, pooled = await bench.floors(update)
    yield Scenario(
        name="partial update of one run",
        backend=BACKEND,
        ours=update,
        floor=pooled,
        against="plain atomic updates",
        goal=Goal(kind="at least times faster", value=2.5),
        calls=400,
        tasks=8,
    )


async def _measured(options: argparse.Namespace) -> list[Result]:
    results = []
    async with open_scenarios(options.url) as scenarios:
        async for scenario in scenarios:
            if options.only in scenario.name:
                print(f"… {scenario.name} ({scenario.tasks})", file=sys.stderr)
                results.append(await measure(scenario, rounds=options.rounds))
    return results


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", help="address of a database for the measurement alone")
    parser.add_argument("--rounds", type=int, default=15, help="turns per scenario")
    parser.add_argument("--only", default="", help="scenarios whose name contains this text")
    print(table(asyncio.run(_measured(parser.parse_args()))))


if __name__ == "__main__":
    main()
