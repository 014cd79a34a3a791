"""
The MongoDB store, against ``pymongo`` used plainly with the same commands.

What the floor does, so that the comparison is one of like with like:

* the commands that ours sends – taken down by pymongo's own monitor, with their pipelines and
  their concern – repeated with the same values in collections of its own; ids are new where
  ours are;
* a caller has Python values and wants Python values, so the floor gives pymongo dictionaries and
  gets dictionaries from it; it checks nothing, converts nothing, and builds no models;
* one client with as many connections as ours, on the same server;
* both get their inputs ready-made: building an event or a message is the caller's work.

``python benchmarks/mongodb_store.py URL [--rounds N] [--only TEXT]`` prints the table.
"""

from __future__ import annotations

import argparse
import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from itertools import count
from typing import Any

import bson
from contents import NOW, document, event, message
from harness import Call, Goal, Result, Scenario, measure, table
from pymongo import AsyncMongoClient
from pymongo.monitoring import CommandListener, register

from mastra_core.plugins.context import AdapterContext
from mastra_core.wire.events import Event
from mastra_core.wire.notifications import NotificationPatch
from mastra_mongodb import MongoLease, MongoPubSub, MongoStorage

__all__ = ("open_scenarios",)

BACKEND = "mongodb"
FLOOR = "pymongo"
POOL = 32
ONE = Goal(kind="at most times", value=1.2)
MANY = Goal(kind="at least times faster", value=0.9)
OURS, PLAIN = "ours_", "plain_"

Document = dict[str, Any]

#: What a driver adds to each command by itself.
_ADDED = frozenset({"lsid", "$clusterTime", "$db", "txnNumber", "startTransaction", "autocommit"})
_CODEC: bson.codec_options.CodecOptions[Document] = bson.codec_options.CodecOptions(tz_aware=True)


class Tape(CommandListener):
    """What was sent, while somebody listens."""

    def __init__(self) -> None:
        self.taken: list[Document] | None = None

    def started(self, event: Any) -> None:
        """Keep it."""
        if self.taken is not None and event.command_name not in {"commitTransaction", "hello"}:
            raw = {k: v for k, v in event.command.items() if k not in _ADDED}
            # Not the very documents: the store may give them to the driver again.
            self.taken.append(bson.decode(bson.encode(raw), _CODEC))

    def succeeded(self, event: Any) -> None:
        """Not of interest."""

    def failed(self, event: Any) -> None:
        """Not of interest."""


class Bench:
    """One open store, the plain driver on collections of its own, and what connects them."""

    def __init__(self, store: MongoStorage, other: MongoStorage, tape: Tape, client: Any) -> None:
        self.store = store
        self.other = other
        self._tape = tape
        self._client = client
        self._database = client.get_default_database()

    async def on_both(self, call: Callable[[MongoStorage], Any]) -> None:
        """Do something to both sets of collections."""
        await call(self.store)
        await call(self.other)

    async def floor(self, call: Call, *, fresh: Sequence[str] = ()) -> Call:
        """
        The commands of a call, repeated by the plain driver.

        Args:
            call: Is made once with the store, to see its commands.
            fresh: Texts that must be new each time.
        """
        self._tape.taken = []
        try:
            await call()
        finally:
            taken, self._tape.taken = self._tape.taken, None
        numbers = count(1)
        templates = [_renamed(command) for command in taken]

        async def run() -> list[Any]:
            number = next(numbers)
            found = []
            for template in templates:
                command = template
                for text in fresh:
                    command = _replaced(command, text, f"{text}{number}-{uuid.uuid4()}")
                found.append(await self._send(command))
            return found

        return run

    async def _send(self, command: Document) -> Any:
        """One command as anybody would give it to pymongo."""
        name, target = next(iter(command.items()))
        rows = self._database[target]
        concern = command.get("writeConcern")
        if concern is not None:
            rows = rows.with_options(write_concern=_concern(concern))
        match name:
            case "insert":
                documents = [dict(one) for one in command["documents"]]
                if len(documents) == 1:
                    return await rows.insert_one(documents[0])
                return await rows.insert_many(documents)
            case "find":
                cursor = rows.find(
                    command.get("filter", {}),
                    command.get("projection"),
                    limit=command.get("limit", 0),
                    sort=list(command["sort"].items()) if command.get("sort") else None,
                )
                return await cursor.to_list()
            case "aggregate":
                return await (await rows.aggregate(command["pipeline"])).to_list()
            case "findAndModify":
                return await rows.find_one_and_update(
                    command["query"],
                    command["update"],
                    projection=command.get("fields"),
                    upsert=command.get("upsert", False),
                    return_document=command.get("new", False),
                    sort=list(command["sort"].items()) if command.get("sort") else None,
                )
            case "update":
                updates = command["updates"]
                if len(updates) > 1:
                    writes = [
                        _UPDATES[bool(one.get("multi"))](
                            one["q"], one["u"], upsert=one.get("upsert", False)
                        )
                        for one in updates
                    ]
                    return await rows.bulk_write(writes, ordered=command.get("ordered", True))
                [one] = updates
                act = rows.update_many if one.get("multi") else rows.update_one
                return await act(one["q"], one["u"], upsert=one.get("upsert", False))
            case _:
                raise NotImplementedError(name)


