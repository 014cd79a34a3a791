"""
The libSQL store in a file, against ``apsw`` used plainly with the same statements.

What the floor does, so that the comparison is one of like with like:

* the same statements with the same values, in the same transactions, in a file with the same
  tables and indexes; ids and times are new where ours are;
* a caller has Python values and wants Python values, so the floor writes the documents that it
  binds and reads those that it gets with ``pydantic_core``, the quickest codec that there is –
  but it checks nothing, converts nothing, and builds no models of the rows;
* the same settings of the connection;
* one connection in one thread, one hop for each call, whoever else is calling;
* both get their inputs ready-made: building an event or a message is the caller's work.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import apsw
from contents import NOW, document, event, message
from harness import Call, Goal, Scenario
from pydantic_core import from_json, to_json

from mastra_core.base.clock import SystemClock
from mastra_core.base.isotime import to_iso_ms
from mastra_core.wire.notifications import NotificationPatch
from mastra_libsql import LibSQLStorage
from mastra_sql.executor import ProgramFactory, Rows, Step

__all__ = ("open_scenarios",)

BACKEND = "libsql file"
FLOOR = "apsw, one thread"
ONE = Goal(kind="at most times", value=1.3)
MANY = Goal(kind="at least times faster", value=2)

Bound = tuple[str, tuple[Any, ...]]
"""A statement and its values."""


class Recorder:
    """Takes down the statements of one call, with their values, in their transactions."""

    def __init__(self, executor: Any) -> None:
        self._executor = executor
        self.taken: list[tuple[bool, list[Step]]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._executor, name)

    async def read(self, operation: str, *steps: Step) -> list[Rows]:
        self.taken.append((False, list(steps)))
        rows: list[Rows] = await self._executor.read(operation, *steps)
        return rows

    async def write(self, operation: str, step: Step) -> Rows:
        self.taken.append((False, [step]))
        rows: Rows = await self._executor.write(operation, step)
        return rows

    async def transact(self, operation: str, program: ProgramFactory[Any]) -> Any:
        steps: list[Step] = []
        self.taken.append((True, steps))

        def recorded() -> Any:
            running = program()
            try:
                wanted = next(running)
                while True:
                    steps.extend(wanted)
                    wanted = running.send((yield wanted))
            except StopIteration as finished:
                return finished.value

        return await self._executor.transact(operation, recorded)


class Plain:
    """The driver as anybody would use it: one connection, one thread, one hop per call."""

    def __init__(self, path: Path) -> None:
        self.connection = apsw.Connection(str(path), statementcachesize=512)
        # Else every statement with a join is prepared anew for every call.
        self.connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        self.connection.execute("PRAGMA journal_mode = WAL").fetchall()
        self.connection.execute("PRAGMA synchronous = NORMAL")
        self._pool = ThreadPoolExecutor(1)

    async def call(self, work: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def run(self, calls: Sequence[tuple[bool, Sequence[Bound]]]) -> list[list[Any]]:
        """The rows of every statement; True before statements that are one transaction."""
        execute = self.connection.execute
        found = []
        for transaction, steps in calls:
            if transaction:
                execute("BEGIN IMMEDIATE")
            found += [execute(sql, values).fetchall() for sql, values in steps]
            if transaction:
                execute("COMMIT")
        return found

    def close(self) -> None:
        self._pool.shutdown()
        self.connection.close()


class Bench:
    """One open store, the plain driver on a file of its own, and what connects them."""

    def __init__(self, store: LibSQLStorage, plain: Plain) -> None:
        self.store = store
        self.plain = plain

    async def on_both(self, call: Callable[[LibSQLStorage], Awaitable[Any]]) -> None:
        """Do something to both databases."""
        await call(self.store)
        async with LibSQLStorage(f"file:{self.plain.connection.filename}") as other:
            await call(other)

    async def floor(self, call: Call, *, fresh: Sequence[str] = ()) -> Call:
        """
        The statements of a call, repeated by the plain driver.

        Times are new with every call, as they are with ours; else SQLite would find that
        nothing changes.

        Args:
            call: Is made once, to see its statements.
            fresh: Values that must be new each time, such as ids; ``#`` in them becomes a
                number that goes up, ``~`` one that jumps.
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
            (transaction, [Template(step, before, fresh) for step in steps])
            for transaction, steps in recorder.taken
        ]
        numbers = count(1)
        readers = [Reader() for _, templates in taken for _ in templates]

        async def plainly() -> list[list[Any]]:
            number = next(numbers)
            now = f"2099-01-01T{number // 3600000 % 24:02}:{number // 60000 % 60:02}:{number // 1000 % 60:02}.{number % 1000:03}Z"  # fmt: skip
            bound = [
                (transaction, [template.bound(number, now) for template in templates])
                for transaction, templates in taken
            ]
            found = await self.plain.call(lambda: self.plain.run(bound))
            return [read(rows) for read, rows in zip(readers, found, strict=True)]

        return plainly


