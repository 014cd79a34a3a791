"""What a thread has outside this process: its lease, its topic, its inbox (signals.md 17, 22).

The runtime decides what happens on a thread; this room lets it be the only one that does, and
lets others reach it. Each part is there only if its backend reaches further than the process.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from mastra_core.base.clock import Clock
from mastra_core.base.tasks import TaskSupervisor
from mastra_core.bus.held_lease import HeldLease
from mastra_core.bus.timers import first_of
from mastra_core.contracts.lease import LeaseProvider
from mastra_core.contracts.pubsub import Cursor, EventHandler, FenceToken, PubSub, StartFrom
from mastra_core.contracts.storage import MemoryStorage
from mastra_core.errors import (
    DeliveryError,
    LeaseLostError,
    LeaseUnavailableError,
    MastraError,
    PubSubClosedError,
    PubSubError,
    SignalQueueFullError,
)
from mastra_core.messages.signals import signal_from_wire
from mastra_core.streaming.broadcast import ChunkBuffer
from mastra_core.threads import events
from mastra_core.threads.events import ThreadEvent, read_event
from mastra_core.threads.inbox import REFUSED_SECONDS, InboxEntry, ThreadInbox
from mastra_core.threads.lease_keeper import LEASE_TTL_MS, LeaseKeeper, run_id_from_owner
from mastra_core.threads.left_behind import LeftBehind, left_behind
from mastra_core.threads.remote import RemoteRuns
from mastra_core.threads.signing import EventSigner
from mastra_core.threads.thread_key import split_key, thread_topic
from mastra_core.wire.events import Event
from mastra_core.wire.signals import Signal

__all__ = ("Backends", "ReachedThreads", "ThreadReach")

logger = logging.getLogger(__name__)

#: How long it waits if the signal stands in the inbox.
_SILENT_SECONDS: Final = 0.5
#: How long a sender may take to get the thread, before others answer what it has sent.
_GRACE_SECONDS: Final = 2.0
#: How long who waits for a thread may miss that it is free.
_LONGEST_WAIT_SECONDS: Final = 1.0
#: How long the end of a run may be on the way to its readers; a bus without push looks once a second.
_COMING_SECONDS: Final = 2.0
#: What an owner of version 1.71 takes between the end of a run and the end of its lease.
_LETTING_GO_SECONDS: Final = 0.05


class ReachedThreads(Protocol):
    """What the runtime does when something arrives from outside."""

    def lease_lost(self, key: str, run_id: str, error: LeaseLostError) -> None:
        """The thread belongs to another process now."""
        ...

    async def admit(
        self, key: str, run_id: str, signal: Signal, *, turn: bool, offered_to: str | None
    ) -> bool:
        """
        Queue a signal that was meant for this run; False if that run isn't one of ours.

        Raises:
            SignalQueueFullError: There is no room, and its sender waits for a word.
        """
        ...

    async def refuse(
        self, key: str, signal: Signal, error: SignalQueueFullError, *, kept: bool
    ) -> bool:
        """There is no room for this signal; False if it is too late to say so."""
        ...

    async def keep_admitted(self, key: str, run_id: str, signal: Signal, *, turn: bool) -> bool:
        """Its sender has kept nothing: let it outlive this process, too; False if it can't (G1)."""
        ...

    async def take_late(self, key: str, run_id: str, signal: Signal) -> None:
        """Nobody has admitted this, nor kept it: answer it if its run was ours."""
        ...

    def forget_signals(self, key: str, signal_ids: Sequence[str]) -> None:
        """These were cancelled somewhere."""
        ...

    def abort_asked(
        self,
        key: str,
        run_id: str,
        stream_id: str | None,
        *,
        clear: bool,
        request_id: str | None,
    ) -> None:
        """Another process asks to abort our run; with a request id it waits for a word (G13)."""
        ...

    def show_remote(self, key: str, run_id: str, buffer: ChunkBuffer) -> None:
        """A run of another process, for the readers here."""
        ...

    def remote_changed(self, key: str) -> None:
        """A run of another process has begun or ended."""
        ...

    def is_busy(self, key: str) -> bool:
        """Is there a run here, or one about to start?"""
        ...

    def start_orphans(self, key: str, entries: Sequence[InboxEntry]) -> None:
        """Nobody has the thread: answer what waits for it."""
        ...


