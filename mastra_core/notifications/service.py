"""The inbox of one application: takes events, dispatches them, keeps the schedule row.

``agent`` and ``mastra`` wire it; it knows agents only through a look-up.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from random import Random
from typing import Any, overload

from mastra_core.base.clock import Clock
from mastra_core.base.ids import Ids
from mastra_core.base.isotime import parse_iso
from mastra_core.base.telemetry import NoopTracer, Tracer
from mastra_core.contracts.signal_sink import SignalTarget
from mastra_core.contracts.storage.notifications import NotificationsStorage
from mastra_core.contracts.storage.schedules import SchedulesStorage
from mastra_core.errors import (
    InvalidSignalError,
    NotificationError,
    StorageError,
    WireDecodeError,
    shown,
)
from mastra_core.notifications.agents import AgentInbox, FindAgent
from mastra_core.notifications.claim_book import DispatchResult
from mastra_core.notifications.confirm import Confirmation
from mastra_core.notifications.dispatch import Dispatch
from mastra_core.notifications.dispatcher import Dispatcher
from mastra_core.notifications.inbox import NotificationInbox
from mastra_core.notifications.ingest import Ingress, NotificationInput, NotificationResult
from mastra_core.notifications.schedule import DispatchSchedule
from mastra_core.notifications.settings import NotificationSettings
from mastra_core.notifications.waiting import WaitingRecords
from mastra_core.rules.arguments import check_limit, moment
from mastra_core.wire.notifications import NotificationRecord, SendNotification

__all__ = ("NotificationService",)

logger = logging.getLogger(__name__)


class NotificationService:
    """
    Everything that happens to inbox records in this process.

    Any number of processes may have one for the same store: records are claimed, and what
    one of them leaves behind the others finish.

    Args:
        storage: The inbox; None if the store has none, then every send is refused.
        schedules: Where the row for peers is kept; None keeps none.
        clock: Where time comes from.
        ids: Where ids come from.
        random: Where the jitter of retries comes from.
        settings: The numbers.
        find: The agents that this process can run.
        agent_ids: Their ids, asked at each dispatch, so that records of others aren't
            claimed at all; None if they can't be listed.
        on_failed: Told of each record that was given up.
        announce: Called after the schedule row was written, to wake schedulers.
        tracer: Measures what comes in and what is dispatched.
    """

    def __init__(
        self,
        storage: NotificationsStorage | None,
        schedules: SchedulesStorage | None = None,
        *,
        clock: Clock,
        ids: Ids,
        random: Random | None = None,
        settings: NotificationSettings | None = None,
        find: FindAgent = lambda _agent_id: None,
        agent_ids: Callable[[], Sequence[str]] | None = None,
        on_failed: Callable[[NotificationRecord], None] | None = None,
        announce: Callable[[], Awaitable[None]] | None = None,
        tracer: Tracer | None = None,
    ) -> None:
        self.settings = settings or NotificationSettings()
        self._tracer = tracer or NoopTracer()
        self._storage = storage
        self._clock = clock
        # Jitter needs no secrets.
        self._random = random or Random()  # noqa: S311
        self._find = find
        self._agent_ids = agent_ids
        self._on_failed = on_failed
        #: Who claims: this object, in this incarnation of the process.
        self.owner = ids.new("dispatcher")
        self._waiting = WaitingRecords()
        self._schedule = (
            DispatchSchedule(
                schedules, clock=clock, ids=ids, settings=self.settings, announce=announce
            )
            if schedules is not None
            else None
        )
        self._dispatcher = Dispatcher(
            dispatch=self._dispatch_round,
            dispatch_thread=self._dispatch_idle,
            clock=clock,
            poll_ms=self.settings.poll_ms,
        )

    @property
    def storage(self) -> NotificationsStorage:
        """
        The inbox store.

        Raises:
            NotificationError: The application has none.
        """
        if self._storage is None:
            raise NotificationError(
                "sendNotificationSignal requires a notifications storage domain",
                id="AGENT_NOTIFICATION_NO_STORAGE",
                hint="Use a store with the capability 'notifications'.",
            )
        return self._storage

    @property
    def inbox(self) -> NotificationInbox:
        """The records, to look at and to mark."""
        return NotificationInbox(self.storage)

    # -- ingress --------------------------------------------------------------------------

    @overload
    async def ingest(
        self,
        inbox: AgentInbox,
        notifications: SendNotification | Mapping[str, Any],
        target: SignalTarget,
    ) -> NotificationResult: ...
    @overload
    async def ingest(
        self, inbox: AgentInbox, notifications: Sequence[NotificationInput], target: SignalTarget
    ) -> list[NotificationResult]: ...
    @overload
    async def ingest(
        self,
        inbox: AgentInbox,
        notifications: NotificationInput | Sequence[NotificationInput],
        target: SignalTarget,
    ) -> NotificationResult | list[NotificationResult]: ...
    async def ingest(
        self,
        inbox: AgentInbox,
        notifications: NotificationInput | Sequence[NotificationInput],
        target: SignalTarget,
    ) -> NotificationResult | list[NotificationResult]:
        """
        Take one event or a list of them; a list gives a list of the same length and order.

        Raises:
            NotificationError: The application has no inbox.
            InvalidSignalError: An event or the target is malformed; nothing was written.
            StorageError: The store failed; what is stored already becomes due by its guard.
        """
        ingress = Ingress(
            self.storage,
            clock=self._clock,
            random=self._random,
            settings=self.settings,
            inbox=inbox,
            target=target,
            on_wait=self._waiting.add,
        )
        if isinstance(notifications, SendNotification | Mapping):
            (result,) = await self._take(ingress, [notifications])
            return result
        if isinstance(notifications, str | bytes) or not isinstance(notifications, Sequence):
            raise InvalidSignalError(
                f"A notification is a mapping, and several are a list, not {shown(notifications)}."
            )
        return await self._take(ingress, notifications)

    async def _take(
        self, ingress: Ingress, notifications: Sequence[NotificationInput]
    ) -> list[NotificationResult]:
        with self._tracer.span("notification ingest", {"count": len(notifications)}) as span:
            results = await ingress.take(notifications)
            if span.is_recording:
                span.set_attribute("notificationIds", [result.record.id for result in results])
        if any(_is_scheduled(result.record) for result in results):
            if self._schedule is not None:
                await self._schedule.ensure()
            self.wake()
        return results

    # -- dispatch -------------------------------------------------------------------------

    async def dispatch_due(
        self, *, now: datetime | None = None, limit: int | None = None
    ) -> DispatchResult:
        """
        Handle what is due: summaries, full signals, unconfirmed ones.

        Args:
            now: What counts as due; the clock's time if not given.
            limit: How many records at most; the batch size if not given.

        Raises:
            StorageArgumentError: ``now`` isn't an instant, or ``limit`` below 1.
            StorageError: Due records can't be claimed.
        """
        at = self._clock.now() if now is None else moment(now)
        size = check_limit(limit) or self.settings.batch_size
        result = await self._dispatch(at).run(limit=size)
        confirmation = Confirmation(
            self.storage,
            clock=self._clock,
            settings=self.settings,
            owner=self.owner,
            find=self._find,
            agent_ids=self._known_agents(),
            now=at,
        )
        try:
            result.signals += await confirmation.run()
        except StorageError:
            logger.warning("notification signals not confirmed", exc_info=True)
        if self._schedule is not None and any(map(_is_scheduled, result.decided)):
            await self._schedule.ensure()
        return result

    def _dispatch(self, now: datetime) -> Dispatch:
        return Dispatch(
            self.storage,
            clock=self._clock,
            random=self._random,
            settings=self.settings,
            owner=self.owner,
            find=self._find,
            agent_ids=self._known_agents(),
            now=now,
            on_wait=self._waiting.add,
            on_idle=self.thread_idle,
            on_failed=self._on_failed,
            is_stopping=lambda: self._dispatcher.is_stopping,
            tracer=self._tracer,
        )

    def _known_agents(self) -> Sequence[str] | None:
        return None if self._agent_ids is None else list(self._agent_ids())

    async def run_workflow(self, given: Mapping[str, Any] | None = None) -> dict[str, int]:
        """
        What the dispatch workflow does when any scheduler starts it (notifications.md 11).

        Raises:
            NotificationError: ``now`` of the input isn't a time.
        """
        if self._storage is None:
            return {"delivered": 0, "failed": 0}
        members = given or {}
        result = await self.dispatch_due(
            now=_time_of(members.get("now")), limit=members.get("limit")
        )
        return {"delivered": len(result.delivered), "failed": len(result.failed)}

    # -- the loop -------------------------------------------------------------------------

    def wake(self) -> None:
        """Let the loop look at once."""
        self._dispatcher.wake()

    def thread_idle(self, resource_id: str, thread_id: str) -> None:
        """A run of this thread has ended: what waited for that needn't wait longer."""
        if thread_id in self._waiting:
            self._dispatcher.thread_idle(thread_id)

    async def run_loop(self) -> None:
        """Dispatch until ``stop`` or cancellation; returns at once if dispatch is disabled."""
        if self.settings.enabled and self._storage is not None:
            await self._dispatcher.run()

    def stop(self) -> None:
        """End the loop after the signal that is being sent now."""
        self._dispatcher.stop()

    async def _dispatch_round(self) -> bool:
        if self.settings.claims_ticks:
            await self.claim_tick()
        return (await self.dispatch_due()).has_more

    async def _dispatch_idle(self, thread_id: str) -> None:
        waiting = self._waiting.take(thread_id)
        if waiting:
            dispatch = self._dispatch(self._clock.now())
            await dispatch.run_waiting(thread_id, waiting, limit=self.settings.batch_size)

    async def claim_tick(self) -> Mapping[str, Any] | None:
        """Take the due tick of the schedule row; None if it isn't ours to take."""
        if self._schedule is None or not self.settings.enabled:
            return None
        return await self._schedule.claim_tick()


def _is_scheduled(record: NotificationRecord) -> bool:
    has_time = record.deliver_at is not None or record.summary_at is not None
    return record.status == "pending" and has_time


def _time_of(value: object) -> datetime | None:
    if value is None:
        return None
    try:
        if isinstance(value, str):
            return parse_iso(value)
    except WireDecodeError as error:
        raise _invalid_time(value) from error
    raise _invalid_time(value)


def _invalid_time(value: object) -> NotificationError:
    return NotificationError(
        f"Invalid notification dispatch time: {value}", id="AGENT_NOTIFICATION_INVALID_TIME"
    )
