"""Each event goes to one member of each group; the store keeps who holds what (E3).

All members of a group in this process share one consumer and one claim loop, which hands
events out in turn. A member that leaves gives back what it didn't settle.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from itertools import cycle, islice

from mastra_core.bus.delivery import DONE, Delivery, HeldDelivery, envelope
from mastra_core.bus.driver import Ack, Claim, Dead, GiveBack, Nack, Position, Settlement, Start
from mastra_core.bus.runtime import BusRuntime, Warner
from mastra_core.bus.subscriptions import Subscription, SubscriptionOptions
from mastra_core.bus.timers import Alarm, within
from mastra_core.contracts.pubsub import EventHandler
from mastra_core.errors import PubSubClosedError
from mastra_core.wire.events import Event

__all__ = ("GroupMember", "GroupReader")

logger = logging.getLogger(__name__)

_SETTLE_TRIES = 5
#: How long is waited for the answer to a last claim.
_LAST_CLAIM_SECONDS = 5.0


class GroupMember(Subscription):
    """A subscriber that shares the events of its topic with the others of its group."""

    def __init__(
        self,
        runtime: BusRuntime,
        topic: str,
        handler: EventHandler,
        options: SubscriptionOptions,
        reader: GroupReader,
    ) -> None:
        super().__init__(runtime, topic, handler, options)
        self.group = reader.group
        self.reader = reader

    def make_delivery(
        self, event: Event, position: Position, attempt: int, *, is_local: bool = False
    ) -> HeldDelivery:
        return HeldDelivery(self, event, position, attempt, is_local=is_local)

    def acked(self, delivery: Delivery) -> Awaitable[None]:
        if delivery.is_local:
            self._end(delivery)
            return DONE
        stored = self.reader.settle(delivery, Ack(delivery.position, delivery.attempt))
        self._end(delivery)
        return stored

    def nacked(self, delivery: Delivery, error: str | None) -> Awaitable[None]:
        if delivery.is_local:
            logger.warning(
                "nack of a local event does nothing",
                extra={"topic": self.topic, "event_id": delivery.event.id},
            )
            self._end(delivery)
            return DONE
        stored = self.reader.settle(delivery, self._verdict(delivery, error))
        self._end(delivery)
        return stored

    def extended(self, delivery: Delivery) -> Awaitable[None]:
        if delivery.is_local or not isinstance(delivery, HeldDelivery):
            return DONE
        return self.reader.extend([delivery])

    def handler_returned(self, delivery: Delivery) -> None:
        if isinstance(delivery, HeldDelivery):
            delivery.has_returned = True
        if delivery.is_local:
            delivery.settled = True
        elif not delivery.settled and self.is_closed:
            self._give_back(delivery)
        self._end(delivery)

    def expire(self, delivery: HeldDelivery) -> None:
        """The store may give the event to somebody else now."""
        delivery.expired = True
        self._end(delivery)

    def room_came(self) -> None:
        if self.local:
            asyncio.get_running_loop().call_soon(self.drain_local)
        self.reader.room_came()

    def close(self) -> None:
        super().close()
        for delivery in self.reader.held_by(self):
            if not delivery.running:
                self._give_back(delivery)

    def _end(self, delivery: Delivery) -> None:
        """Free the slot, once: when it is settled and its handler has ended, or it expired."""
        if (
            isinstance(delivery, HeldDelivery)
            and delivery.has_slot
            and (delivery.expired or (delivery.settled and not delivery.running))
        ):
            delivery.has_slot = False
            self._release()
        self.runtime.changes.tell()

    def _give_back(self, delivery: Delivery) -> None:
        if delivery.settled:
            return
        delivery.settled = True
        if not delivery.is_local:
            self.reader.settle(delivery, GiveBack(delivery.position, delivery.attempt))
        self._end(delivery)

    def _verdict(self, delivery: Delivery, error: str | None) -> Settlement:
        policy = self.runtime.policy
        if policy.is_last(delivery.attempt):
            return Dead(delivery.position, delivery.attempt, error)
        delay_ms = policy.delay_ms(delivery.attempt)
        return Nack(delivery.position, delivery.attempt, delay_ms, error)


class GroupReader:
    """The claim loop of one group in this process."""

    def __init__(
        self, runtime: BusRuntime, topic: str, group: str, *, left: Callable[[], None]
    ) -> None:
        self.topic = topic
        self.group = group
        self.consumer = f"{group}-py1-{runtime.ids.new('consumer')}"
        self.members: list[GroupMember] = []
        self.has_left = False
        self._runtime = runtime
        self._driver = runtime.driver
        self._left = left
        self._held: dict[Position, HeldDelivery] = {}
        self._outbox: list[tuple[Settlement, asyncio.Future[None]]] = []
        self._sending: asyncio.Task[None] | None = None
        self._turn = 0
        self._local_turn = 0
        self._news = asyncio.Event()
        self._is_starved = False
        self._is_reading = False
        self._is_stopped = False
        #: No claim is under way.
        self._has_answer = asyncio.Event()
        self._has_answer.set()
        self._alarm = Alarm(runtime.clock, self.signal, name="bus-group-due")
        self._claiming: asyncio.Task[None] | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._warner = Warner(runtime.clock)

    @property
    def is_behind(self) -> bool:
        """Whether there may be something that was not yet dispatched but could be."""
        return self._claiming is not None and (self._news.is_set() or self._is_reading)

    async def join(self, start: Start) -> None:
        """Make the group known to the store, which keeps the place of an existing one."""
        await self._driver.join_group(self.topic, self.group, self.consumer, start)

    def add(self, member: GroupMember) -> None:
        """Hand events to it from now on."""
        self.members.append(member)
        self._is_stopped = False
        if self._claiming is None:
            self._claiming = self._runtime.spawn(self._claim_loop(), name="bus-group")
        if self._keeping is None:
            self._keeping = self._runtime.spawn(self._keep_loop(), name="bus-group-keep")
        self.signal()

    async def remove(self, member: GroupMember) -> None:
        """Hand nothing to it any more; the last one ends the consumer when its handlers end."""
        if member in self.members:
            self.members.remove(member)
        if not self.members:
            self.stop_claiming()
            await self._end_claim()
        await self.settled()
        await self._leave_if_done()

    def stop_claiming(self) -> None:
        """Take nothing new; what a claim brings that is under way is given back."""
        self._alarm.stop()
        self._news.clear()
        self._is_reading = False
        self._is_stopped = True
        if self._has_answer.is_set():
            self._cancel_claiming()

    def _cancel_claiming(self) -> None:
        if self._claiming is not None:
            self._claiming.cancel()
            self._claiming = None

    async def _end_claim(self) -> None:
        """Wait for a claim under way: cut off, it would hold its events until their time is over."""
        if not self._has_answer.is_set():
            await within(self._runtime.clock, self._has_answer.wait(), _LAST_CLAIM_SECONDS)
        if self._is_stopped:
            self._cancel_claiming()

    async def leave(self) -> None:
        """Give back everything and forget the consumer; for closing."""
        self.stop_claiming()
        await self._end_claim()
        for delivery in list(self._held.values()):
            if not delivery.settled:
                delivery.settled = True
                self.settle(delivery, GiveBack(delivery.position, delivery.attempt))
        await self.settled()
        await self._leave()

    async def settled(self) -> None:
        """Wait until the store has heard of everything that was settled."""
        while self._sending is not None:
            await asyncio.wait([self._sending])

    def signal(self) -> None:
        """There may be news, or room."""
        self._news.set()

    def room_came(self) -> None:
        """A member has a free slot."""
        if self._is_starved:
            self._is_starved = False
            self._news.set()

    def held_by(self, member: GroupMember) -> list[HeldDelivery]:
        """What a member hasn't settled."""
        return [held for held in self._held.values() if held.subscription is member]

    def offer_local(self, event: Event) -> None:
        """Give an event that never leaves this process to one member."""
        if self.members:
            self._local_turn = (self._local_turn + 1) % len(self.members)
            self.members[self._local_turn].offer_local(event)

    def settle(self, delivery: Delivery, settlement: Settlement) -> Awaitable[None]:
        """Tell the store, together with others that are settled meanwhile."""
        if self._held.get(delivery.position) is delivery:
            del self._held[delivery.position]
        stored = asyncio.get_running_loop().create_future()
        self._outbox.append((settlement, stored))
        if self._sending is None:
            self._sending = self._runtime.spawn(self._send(), name="bus-settle")
        return stored

    def extend(self, deliveries: list[HeldDelivery]) -> Awaitable[None]:
        """Start their time anew at the store."""
        return self._runtime.spawn(self._extend(deliveries), name="bus-extend")

    # -- claiming --------------------------------------------------------------------------------

    async def _claim_loop(self) -> None:
        while True:
            self._news.clear()
            self._is_reading = True
            try:
                claimed = await self._claim_once()
                self._warner.recovered()
            except PubSubClosedError:
                return
            except Exception as exc:  # noqa: BLE001 – P17: the loop goes on
                pause = self._warner.failed("claim", exc, self._runtime.jitter())
                await self._runtime.clock.sleep(pause)
                continue
            if claimed:
                await asyncio.sleep(0)  # other consumers of this loop take their share
            else:
                self._is_reading = False
                self._runtime.changes.tell()
                await self._news.wait()

    async def _claim_once(self) -> bool:
        """Claim as much as there is room for, at most one batch; True if there may be more."""
        self._expire()
        room = sum(member.free for member in self.members)
        if not room:
            self._is_starved = True
            self._ring_at_expiry(None)
            return False
        asked_at = self._runtime.clock.monotonic()
        settings = self._runtime.settings
        self._has_answer.clear()
        try:
            answer = await self._driver.claim(
                self.topic,
                self.group,
                self.consumer,
                limit=min(room, settings.claim_batch),
                ack_wait_ms=settings.ack_wait_ms,
                ordered=any(member.options.ordered for member in self.members),
            )
        finally:
            self._has_answer.set()
        if self._is_stopped:
            for claim in answer.claims:
                self._return(claim)
            return False
        # An answer that came so late belongs to somebody else by now.
        if self._runtime.clock.monotonic() < asked_at + settings.ack_wait_ms / 1000:
            for claim in answer.claims:
                self._hand_out(claim, asked_at)
        if answer.claims:
            return True
        due = None if answer.next_due_ms is None else asked_at + answer.next_due_ms / 1000
        self._ring_at_expiry(due)
        return False

    def _hand_out(self, claim: Claim, asked_at: float) -> None:
        """Give a claimed event to the next member with room."""
        member = self._next_member()
        event = envelope(claim.event, claim.attempt, self.topic)
        if member is None:
            self._return(claim)
            return
        delivery = member.make_delivery(event, claim.position, claim.attempt)
        delivery.started_at = asked_at
        delivery.deadline = asked_at + self._runtime.settings.ack_wait_ms / 1000
        if (older := self._held.get(claim.position)) is not None:
            self._expire_one(older)
        if self._runtime.policy.is_spent(claim.attempt):
            # Its holders died with it; don't let it take another one.
            delivery.settled = True
            error = claim.last_error or "its consumers vanished while they held it"
            self.settle(delivery, Dead(claim.position, claim.attempt, error))
            return
        self._held[claim.position] = delivery
        member.offer(delivery)

    def _return(self, claim: Claim) -> None:
        stored = asyncio.get_running_loop().create_future()
        self._outbox.append((GiveBack(claim.position, claim.attempt), stored))
        if self._sending is None:
            self._sending = self._runtime.spawn(self._send(), name="bus-settle")

    def _next_member(self) -> GroupMember | None:
        count = len(self.members)
        for member in islice(cycle(self.members), self._turn, self._turn + count):
            self._turn = (self._turn + 1) % count
            if member.free:
                return member
        return None

    # -- keeping and losing ------------------------------------------------------------------------

    async def _keep_loop(self) -> None:
        """Extend what handlers work on; lose what hangs (3.6)."""
        settings = self._runtime.settings
        while True:
            await self._runtime.clock.sleep(settings.ack_wait_ms / 3000)
            now = self._runtime.clock.monotonic()
            working = [
                held
                for held in self._held.values()
                if not held.has_returned
                and now - held.started_at < settings.max_processing_ms / 1000
            ]
            if working:
                await self._extend(working)
            self._expire()

    async def _extend(self, deliveries: list[HeldDelivery]) -> None:
        asked_at = self._runtime.clock.monotonic()
        wait_ms = self._runtime.settings.ack_wait_ms
        held = [(delivery.position, delivery.attempt) for delivery in deliveries]
        try:
            await self._driver.extend(self.topic, self.group, self.consumer, held, wait_ms)
        except PubSubClosedError:
            return
        except Exception as exc:  # noqa: BLE001 – the next round tries again
            self._warner.failed("extend", exc, 0)
            return
        for delivery in deliveries:
            delivery.deadline = max(delivery.deadline, asked_at + wait_ms / 1000)

    def _expire(self) -> None:
        now = self._runtime.clock.monotonic()
        for delivery in [held for held in self._held.values() if held.deadline <= now]:
            self._expire_one(delivery)

    def _expire_one(self, delivery: HeldDelivery) -> None:
        if self._held.get(delivery.position) is delivery:
            del self._held[delivery.position]
        if isinstance(delivery.subscription, GroupMember):
            delivery.subscription.expire(delivery)

    def _ring_at_expiry(self, due: float | None) -> None:
        times = [delivery.deadline for delivery in self._held.values()]
        if due is not None:
            times.append(due)
        if times:
            self._alarm.set_earlier(min(times))

    # -- settling ----------------------------------------------------------------------------------

    async def _send(self) -> None:
        try:
            while self._outbox:
                batch, self._outbox = self._outbox, []
                settlements = [settlement for settlement, _ in batch]
                await self._send_batch(settlements)
                for _, stored in batch:
                    if not stored.done():
                        stored.set_result(None)
                is_ordered = any(member.options.ordered for member in self.members)
                if is_ordered or any(not isinstance(one, Ack) for one in settlements):
                    self.signal()
        finally:
            self._sending = None
            for _, stored in self._outbox:
                stored.cancel()
        if not self.members:
            await self._leave_if_done()

    async def _send_batch(self, settlements: list[Settlement]) -> None:
        for attempt in range(1, _SETTLE_TRIES + 1):
            try:
                letters = await self._driver.settle(
                    self.topic, self.group, self.consumer, settlements
                )
            except PubSubClosedError:
                return
            except Exception as exc:  # noqa: BLE001 – unsettled events come again (P5)
                pause = self._warner.failed("settle", exc, self._runtime.jitter())
                if attempt < _SETTLE_TRIES:
                    await self._runtime.clock.sleep(pause)
            else:
                for letter in letters:
                    await self._runtime.gave_up(letter)
                return

    async def _leave_if_done(self) -> None:
        is_done = not self.members and not self._held and self._has_answer.is_set()
        if is_done and not self.has_left:
            await self._leave()

    async def _leave(self) -> None:
        if self.has_left:
            return
        self.has_left = True
        if self._keeping is not None:
            self._keeping.cancel()
            self._keeping = None
        self._left()
        try:
            await self._driver.leave_group(self.topic, self.group, self.consumer)
        except PubSubClosedError:
            return
        except Exception as exc:  # noqa: BLE001 – the store forgets the consumer by its time
            self._warner.failed("leave", exc, 0)