@dataclass(slots=True)
class _Listener:
    """Our subscription to one topic."""

    users: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    #: The handlers that are subscribed.
    control: EventHandler | None = None
    view: EventHandler | None = None
    runs: RemoteRuns | None = None
    checking: asyncio.Task[None] | None = None
    #: Set when a run of another process ended.
    changed: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(frozen=True, slots=True, kw_only=True)
class Backends:
    """What of an application's infrastructure other processes share with this one."""

    #: This process, new at every start.
    source_id: str
    #: Time and pauses.
    clock: Clock
    #: The bus, if other processes hear it.
    pubsub: PubSub | None
    #: The leases, if other processes respect them.
    lease: LeaseProvider | None
    #: The durable inbox, if the store outlives the process.
    inbox: ThreadInbox | None
    #: Threads and messages, if their store refuses what former owners write.
    guards: MemoryStorage | None = None
    #: Milliseconds until a thread of a process that doesn't answer is free.
    ttl_ms: int = LEASE_TTL_MS
    #: How often its lease is renewed; three times in that time if not given.
    renew_ms: int | None = None
    #: How long a signal is offered to owners, also until one says that it has what nobody else
    #: keeps (G4).
    hand_over_ms: int = 5_000
    #: How long the parts of a run are kept for slow readers after its end. The other language
    #: deletes those of a stored run at once, and readers that are behind never see its end.
    keep_parts_ms: int = 30_000
    #: Tells control events of ours from those of strangers.
    signer: EventSigner = field(default_factory=EventSigner)