def _updates() -> Mapping[bool, Any]:
    from pymongo import UpdateMany, UpdateOne

    return {False: UpdateOne, True: UpdateMany}


_UPDATES = _updates()


def _concern(given: Mapping[str, Any]) -> Any:
    from pymongo import WriteConcern

    return WriteConcern(w=given.get("w", 1), j=given.get("j"))


def _renamed(value: Any) -> Any:
    """The same in the other collections."""
    match value:
        case str():
            return value.replace(OURS, PLAIN, 1) if value.startswith(OURS) else value
        case dict():
            return {name: _renamed(member) for name, member in value.items() if name != "_id" or
                    not isinstance(member, bson.ObjectId)}  # fmt: skip
        case list():
            return [_renamed(member) for member in value]
        case _:
            return value


def _replaced(value: Any, text: str, new: str) -> Any:
    match value:
        case str():
            return new if value == text else value
        case dict():
            return {name: _replaced(member, text, new) for name, member in value.items()}
        case list():
            return [_replaced(member, text, new) for member in value]
        case _:
            return value


@asynccontextmanager
async def open_scenarios(url: str) -> AsyncIterator[AsyncIterator[Scenario]]:
    """The scenarios, in two sets of collections of a database."""
    tape = Tape()
    register(tape)
    context = AdapterContext()
    mark = "&" if "?" in url else "?"
    own = f"{url}{mark}mastra_pool_size={POOL}"
    async with (
        AsyncMongoClient(url, maxPoolSize=POOL, tz_aware=True) as client,
        MongoStorage(f"{own}&mastra_prefix={OURS}", context) as store,
        MongoStorage(f"{own}&mastra_prefix={PLAIN}", context) as other,
        MongoLease(f"{own}&mastra_prefix={OURS}", context) as lease,
        MongoPubSub(f"{own}&mastra_prefix={OURS}", context) as bus,
    ):
        for each in (store, other):
            await each.dangerously_clear_all()
        bench = Bench(store, other, tape, client)
        yield _scenarios(bench, lease, bus)
        for each in (store, other):
            await each.dangerously_clear_all()


async def _scenarios(bench: Bench, lease: MongoLease, bus: MongoPubSub) -> AsyncIterator[Scenario]:
    async for scenario in _plain_calls(bench):
        yield scenario
    async for scenario in _notifications(bench):
        yield scenario
    async for scenario in _partial_updates(bench):
        yield scenario
    async for scenario in _lease(bench, lease):
        yield scenario
    async for scenario in _bus(bench, bus):
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
    events = iter([event(id=str(uuid.uuid4())) for _ in range(20_000)])

    async def create() -> None:
        await inbox.create_notification(next(events))

    known = "~known"
    floor = await bench.floor(lambda: inbox.create_notification(event(id=known)), fresh=[known])
    await bench.on_both(lambda store: store.notifications.create_notification(event(id="known")))
    known = "known"
    for scenario in _both("notification create", create, floor, 200):
        yield scenario

    async def get() -> None:
        await inbox.get_notification("thread", known)

    for scenario in _both("notification get", get, await bench.floor(get), 400):
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
    floor = await bench.floor(update)
    spread = _spread(floor, "seen", 64, bench)
    for scenario in _both("notification update", update, spread, 200):
        yield scenario

    for kilobytes in (2, 50):
        content = document(kilobytes)
        turn = count()

        def key(kilobytes: int = kilobytes, turn: Any = turn) -> dict[str, str]:
            return {"workflow_name": "workflow", "run_id": f"run{kilobytes}-{next(turn) % 64}"}

        async def persist(key: Any = key, content: Any = content) -> None:
            await runs.persist_workflow_snapshot(**key(), snapshot=content)

        async def load(key: Any = key) -> None:
            await runs.load_workflow_snapshot(**key())

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
        floor = _spread(await bench.floor(persist), f"run{kilobytes}-", 64, bench)
        for scenario in _both(f"snapshot persist {kilobytes} KB", persist, floor, 150):
            yield scenario
        floor = _spread(await bench.floor(load), f"run{kilobytes}-", 64, bench)
        for scenario in _both(f"snapshot load {kilobytes} KB", load, floor, 200):
            yield scenario

    for number in (1, 10):
        batches = iter([[message("saved") for _ in range(number)] for _ in range(6000)])

        async def save(batches: Any = batches) -> None:
            await memory.save_messages(next(batches))

        batch = [m.replace(id=f"{m.id}#") for m in next(batches)]
        floor = await bench.floor(
            lambda batch=batch: memory.save_messages(batch),  # type: ignore[misc]
            fresh=[m.id for m in batch],
        )
        for scenario in _both(f"message save {number}", save, floor, 150):
            yield scenario

    past = [message("history") for _ in range(400)]
    await bench.on_both(lambda store: store.memory.save_messages(past))

    async def history() -> None:
        await memory.list_messages("history", per_page=40, include_total=False)

    for scenario in _both("history page of 40", history, await bench.floor(history), 200):
        yield scenario


