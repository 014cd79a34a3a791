"""The log, its epochs and its pieces, beyond what the conformance suite asks of every bus."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from pymongo.asynchronous.database import AsyncDatabase

from mastra_conformance.suites.pubsub.support import Recorder
from mastra_core.bus import Page
from mastra_core.errors import FencedOutError
from mastra_core.plugins.context import AdapterContext
from mastra_core.wire.events import Event
from mastra_mongodb import MongoLease, MongoPubSub, MongoSettings
from mastra_mongodb.pubsub.envelope import Row, encode_event, event_document, row_from
from mastra_mongodb.pubsub.sweeper import Sweeper
from mastra_mongodb.pubsub.tails import Tail
from mastra_mongodb.sharing import share_place

pytestmark = pytest.mark.anyio

Database = AsyncDatabase[dict[str, Any]]
BOTH = pytest.mark.parametrize("product", ["mongodb", "mongodb-standalone"])


def event(data: Any, **members: Any) -> Event:
    return Event(type="test", run_id="r", data=data, **members)


@pytest.fixture
async def buses(server: str, database: Database) -> AsyncIterator[list[MongoPubSub]]:
    """Four buses on one database, as four processes have them."""
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(
                MongoPubSub(server, database=database.name, poll_ms=100)
            )
            for _ in range(4)
        ]


# -- the journal ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("product", "is_asked"), [("mongodb", True), ("mongodb-standalone", False)]
)
async def test_a_lone_member_of_a_set_is_asked_to_write_its_journal(
    server: str, database: Database, *, is_asked: bool
) -> None:
    """Else its change stream shows others ten times a second what was published."""
    settings = MongoSettings(url=server, database=database.name)
    async with share_place(settings, AdapterContext()) as place:
        await place.feed.ring([{"t": "t", "e": 1, "s": 1}])
        asked = [task for task in asyncio.all_tasks() if task.get_name() == "mongodb-journal"]

        assert place.pool.is_alone == is_asked
        assert bool(asked) == is_asked
        await asyncio.gather(*asked)


# -- the log ----------------------------------------------------------------------------------


@BOTH
async def test_publishers_in_a_race_leave_no_hole(
    buses: list[MongoPubSub], database: Database
) -> None:
    """Numbers are dense, every event is there once, each publisher's in its order."""

    async def publish(number: int) -> None:
        for count in range(25):
            await buses[number].publish("t", event([number, count]))

    await asyncio.gather(*map(publish, range(4)))

    history = await buses[0].get_history("t")
    assert list(range(100)) == [one.index for one in history]
    for number in range(4):
        assert list(range(25)) == [one.data[1] for one in history if one.data[0] == number]
    assert 100 == await database.mastra_pubsub_events.count_documents({})


@BOTH
async def test_whoever_believes_in_an_old_epoch_meets_its_end(buses: list[MongoPubSub]) -> None:
    """A publisher that didn't hear of a clear writes into the new epoch all the same."""
    one, two = buses[:2]
    await one.publish("t", event(1))
    await two.publish("t", event(2))

    await one.clear_topic("t")
    await two.publish("t", event(3))

    history = await one.get_history("t")
    assert [(0, 3)] == [(found.index, found.data) for found in history]


async def test_epochs_do_not_come_twice(buses: list[MongoPubSub], database: Database) -> None:
    """Not even when the topic was forgotten altogether, so no old cursor fits by chance."""
    await buses[0].publish("t", event(1))
    first = (await buses[0].get_history("t"))[0].cursor
    await buses[0].clear_topic("t")
    await database.mastra_pubsub_topics.delete_many({})
    await database.mastra_pubsub_events.delete_many({})

    await buses[1].publish("t", event(2))

    second = (await buses[1].get_history("t"))[0].cursor
    assert first is not None
    assert second is not None
    assert int(first.partition(":")[0]) < int(second.partition(":")[0])


@BOTH
async def test_a_long_event_travels_in_pieces(buses: list[MongoPubSub], database: Database) -> None:
    """It is whole for who listens and for who comes later; its pieces go with it."""
    text = "äx" * (5 * 1024 * 1024)
    arrived: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def listen(found: Event) -> None:
        arrived.set_result(found.data)

    await buses[1].subscribe("t", listen, start_from="latest")
    await buses[0].publish("t", event(text))

    async with asyncio.timeout(30):
        assert text == await arrived
    assert [text] == [found.data for found in await buses[2].get_history("t")]
    assert 2 == await database.mastra_pubsub_chunks.count_documents({"expiresAt": None})
    await buses[0].clear_topic("t")
    assert 0 == await database.mastra_pubsub_chunks.count_documents({})


@BOTH
async def test_an_older_fence_publishes_nothing(
    buses: list[MongoPubSub], server: str, database: Database
) -> None:
    """Neither after a newer one was granted, nor after it was used (L9)."""
    async with MongoLease(server, database=database.name) as leases:
        old = await leases.acquire_lease("k", "a", 60_000)
        await buses[0].publish("t", event(1), fence=("k", old.fence or 0))
        new = await leases.transfer_lease("k", "a", "b", 60_000)

        with pytest.raises(FencedOutError):
            await buses[0].publish("t", event(2), fence=("k", old.fence or 0))
        await buses[1].publish("t", event(3), fence=("k", new.fence or 0))
        await leases.release_lease("k", "b", holder=None)
        with pytest.raises(FencedOutError):
            await buses[0].publish("t", event(4), fence=("k", old.fence or 0))

    assert [1, 3] == [found.data for found in await buses[2].get_history("t")]