class ThreadReach:
    """
    Keeps the leases, tells and hears what happens elsewhere, and finds what was left behind.

    Args:
        threads: Who answers what arrives.
        backends: What reaches further than this process.
    """

    def __init__(self, threads: ReachedThreads, backends: Backends) -> None:
        self.source_id = backends.source_id
        self.inbox = backends.inbox
        self.ttl_seconds = backends.ttl_ms / 1000
        self._threads = threads
        self._pubsub = backends.pubsub
        self._signer = backends.signer
        self.hand_over_seconds = backends.hand_over_ms / 1000
        self._keep_seconds = backends.keep_parts_ms / 1000
        self._clock = backends.clock
        self._guards = backends.guards
        self._leases = (
            None
            if backends.lease is None
            else LeaseKeeper(
                backends.lease,
                holder=backends.source_id,
                clock=backends.clock,
                on_lost=threads.lease_lost,
                ttl_ms=backends.ttl_ms,
                renew_ms=backends.renew_ms,
                raise_fence=None if backends.guards is None else backends.guards.raise_fence,
            )
        )
        self._listeners: dict[str, _Listener] = {}
        #: Runs whose parts are to be deleted, when, the earliest first.
        self._trims: deque[tuple[float, str, str, int | None]] = deque()
        #: What owners said about what we sent: None if they have it.
        self._receipts: dict[str, asyncio.Future[SignalQueueFullError | None]] = {}
        #: Who waits for the end of a run elsewhere, by the id of the request.
        self._acknowledged: dict[str, asyncio.Future[bool]] = {}
        #: Threads whose owner didn't say whether it has what we sent.
        self._watched: set[str] = set()
        self._tasks = TaskSupervisor("threads elsewhere")

    def start(self) -> None:
        """Look from now on for input that a dead process left behind."""
        if self.inbox is not None:
            self._tasks.start(self._look_for_orphans(self.inbox), name="orphaned input")

    async def aclose(self) -> None:
        """Let go of everything."""
        await self._tasks.close()
        for key in list(self._listeners):
            await self._unsubscribe(key, self._listeners[key])
        self._listeners.clear()
        if self._leases is not None:
            await self._leases.aclose()

    def counts(self) -> dict[str, int]:
        """What is kept open for threads; nothing when nothing happens on them."""
        return {
            "leases": len(self._leases) if self._leases is not None else 0,
            "topics": len(self._listeners),
            "receipts": len(self._receipts),
        }

    # -- ownership ------------------------------------------------------------------------

    async def take(self, key: str, run_id: str, *, is_known: bool = False) -> str | None:
        """
        Own the thread for this run; None if it is ours, else the owner that has it.

        See ``LeaseKeeper.take``.

        Raises:
            LeaseUnavailableError: Nobody knows whose it is.
            PubSubError: The thread's topic can't be heard.
            StorageError: Former owners can't be kept from writing.
        """
        if self._leases is None:
            return None
        return await self._leases.take(key, run_id, is_known=is_known)

    def held_by(self, key: str) -> str | None:
        """The run of this process that has the thread; None if it isn't ours."""
        held = self.term(key)
        return held.owner if held is not None else None

    def term(self, key: str) -> HeldLease | None:
        """The lease of a thread that is ours; the same one as long as nobody else had it."""
        return self._leases.held(key) if self._leases is not None else None

    def fence(self, key: str) -> FenceToken | None:
        """
        What writes to a thread of ours carry (G2); None where nobody looks at it.
        """
        if self._leases is None or self._guards is None:
            return None
        return self._leases.fence(key)

    def had(self, key: str, run_id: str) -> bool:
        """Has this run of ours had the thread since nobody else did?"""
        return self._leases is not None and self._leases.had(key, run_id)

    async def let_go(self, key: str, run_id: str) -> None:
        """Nothing waits for the thread any more."""
        if self._leases is not None:
            await self._leases.let_go(key, run_id)

    async def owner(self, key: str) -> str | None:
        """The run that has the thread, in whichever process; None if nobody has, or knows."""
        try:
            return await self.known_owner(key)
        except LeaseUnavailableError:
            logger.warning("owner of a thread not known", exc_info=True, extra={"key": key})
            return None

    async def known_owner(self, key: str) -> str | None:
        """
        The run that has the thread; None if nobody has.

        Raises:
            LeaseUnavailableError: Nobody knows.
        """
        return None if self._leases is None else await self._leases.owner(key)

    def assert_owned(self, key: str) -> None:
        """
        Before something that only the owner may do.

        Raises:
            LeaseLostError: The thread isn't ours any more.
        """
        if self._leases is None:
            return
        held = self._leases.held(key)
        if held is None:
            raise LeaseLostError(key, message="This process has lost the thread to another one.")
        held.assert_owned()

    async def wait_until_free(self, key: str) -> None:
        """Until the thread may be free; soon in any case, since it may be let go as we begin."""
        if self._leases is None:
            return
        async with self._heard(key) as listener:
            if listener is not None:
                listener.changed.clear()
            waits: list[asyncio.Future[Any]] = [asyncio.ensure_future(self._watch_lease(key))]
            if listener is not None:
                waits.append(asyncio.ensure_future(listener.changed.wait()))
            longest = min(self.ttl_seconds / 3, _LONGEST_WAIT_SECONDS)
            waits.append(asyncio.ensure_future(self._clock.sleep(longest)))
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for wait in waits:
                    wait.cancel()
                await asyncio.gather(*waits, return_exceptions=True)

    async def _watch_lease(self, key: str) -> None:
        assert self._leases is not None
        provider = self._leases.provider
        if not provider.lease_capabilities.watch or await self.owner(key) is None:
            if not provider.lease_capabilities.watch:
                await self._clock.sleep(self.ttl_seconds / 3)
            return
        async for event in provider.watch_lease(key):
            if event.kind in ("released", "expired", "transferred"):
                return

    # -- telling --------------------------------------------------------------------------

    @property
    def speaks(self) -> bool:
        """Does anybody elsewhere hear what we say?"""
        return self._pubsub is not None

    async def publish(self, key: str, event: Event) -> None:
        """
        Put an event on the thread's topic.

        Raises:
            PubSubError: It isn't certain that it is there.
        """
        if self._pubsub is not None:
            topic, term = thread_topic(*split_key(key)), self.term(key)
            fence = term.fence if term is not None else None
            await self._pubsub.publish(topic, self._signer.signed(topic, event, fence=fence))

    async def tell_cancelled(self, key: str, signal_ids: Sequence[str]) -> None:
        """Whoever has one of these signals forgets it (8.4)."""
        await self.publish(key, events.signals_cancelled(key, signal_ids, source_id=self.source_id))

    async def tell_failed(self, key: str, run_id: str, text: str) -> None:
        """A run of ours could not start (17.3)."""
        await self.publish(key, events.run_failed(run_id, text, source_id=self.source_id))

    async def ask_abort(
        self,
        key: str,
        run_id: str,
        stream_id: str,
        *,
        clear_pending_signals: bool,
        request_id: str | None = None,
    ) -> None:
        """Ask the owner of a run to abort it (8.5)."""
        await self.publish(
            key,
            events.abort_requested(
                run_id,
                stream_id=stream_id,
                source_id=self.source_id,
                clear_pending_signals=clear_pending_signals,
                request_id=request_id,
            ),
        )

    async def abort_and_wait(
        self,
        key: str,
        run_id: str,
        stream_id: str,
        *,
        clear_pending_signals: bool,
        request_id: str,
    ) -> bool:
        """
        Ask the owner of a run to abort it, and wait until it has done so (G13).

        Owners of version 1.71 don't answer: then the end of the run, or of its lease, tells, and
        what they say to everybody.

        Returns:
            False if the owner has another run, or another segment of this one, or if this one
            ended by itself: before the owner heard of it, or since it doesn't listen to us.

        Raises:
            LeaseUnavailableError: Nobody knows whose the thread is.
            PubSubError: The owner can't be asked.
        """
        told: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._acknowledged[request_id] = told
        try:
            async with self.heard(key):
                await self.ask_abort(
                    key,
                    run_id,
                    stream_id,
                    clear_pending_signals=clear_pending_signals,
                    request_id=request_id,
                )
                while not told.done():
                    if run_id_from_owner(await self.known_owner(key)) != run_id:
                        return await self._was_aborted(key, stream_id, told)
                    await first_of(_settled(told), self.wait_until_free(key))
                return told.result()
        finally:
            del self._acknowledged[request_id]

    async def _was_aborted(self, key: str, stream_id: str, told: asyncio.Future[bool]) -> bool:
        """The run has the thread no more; what its owner said about that may be on its way."""
        listener = self._listeners.get(key)
        runs = listener.runs if listener is not None else None
        if runs is not None and not told.done():
            await first_of(
                _settled(told),
                runs.until_ended(stream_id),
                self._clock.sleep(self.hand_over_seconds),
            )
        if told.done():
            return told.result()
        return runs is None or runs.was_aborted(stream_id)

    async def acknowledge(self, key: str, run_id: str, request_id: str, *, done: bool) -> None:
        """
        Say what became of an abort that another process asked for (G13).

        Raises:
            PubSubError: It can't be told.
        """
        await self.publish(
            key,
            events.abort_acknowledged(run_id, request_id, source_id=self.source_id, done=done),
        )

    def trim_later(self, key: str, run_id: str, until_ms: int | None = None) -> None:
        """
        Storage has what this run said, or nobody needs it: readers get time to take it (17.8).

        Args:
            key: The thread.
            run_id: The run.
            until_ms: Only what it said until then, and nothing that waits for an answer; the
                run goes on. None for all of it.
        """
        if self._pubsub is None or self._tasks.is_closed:
            return
        due = self._clock.monotonic() + self._keep_seconds
        self._trims.append((due, key, run_id, until_ms))
        if len(self._trims) == 1:
            self._tasks.start(self._trim(self._pubsub), name="trim topics")

    async def _trim(self, pubsub: PubSub) -> None:
        while self._trims:
            due, key, run_id, until_ms = self._trims[0]
            await self._clock.sleep(max(0.0, due - self._clock.monotonic()))
            try:
                # Somebody else may say more under this id by now, by a clock of his own.
                is_ours = self._leases is None or self.held_by(key) == run_id
                if until_ms is None or is_ours:
                    await pubsub.trim_topic(
                        thread_topic(*split_key(key)), run_id=run_id, produced_before_ms=until_ms
                    )
            except MastraError:
                # They stay until the bus lets old events go.
                logger.warning("parts of a run were not deleted", exc_info=True)
            self._trims.popleft()

    async def forward(
        self, key: str, entry: InboxEntry, owner: str, *, pre_run: bool = False
    ) -> bool:
        """
        Give a signal to the owner of the thread; False if it has let the thread go.

        The signal stands in the inbox already: whoever owns the thread next finds it there.

        Raises:
            SignalQueueFullError: The owner has no room for a signal that it is offered; it was
                taken out of the inbox.
            PubSubError: The owner can't be told.
            StorageError: The owner doesn't say what it does, and it can't be seen to.
            DeliveryError: This process stood still, and nobody knows what the owner said.
        """
        run_id = run_id_from_owner(owner) or owner
        offered_to = run_id if entry.offered else None
        is_kept = self.inbox is not None and not entry.signal.transient
        if entry.turn:
            # An owner of version 1.71 would let it join its run: this one it doesn't know (G11).
            run_id = entry.run_id or entry.signal.id
        if self._pubsub is None:
            return await self.owner(key) == owner
        receipt = self._receipts.setdefault(
            entry.signal.id, asyncio.get_running_loop().create_future()
        )
        # What stands in the inbox is answered in any case; else only the owner's word counts.
        patience = self.hand_over_seconds if self.inbox is None else _SILENT_SECONDS
        begun = self._clock.monotonic()
        try:
            async with self._heard(key):
                await self.publish(
                    key,
                    events.signal_enqueued(
                        run_id,
                        entry.signal,
                        source_id=self.source_id,
                        pre_run=pre_run,
                        turn=entry.turn,
                        kept=is_kept,
                        offered_to=offered_to,
                    ),
                )
                if await self._answered(receipt, patience):
                    if (refusal := receipt.result()) is not None:
                        await self.answered(key, [entry.signal.id])
                        raise refusal
                    return True
                # An owner of version 1.71 never says that it has a signal: then its lease tells.
                if await self.owner(key) != owner:
                    return False
                if offered_to is not None and is_kept:
                    await self._insist(key, entry, begun)
                self._look_when_free(key)
                return True
        finally:
            self._receipts.pop(entry.signal.id, None)

    async def _insist(self, key: str, entry: InboxEntry, begun: float) -> None:
        """The owner said nothing in time: its sender will be told that the signal is accepted."""
        assert self.inbox is not None
        refusal = await self.inbox.insist(key, entry.signal.id)
        if refusal is not None:
            await self.answered(key, [entry.signal.id])
            raise _refusal_from(refusal)
        if self._clock.monotonic() - begun > REFUSED_SECONDS:
            raise DeliveryError(
                "This process stood still while a thread's owner decided about a signal.",
                hint="Look in the thread whether it was answered before it is sent again.",
            )

    async def _answered(self, receipt: asyncio.Future[Any], seconds: float) -> bool:
        pause = asyncio.ensure_future(self._clock.sleep(seconds))
        try:
            await asyncio.wait([receipt, pause], return_when=asyncio.FIRST_COMPLETED)
        finally:
            pause.cancel()
        return receipt.done()

    def _look_when_free(self, key: str) -> None:
        """Nobody said that a signal will be answered: see to it as soon as the thread is free."""
        if self.inbox is not None and key not in self._watched:
            self._watched.add(key)
            self._tasks.start(self._watch(self.inbox, key), name=f"silent:{key}")

    async def _watch(self, inbox: ThreadInbox, key: str) -> None:
        try:
            async with self._heard(key):
                while await self.owner(key) is not None:
                    await self.wait_until_free(key)
                    # Owners of version 1.71 say that a run has ended before they let go.
                    await self._clock.sleep(_LETTING_GO_SECONDS)
                self._watched.discard(key)
                await self._look_at(inbox, key)
        except MastraError:
            logger.warning("a thread can't be watched", exc_info=True, extra={"key": key})
        finally:
            self._watched.discard(key)

    # -- hearing --------------------------------------------------------------------------

    async def listen(self, key: str, *, runs: bool = False) -> None:
        """
        Hear what is said about the thread from now on; with ``runs``, what runs elsewhere said.

        Every call is to be matched by one of ``stop_listening``.

        Raises:
            PubSubError: The topic can't be heard.
        """
        if self._pubsub is None:
            return
        listener = self._listeners.setdefault(key, _Listener())
        listener.users += 1
        try:
            async with listener.lock:
                await self._subscribe(key, listener, runs=runs)
        except BaseException:
            await self.stop_listening(key)
            raise

    async def stop_listening(self, key: str) -> None:
        """One reason less to hear this thread."""
        listener = self._listeners.get(key)
        if listener is None:
            return
        listener.users -= 1
        if listener.users > 0:
            return
        async with listener.lock:
            if listener.users <= 0 and self._listeners.get(key) is listener:
                del self._listeners[key]
                await self._unsubscribe(key, listener)

    @asynccontextmanager
    async def heard(self, key: str, *, runs: bool = False) -> AsyncIterator[None]:
        """
        Hear what is said about the thread inside the block.

        Raises:
            PubSubError: The topic can't be heard.
        """
        async with self._heard(key, runs=runs):
            yield

    @asynccontextmanager
    async def _heard(self, key: str, *, runs: bool = False) -> AsyncIterator[_Listener | None]:
        await self.listen(key, runs=runs)
        try:
            yield self._listeners.get(key)
        finally:
            await self.stop_listening(key)

    def remote_run(self, key: str) -> tuple[str, str] | None:
        """Run and segment that another process has on the thread, as far as we have heard."""
        listener = self._listeners.get(key)
        run = listener.runs.active if listener is not None and listener.runs else None
        return (run.run_id, run.stream_id) if run is not None else None

    def is_of_other_language(self, key: str) -> bool:
        """Is it an owner of version 1.71? It doesn't say whose run it is."""
        listener = self._listeners.get(key)
        run = listener.runs.active if listener is not None and listener.runs else None
        return run is not None and run.agent_id is None

    def remote_buffer(self, key: str) -> tuple[str, ChunkBuffer] | None:
        """The run that another process has on the thread, and what it has said."""
        listener = self._listeners.get(key)
        run = listener.runs.active if listener is not None and listener.runs else None
        return (run.run_id, run.buffer) if run is not None else None

    async def _subscribe(self, key: str, listener: _Listener, *, runs: bool) -> None:
        assert self._pubsub is not None
        topic = thread_topic(*split_key(key))
        if listener.control is None:
            control = self._control_of(key, listener)
            await self._pubsub.subscribe(topic, control, start_from="latest", ordered=True)
            listener.control = control
        if runs and listener.view is None:
            listener.runs = RemoteRuns(
                source_id=self.source_id,
                owner=lambda: self.known_owner(key),
                show=lambda run_id, buffer: self._threads.show_remote(key, run_id, buffer),
            )
            view = self._view_of(key, listener.runs)
            start = await self._read_past(topic, listener.runs)
            await self._pubsub.subscribe(topic, view, start_from=start, ordered=True)
            listener.view = view
            listener.checking = self._tasks.start(
                self._check_remote(key, listener.runs), name=f"remote:{key}"
            )

    async def _read_past(self, topic: str, runs: RemoteRuns) -> StartFrom:
        """A run that is at work elsewhere has said something already; one that ended is history."""
        assert self._pubsub is not None
        capabilities = self._pubsub.capabilities
        if not (capabilities.history and capabilities.cursors):
            return "earliest"
        past = await self._pubsub.get_history(topic)
        if not past or past[-1].cursor is None:
            return "earliest"
        for event in past:
            found = read_event(event)
            if found is not None:
                await runs.take(found, is_past=True)
        return Cursor(past[-1].cursor)

    async def _unsubscribe(self, key: str, listener: _Listener) -> None:
        assert self._pubsub is not None
        topic = thread_topic(*split_key(key))
        if listener.checking is not None:
            listener.checking.cancel()
        for handler in (listener.control, listener.view):
            if handler is None:
                continue
            try:
                await self._pubsub.unsubscribe(topic, handler)
            except PubSubClosedError:
                pass
            except PubSubError:
                # Nobody is called any more; others wait for what comes behind this.
                logger.warning("a topic was not unsubscribed", exc_info=True, extra={"key": key})
        listener.control = listener.view = None
        if listener.runs is not None:
            listener.runs.end()

    def _control_of(self, key: str, listener: _Listener) -> EventHandler:
        topic = thread_topic(*split_key(key))

        async def control(event: Event) -> None:
            found = read_event(event)
            if found is None or found.source_id == self.source_id:
                return
            if not self._signer.is_genuine(topic, found.data):
                return
            match found.type:
                case events.SIGNAL_ENQUEUED:
                    await self._enqueued(key, found)
                case events.SIGNAL_ADMITTED:
                    receipt = self._receipts.get(found.text("signalId") or "")
                    if receipt is not None and not receipt.done():
                        receipt.set_result(None)
                case events.SIGNAL_REFUSED:
                    receipt = self._receipts.get(found.text("signalId") or "")
                    refusal = found.data.get("refusal")
                    if receipt is not None and not receipt.done() and isinstance(refusal, dict):
                        receipt.set_result(_refusal_from(refusal))
                case events.SIGNALS_CANCELLED:
                    self._threads.forget_signals(key, found.texts("signalIds"))
                    if found.source_id is None:
                        # Version 1.71 knows of no inbox.
                        await self.answered(key, found.texts("signalIds"))
                case events.ABORT_REQUESTED:
                    await self._abort_asked(key, found)
                case events.ABORT_ACKNOWLEDGED:
                    told = self._acknowledged.get(found.text("requestId") or "")
                    if told is not None and not told.done():
                        told.set_result(found.data.get("done") is True)
                case kind if kind in events.ENDS:
                    listener.changed.set()
                case _:
                    pass

        return control

    def _view_of(self, key: str, runs: RemoteRuns) -> EventHandler:
        async def view(event: Event) -> None:
            found = read_event(event)
            if found is None:
                return
            before = runs.active
            await runs.take(found)
            if runs.active is not before or found.type == events.SUSPENDED:
                self._threads.remote_changed(key)

        return view

    async def _enqueued(self, key: str, event: ThreadEvent) -> None:
        run_id, value = event.run_id, event.data.get("signal")
        if run_id is None or not isinstance(value, dict):
            return
        try:
            signal = signal_from_wire(value, clock=self._clock)
        except MastraError:
            logger.warning("a signal from elsewhere can't be read", exc_info=True)
            return
        is_turn = event.data.get("turn") is True
        is_kept = event.data.get("kept") is True
        try:
            is_ours = await self._admit(
                key, run_id, signal, turn=is_turn, kept=is_kept, offered_to=event.text("offeredTo")
            )
            if not is_ours:
                if is_ours is False and not is_kept:
                    await self._threads.take_late(key, run_id, signal)
                return
        except MastraError:
            logger.warning("a signal from elsewhere can't be taken", exc_info=True)
            return
        if not is_kept and not await self._threads.keep_admitted(key, run_id, signal, turn=is_turn):
            return
        try:
            await self.publish(
                key, events.signal_admitted(run_id, signal.id, source_id=self.source_id)
            )
        except MastraError:
            # Its sender reads the lease instead.
            logger.warning("a receipt could not be sent", exc_info=True)

    async def _admit(
        self,
        key: str,
        run_id: str,
        signal: Signal,
        *,
        turn: bool,
        kept: bool,
        offered_to: str | None,
    ) -> bool | None:
        """Is a signal from elsewhere in a queue of ours now? None if there is no room for it."""
        try:
            return await self._threads.admit(key, run_id, signal, turn=turn, offered_to=offered_to)
        except SignalQueueFullError as exc:
            if not await self._threads.refuse(key, signal, exc, kept=kept):
                # Its sender has stopped waiting, and counts on us.
                return await self._threads.admit(key, run_id, signal, turn=turn, offered_to=None)
            refusal = exc.to_wire()
        await self.publish(
            key,
            events.signal_refused(run_id, signal.id, source_id=self.source_id, refusal=refusal),
        )
        return None

    async def _abort_asked(self, key: str, event: ThreadEvent) -> None:
        run_id = event.run_id
        if run_id is None or run_id_from_owner(await self.owner(key)) not in (run_id, None):
            return
        clear = event.data.get("clearPendingSignals") is True
        self._threads.abort_asked(
            key, run_id, event.stream_id, clear=clear, request_id=event.text("requestId")
        )

    async def _check_remote(self, key: str, runs: RemoteRuns) -> None:
        if self._leases is None:
            return
        while True:
            await self._clock.sleep(self.ttl_seconds)
            if not await runs.seems_lost():
                continue
            # Its end may have been told, and be on the way.
            await self._clock.sleep(_COMING_SECONDS)
            if await runs.check():
                self._threads.remote_changed(key)

    # -- what was left behind -------------------------------------------------------------

    async def waiting(self, key: str) -> list[InboxEntry]:
        """What the inbox holds for a thread that is ours."""
        return [] if self.inbox is None else await self.inbox.entries(key)

    async def left_behind(self, key: str) -> list[LeftBehind]:
        """What only the thread's topic tells of, since its sender keeps nothing."""
        if self._pubsub is None or not self._pubsub.capabilities.history:
            return []
        topic = thread_topic(*split_key(key))
        found = (read_event(event) for event in await self._pubsub.get_history(topic))
        return left_behind(
            (
                event
                for event in found
                if event is not None and self._signer.is_genuine(topic, event.data)
            ),
            clock=self._clock,
        )

    async def answered(self, key: str, signal_ids: Iterable[str]) -> None:
        """The run that took these signals has ended, or they were cancelled."""
        if self.inbox is None:
            return
        try:
            await self.inbox.remove(key, signal_ids)
        except MastraError:
            # Whoever adopts them finds their rows and their answer.
            logger.warning("answered signals stay in the inbox", exc_info=True)

    async def _look_for_orphans(self, inbox: ThreadInbox) -> None:
        grace = min(self.ttl_seconds, _GRACE_SECONDS)
        while True:
            pause = self.ttl_seconds
            try:
                keys = await inbox.keys()
            except MastraError:
                logger.warning("the inbox can't be read", exc_info=True)
                keys = []
            for key in keys:
                try:
                    if not await self._look_at(inbox, key, grace=grace):
                        pause = grace
                except MastraError:
                    logger.warning("a thread can't be looked at", exc_info=True, extra={"key": key})
            await self._clock.sleep(pause)

    async def _look_at(self, inbox: ThreadInbox, key: str, *, grace: float = 0.0) -> bool:
        """
        Have what waits for a thread that nobody has answered; False if it is to be looked at again
        soon, since all of it was sent less than ``grace`` seconds ago: a sender asks for the thread
        while its signal is being stored.
        """
        if self._threads.is_busy(key):
            return True
        entries = await inbox.entries(key)
        if not entries:
            await inbox.tidy(key)
        elif await self.known_owner(key) is None:
            now_ms = self._clock.now_ms()
            if all(abs(now_ms - entry.order[0]) < grace * 1000 for entry in entries):
                return False
            self._threads.start_orphans(key, entries)
        return True


def _refusal_from(value: Mapping[str, Any]) -> SignalQueueFullError:
    """Why an owner had no room for a signal."""
    error = MastraError.from_wire(value)
    return error if isinstance(error, SignalQueueFullError) else SignalQueueFullError(error.message)


async def _settled(future: asyncio.Future[bool]) -> None:
    await asyncio.shield(future)
