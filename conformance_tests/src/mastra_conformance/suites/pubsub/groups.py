"""Groups: competing members, settlement, redelivery, dead letters (pubsub_and_lease.md 3.5, 3.6)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from mastra_conformance import Suite, case, requires
from mastra_conformance.opening import Opener
from mastra_conformance.suites.pubsub.support import (
    ACK_WAIT_MS,
    Elapse,
    Recorder,
    eventually,
    make_event,
    open_bus,
    pass_time,
    publish_all,
)
from mastra_core.contracts.pubsub import PubSub
from mastra_core.wire.events import Event

__all__ = ("GroupSuite",)


async def _raise_async(event: Event, ack: Any, nack: Any, extend: Any) -> None:
    raise ValueError(event.data)


def _raise_sync(event: Event, ack: Any, nack: Any, extend: Any) -> None:
    raise ValueError(event.data)


async def _time_out(event: Event, ack: Any, nack: Any, extend: Any) -> None:
    raise TimeoutError


async def _cancel(event: Event, ack: Any, nack: Any, extend: Any) -> None:
    raise asyncio.CancelledError


def _ack_unawaited(event: Event, ack: Any, nack: Any, extend: Any) -> None:
    ack()


def _first(failing: Callable[..., Any]) -> Callable[..., Any]:
    """Fail in the first attempt, ack later."""

    async def act(event: Event, ack: Any, nack: Any, extend: Any) -> None:
        if event.delivery_attempt > 1:
            await ack()
            return
        result = failing(event, ack, nack, extend)
        if asyncio.iscoroutine(result):
            await result

    return act


class GroupSuite(Suite):
    """Groups: who gets what, how often, and what happens to what nobody wants."""

    role: ClassVar[str] = "pubsub"
    capabilities: ClassVar[tuple[str, ...]] = ("pubsub.groups",)

    @case("pubsub_and_lease", 19)
    async def test_a_group_keeps_its_place(self, pubsub: PubSub) -> None:
        """Whoever joins an existing group with ``latest`` doesn't move it."""
        first, second = Recorder(), Recorder()
        await pubsub.subscribe("t", first, group="g")
        await publish_all(pubsub, "t", [1, 2])
        await first.until(2)
        await pubsub.flush()
        await pubsub.unsubscribe("t", first)
        await publish_all(pubsub, "t", [3, 4])

        await pubsub.subscribe("t", second, group="g", start_from="latest")

        await second.until(2)
        assert [3, 4] == second.data

    @case("pubsub_and_lease", 21)
    async def test_members_share(self, pubsub: PubSub) -> None:
        """100 events, each once in total, and both members got some."""
        members = [Recorder(), Recorder()]
        for member in members:
            await pubsub.subscribe("t", member, group="g")

        await publish_all(pubsub, "t", range(100))
        await eventually(lambda: len(members[0].events) + len(members[1].events) >= 100)
        await pubsub.flush()

        assert list(range(100)) == sorted(members[0].data + members[1].data)
        assert all(member.events for member in members)

    @case("pubsub_and_lease", 22)
    async def test_each_group_gets_all(self, pubsub: PubSub) -> None:
        """Groups don't know each other."""
        one, two = Recorder(), Recorder()
        await pubsub.subscribe("t", one, group="a")
        await pubsub.subscribe("t", two, group="b")

        await publish_all(pubsub, "t", range(10))

        await one.until(10)
        await two.until(10)
        await pubsub.flush()
        assert sorted(one.data) == sorted(two.data) == list(range(10))

    @case("pubsub_and_lease", 23)
    async def test_groups_and_fanout_are_independent(self, pubsub: PubSub) -> None:
        """A fan-out subscriber takes nothing from a group."""
        member, fan = Recorder(), Recorder()
        await pubsub.subscribe("t", member, group="g")
        await pubsub.subscribe("t", fan)

        await publish_all(pubsub, "t", range(10))

        await member.until(10)
        await fan.until(10)
        await pubsub.unsubscribe("t", fan)
        await publish_all(pubsub, "t", range(10, 15))
        await member.until(15)
        assert list(range(10)) == fan.data

    @case("pubsub_and_lease", 24)
    async def test_an_acked_event_does_not_come_again(self, pubsub: PubSub) -> None:
        """Also not after leaving and joining again."""
        seen = Recorder()
        await pubsub.subscribe("t", seen, group="g")
        await publish_all(pubsub, "t", [1, 2, 3])
        await seen.until(3)
        await pubsub.flush()

        await pubsub.unsubscribe("t", seen)
        await pubsub.subscribe("t", seen, group="g")
        await pubsub.publish("t", make_event(4))

        await seen.until(4)
        await pubsub.flush()
        assert [1, 2, 3, 4] == seen.data

    @case("pubsub_and_lease", 25)
    async def test_a_nack_brings_it_back_after_a_pause(
        self, opener: Opener, elapse: Elapse
    ) -> None:
        """Attempt 2, the same id, not before the backoff."""
        clock = opener.clock
        times: list[float] = []

        async def act(event: Event, ack: Any, nack: Any, extend: Any) -> None:
            times.append(clock.monotonic())
            await (nack() if event.delivery_attempt == 1 else ack())

        async with open_bus(opener, retry_base_ms=200, retry_cap_ms=200) as bus:
            seen = Recorder(act)
            await bus.subscribe("t", seen, group="g")
            await bus.publish("t", make_event(1))
            await eventually(lambda: len(times) == 2, elapse, step_ms=20)

            assert [1, 2] == seen.attempts
            assert 1 == len({event.id for event in seen.events})
            # 20 % jitter and the grain of a clock
            assert times[1] - times[0] >= 0.155

    @case("pubsub_and_lease", 25)
    @pytest.mark.parametrize("leaving", ["unsubscribes", "closes"])
    async def test_leaving_undoes_no_failed_attempt(
        self, opener: Opener, elapse: Elapse, leaving: str
    ) -> None:
        """
        Who nacks and leaves before the pause is over hands on a failed attempt.

        Only what it never settled is given back as if nothing had been.
        """
        clock = opener.clock
        nacked_at: list[float] = []
        times: list[float] = []

        async def fail(event: Event, ack: Any, nack: Any, extend: Any) -> None:
            if event.data == "fails":
                nacked_at.append(clock.monotonic())
                await nack("not yet")

        async def note(event: Event, ack: Any, nack: Any, extend: Any) -> None:
            times.append(clock.monotonic())
            await ack()

        options = {"ack_wait_ms": 60_000, "retry_base_ms": 300, "retry_cap_ms": 300}
        async with open_bus(opener, **options) as bus:
            failing, taking = Recorder(fail), Recorder(note)
            async with open_bus(opener, **options, drain_timeout_ms=50) as leaver:
                await leaver.subscribe("t", failing, group="g")
                await publish_all(leaver, "t", ["fails", "stuck"])
                await failing.until(2)
                await eventually(lambda: failing.running == 0)
                if leaving == "unsubscribes":
                    await leaver.unsubscribe("t", failing)
            await bus.subscribe("t", taking, group="g")
            await eventually(lambda: len(taking.events) == 2, elapse, step_ms=20)
            await bus.flush()

            assert [1, 1] == failing.attempts
            assert {"stuck": 1, "fails": 2} == {
                event.data: event.delivery_attempt for event in taking.events
            }
            assert {event.id for event in failing.events} == {event.id for event in taking.events}
            # 20 % jitter and the grain of a clock
            failed_again = times[taking.data.index("fails")]
            assert failed_again - nacked_at[0] >= 0.235

    @case("pubsub_and_lease", 29)
    @requires("pubsub.dead_letter")
    async def test_members_that_leave_use_up_the_attempts(
        self, opener: Opener, elapse: Elapse
    ) -> None:
        """Each fails and goes: the third attempt is the last one, then it is a dead letter."""
        members: list[Recorder] = []
        options = {"max_delivery_attempts": 3, "retry_base_ms": 300, "retry_cap_ms": 300}
        async with open_bus(opener, **options) as bus:
            await bus.publish("t", make_event("poison"))
            while not (letters := await bus.list_dead("t")):
                assert len(members) < 3, [member.attempts for member in members]
                failing = Recorder(_raise_async)
                members.append(failing)
                await bus.subscribe("t", failing, group="g")
                await eventually(lambda: bool(failing.events), elapse, step_ms=20)  # noqa: B023 – awaited at once
                await bus.unsubscribe("t", failing)

            assert [1, 2, 3] == [number for member in members for number in member.attempts]
            assert [("g", "poison", 3)] == [
                (letter.group, letter.event.data, letter.attempts) for letter in letters
            ]

    @case("pubsub_and_lease", 26)
    async def test_a_nack_concerns_its_group_only(self, opener: Opener, elapse: Elapse) -> None:
        """Another group and a fan-out subscriber see nothing new."""

        async def refuse(event: Event, ack: Any, nack: Any, extend: Any) -> None:
            await nack()

        async with open_bus(opener) as bus:
            failing, other, fan = Recorder(_first(refuse)), Recorder(), Recorder()
            await bus.subscribe("t", failing, group="a")
            await bus.subscribe("t", other, group="b")
            await bus.subscribe("t", fan)

            await bus.publish("t", make_event(1))
            await eventually(lambda: len(failing.events) == 2, elapse)
            await bus.flush()

            assert [1, 2] == failing.attempts
            assert [1] == other.attempts
            assert [1] == fan.attempts

    @case("pubsub_and_lease", 27)
    @pytest.mark.parametrize(
        "failing",
        [_raise_async, _raise_sync, _time_out, _cancel],
        ids=["async", "sync", "timeout", "cancelled"],
    )
    async def test_a_raising_handler_is_a_nack(
        self, opener: Opener, elapse: Elapse, failing: Callable[..., Any]
    ) -> None:
        """However it fails, the event comes again."""
        async with open_bus(opener) as bus:
            seen = Recorder(_first(failing))
            await bus.subscribe("t", seen, group="g")
            await bus.publish("t", make_event(1))

            await eventually(lambda: len(seen.events) == 2, elapse)

            assert [1, 2] == seen.attempts

    @case("pubsub_and_lease", 28)
    @pytest.mark.parametrize(
        ("order", "deliveries"),
        [(("ack", "nack"), 1), (("nack", "ack"), 2), (("nack", "nack"), 2)],
        ids=["ack-nack", "nack-ack", "nack-nack"],
    )
    async def test_the_first_settlement_wins(
        self, opener: Opener, elapse: Elapse, order: tuple[str, str], deliveries: int
    ) -> None:
        """Later calls return normally and change nothing."""

        async def settle(event: Event, ack: Any, nack: Any, extend: Any) -> None:
            calls = {"ack": ack, "nack": nack}
            for name in order:
                await calls[name]()

        async with open_bus(opener) as bus:
            seen = Recorder(_first(settle))
            await bus.subscribe("t", seen, group="g")
            await bus.publish("t", make_event(1))
            await eventually(lambda: len(seen.events) >= deliveries, elapse)
            await pass_time(elapse, 2 * ACK_WAIT_MS, step_ms=100)
            await bus.flush()

            assert list(range(1, deliveries + 1)) == seen.attempts

    @case("pubsub_and_lease", 29)
    @requires("pubsub.dead_letter")
    async def test_after_the_last_attempt_it_is_a_dead_letter(
        self, opener: Opener, elapse: Elapse
    ) -> None:
        """Exactly three deliveries; the letter knows why; requeue and purge work."""
        async with open_bus(opener, max_delivery_attempts=3) as bus:
            seen = Recorder(_raise_async)
            await bus.subscribe("t", seen, group="g")
            await bus.publish("t", make_event("poison"))
            await eventually(lambda: len(seen.events) == 3, elapse)
            await bus.flush()

            (letter,) = await bus.list_dead("t")
            assert ("t", "g", "poison", 3) == (
                letter.topic,
                letter.group,
                letter.event.data,
                letter.attempts,
            )
            assert "poison" in (letter.last_error or "")
            assert letter.event.id == seen.events[0].id
            assert [] == await bus.list_dead("t", group="other")

            assert await bus.requeue_dead("t", letter.id)
            assert not await bus.requeue_dead("t", letter.id)
            await eventually(lambda: len(seen.events) == 6, elapse)
            await bus.flush()
            assert [1, 2, 3, 1, 2, 3] == seen.attempts
            assert 1 == await bus.purge_dead("t")
            assert [] == await bus.list_dead("t")

    @case("pubsub_and_lease", 30)
    @pytest.mark.parametrize("fault", ["forgets", "hangs"])
    async def test_an_unsettled_event_comes_back(
        self, opener: Opener, elapse: Elapse, fault: str
    ) -> None:
        """After ``ack_wait``, or ``max_processing`` and that; to the same member if need be."""

        async def act(event: Event, ack: Any, nack: Any, extend: Any) -> None:
            if event.delivery_attempt > 1:
                await ack()
            elif fault == "hangs":
                await asyncio.Event().wait()

        async with open_bus(opener, max_processing_ms=800, drain_timeout_ms=50) as bus:
            seen = Recorder(act)
            await bus.subscribe("t", seen, group="g")
            await bus.publish("t", make_event(1))
            await seen.until(1)
            await eventually(lambda: len(seen.events) == 2, elapse)

            assert [1, 2] == seen.attempts
            await bus.unsubscribe("t", seen)

    @case("pubsub_and_lease", 31)
    async def test_a_long_handler_keeps_its_event(self, opener: Opener, elapse: Elapse) -> None:
        """Five times ``ack_wait``, with heartbeats: delivered once."""
        go_on = asyncio.Event()

        async def act(event: Event, ack: Any, nack: Any, extend: Any) -> None:
            await go_on.wait()
            await ack()

        async with open_bus(opener) as bus:
            seen = Recorder(act)
            await bus.subscribe("t", seen, group="g")
            await bus.publish("t", make_event(1))
            await seen.until(1)
            await pass_time(elapse, 5 * ACK_WAIT_MS, step_ms=50)
            go_on.set()
            await bus.flush()
            await pass_time(elapse, 2 * ACK_WAIT_MS, step_ms=100)

            # Once; where a claim took longer than the wait itself, that isn't the first attempt.
            assert 1 == len(seen.events)

    @case("pubsub_and_lease", 32)
    async def test_a_late_extend_takes_nothing_back(self, opener: Opener, elapse: Elapse) -> None:
        """After the event went to somebody else, ``extend`` and ``ack`` do nothing."""
        late: list[Any] = []
        finish = asyncio.Event()

        async def act(event: Event, ack: Any, nack: Any, extend: Any) -> None:
            if event.delivery_attempt == 1:
                late.extend([extend, ack])
            else:
                await finish.wait()
                await nack("still mine")

        async with open_bus(opener, max_processing_ms=0) as bus:
            seen = Recorder(act)
            await bus.subscribe("t", seen, group="g")
            await bus.publish("t", make_event(1))
            await eventually(lambda: len(seen.events) == 2, elapse)

            for call in late:
                await call()
            finish.set()
            # The nack of the new holder counts: the late ack didn't settle it.
            await eventually(lambda: len(seen.events) >= 3, elapse)

            assert [1, 2, 3] == seen.attempts[:3]
            await bus.unsubscribe("t", seen)

    @case("pubsub_and_lease", 36)
    async def test_closing_gives_back(self, opener: Opener) -> None:
        """Ten unsettled events of a closed bus reach a sibling at once, none is lost."""
        sibling = Recorder()
        async with open_bus(opener, ack_wait_ms=60_000) as bus:
            async with open_bus(opener, ack_wait_ms=60_000, drain_timeout_ms=50) as leaving:
                stuck = Recorder(lambda *_: None)
                await leaving.subscribe("t", stuck, group="g")
                await publish_all(leaving, "t", range(10))
                await stuck.until(10)
                await bus.subscribe("t", sibling, group="g")
            started = opener.clock.monotonic()
            await sibling.until(10)

            # Long before they would have come back by themselves.
            assert opener.clock.monotonic() - started < 20
            assert list(range(10)) == sorted(sibling.data)
            assert set(sibling.attempts) <= {1, 2}

    @case("pubsub_and_lease", 38)
    async def test_ordered_waits_for_the_retry(self, opener: Opener, elapse: Elapse) -> None:
        """Event 2 is nacked twice; event 3 waits for it."""

        async def act(event: Event, ack: Any, nack: Any, extend: Any) -> None:
            await (nack() if event.data == 2 and event.delivery_attempt < 3 else ack())

        async with open_bus(opener) as bus:
            seen = Recorder(act)
            await bus.subscribe("t", seen, group="g", ordered=True)
            await publish_all(bus, "t", [1, 2, 3])
            await eventually(lambda: len(seen.events) == 5, elapse)
            await bus.flush()

            assert [1, 2, 2, 2, 3] == seen.data

    @case("pubsub_and_lease", 39)
    async def test_a_member_runs_no_more_than_it_wants(self, pubsub: PubSub) -> None:
        """Never more than four at once; the sibling takes its share."""

        async def slowly(event: Event, ack: Any, nack: Any, extend: Any) -> None:
            for _ in range(5):
                await asyncio.sleep(0)
            await ack()

        members = [Recorder(slowly), Recorder(slowly)]
        for member in members:
            await pubsub.subscribe("t", member, group="g", max_in_flight=4)

        await publish_all(pubsub, "t", range(100))
        await eventually(lambda: sum(len(member.events) for member in members) >= 100)
        await pubsub.flush()

        assert list(range(100)) == sorted(members[0].data + members[1].data)
        assert all(0 < member.most_running <= 4 for member in members)

    async def test_a_leaving_member_gives_back(self, pubsub: PubSub) -> None:
        """What it held unsettled reaches the other one without waiting."""
        stuck, other = Recorder(lambda *_: None), Recorder()
        await pubsub.subscribe("t", stuck, group="g")
        await publish_all(pubsub, "t", range(5))
        await stuck.until(5)
        await pubsub.subscribe("t", other, group="g")

        await pubsub.unsubscribe("t", stuck)

        await other.until(5)
        assert list(range(5)) == sorted(other.data)

    async def test_ack_takes_effect_without_being_awaited(self, pubsub: PubSub) -> None:
        """A sync handler can settle."""
        seen = Recorder(_ack_unawaited)
        await pubsub.subscribe("t", seen, group="g")
        await pubsub.publish("t", make_event(1))
        await seen.until(1)
        await pubsub.flush()
        await pubsub.unsubscribe("t", seen)

        again = Recorder()
        await pubsub.subscribe("t", again, group="g")
        await pubsub.flush()
        assert [] == again.data