def _spread(floor: Call, prefix: str, size: int, bench: Bench) -> Call:
    """The floor on rows of a set in turn, as ours is."""
    numbers = count()
    cells = dict(zip(floor.__code__.co_freevars, floor.__closure__ or (), strict=True))  # type: ignore[attr-defined]
    templates = cells["templates"].cell_contents
    variants = [
        [_prefixed(one, prefix, f"{prefix}{number}") for one in templates] for number in range(size)
    ]

    async def run() -> None:
        for command in variants[next(numbers) % size]:
            await bench._send(command)  # noqa: SLF001 - both are of this module

    return run


def _prefixed(value: Any, prefix: str, new: str) -> Any:
    match value:
        case str():
            return new if value.startswith(prefix) else value
        case dict():
            return {name: _prefixed(member, prefix, new) for name, member in value.items()}
        case list():
            return [_prefixed(member, prefix, new) for member in value]
        case _:
            return value


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
        calls=200,
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
        goal=Goal(kind="at most times", value=1.5),
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
    yield Scenario(
        name="partial update of one run",
        backend=BACKEND,
        ours=update,
        floor=await bench.floor(update),
        against="plain atomic updates",
        goal=Goal(kind="at least times faster", value=1),
        calls=400,
        tasks=8,
    )


async def _lease(bench: Bench, lease: MongoLease) -> AsyncIterator[Scenario]:
    numbers = count()

    async def acquire() -> None:
        await lease.acquire_lease(f"key{next(numbers)}", "owner", 30_000)

    floor = await bench.floor(
        lambda: lease.acquire_lease("~key", "owner", 30_000), fresh=[f"{PLAIN}~key"]
    )
    yield Scenario(
        name="lease acquire", backend=BACKEND, ours=acquire, floor=floor, against=FLOOR,
        goal=Goal(kind="at most times", value=1.5), calls=200,
    )  # fmt: skip


async def _bus(bench: Bench, bus: MongoPubSub) -> AsyncIterator[Scenario]:
    """From a publish to its delivery, against the way from an insert to a change stream."""
    arrived = asyncio.Event()

    async def deliver(_: Any) -> None:
        arrived.set()

    async def ours() -> None:
        arrived.clear()
        await bus.publish("bench", Event(type="x", run_id="r", data={"n": 1}))
        await arrived.wait()

    rows = bench._database["plain_stream"].with_options(write_concern=_concern({"w": 1}))  # noqa: SLF001
    seen = asyncio.Event()

    async def watch(started: asyncio.Event) -> None:
        async with await rows.watch() as stream:
            started.set()
            async for _ in stream:
                seen.set()

    async def floor() -> None:
        seen.clear()
        await rows.insert_one({"type": "x", "run_id": "r", "data": {"n": 1}})
        await seen.wait()

    started = asyncio.Event()
    watching = asyncio.create_task(watch(started))
    try:
        await asyncio.wait_for(started.wait(), 20)
        await bus.subscribe("bench", deliver, start_from="latest")
        yield Scenario(
            name="publish and deliver", backend=BACKEND, ours=ours, floor=floor,
            against="insert and change stream", goal=Goal(kind="at most times", value=1.5),
            calls=150,
        )  # fmt: skip
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def _main() -> None:
    parser = argparse.ArgumentParser(description="The MongoDB store against pymongo.")
    parser.add_argument("url")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    results: list[Result] = []
    async with open_scenarios(options.url) as scenarios:
        async for scenario in scenarios:
            if options.only in scenario.name:
                results.append(await measure(scenario, rounds=options.rounds))
                print(table(results[-1:]).splitlines()[-1], flush=True)
    print(table(results))


if __name__ == "__main__":
    asyncio.run(_main())