@BOTH
async def test_an_event_reaches_another_process_soon(buses: list[MongoPubSub]) -> None:
    """By a hint, not by the next look."""
    arrived = asyncio.Event()

    async def listen(found: Event) -> None:
        arrived.set()

    await buses[1].subscribe("t", listen, start_from="latest")
    await buses[0].publish("t", event(1))

    async with asyncio.timeout(60):
        await arrived.wait()


# -- sweeping ---------------------------------------------------------------------------------


@BOTH
async def test_an_idle_topic_is_emptied_and_works_again(server: str, database: Database) -> None:
    async with MongoPubSub(server, database=database.name, idle_ttl_ms=1) as bus:
        await bus.publish("t", event(1))
        await bus.publish("workflows", event(2))
        driver = bus._mongo  # the sweeper comes once a minute; here it comes now
        sweeper = Sweeper(driver._place, driver._log, "me", interval_ms=1_000)
        await asyncio.sleep(0.01)

        await sweeper.sweep()

        assert [] == await bus.get_history("t")
        assert [2] == [found.data for found in await bus.get_history("workflows")]
        await bus.publish("t", event(3))
        assert [3] == [found.data for found in await bus.get_history("t")]


@BOTH
async def test_a_reader_that_is_ahead_of_a_clearing_reads_nothing_twice(
    server: str, database: Database
) -> None:
    """The end of an epoch stands in the log before the topic says that there is a next one."""
    async with MongoPubSub(server, database=database.name) as bus:
        await bus.publish("t", event(1))
        driver = bus._mongo
        log = driver._log
        _, following = await log._end_epoch(log.key("t"), (await log.known_end("t"))[0])

        first, _ = await log.read_after("t", (0, 0), 10)
        second, _ = await log.read_after("t", (following, 0), 10)

    assert [1] == data_of(first)
    assert [] == data_of(second)


# -- the end of a log in memory ---------------------------------------------------------------


def row(seq: int, *, epoch: int = 7, following: int | None = None) -> Row:
    if following is not None:
        return Row((epoch, seq), None, 0, following)
    payload, _ = encode_event(event(seq, id=f"e{seq}"))
    document = event_document(payload, event(seq, id=f"e{seq}"), None)
    return row_from({**document, "e": epoch, "s": seq}, "t")


def data_of(page: Page | None) -> list[int] | None:
    return None if page is None else [entry.event.data for entry in page.entries]


def test_a_tail_answers_only_what_it_knows_for_sure() -> None:
    tail = Tail(limit=3)
    for seq in range(5, 10):
        tail.push(row(seq))

    assert data_of(tail.read((7, 6), 10)) == [7, 8, 9]
    assert data_of(tail.read((7, 8), 10)) == [9]
    assert tail.read((7, 4), 10) is None
    assert tail.read((6, 8), 10) is None
    assert tail.read((7, 9), 10) is None
    assert tail.is_end((7, 9))
    assert not tail.is_end((7, 8))


def test_a_hole_makes_a_tail_begin_anew() -> None:
    tail = Tail(limit=10)
    tail.push(row(1))
    tail.push(row(3))
    tail.push(row(2))

    assert tail.read((7, 1), 10) is None
    assert data_of(tail.read((7, 2), 10)) == [3]


def test_the_end_of_an_epoch_moves_a_tail_on() -> None:
    tail = Tail(limit=10)
    tail.push(row(1))
    tail.push(row(2, following=9))

    assert (9, 0) == (tail.epoch, tail.last)
    tail.push(row(1, epoch=9))
    assert data_of(tail.read((9, 0), 10)) == [1]


def test_a_document_that_is_no_event_is_a_place_without_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """P18: it is passed over, and doesn't stop a reader."""
    assert row_from({"e": 7, "s": 1, "p": "no json"}, "t").entry is None
    assert row_from({"e": 7, "s": 2}, "t").entry is None
    assert "unreadable event" in caplog.text


@pytest.mark.parametrize("product", ["mongodb-standalone"])
async def test_history_hides_no_event_whose_hint_was_lost(
    buses: list[MongoPubSub], database: Database
) -> None:
    """Whoever reads it first tells those who wait for it."""
    reader, writer = buses[:2]
    seen, member = Recorder(), Recorder()
    await reader.subscribe("t", seen)
    await reader.subscribe("t", member, group="g")
    await writer.publish("t", event(1))
    await seen.until(1)
    await member.until(1)
    [first] = (
        await database["mastra_pubsub_events"].find({"s": 1, "p": {"$exists": True}}).to_list()
    )

    # As a publisher that dies before its hint.
    place = {**first["_id"], "s": 2}
    copy = {**first, "_id": place, **place, "eventId": "2", "p": first["p"]}
    await database["mastra_pubsub_events"].insert_one(copy)
    assert [1, 1] == [event.data for event in await reader.get_history("t")]

    await seen.until(2)
    await member.until(2)


async def test_a_reader_ahead_of_the_end_leaves_no_hole(buses: list[MongoPubSub]) -> None:
    """That nothing was found behind a place doesn't mean that something is there."""
    bus = buses[0]
    await bus.subscribe("t", Recorder())
    for number in range(2):
        await bus.publish("t", event(number))
    driver: Any = bus._driver
    epoch, _ = await driver.locate("t", "latest")
    # As after a hint that told of nothing: the database is asked.
    driver._unsure.add("t")

    page = await driver.read_after("t", (epoch, 4), 10)
    for number in range(2, 5):
        await bus.publish("t", event(number))

    assert ([], (epoch, 4)) == (list(page.entries), page.position)
    history = await bus.get_history("t")
    assert [(number, number) for number in range(5)] == [(e.index, e.data) for e in history]