class Reader:
    """Reads the documents among the rows of one statement; it learns where they stand."""

    def __init__(self) -> None:
        self._places: list[int] | None = None

    def __call__(self, rows: list[Any]) -> list[Any]:
        if self._places is None and rows:
            self._places = [
                place
                for place in range(len(rows[0]))
                if any(_is_document(row[place]) for row in rows)
            ]
        if not self._places:
            return rows
        read = []
        for row in rows:
            own = list(row)
            for place in self._places:
                if own[place] is not None:
                    own[place] = from_json(own[place])
            read.append(own)
        return read


class Template:
    """One statement with its values, and which of them are made anew for every call."""

    def __init__(self, step: Step, before: str, fresh: Sequence[str]) -> None:
        self._sql = step.statement.sql
        self._values = step.values
        texts = [(place, v) for place, v in enumerate(step.values) if isinstance(v, str)]
        #: Times that must be new.
        self._times = [
            place
            for place, value in texts
            if len(value) == len(before) and value >= before
            and value[10:11] == "T" and value < "2098"
        ]  # fmt: skip
        #: Ids that must be new.
        self._ids = [place for place, value in texts if any(text in value for text in fresh)]
        #: Documents as the caller has them.
        self._documents = [
            (place, from_json(value)) for place, value in texts if _is_document(value)
        ]

    def bound(self, number: int, now: str) -> Bound:
        """The statement for one call."""
        if not (self._times or self._ids or self._documents):
            return self._sql, self._values
        own = list(self._values)
        for place in self._times:
            own[place] = now
        for place, content in self._documents:
            own[place] = to_json(content).decode()
        for place in self._ids:
            text = own[place].replace("#", f"#{number}-")
            own[place] = text.replace("~", f"{number * 2654435761 % 2**32:08x}-")
        return self._sql, tuple(own)


def _is_document(value: Any) -> bool:
    return isinstance(value, str) and value[:1] in {"{", "["}


@asynccontextmanager
async def open_scenarios(folder: Path) -> AsyncIterator[AsyncIterator[Scenario]]:
    """The scenarios, on files in a folder."""
    path, plain_path = folder / "ours.db", folder / "plain.db"
    async with LibSQLStorage(f"file:{plain_path}"):
        pass
    plain = Plain(plain_path)
    try:
        async with LibSQLStorage(f"file:{path}") as store:
            yield _scenarios(Bench(store, plain))
    finally:
        plain.close()


async def _scenarios(bench: Bench) -> AsyncIterator[Scenario]:
    async for scenario in _plain_calls(bench):
        yield scenario
    async for scenario in _notifications(bench):
        yield scenario
    async for scenario in _partial_updates(bench):
        yield scenario


def _both(name: str, ours: Call, floor: Call, calls: int) -> list[Scenario]:
    """One caller against the floor, and 32 against 32."""
    return [
        Scenario(name=name, backend=BACKEND, ours=ours, floor=floor, against=FLOOR, goal=ONE,
                 calls=calls),
        Scenario(name=name, backend=BACKEND, ours=ours, floor=floor, against=FLOOR, goal=MANY,
                 calls=calls * 2, tasks=32),
    ]  # fmt: skip


