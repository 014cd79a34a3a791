"""How the runtime of this process shares its threads with others (signals.md 17, 22).

``reach`` speaks with the backends; here is what their answers mean for a thread: who may run
it, what was accepted for it, and what is to be done when it is lost.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from mastra_core.base.isotime import epoch_ms
from mastra_core.base.jsonjs import sanitize_copy
from mastra_core.base.tasks import TaskSupervisor
from mastra_core.bus.timers import first_of
from mastra_core.contracts.signal_sink import Accepted
from mastra_core.errors import (
    DeliveryError,
    LeaseLostError,
    MastraError,
    ProcessorError,
    SignalQueueFullError,
    StorageError,
)
from mastra_core.messages.answers import is_answer
from mastra_core.streaming.broadcast import ChunkBuffer
from mastra_core.streaming.output import ModelOutput
from mastra_core.threads.announce import RunAnnouncer
from mastra_core.threads.inbox import InboxEntry
from mastra_core.threads.lease_keeper import run_id_from_owner
from mastra_core.threads.queues import accepted_ms
from mastra_core.threads.reach import Backends, ThreadReach
from mastra_core.threads.record import ActiveRun, Reservation, ThreadAgent, ThreadRecord
from mastra_core.threads.thread_key import split_key
from mastra_core.wire.signals import Signal

if TYPE_CHECKING:
    from mastra_core.threads.runtime import ThreadRuntime
    from mastra_core.threads.subscription import ThreadSubscription

__all__ = ("OutsideThreads",)

logger = logging.getLogger(__name__)

#: How often a signal is answered whose answer can't be stored.
_STORING_ATTEMPTS: Final = 5
#: How long a thread at rest is still heard: senders of version 1.71 that were refused the lease a
#: moment ago have told nobody else, and kept nothing.
_LATE_SECONDS: Final = 0.25
#: So many runs that ended are known to those senders' signals.
_REMEMBERED_RUNS: Final = 1000


class OutsideThreads:
    """
    The threads of a runtime, as other processes meet them.

    Args:
        runtime: Who decides what happens on the threads of this process.
        backends: What reaches further than this process.
        find_agent: The agent with an id; None if this process doesn't have it.
    """

    def __init__(
        self,
        runtime: ThreadRuntime,
        backends: Backends,
        *,
        find_agent: Callable[[str], ThreadAgent | None],
    ) -> None:
        #: Speaks with the backends.
        self.reach = ThreadReach(self, backends)
        self._runtime = runtime
        self._find_agent = find_agent
        self._tasks = TaskSupervisor("threads outside")
        #: How many segments of a run this process has begun.
        self._segments: dict[str, int] = {}
        #: Threads whose topic is heard as long as something happens on them here.
        self._heard: set[str] = set()
        #: How often the rows of the run that answered a signal could not be stored.
        self._unstored: dict[str, int] = {}
        #: Agents of the runs that ended here lately: some may be told something still.
        self._ended: dict[str, str] = {}
        #: Signals for which there was no room, as they were sent.
        self._refused: dict[tuple[str, int], None] = {}
        #: Readers that hear the runs of a thread elsewhere.
        self._followed: dict[ThreadSubscription, str] = {}

    async def aclose(self) -> None:
        """Let go of all threads; their input stays for others."""
        await self._tasks.close()
        await self.reach.aclose()

    # -- accepting ------------------------------------------------------------------------

    def entry_of(
        self,
        agent: ThreadAgent,
        signal: Signal,
        *,
        run_id: str | None = None,
        turn: bool = False,
        options: Mapping[str, Any] | None = None,
        number: int = 0,
        offered: bool = False,
    ) -> InboxEntry:
        """What is kept of an accepted signal; with the number that it was kept with before."""
        return InboxEntry(
            signal=signal,
            agent_id=agent.id,
            turn=turn,
            run_id=run_id,
            request_context=_kept_context(options or {}),
            number=number or self.next_number(),
            offered=offered,
        )

    def next_number(self) -> int:
        """The place of a signal that is sent now; 0 where none is kept."""
        return self.reach.inbox.next_number() if self.reach.inbox is not None else 0

    def accept(
        self, record: ThreadRecord, signal: Signal, answer: Accepted
    ) -> Coroutine[Any, Any, Accepted]:
        """
        Accept a signal that was just put into a queue here: once storage has it (G1).

        Where it stands is seen now: it may be taken before the work begins.

        Returns:
            The work; it raises ``MastraError`` if it isn't certain that the signal is stored, and
            the signal is in no queue then.
        """
        turn = record.queues.turn_of(signal.id)
        agent = turn.agent if turn is not None else record.waiting_agent
        reservation = record.reservation if record.active is None else None
        assert agent is not None
        if turn is not None or reservation is None or reservation.winner is None:
            reservation = None
        elif not reservation.winner.done():
            reservation.offers[signal.id] = None
        entry = self.entry_of(
            agent,
            signal,
            run_id=answer.run_id,
            turn=turn is not None,
            options=turn.stream_options if turn is not None else None,
        )
        if turn is not None:
            turn.number = entry.number
        return self._keep_accepted(record, entry, answer, reservation)

    async def _keep_accepted(
        self,
        record: ThreadRecord,
        entry: InboxEntry,
        answer: Accepted,
        reservation: Reservation | None,
    ) -> Accepted:
        signal = entry.signal
        try:
            await self._keep(record.key, entry)
        except BaseException:
            # One that a run has taken meanwhile is being answered.
            is_waiting = bool(record.queues.cancel([signal.id]))
            if is_waiting or signal.id not in record.known_signals():
                raise
        if self._runtime.is_cancelled(record.key, signal.id):
            # It was taken back while it was being stored.
            await self.reach.answered(record.key, [signal.id])
        if reservation is not None and reservation.winner is not None:
            # The thread may turn out to be another process's; then its run has the signal.
            run_id = await asyncio.shield(reservation.winner)
            if (refusal := reservation.offers.get(signal.id)) is not None:
                await self.reach.answered(record.key, [signal.id])
                raise refusal
            return replace(answer, run_id=run_id)
        return answer

    async def _keep(self, key: str, entry: InboxEntry) -> None:
        if self.reach.inbox is not None and not entry.signal.transient:
            await self.reach.inbox.put(key, entry)

    # -- ownership ------------------------------------------------------------------------

    async def own(
        self,
        record: ThreadRecord,
        entry: InboxEntry,
        run_id: str,
        *,
        is_new: bool,
    ) -> str | None:
        """
        Own the thread for a run that answers this entry, which is in storage then.

        Args:
            record: The thread.
            entry: What is to be answered.
            run_id: The run.
            is_new: It was sent just now; otherwise it waited here, and others may have found it.

        Returns:
            None if the thread is ours, else the run of another process that has the signal now;
            the reservation is given up then, and what was accepted for it went the same way.

        Raises:
            LeaseUnavailableError: Nobody knows whose the thread is (G2).
            PubSubError: Other processes can't be told or heard.
            StorageError: The signal can't be kept.
            DeliveryError: The thread changed hands for five seconds.
            SignalQueueFullError: It is new, and who has the thread has no room for it (G6).
        """
        entry = replace(entry, offered=is_new)
        term = self.reach.term(record.key)
        # Whoever finds a turn in the inbox starts the run that it was promised.
        is_known = entry.turn or not is_new
        keeping = asyncio.ensure_future(self._keep(record.key, entry))
        try:
            owner = await self._take(record, run_id, is_known=is_known)
        finally:
            await asyncio.wait([keeping])
            # Whoever can't get the thread learns that, whatever became of the other.
            failure = None if keeping.cancelled() else keeping.exception()
        if failure is not None:
            raise failure
        deadline = self._runtime.clock.monotonic() + self.reach.hand_over_seconds
        offered: str | None = None
        while owner is not None:
            taken_by = run_id_from_owner(owner) or owner
            # Nobody is offered what somebody has answered, who found it in the inbox while we asked
            # for the thread: it would be answered again.
            is_done = await self._is_entry_answered(record, entry)
            if offered is not None and entry.offered and not is_done:
                # Whoever had the thread a moment ago may have refused it.
                await self._keep(record.key, entry)
            offered = taken_by
            refusal: MastraError | None = None
            try:
                is_there = is_done or await self.reach.forward(record.key, entry, owner)
            except SignalQueueFullError as exc:
                is_there, refusal = True, exc
            if is_there:
                await self._forward_rest(record, owner, run_id)
                self._runtime.give_up(record, run_id, holder=taken_by)
                self._runtime.after_run(record)
                if refusal is not None:
                    raise refusal
                return taken_by
            if self._runtime.clock.monotonic() > deadline:
                raise DeliveryError(
                    f"Thread {record.thread_id!r} was handed on again and again.",
                    hint="The signal is kept and will be answered; nothing has to be repeated.",
                )
            owner = await self._take(record, run_id, is_known=is_known)
        agent = self._find_agent(entry.agent_id)
        if agent is not None and self.reach.term(record.key) is not term:
            await self._drop_answered(record, agent)
        if offered and agent and await self.is_answered(record, agent, entry.signal):
            # Its word was on its way when the thread was free already.
            self._runtime.give_up(record, run_id, holder=offered)
            self._runtime.after_run(record)
            return offered
        if offered and entry.offered:
            # It may have been refused, by who has the thread no more.
            await self._keep(record.key, replace(entry, offered=False))
        if record.reservation is not None:
            record.reservation.settle(run_id)
        return None

    async def own_reserved(self, record: ThreadRecord, reserved: Reservation) -> bool:
        """
        Own the thread for a reservation; it is given up if another process has the thread.

        Raises:
            LeaseUnavailableError: Nobody knows whose the thread is (G2).
            PubSubError: Other processes can't be heard.
            StorageError: What waits for the thread can't be read.
        """
        run_id = reserved.run_id
        is_ours = False
        term = self.reach.term(record.key)
        try:
            owner = await self._take(record, run_id)
            if owner is None:
                agent = self._find_agent(reserved.agent_id)
                if agent is not None and self.reach.term(record.key) is not term:
                    await self._drop_answered(record, agent)
                found = await self._adopt(record)
                begun = await self._begun(record, found)
                for entry in found:
                    if not self._joins(entry, reserved.agent_id, begun):
                        self._queue(record, entry, is_begun=entry.signal.id in begun)
                    else:
                        record.queues.adopt_in_order(entry.signal)
                        record.waiting_agent = self._find_agent(entry.agent_id)
                is_ours = True
                reserved.settle(run_id)
            else:
                await self._forward_rest(record, owner, run_id)
                reserved.settle(run_id_from_owner(owner) or owner)
        finally:
            if not is_ours:
                self._runtime.give_up(record, run_id, holder=run_id)
                self._runtime.after_run(record)
        return is_ours

    async def opening(
        self, record: ThreadRecord, entry: InboxEntry, run_id: str
    ) -> list[Signal] | None:
        """
        What opens the run that answers ``entry`` on a thread that is ours now: with what others
        left for the same agent, in the order in which it was accepted.

        Returns:
            None if turns were left that come before this one: they are queued, and it has to
            wait behind them. Empty if whoever had the thread found this signal in the inbox
            before we got it, and has answered it.

        Raises:
            StorageError: What waits for the thread can't be read.
        """
        record.taken.setdefault(run_id, []).append(entry.signal.id)
        waiting_here = await self.reach.waiting(record.key)
        is_kept = self.keeps_input and not entry.signal.transient
        if is_kept and entry.signal.id not in {one.signal.id for one in waiting_here}:
            record.taken.pop(run_id, None)
            return []
        found = await self._adopt(record, waiting_here)
        begun = await self._begun(record, found)
        if entry.turn:
            joining = [one for one in found if not one.turn and one.agent_id == entry.agent_id]
        else:
            joining = [one for one in found if self._joins(one, entry.agent_id, begun)]
        waiting = [one for one in found if one not in joining]
        is_begun = entry.turn and bool(waiting) and bool(await self._begun(record, [entry]))
        for one in waiting:
            self._queue(record, one, is_begun=one.signal.id in begun)
        if entry.turn and any(
            one.signal.id in begun or (one.order < entry.order and not is_begun) for one in waiting
        ):
            record.taken.pop(run_id, None)
            return None
        # What waits here may have been accepted before some of them.
        here = min(map(accepted_ms, record.queues.pre_run), default=None)
        later = [one for one in joining if here is not None and one.order[0] > here]
        for one in later:
            record.queues.adopt_in_order(one.signal)
        joining = [one for one in joining if one not in later]
        record.take(run_id, [one.signal for one in joining])
        return [one.signal for one in sorted([entry, *joining], key=lambda one: one.order)]

    async def _begun(self, record: ThreadRecord, entries: Sequence[InboxEntry]) -> set[str]:
        """
        Those that a dead run had entered: they stand in the transcript, so whatever is asked
        next shows them, and has to answer them.
        """
        begun: set[str] = set()
        for entry in entries:
            agent, signal_id = self._find_agent(entry.agent_id), entry.signal.id
            if agent is not None and await agent.has_message(
                thread_id=record.thread_id, message_id=signal_id
            ):
                begun.add(signal_id)
        return begun

    def _joins(self, entry: InboxEntry, agent_id: str, begun: set[str]) -> bool:
        """May a run of this agent answer it beside its own input?"""
        return entry.agent_id == agent_id and (not entry.turn or entry.signal.id in begun)

    async def _is_entry_answered(self, record: ThreadRecord, entry: InboxEntry) -> bool:
        agent = self._find_agent(entry.agent_id)
        return agent is not None and await self.is_answered(record, agent, entry.signal)

    async def _drop_answered(self, record: ThreadRecord, agent: ThreadAgent) -> None:
        """
        The thread is ours anew: whoever had it meanwhile has found what waits here in the inbox.
        """
        waiting = record.queues.durable_ids()
        if not waiting or not self.keeps_input:
            return
        answered = await agent.answered(thread_id=record.thread_id, message_ids=waiting)
        if answered:
            record.queues.cancel(list(answered))
            await self.reach.answered(record.key, answered)

    def is_cancelled(self, record: ThreadRecord, signal: Signal) -> bool:
        """Was this signal taken back, here or in another process?"""
        return self._runtime.is_cancelled(record.key, signal.id)

    async def is_answered(self, record: ThreadRecord, agent: ThreadAgent, signal: Signal) -> bool:
        """
        Has another process answered this signal, which waited here, or was it cancelled there?

        Raises:
            StorageError: Nobody knows.
        """
        is_done = self._runtime.is_cancelled(record.key, signal.id) or signal.id in (
            await agent.answered(thread_id=record.thread_id, message_ids=[signal.id])
        )
        if is_done:
            await self.reach.answered(record.key, [signal.id])
        return is_done

    @property
    def keeps_input(self) -> bool:
        """Does accepted input outlive this process?"""
        return self.reach.inbox is not None

    async def _take(
        self, record: ThreadRecord, run_id: str, *, is_known: bool = False
    ) -> str | None:
        # Heard before it is taken: whoever is refused from now on speaks to us.
        if record.key not in self._heard:
            self._heard.add(record.key)
            try:
                await self.reach.listen(record.key)
            except BaseException:
                self._heard.discard(record.key)
                raise
        return await self.reach.take(record.key, run_id, is_known=is_known)

    async def _forward_rest(self, record: ThreadRecord, owner: str, run_id: str) -> None:
        """What waited for a run that doesn't start here goes to the run that has the thread."""
        agent = record.waiting_agent
        waiting = [*record.queues.take_pre_run(), *record.queues.take_pending()]
        if agent is None:
            return
        reservation = record.reservation
        offers = reservation.offers if reservation is not None else {}
        entries = [
            self.entry_of(agent, signal, run_id=run_id, offered=signal.id in offers)
            for signal in waiting
        ]
        # All of them first: whatever happens to the thread, its next owner finds them.
        for entry in entries:
            await self._keep(record.key, entry)
        for entry in entries:
            if await self.is_answered(record, agent, entry.signal):
                continue
            try:
                is_there = await self.reach.forward(record.key, entry, owner)
            except SignalQueueFullError as exc:
                if not entry.offered:
                    raise
                offers[entry.signal.id] = exc
                continue
            if not is_there:
                # Whoever owns the thread next finds it in the inbox.
                return

    async def _adopt(
        self, record: ThreadRecord, entries: Sequence[InboxEntry] | None = None
    ) -> list[InboxEntry]:
        """What waits for a thread of ours and is neither in a queue nor answered yet."""
        if self.reach.inbox is None:
            return []
        found = await self.reach.waiting(record.key) if entries is None else entries
        known = record.known_signals()
        fresh = [entry for entry in found if entry.signal.id not in known]
        left = await self._left_behind(record.key, fresh, known) if fresh else []
        fresh = sorted([*fresh, *left], key=lambda entry: entry.order)
        #: Cancelled here while they were on their way.
        answered = {
            entry.signal.id
            for entry in fresh
            if self._runtime.is_cancelled(record.key, entry.signal.id)
        }
        for agent_id in {entry.agent_id for entry in fresh}:
            agent = self._find_agent(agent_id)
            ids = [entry.signal.id for entry in fresh if entry.agent_id == agent_id]
            if agent is not None:
                answered |= await agent.answered(thread_id=record.thread_id, message_ids=ids)
        if answered:
            await self.reach.answered(record.key, answered)
        known = record.known_signals() | answered
        adopted = [
            entry
            for entry in fresh
            if entry.signal.id not in known
            and self._find_agent(entry.agent_id) is not None
            and _offer(entry.signal) not in self._refused
        ]
        for entry in adopted:
            # Its sender may still be about to offer it.
            taken = Accepted(action="deliver", run_id=entry.run_id)
            self._runtime.remember(record.key, entry.signal.id, taken)
        for entry in adopted:
            if entry in left:
                # Whoever looks for it from now on looks in the inbox.
                await self._keep(record.key, entry)
        return adopted

    async def _left_behind(
        self, key: str, entries: Sequence[InboxEntry], known: Collection[str]
    ) -> list[InboxEntry]:
        """A process may have died on this thread: with what was sent to it and kept nowhere."""
        seen = {*known, *(entry.signal.id for entry in entries)}
        return [
            InboxEntry(signal=one.signal, agent_id=one.agent_id or entries[0].agent_id)
            for one in await self.reach.left_behind(key)
            if one.signal.id not in seen
        ]

    def _queue(self, record: ThreadRecord, entry: InboxEntry, *, is_begun: bool = False) -> None:
        agent = self._find_agent(entry.agent_id)
        assert agent is not None
        context = dict(entry.request_context)
        self._runtime.queue_turn(
            record,
            agent,
            entry.signal,
            # A turn was promised a run of its own; the run that others joined is dead.
            run_id=entry.run_id if entry.turn else None,
            stream_options={"request_context": context} if context else {},
            number=entry.number,
            is_begun=is_begun,
        )

    def rest(self, record: ThreadRecord) -> None:
        """No run is here and none waits: look once more, then let the thread go."""
        if record.key in self._heard and not self._tasks.is_closed:
            self._tasks.start(self._rest(record), name=f"rest:{record.key}")

    async def _rest(self, record: ThreadRecord) -> None:
        run_id = self.reach.held_by(record.key)
        if run_id is not None:
            # A sender that was refused put its signal here before it asked for the thread.
            try:
                entries = await self._adopt(record)
            except MastraError:
                logger.warning("the inbox can't be read", exc_info=True)
                entries = []
            # What could not be stored a moment ago is tried again later, by whoever finds it.
            entries = [entry for entry in entries if entry.signal.id not in self._unstored]
            # The thread may have been forgotten, and used again, meanwhile.
            record = self._runtime.record(record.resource_id, record.thread_id)
            # What can't start here is in nobody's way: others may be able to answer it.
            if entries and record.only_rests:
                self._queue(record, entries[0])
                self._runtime.after_run(record)
                return
            self._runtime.drop_if_forgettable(record)
            if not record.only_rests:
                return
            await self.reach.let_go(record.key, run_id)
        if record.key not in self._heard:
            return
        await self._runtime.clock.sleep(_LATE_SECONDS)
        current = self._runtime.known_record(record.key)
        if (current is None or current.is_at_rest) and record.key in self._heard:
            self._heard.discard(record.key)
            await self.reach.stop_listening(record.key)

    def guard(self, key: str) -> None:
        """
        Before a write that only the owner of the thread may do (G2, G3).

        Raises:
            LeaseLostError: It isn't ours any more.
        """
        self.reach.assert_owned(key)

    # -- runs -----------------------------------------------------------------------------

    def begin(self, record: ThreadRecord, active: ActiveRun, *, stream_id: str) -> None:
        """Tell others what this run says from now on."""
        if not self.reach.speaks:
            return
        self._segments[active.run_id] = self._segments.get(active.run_id, 0) + 1
        key = record.key
        announcer = RunAnnouncer(
            active.output,
            lambda event: self.reach.publish(key, event),
            stream_id=stream_id,
            stream_seq=self._segments[active.run_id],
            source_id=self.reach.source_id,
            clock=self._runtime.clock,
            on_stored=(
                partial(self.reach.trim_later, key, active.run_id)
                if active.agent.stores_messages
                else None
            ),
        )
        active.announcer = announcer
        active.announcing = self._tasks.start(announcer.run(), name=f"tell:{active.run_id}")

    def finish(
        self, record: ThreadRecord, active: ActiveRun, then: Callable[[], None] | None
    ) -> None:
        """The segment is over: tell its end, forget what it answered, then go on."""
        if self._tasks.is_closed:
            if then is not None:
                then()
            return
        self._tasks.start(self._finish(record, active, then), name=f"end:{active.run_id}")

    async def _finish(
        self, record: ThreadRecord, active: ActiveRun, then: Callable[[], None] | None
    ) -> None:
        output = active.output
        if isinstance(output.failure, LeaseLostError):
            # The run may know it before whoever watches the lease does.
            active.is_lost = True
            if active.announcer is not None:
                active.announcer.silence()
        try:
            if (
                not active.is_lost
                and active.announcing is not None
                and active.announcer is not None
            ):
                await asyncio.wait([active.announcing])
                await active.announcer.finish(persisted=active.agent.stores_messages)
            # Ours until it is out of the inbox: whoever looks there knows it.
            taken = record.taken.get(active.run_id, ())
            answered = self._answered(active, taken)
            await self.reach.answered(record.key, answered)
            if output.status != "suspended":
                self._segments.pop(active.run_id, None)
                self._ended[active.run_id] = active.agent.id
                if len(self._ended) > _REMEMBERED_RUNS:
                    del self._ended[next(iter(self._ended))]
                is_over = not active.is_lost and set(taken) <= set(answered)
                if active.agent.stores_messages and is_over:
                    # Else whoever tries it again says more under this id, and trims all of it.
                    self.reach.trim_later(record.key, active.run_id)
        except MastraError:
            logger.warning("the end of a run was not told", exc_info=True)
        finally:
            record.taken.pop(active.run_id, None)
            if then is not None:
                then()

    def _answered(self, active: ActiveRun, signal_ids: Sequence[str]) -> list[str]:
        """
        What needs no further run: all that this one took, unless its answer could not be stored.

        That stays in the inbox and is tried again, a few times.
        """
        output = active.output
        # A run that has to end, since its thread is lost, is aborted, too: nobody wanted that.
        is_wanted = active.interrupt.is_aborted and active.interrupt.error is None
        # The process goes down: nobody wanted this run to end.
        is_cut = output.status == "canceled" and not is_wanted
        is_whole = (
            output.status in ("success", "suspended", "tripwire")
            or is_wanted
            or isinstance(output.failure, ProcessorError)
        )
        if active.agent.stores_messages and not active.is_lost:
            # A model that failed has answered, too: that stands in the thread.
            is_stored = not output.message_list.unsaved()
            is_open = is_cut or isinstance(output.failure, StorageError)
            is_whole = is_whole or (is_stored and (not is_open or _is_told(output)))
        elif not active.agent.stores_messages:
            is_whole = not (active.is_lost or is_cut)
        tries = {one: self._unstored.pop(one, 0) + 1 for one in signal_ids}
        if is_whole:
            return list(signal_ids)
        given_up = [one for one, count in tries.items() if count >= _STORING_ATTEMPTS]
        if not active.is_lost:
            self._unstored |= {one: count for one, count in tries.items() if one not in given_up}
        if given_up:
            logger.error("signals given up: no answer can be stored", extra={"ids": given_up})
        return given_up

    def tell_abort(self, active: ActiveRun) -> None:
        """Somebody aborted our run."""
        if active.announcer is not None and not self._tasks.is_closed:
            self._tasks.start(active.announcer.aborted(), name=f"abort:{active.run_id}")

    def tell_failure(self, key: str, run_id: str, text: str) -> None:
        """A run could not start here (17.3)."""
        if self.reach.speaks and not self._tasks.is_closed:
            self._tasks.start(self._tell_failure(key, run_id, text), name=f"failed:{run_id}")

    async def _tell_failure(self, key: str, run_id: str, text: str) -> None:
        try:
            await self.reach.tell_failed(key, run_id, text)
        except MastraError:
            logger.warning("a failure was not told", exc_info=True, extra={"run_id": run_id})

    def cancelled(self, key: str, signal_ids: Iterable[str]) -> None:
        """These will not be answered, though they stand in the inbox for another moment."""
        ids = list(signal_ids)
        self._runtime.forget_signals(key, ids)
        if not self._tasks.is_closed:
            self._tasks.start(self._cancelled(key, ids), name="cancelled signals")

    async def _cancelled(self, key: str, signal_ids: Sequence[str]) -> None:
        await self.reach.answered(key, signal_ids)
        try:
            await self.reach.tell_cancelled(key, signal_ids)
        except MastraError:
            logger.warning("a cancellation was not told", exc_info=True)

    def ask_abort(self, key: str, *, clear_pending_signals: bool) -> bool:
        """Ask the process that has the thread to abort its run; False if none is known."""
        run = self.reach.remote_run(key)
        if run is None or self._tasks.is_closed:
            return False
        asking = self._ask_abort(key, run, clear=clear_pending_signals)
        self._tasks.start(asking, name=f"ask-abort:{run[0]}")
        return True

    async def _ask_abort(self, key: str, run: tuple[str, str], *, clear: bool) -> None:
        run_id, stream_id = run
        try:
            await self._clear_for_peer(key, run_id, clear=clear)
            await self.reach.ask_abort(key, run_id, stream_id, clear_pending_signals=clear)
        except MastraError:
            logger.warning("an abort was not told", exc_info=True, extra={"run_id": run_id})

    async def _clear_for_peer(self, key: str, run_id: str, *, clear: bool) -> None:
        """An owner of version 1.71 clears what it was sent, but knows of no inbox."""
        is_blind = clear and self.reach.is_of_other_language(key)
        if is_blind and await self.reach.owner(key) == run_id:
            waiting = [e.signal.id for e in await self.reach.waiting(key) if not e.turn]
            self._runtime.forget_signals(key, waiting)
            await self._cancelled(key, waiting)

    async def abort_and_wait(
        self,
        record: ThreadRecord,
        *,
        clear_pending_signals: bool,
        expected_run_id: str | None,
        request_id: str,
    ) -> bool:
        """
        Have the process that has the thread abort its run, and wait until that is over (G13).

        Returns:
            False if no (such) run has the thread.

        Raises:
            LeaseUnavailableError: Nobody knows whose the thread is.
            PubSubError: The owner can't be asked.
        """
        key = record.key
        async with self.reach.heard(key, runs=True):
            # The owner registers its run a moment after it took the thread.
            while True:
                change = record.change()
                try:
                    owner = run_id_from_owner(await self.reach.known_owner(key))
                    if owner is None or expected_run_id not in (None, owner):
                        return False
                    run = self.reach.remote_run(key)
                    if run is not None and run[0] == owner:
                        break
                    await first_of(_settled(change), self.reach.wait_until_free(key))
                finally:
                    record.stop_waiting(change)
            await self._clear_for_peer(key, owner, clear=clear_pending_signals)
            return await self.reach.abort_and_wait(
                key,
                *run,
                clear_pending_signals=clear_pending_signals,
                request_id=request_id,
            )

    # -- reading --------------------------------------------------------------------------

    async def follow(self, key: str, reader: ThreadSubscription) -> None:
        """
        Let a reader see what runs elsewhere say on this thread, an active one from its start.

        Raises:
            PubSubError: The thread's topic can't be heard.
        """
        active = self.reach.remote_buffer(key)
        if active is not None:
            reader.add_run(*active)
        self._followed[reader] = key
        try:
            await self.reach.listen(key, runs=True)
        except BaseException:
            self._followed.pop(reader, None)
            raise
        if reader not in self._followed:
            await self.reach.stop_listening(key)

    def unfollow(self, key: str, reader: ThreadSubscription) -> None:
        """One reader less."""
        is_heard = reader.ready is not None and reader.ready.done()
        if self._followed.pop(reader, None) is not None and is_heard and not self._tasks.is_closed:
            self._tasks.start(self.reach.stop_listening(key), name=f"unfollow:{key}")

    # -- what arrives (ReachedThreads) ----------------------------------------------------

    def lease_lost(self, key: str, run_id: str, error: LeaseLostError) -> None:
        """Another process has the thread: what runs here ends and says nothing more (G3)."""
        record = self._runtime.known_record(key)
        if record is None:
            return
        logger.warning("thread lost", extra={"key": key, "run_id": run_id})
        if self.reach.inbox is not None:
            # Whoever has the thread finds what waits in the inbox; here it would be answered twice.
            record.queues.cancel(record.queues.durable_ids())
        reservation, active = record.reservation, record.active
        if reservation is not None and reservation.run_id == run_id:
            reservation.interrupt.fail(error)
        if active is None or active.run_id != run_id:
            return
        active.is_lost = True
        if active.announcer is not None:
            active.announcer.silence()
        if active.lifecycle == "suspended":
            # It waits in storage, for whoever answers it.
            record.active = None
            self._runtime.after_run(record)
        else:
            active.interrupt.fail(error)

    async def admit(
        self, key: str, run_id: str, signal: Signal, *, turn: bool, offered_to: str | None
    ) -> bool:
        """
        Queue a signal for a run of ours; True also if it came before.

        Args:
            key: The thread.
            run_id: The run; for a turn the one that is to be started.
            signal: What was sent.
            turn: It gets a run of its own.
            offered_to: The run of which its sender expects a word; it may be refused then. None
                if it was accepted already.

        Raises:
            SignalQueueFullError: There is no room for it (G6).
            StorageError: Nobody knows whether it was answered already.
        """
        record = self._runtime.known_record(key)
        if record is not None and not self.reach.had(key, run_id):
            # Meant for a run that lost the thread: whoever had it meanwhile may have taken it.
            agent = self._agent_at_work(record)
            if agent is None:
                return False
            if await agent.has_message(thread_id=record.thread_id, message_id=signal.id):
                return True
            record = self._runtime.known_record(key)
        if record is None or self._tasks.is_closed or self.reach.held_by(key) is None:
            return False
        if signal.id in record.known_signals() or self._runtime.has_taken(key, signal.id):
            return True
        active, agent = record.active, self._agent_at_work(record)
        if agent is None or record.is_idle:
            return False
        if offered_to is not None and self.reach.had(key, offered_to):
            record.queues.admit(signal, thread_id=record.thread_id)
        if turn:
            self._runtime.queue_turn(record, agent, signal, run_id=run_id, stream_options={})
        else:
            # If the run that is being set up never begins, this agent answers it.
            record.waiting_agent = agent
            record.queues.adopt(signal, pre_run=active is None)
            if active is not None:
                active.interrupt.signal_arrived()
                self._runtime.look_after(record)
        self._runtime.remember(key, signal.id, Accepted(action="deliver", run_id=run_id))
        return True

    async def refuse(
        self, key: str, signal: Signal, error: SignalQueueFullError, *, kept: bool
    ) -> bool:
        """
        There is no room for a signal that we were offered: nobody may answer it.

        Returns:
            False if its sender may have been told by now that it is accepted.

        Raises:
            StorageError: It isn't certain which of both is so; it stays in the inbox then.
        """
        if not kept or self.reach.inbox is None:
            return True
        offer = _offer(signal)
        # Who reads the inbox at this moment finds it there still.
        self._refused[offer] = None
        if len(self._refused) > _REMEMBERED_RUNS:
            del self._refused[next(iter(self._refused))]
        is_refused = False
        try:
            is_refused = await self.reach.inbox.refuse(key, signal.id, error.to_wire())
        finally:
            if not is_refused:
                self._refused.pop(offer, None)
        return is_refused

    def _agent_at_work(self, record: ThreadRecord) -> ThreadAgent | None:
        """Whose run has the thread, or is about to; else whose input waits."""
        if record.active is not None:
            return record.active.agent
        reservation = record.reservation
        reserved = None if reservation is None else self._find_agent(reservation.agent_id)
        return reserved or record.waiting_agent

    async def keep_admitted(self, key: str, run_id: str, signal: Signal, *, turn: bool) -> bool:
        """Let what another process has sent, and not kept, outlive this one."""
        record = self._runtime.known_record(key)
        if record is None:
            return False
        if signal.id not in record.known_signals():
            # It came before: it is answered, or stands in the inbox.
            return True
        agent = self._agent_at_work(record)
        if agent is None:
            return False
        try:
            await self._keep(key, self.entry_of(agent, signal, run_id=run_id, turn=turn))
            record = self._runtime.record(*split_key(key))
            if signal.id not in record.known_signals():
                # Its run may have ended meanwhile, or somebody took it back.
                await self.is_answered(record, agent, signal)
        except MastraError:
            # It will be answered, unless this process dies before.
            logger.warning("a signal from elsewhere was not kept", exc_info=True)
            return False
        self._runtime.drop_if_forgettable(record)
        return True

    async def take_late(self, key: str, run_id: str, signal: Signal) -> None:
        """Answer what a sender that keeps nothing sent to a run of ours that has just ended."""
        agent = self._find_agent(self._ended.get(run_id, ""))
        if agent is None or self._runtime.has_taken(key, signal.id):
            return
        entry = self.entry_of(agent, signal, run_id=run_id)
        await self._keep(key, entry)
        self.start_orphans(key, [entry])

    def forget_signals(self, key: str, signal_ids: Sequence[str]) -> None:
        """These were cancelled in another process."""
        self._runtime.forget_signals(key, signal_ids)

    def abort_asked(
        self,
        key: str,
        run_id: str,
        stream_id: str | None,
        *,
        clear: bool,
        request_id: str | None,
    ) -> None:
        """Another process asks to abort a run of ours; with a request id it waits for a word."""
        record = self._runtime.known_record(key)
        if record is None or record.active is None or record.active.run_id != run_id:
            return
        announcer = record.active.announcer
        is_meant = stream_id is None or (announcer is not None and announcer.stream_id == stream_id)
        if is_meant:
            self._runtime.abort(record.resource_id, record.thread_id, clear_pending_signals=clear)
        if request_id is not None and not self._tasks.is_closed:
            telling = self._tell_aborted(record, run_id, request_id, done=is_meant)
            self._tasks.start(telling, name=f"acknowledge:{request_id}")

    async def _tell_aborted(
        self, record: ThreadRecord, run_id: str, request_id: str, *, done: bool
    ) -> None:
        try:
            if done:
                await record.until_over(run_id)
            await self.reach.acknowledge(record.key, run_id, request_id, done=done)
        except MastraError:
            logger.warning("an abort was not acknowledged", exc_info=True)

    def show_remote(self, key: str, run_id: str, buffer: ChunkBuffer) -> None:
        """A run of another process, for the readers here."""
        record = self._runtime.known_record(key)
        for subscription in record.subscriptions if record is not None else ():
            subscription.add_run(run_id, buffer)

    def remote_changed(self, key: str) -> None:
        """A run of another process has begun or ended."""
        record = self._runtime.known_record(key)
        if record is not None:
            record.notify()

    def is_busy(self, key: str) -> bool:
        """Is there a run here, or one about to start?"""
        record = self._runtime.known_record(key)
        return record is not None and not record.is_at_rest

    def start_orphans(self, key: str, entries: Sequence[InboxEntry]) -> None:
        """Nobody has the thread: answer what waits for it, the first in a turn of its own."""
        if not self._tasks.is_closed:
            self._tasks.start(self._start_orphans(key, entries), name=f"orphans:{key}")

    async def _start_orphans(self, key: str, entries: Sequence[InboxEntry]) -> None:
        record = self._runtime.record(*split_key(key))
        try:
            waiting = await self._adopt(record, entries)
        except MastraError:
            logger.warning("waiting input can't be adopted", exc_info=True, extra={"key": key})
            waiting = []
        record = self._runtime.record(*split_key(key))
        if waiting and record.is_at_rest:
            # The others are found when the thread is taken.
            self._queue(record, waiting[0])
            self._runtime.after_run(record)
        self._runtime.drop_if_forgettable(record)


def _offer(signal: Signal) -> tuple[str, int]:
    """A signal as it was sent this time; who was refused may send it again."""
    return signal.id, epoch_ms(signal.accepted_at or signal.created_at)


async def _settled(change: asyncio.Future[None]) -> None:
    await asyncio.shield(change)


def _is_told(output: ModelOutput) -> bool:
    """Is the last thing of the transcript an answer, whatever went wrong behind it?"""
    last = output.message_list.messages[-1] if output.message_list.messages else None
    return last is not None and is_answer(last.role, last.content)


def _kept_context(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the caller said about the run and another process can understand."""
    context = options.get("request_context")
    if not isinstance(context, Mapping):
        return {}
    try:
        return dict(sanitize_copy(dict(context)))
    except MastraError:
        logger.warning("a request context can't be kept with a signal", exc_info=True)
        return {}
