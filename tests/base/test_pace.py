"""Many calls at once leave the event loop room for others, and keep their order."""

from __future__ import annotations

import asyncio
from typing import Self

import pytest

from mastra_core.base.pace import Pace, in_turns

pytestmark = pytest.mark.anyio

CALLS = 300


class Rounds:
    """Counts the rounds of the loop while it is entered."""

    def __init__(self) -> None:
        self.number = 0
        self._is_open = True

    def __enter__(self) -> Self:
        self._next()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._is_open = False

    def _next(self) -> None:
        self.number += 1
        if self._is_open:
            asyncio.get_running_loop().call_soon(self._next)


async def test_a_single_caller_leaves_room_now_and_then() -> None:
    """Most calls return at once; one that never waits for anything else lets others run."""
    pace = Pace()

    with Rounds() as rounds:
        for _ in range(CALLS):
            await pace.turn()

    assert 2 <= rounds.number <= CALLS // 10


async def test_heavy_calls_count_for_several() -> None:
    """The more work they are, the fewer there are in one round."""
    pace = Pace()
    in_round: list[int] = []

    async def call() -> None:
        await pace.turn()
        pace.spent(7)
        in_round.append(rounds.number)

    with Rounds() as rounds:
        await asyncio.gather(*(call() for _ in range(CALLS)))

    assert CALLS == len(in_round)
    assert max(map(in_round.count, set(in_round))) <= 8


async def test_calls_that_come_together_are_spread_over_rounds() -> None:
    """Others get their chance in between, and nobody overtakes."""
    pace = Pace()
    order: list[int] = []
    in_round: list[int] = []

    async def call(number: int) -> None:
        await pace.turn()
        order.append(number)
        in_round.append(rounds.number)

    with Rounds() as rounds:
        await asyncio.gather(*map(call, range(CALLS)))

    assert list(range(CALLS)) == order
    assert len(set(in_round)) >= 6
    assert max(map(in_round.count, set(in_round))) <= 50


async def test_a_cancelled_call_gives_its_turn_away() -> None:
    """Who gave up waiting keeps nobody else waiting."""
    pace = Pace()
    done: list[int] = []

    async def call(number: int) -> None:
        await pace.turn()
        done.append(number)

    tasks = [asyncio.create_task(call(number)) for number in range(CALLS)]
    await asyncio.sleep(0)
    for task in tasks[1::2]:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

    assert set(range(0, CALLS, 2)) <= set(done)
    assert len(done) < CALLS
    await pace.turn()


def test_each_event_loop_has_turns_of_its_own() -> None:
    """A loop that ended with calls in its queue doesn't keep the next one waiting."""
    pace = Pace()

    async def crowd() -> None:
        for _ in range(CALLS):
            asyncio.get_running_loop().create_task(pace.turn())
        await asyncio.sleep(0)

    for _ in range(2):
        asyncio.run(crowd())
        asyncio.run(pace.turn())


async def test_a_long_list_is_converted_in_several_rounds() -> None:
    """All of it, in order, some of it in each round."""
    sizes: list[int] = []

    def double(items: object) -> list[int]:
        assert isinstance(items, range)
        sizes.append(len(items))
        return [item * 2 for item in items]

    with Rounds() as rounds:
        doubled = await in_turns(range(250), double, at_once=100)

    assert [item * 2 for item in range(250)] == doubled
    assert [100, 100, 50] == sizes
    assert 3 == rounds.number
