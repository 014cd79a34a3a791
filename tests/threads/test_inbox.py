"""Accepted input that waits in storage (signals.md G1)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta

import pytest

from mastra_core.base.ids import UuidIds
from mastra_core.contracts.storage import ThreadStateStorage
from mastra_core.inmemory.storage import InMemoryStorage
from mastra_core.messages.signals import create_signal
from mastra_core.plugins import AdapterContext
from mastra_core.testing.fake_clock import FakeClock
from mastra_core.threads.inbox import INBOX, REFUSED_SECONDS, InboxEntry, ThreadInbox

__all__ = ()

pytestmark = pytest.mark.anyio

KEY = "res/1\0thread 2"


@pytest.fixture
async def states(clock: FakeClock) -> AsyncIterator[ThreadStateStorage]:
    store = InMemoryStorage(None, AdapterContext(clock=clock))
    async with store:
        yield store.thread_state


@pytest.fixture
def inbox(states: ThreadStateStorage, clock: FakeClock) -> ThreadInbox:
    return ThreadInbox(states, clock=clock, source_id="us")


def entry(
    clock: FakeClock, signal_id: str, *, later_ms: int = 0, number: int = 0, turn: bool = False
) -> InboxEntry:
    signal = create_signal(
        {"type": "user", "contents": signal_id, "id": signal_id},
        clock=clock,
        ids=UuidIds(),
        accepted_at=clock.now() + timedelta(milliseconds=later_ms),
    )
    return InboxEntry(
        signal=signal, agent_id="a", turn=turn, run_id=f"run {signal_id}", number=number
    )


async def test_what_is_put_is_found_in_order(inbox: ThreadInbox, clock: FakeClock) -> None:
    """By the time of acceptance, then by the number of the process; whole."""
    late, second, first = (
        entry(clock, "late", later_ms=5, turn=True),
        entry(clock, "second", number=2),
        entry(clock, "first", number=1),
    )
    for one in (late, second, first):
        await inbox.put(KEY, one)

    assert [first, second, late] == await inbox.entries(KEY)
    assert [KEY] == await inbox.keys()
    assert [] == await inbox.entries("res/1\0other")


async def test_what_is_removed_is_gone(inbox: ThreadInbox, clock: FakeClock) -> None:
    """Removing it again, or something unknown, does nothing."""
    await inbox.put(KEY, entry(clock, "one"))
    await inbox.put(KEY, entry(clock, "two"))

    await inbox.remove(KEY, ["one", "unknown"])
    await inbox.remove(KEY, ["one"])

    assert ["two"] == [found.signal.id for found in await inbox.entries(KEY)]


async def test_many_that_are_removed_are_gone(inbox: ThreadInbox, clock: FakeClock) -> None:
    """However many a run has answered, also when some of them went before."""
    names = [f"signal {number}" for number in range(100)]
    for name in [*names, "left"]:
        await inbox.put(KEY, entry(clock, name))
    await inbox.remove(KEY, names[10:20])

    await inbox.remove(KEY, names)

    assert ["left"] == [found.signal.id for found in await inbox.entries(KEY)]


async def test_one_put_is_one_write(
    inbox: ThreadInbox, states: ThreadStateStorage, clock: FakeClock
) -> None:
    """The list of threads is written once per half minute."""
    await inbox.put(KEY, entry(clock, "one"))
    await states.delete_state(INBOX, "res%2F1%00thread%202")
    await inbox.put(KEY, entry(clock, "two"))
    assert [] == await inbox.keys()

    await clock.advance(31)
    await inbox.put(KEY, entry(clock, "three"))

    assert [KEY] == await inbox.keys()


async def test_an_empty_thread_leaves_the_list_after_a_while(
    inbox: ThreadInbox, clock: FakeClock
) -> None:
    """Not while somebody who has just listed it may still be putting something there."""
    await inbox.put(KEY, entry(clock, "one"))
    await inbox.remove(KEY, ["one"])

    await inbox.tidy(KEY)
    await clock.advance(60)
    await inbox.tidy(KEY)
    assert [KEY] == await inbox.keys()

    # Listed anew: the time begins again.
    await inbox.put(KEY, entry(clock, "two"))
    await inbox.remove(KEY, ["two"])
    await clock.advance(100)
    await inbox.tidy(KEY)
    await clock.advance(100)
    await inbox.tidy(KEY)
    assert [KEY] == await inbox.keys()
    await clock.advance(30)
    await inbox.tidy(KEY)
    assert [] == await inbox.keys()


async def test_what_can_not_be_read_hides_nothing(
    inbox: ThreadInbox,
    states: ThreadStateStorage,
    clock: FakeClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is logged and stays; the others are found."""
    await inbox.put(KEY, entry(clock, "one"))
    await states.set_state(f"{INBOX}:res%2F1%00thread%202", "broken", {"signal": {}})

    assert ["one"] == [found.signal.id for found in await inbox.entries(KEY)]
    assert "can't be read" in caplog.text


async def test_an_offer_is_refused_or_insisted_on(inbox: ThreadInbox, clock: FakeClock) -> None:
    """Whoever comes first decides; what nobody offered can't be refused (G6)."""
    refusal = {"message": "full"}
    await inbox.put(KEY, replace(entry(clock, "offered"), offered=True))
    await inbox.put(KEY, replace(entry(clock, "firm"), offered=True))
    await inbox.put(KEY, entry(clock, "accepted"))

    assert await inbox.insist(KEY, "firm") is None
    refused = [
        await inbox.refuse(KEY, one, refusal) for one in ("offered", "firm", "accepted", "none")
    ]

    assert [True, False, False, False] == refused
    assert refusal == await inbox.insist(KEY, "offered")
    assert await inbox.insist(KEY, "accepted") is None
    assert await inbox.insist(KEY, "none") is None
    assert ["accepted", "firm"] == sorted(one.signal.id for one in await inbox.entries(KEY))


async def test_a_refusal_that_nobody_takes_away_goes_after_a_while(
    inbox: ThreadInbox, clock: FakeClock, states: ThreadStateStorage
) -> None:
    """Its sender has died; until it is gone the thread stays on the list."""
    await inbox.put(KEY, replace(entry(clock, "a"), offered=True))
    assert await inbox.refuse(KEY, "a", {"message": "full"})
    for _ in range(3):
        assert [] == await inbox.entries(KEY)
        await inbox.tidy(KEY)
        await clock.advance(REFUSED_SECONDS / 3 + 1)
    assert [KEY] == await inbox.keys()

    assert [] == await inbox.entries(KEY)
    await inbox.tidy(KEY)
    await clock.advance(300)
    await inbox.tidy(KEY)

    assert {} == await states.list_states(INBOX)
    assert await inbox.insist(KEY, "a") is None