async def _plain_calls(bench: Bench) -> AsyncIterator[Scenario]:
    inbox, runs, memory = bench.store.notifications, bench.store.workflows, bench.store.memory
    events = iter([event(id=str(uuid.uuid4())) for _ in range(40_000)])

    async def create() -> None:
        await inbox.create_notification(next(events))

    # Scattered ids, as random ones are: they decide which pages an insert touches.
    known = "~known"
    floor = await bench.floor(lambda: inbox.create_notification(event(id=known)), fresh=[known])
    await bench.on_both(lambda store: store.notifications.create_notification(event(id="known")))
    known = "known"
    for scenario in _both("notification create", create, floor, 200):
        yield scenario

    async def get() -> None:
        await inbox.get_notification("thread", known)

    for scenario in _both("notification get", get, await bench.floor(get), 300):
        yield scenario

    seen = NotificationPatch(status="seen")

    async def update() -> None:
        await inbox.update_notification("thread", known, seen)

    for scenario in _both("notification update", update, await bench.floor(update), 200):
        yield scenario

    for kilobytes in (2, 50):
        content = document(kilobytes)
        key = {"workflow_name": "workflow", "run_id": f"run{kilobytes}"}

        async def persist(key: Any = key, content: Any = content) -> None:
            await runs.persist_workflow_snapshot(**key, snapshot=content)

        async def load(key: Any = key) -> None:
            await runs.load_workflow_snapshot(**key)

        calls = 200 if kilobytes == 2 else 100
        await bench.on_both(
            lambda store, key=key, content=content: store.workflows.persist_workflow_snapshot(
                **key, snapshot=content
            )
        )
        floor = await bench.floor(persist)
        for scenario in _both(f"snapshot persist {kilobytes} KB", persist, floor, calls):
            yield scenario
        for scenario in _both(
            f"snapshot load {kilobytes} KB", load, await bench.floor(load), calls
        ):
            yield scenario

    for number in (1, 10):
        batches = iter(
            [
                [message("saved") for _ in range(number)]
                for _ in range(max(12_000, 20_000 // number))
            ]
        )

        async def save(batches: Any = batches) -> None:
            await memory.save_messages(next(batches))

        batch = [m.replace(id=f"{m.id}#") for m in next(batches)]
        floor = await bench.floor(
            lambda batch=batch: memory.save_messages(batch),  # type: ignore[misc]
            fresh=[m.id for m in batch],
        )
        for scenario in _both(f"message save {number}", save, floor, 100):
            yield scenario

    past = [message("history") for _ in range(400)]
    await bench.on_both(lambda store: store.memory.save_messages(past))

    async def history() -> None:
        await memory.list_messages("history", per_page=40, include_total=False)

    for scenario in _both("history page of 40", history, await bench.floor(history), 100):
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
        calls=150,
    )

    for number in range(20):
        due = event("due", id=f"due{number}", deliver_at=NOW)
        await bench.on_both(lambda store, due=due: store.notifications.create_notification(due))
    later = NOW + timedelta(days=400)

    async def claim() -> None:
        claimed = await inbox.claim_due(later, "bench", limit=20, thread_id="due", visibility_ms=1)
        if len(claimed) == 20:
            await inbox.release_claims([c.ref for c in claimed])

    yield Scenario(
        name="claim 20 due, and give them back",
        backend=BACKEND,
        ours=claim,
        floor=await bench.floor(claim),
        against=FLOOR,
        goal=ONE,
        calls=20,
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
    yield Scenario(
        name="partial update of one run",
        backend=BACKEND,
        ours=update,
        floor=await bench.floor(update),
        against="plain atomic updates",
        goal=Goal(kind="at least times faster", value=1.5),
        calls=150,
        tasks=8,
    )
