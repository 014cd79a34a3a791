"""
What is measured on every backend, against its driver used plainly with the same statements.

What the floor does, so that the comparison is one of like with like:

* the statements of our call, taken down once, with the same values, in the same transactions,
  in tables and indexes of its own; ids and times are new where ours are;
* a caller has Python values and wants Python values, so the floor writes the documents that it
  sends and reads those that it gets – but it checks nothing, converts nothing, builds no models;
* the same settings of the connection, and for many callers as many connections as ours has;
* both get their inputs ready-made: building an event or a message is the caller's work.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from itertools import count
from random import Random
from typing import Any, TypeVar
from uuid import UUID

from contents import NOW, document, event, message
from driver import Driver, Floors
from goals import goal_of
from harness import Call, Goal, Scenario, Timed
from templates import scattered

from mastra_core.wire.events import Event
from mastra_core.wire.notifications import NotificationPatch

__all__ = ("operations",)

T = TypeVar("T")

#: Rows that callers update or read in turn: what many do to one row is the server's queue.
ROWS = 64
#: Events in the backlog that a group consumes.
BACKLOG = 500


async def operations(driver: Driver, *, rounds: int, seed: int) -> AsyncIterator[Scenario]:
    """The scenarios of one backend; inputs lie ready for so many rounds, ids come of the seed."""
    async for scenario in _inbox(driver, rounds, Random(seed)):
        yield scenario
    for part in (_snapshots, _messages, _merging, _claims, _steps, _lease, _bus, _groups):
        async for scenario in part(driver, rounds):
            yield scenario


def _both(driver: Driver, name: str, ours: Call, floors: Floors, calls: int) -> list[Scenario]:
    """One caller against the floor, and 32 against 32."""
    return [
        _scenario(driver, name, ours, floors.alone, "one caller", calls),
        _scenario(driver, name, ours, floors.shared, "32 callers", calls * 2, tasks=32),
    ]


def _scenario(  # noqa: PLR0917 - a row of a table
    driver: Driver, name: str, ours: Call, floor: Call, goal: str, calls: int, *, tasks: int = 1
) -> Scenario:
    return Scenario(
        name=name,
        backend=driver.backend,
        ours=Timed(ours),
        floor=Timed(floor),
        against=driver.plain,
        goal=goal_of(goal, driver.backend),
        calls=calls,
        tasks=tasks,
    )


def _ready(make: Callable[[], T], calls: int, rounds: int) -> Iterator[T]:
    """As many inputs as one caller and 32 callers use up, and those of the warm-ups."""
    return iter([make() for _ in range(calls * 3 * (rounds + 1) + 64)])


def _in_turn(prefix: str) -> Callable[[], str]:
    """Names of a set of rows, one after the other."""
    numbers = count()
    return lambda: f"{prefix}{next(numbers) % ROWS}"


def _spread(prefix: str) -> dict[str, Callable[[int], str]]:
    """For the floor: the same."""
    return {f"{prefix}taken": lambda number: f"{prefix}{number % ROWS}"}


# -- storage ------------------------------------------------------------------------------------


async def _inbox(driver: Driver, rounds: int, rng: Random) -> AsyncIterator[Scenario]:
    inbox = driver.store.notifications
    calls = 200
    # Scattered ids, as random ones are: they decide which pages an insert touches.
    events = _ready(lambda: event(id=str(UUID(int=rng.getrandbits(128)))), calls, rounds)

    async def create() -> None:
        await inbox.create_notification(next(events))

    floors = await driver.floors(
        lambda: inbox.create_notification(event(id="id-taken")), {"id-taken": scattered}
    )
    for scenario in _both(driver, "notification create", create, floors, calls):
        yield scenario

    for name in ("seen-taken", *(f"seen-{number}" for number in range(ROWS))):
        await driver.on_both(
            lambda store, name=name: store.notifications.create_notification(event(id=name))
        )
    names = _in_turn("seen-")

    async def get() -> None:
        await inbox.get_notification("thread", names())

    await get()
    floors = await driver.floors(
        lambda: inbox.get_notification("thread", "seen-taken"), _spread("seen-")
    )
    for scenario in _both(driver, "notification get", get, floors, 300):
        yield scenario

    seen = NotificationPatch(status="seen")

    async def update() -> None:
        await inbox.update_notification("thread", names(), seen)

    floors = await driver.floors(
        lambda: inbox.update_notification("thread", "seen-taken", seen), _spread("seen-")
    )
    for scenario in _both(driver, "notification update", update, floors, 200):
        yield scenario


async def _snapshots(driver: Driver, rounds: int) -> AsyncIterator[Scenario]:
    del rounds
    runs = driver.store.workflows
    for kilobytes, calls in ((2, 200), (50, 100)):
        content, prefix = document(kilobytes), f"run{kilobytes}-"
        names = _in_turn(prefix)

        def key(run_id: str) -> dict[str, str]:
            return {"workflow_name": "workflow", "run_id": run_id}

        for name in (f"{prefix}taken", *(f"{prefix}{number}" for number in range(ROWS))):
            await driver.on_both(
                lambda store, name=name, content=content: store.workflows.persist_workflow_snapshot(
                    **key(name), snapshot=content
                )
            )

        async def persist(names: Any = names, content: Any = content) -> None:
            await runs.persist_workflow_snapshot(**key(names()), snapshot=content)

        async def load(names: Any = names) -> None:
            await runs.load_workflow_snapshot(**key(names()))

        floors = await driver.floors(
            lambda prefix=prefix, content=content: (  # type: ignore[misc]
                runs.persist_workflow_snapshot(**key(f"{prefix}taken"), snapshot=content)
            ),
            _spread(prefix),
        )
        for scenario in _both(driver, f"snapshot persist {kilobytes} KB", persist, floors, calls):
            yield scenario
        await load()
        floors = await driver.floors(
            lambda prefix=prefix: runs.load_workflow_snapshot(**key(f"{prefix}taken")),  # type: ignore[misc]
            _spread(prefix),
        )
        for scenario in _both(driver, f"snapshot load {kilobytes} KB", load, floors, calls):
            yield scenario


async def _messages(driver: Driver, rounds: int) -> AsyncIterator[Scenario]:
    memory = driver.store.memory
    calls = 100
    for number in (1, 10):
        batches = _ready(
            lambda number=number: [message("saved") for _ in range(number)],  # type: ignore[misc]
            calls,
            rounds,
        )

        async def save(batches: Any = batches) -> None:
            await memory.save_messages(next(batches))

        batch = [message("saved").replace(id=f"id{place}-taken") for place in range(number)]
        floors = await driver.floors(
            lambda batch=batch: memory.save_messages(batch),  # type: ignore[misc]
            {"-taken": lambda call: f"-{scattered(call)}"},
        )
        for scenario in _both(driver, f"message save {number}", save, floors, calls):
            yield scenario

    past = [message("history") for _ in range(400)]
    await driver.on_both(lambda store: store.memory.save_messages(past))

    async def history() -> None:
        await memory.list_messages("history", per_page=40, include_total=False)

    await history()
    floors = await driver.floors(history, {})
    for scenario in _both(driver, "history page of 40", history, floors, 100):
        yield scenario


async def _merging(driver: Driver, rounds: int) -> AsyncIterator[Scenario]:
    inbox = driver.store.notifications
    others = _ready(lambda: event("other"), 150, rounds)
    merged = event("merged", dedupe_key="one")

    async def create() -> None:
        await inbox.create_notification(next(others))

    async def merge() -> None:
        await inbox.create_notification(merged)

    yield _scenario(driver, "keyed create that merges, against a plain one", merge, create,
                    "merge", 150)  # fmt: skip


async def _claims(driver: Driver, rounds: int) -> AsyncIterator[Scenario]:
    del rounds
    inbox = driver.store.notifications
    for number in range(20):
        due = event("due", id=f"due{number}", deliver_at=NOW)
        await driver.on_both(lambda store, due=due: store.notifications.create_notification(due))
    later = NOW + timedelta(days=400)

    async def claim() -> None:
        claimed = await inbox.claim_due(later, "bench", limit=20, thread_id="due", visibility_ms=1)
        if len(claimed) == 20:
            await inbox.release_claims([c.ref for c in claimed])

    # The first one makes rows that later ones find.
    await claim()
    floors = await driver.floors(claim, {})
    yield _scenario(driver, "claim 20 due, and give them back", claim, floors.alone, "claim", 20)


async def _steps(driver: Driver, rounds: int) -> AsyncIterator[Scenario]:
    del rounds
    runs = driver.store.workflows
    key = {"workflow_name": "steps", "run_id": "run"}
    numbers = count()

    async def update() -> None:
        await runs.update_workflow_results(
            **key, step_id=f"step{next(numbers) % 8}", result={"status": "success", "output": 1}
        )

    await driver.on_both(
        lambda store: store.workflows.persist_workflow_snapshot(**key, snapshot=document(2))
    )
    floors = await driver.floors(update, {})
    yield _scenario(driver, "partial update of one run", update, floors.shared,
                    "partial updates", 160, tasks=8)  # fmt: skip


# -- leases and buses ---------------------------------------------------------------------------


async def _lease(driver: Driver, rounds: int) -> AsyncIterator[Scenario]:
    del rounds
    lease = driver.lease
    keys = count()

    async def acquire() -> None:
        await lease.acquire_lease(f"key{next(keys)}", "owner", 30_000)

    floors = await driver.floors(
        lambda: lease.acquire_lease("key-taken", "owner", 30_000),
        {"key-taken": lambda number: f"key{number}"},
    )
    yield _scenario(driver, "lease acquire", acquire, floors.alone, "lease acquire", 200)


async def _bus(driver: Driver, rounds: int) -> AsyncIterator[Scenario]:
    """From a publish to its delivery, against the way from a write to another connection."""
    del rounds
    async with driver.hearing() as heard:
        for name, receiver in (("", driver.bus), (" over the server", driver.far_bus)):
            topic = f"bench{name.replace(' ', '-')}"
            async with _delivered(driver.bus, receiver, topic) as deliver:
                yield _scenario(driver, f"publish and deliver{name}", deliver, heard,
                                "publish and deliver", 100)  # fmt: skip


class _delivered:  # noqa: N801 - used like a function
    """A call that publishes an event and ends when it was delivered."""

    def __init__(self, bus: Any, receiver: Any, topic: str) -> None:
        self._bus = bus
        self._receiver = receiver
        self._topic = topic
        self._arrived = asyncio.Event()

    async def __aenter__(self) -> Call:
        await self._receiver.subscribe(self._topic, self._deliver, start_from="latest")
        return self._publish

    async def __aexit__(self, *_: object) -> None:
        await self._receiver.unsubscribe(self._topic, self._deliver)

    async def _deliver(self, _: Event) -> None:
        self._arrived.set()

    async def _publish(self) -> None:
        self._arrived.clear()
        await self._bus.publish(self._topic, Event(type="x", run_id="r", data={"n": 1}))
        async with asyncio.timeout(10):
            await self._arrived.wait()


async def _groups(driver: Driver, rounds: int) -> AsyncIterator[Scenario]:
    """How many events of a backlog a group takes and acknowledges in a second."""
    del rounds
    numbers = count()
    topic = ""

    async def publish() -> None:
        nonlocal topic
        topic = f"backlog{next(numbers)}"
        events = [Event(type="x", run_id="r", data={"n": n}) for n in range(BACKLOG)]
        await asyncio.gather(*(driver.bus.publish(topic, one) for one in events))

    async def consume() -> None:
        done = asyncio.Event()
        left = BACKLOG

        async def handle(_: Event, ack: Any) -> None:
            nonlocal left
            await ack()
            left -= 1
            if left <= 0:
                done.set()

        await driver.bus.subscribe(topic, handle, group="workers")
        async with asyncio.timeout(60):
            await done.wait()
        await driver.bus.unsubscribe(topic, handle)
        await driver.bus.clear_topic(topic)

    goal: Goal = goal_of("grouped consume", driver.backend)
    yield Scenario(
        name="grouped consume with ack",
        backend=driver.backend,
        ours=Timed(consume, units=BACKLOG, before=publish),
        against=driver.plain,
        goal=goal,
        calls=1,
    )
