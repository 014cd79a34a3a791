"""Events become records, and some of them signals at once (notifications.md 6, S5-S9).

A record is stored before anything is decided, due when its *guard* expires. The write that
records the outcome takes the guard away, so a crash, a raising policy or a raising router in
between leaves a record that the dispatcher finds.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from random import Random
from typing import Any, Final

from pydantic import ValidationError

from mastra_core.base.clock import Clock
from mastra_core.base.naming import is_id
from mastra_core.contracts.signal_sink import Accepted, IfIdle, SignalTarget, ThreadActivity
from mastra_core.contracts.storage.notifications import NotificationsStorage
from mastra_core.errors import InvalidSignalError, StorageArgumentError, shown
from mastra_core.notifications.agents import AgentInbox
from mastra_core.notifications.decision import DeliveryAction, DeliveryDecision
from mastra_core.notifications.failures import (
    error_text,
    resolve_delivery_failure_update,
    retry_delay_ms,
)
from mastra_core.notifications.policy import resolve_notification_delivery_decision
from mastra_core.notifications.sending import NotSent, Sent, send
from mastra_core.notifications.settings import NotificationSettings
from mastra_core.notifications.signals import (
    create_notification_signal,
    create_notification_summary_signal,
)
from mastra_core.rules.notification_claims import full_signal_id, summary_signal_id
from mastra_core.rules.notifications import check_create
from mastra_core.wire.notifications import (
    CreateNotification,
    NotificationPatch,
    NotificationRecord,
    SendNotification,
)
from mastra_core.wire.signals import Signal

__all__ = ("Ingress", "NotificationInput", "NotificationResult", "decision_patch")

logger = logging.getLogger(__name__)

NotificationInput = SendNotification | Mapping[str, Any]

_STATUS_ACTIONS: Final[Mapping[str, DeliveryAction]] = {
    "delivered": "deliver",
    "discarded": "discard",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationResult:
    """What became of one event; several events of one record share one result."""

    #: The record after everything.
    record: NotificationRecord
    decision: DeliveryDecision
    #: There if a signal was emitted and not refused.
    signal: Signal | None = None
    #: How the router took it.
    accepted: Accepted | None = None
    #: There if the signal was only stored.
    persisted: Awaitable[None] | None = None
    #: The run that takes it, or that blocked it.
    run_id: str | None = None


def decision_patch(decision: DeliveryDecision) -> dict[str, Any]:
    """The members of a record that a decision writes; times that it doesn't give are kept."""
    patch: dict[str, Any] = {}
    if decision.reason is not None:
        patch["delivery_reason"] = decision.reason
    if decision.action == "discard":
        patch["status"] = "discarded"
    if decision.action in {"defer", "summarize"}:
        if decision.deliver_at is not None:
            patch["deliver_at"] = decision.deliver_at
        if decision.summary_at is not None:
            patch["summary_at"] = decision.summary_at
    return patch


class Ingress:
    """Takes the events of one send call."""

    def __init__(
        self,
        storage: NotificationsStorage,
        *,
        clock: Clock,
        random: Random,
        settings: NotificationSettings,
        inbox: AgentInbox,
        target: SignalTarget,
        on_wait: Callable[[str, str, datetime], None],
    ) -> None:
        if not target.resource_id or not target.thread_id:
            raise InvalidSignalError("sendNotificationSignal requires resourceId and threadId")
        self._storage = storage
        self._clock = clock
        self._random = random
        self._settings = settings
        self._sink = inbox.sink
        self._policy = inbox.policy
        self._target = target
        self._resource_id: str = target.resource_id
        self._thread_id: str = target.thread_id
        self._on_wait = on_wait

    async def take(self, notifications: Sequence[NotificationInput]) -> list[NotificationResult]:
        """
        Store, decide and send, in order; one result per event, in the same order.

        Raises:
            InvalidSignalError: An event is malformed; nothing was written.
            StorageError: The store failed; what is stored already becomes due by its guard.
            Exception: What the policy raised; the records become due by their guards.
        """
        events = [self._event(notification) for notification in notifications]
        latest: dict[str, NotificationRecord] = {}
        repeats: dict[str, NotificationResult] = {}
        ids: list[str] = []
        for event in events:
            record = await self._create(event)
            ids.append(record.id)
            if _is_decided_repeat(event, record) and record.id not in latest:
                repeats[record.id] = _result_of_before(record)
            else:
                repeats.pop(record.id, None)
                latest[record.id] = record
        state = self._sink.thread_activity(resource_id=self._resource_id, thread_id=self._thread_id)
        now = self._clock.now()
        decided = [(r, await self._decide(r, state, now)) for r in latest.values()]
        results = dict(repeats)
        for record, decision in decided:
            results[record.id] = await self._carry_out(record, decision, now)
        return [results[notification_id] for notification_id in ids]

    # -- storing --------------------------------------------------------------------------

    def _event(self, notification: NotificationInput) -> CreateNotification:
        """The event as the store takes it, checked completely (S5)."""
        if not isinstance(notification, SendNotification | Mapping):
            raise InvalidSignalError(
                f"A notification must be a mapping, not {shown(notification)}."
            )
        try:
            given = (
                notification
                if isinstance(notification, SendNotification)
                else SendNotification.model_validate(dict(notification))
            )
            if given.model_extra:
                raise InvalidSignalError(
                    f"A notification has no member {shown(next(iter(given.model_extra)))}."
                )
            if given.id is not None and not is_id(given.id):
                raise InvalidSignalError(f"A notification can't have the id {shown(given.id)}.")
            members = {name: getattr(given, name) for name in given.model_fields_set}
            event = CreateNotification(
                **members,
                thread_id=self._thread_id,
                resource_id=self._resource_id,
                agent_id=self._sink.agent_id,
            )
            check_create(event)
        except ValidationError as error:
            problem = error.errors(include_url=False)[0]
            where = ".".join(str(step) for step in problem["loc"]) or "notification"
            raise InvalidSignalError(f"Invalid notification: {where}: {problem['msg']}") from error
        except StorageArgumentError as error:
            raise InvalidSignalError(error.message) from error
        return event

    async def _create(self, event: CreateNotification) -> NotificationRecord:
        guard = timedelta(milliseconds=self._settings.ingress_guard_ms)
        return await self._storage.create_notification(
            event,
            # An id is the caller's handle for repeating the call after a lost answer.
            on_conflict="raise" if event.id is None else "return",
            guard_until=self._clock.now() + guard,
        )

    async def _decide(
        self, record: NotificationRecord, state: ThreadActivity, now: datetime
    ) -> DeliveryDecision:
        return await resolve_notification_delivery_decision(
            self._policy, record=record, thread_state=state, now=now
        )

    # -- carrying out ---------------------------------------------------------------------

    async def _carry_out(
        self, record: NotificationRecord, decision: DeliveryDecision, now: datetime
    ) -> NotificationResult:
        match decision.action:
            case "deliver" | "queue":
                return await self._deliver(record, decision)
            case "summarize" if _emits_now(record, decision, now):
                return await self._summarize_now(record, decision)
            case _:
                settled = await self._settle(record, decision_patch(decision))
                return NotificationResult(record=settled, decision=decision)

    async def _deliver(
        self, record: NotificationRecord, decision: DeliveryDecision
    ) -> NotificationResult:
        signal = create_notification_signal(
            record.replace(status="delivered"),
            signal_id=full_signal_id(record.thread_id, record.id, record.coalesced_count),
            created_at=self._clock.now(),
        )
        sent = await send(self._sink, signal, self._with_options(decision, self._target.if_idle))
        reason = decision_patch(decision)
        if isinstance(sent, NotSent):
            return await self._refused(record, decision, reason, sent.error, column="deliver_at")
        if sent.accepted.action == "blocked":
            return await self._blocked(record, decision, reason, sent, column="deliver_at")
        if sent.reaches_model:
            await self._accepted(record, signal.id)
            reason |= {
                "status": "delivered",
                "delivered_signal_id": signal.id,
                "last_delivery_error": None,
            }
        return _result(await self._settle(record, reason), decision, sent)

    async def _summarize_now(
        self, record: NotificationRecord, decision: DeliveryDecision
    ) -> NotificationResult:
        signal = create_notification_summary_signal(
            [record],
            signal_id=summary_signal_id(record.thread_id, [(record.id, record.coalesced_count)], 0),
            created_at=self._clock.now(),
        )
        target = self._with_options(
            decision,
            replace(
                self._target.if_idle,
                behavior="persist" if record.priority == "high" else "wake",
            ),
        )
        sent = await send(self._sink, signal, target)
        patch = decision_patch(decision)
        if isinstance(sent, NotSent):
            return await self._refused(record, decision, patch, sent.error, column="summary_at")
        if sent.accepted.action == "blocked":
            return await self._blocked(record, decision, patch, sent, column="summary_at")
        patch["summary_at"] = None
        if sent.reaches_model:
            await self._accepted(record, signal.id)
            patch |= {"summary_signal_id": signal.id, "last_delivery_error": None}
        return _result(await self._settle(record, patch), decision, sent)

    def _with_options(self, decision: DeliveryDecision, if_idle: IfIdle) -> SignalTarget:
        """The caller's target; options of the policy count only if the caller gave none."""
        if if_idle.stream_options is None and decision.stream_options is not None:
            if_idle = replace(if_idle, stream_options=decision.stream_options)
        return replace(self._target, run_id=None, if_idle=if_idle)

    async def _accepted(self, record: NotificationRecord, signal_id: str) -> None:
        if not self._sink.stores_messages:
            return  # there will never be a message to confirm it by
        # Before the final write: a crash in between must not forget what is in a queue (S21).
        await self._storage.record_acceptance(
            record.thread_id, record.id, signal_id=signal_id, at=self._clock.now()
        )

    async def _refused(
        self,
        record: NotificationRecord,
        decision: DeliveryDecision,
        patch: dict[str, Any],
        error: Exception,
        *,
        column: str,
    ) -> NotificationResult:
        """Count the failure and try again later, through the dispatcher (S8)."""
        now = self._clock.now()
        failure = resolve_delivery_failure_update(record)
        patch |= {
            "delivery_attempts": failure.attempts,
            "last_delivery_attempt_at": now,
            "last_delivery_error": error_text(error),
        }
        if failure.is_final:
            patch["status"] = "failed"
        else:
            delay = retry_delay_ms(failure.attempts, self._settings, self._random)
            _postpone(patch, column, now + timedelta(milliseconds=delay))
        settled = await self._settle(record, patch)
        log = logger.error if settled.status == "failed" else logger.warning
        log(
            "notification delivery failed",
            extra={
                "thread_id": record.thread_id,
                "notification_id": record.id,
                "attempts": failure.attempts,
                "final": failure.is_final,
                "error": error_text(error),
            },
        )
        return NotificationResult(record=settled, decision=decision)

    async def _blocked(
        self,
        record: NotificationRecord,
        decision: DeliveryDecision,
        patch: dict[str, Any],
        sent: Sent,
        *,
        column: str,
    ) -> NotificationResult:
        """Nobody took it: no attempt, no signal id, another try soon (S9)."""
        again = self._clock.now() + timedelta(milliseconds=self._settings.idle_recheck_ms)
        _postpone(patch, column, again)
        settled = await self._settle(record, patch)
        self._on_wait(record.thread_id, record.id, again)
        return _result(settled, decision, sent)

    async def _settle(
        self, record: NotificationRecord, patch: dict[str, Any]
    ) -> NotificationRecord:
        """
        Write the outcome and take the guard away, in one statement.

        If the record was merged into, or left ``pending``, since it was read, nothing is
        written: whoever did that decides about it.
        """
        written = await self._storage.update_notification(
            record.thread_id,
            record.id,
            NotificationPatch(**patch),
            expected_statuses=["pending"],
            expected_count=record.coalesced_count,
            settle_guard=True,
        )
        if written is not None:
            return written
        current = await self._storage.get_notification(record.thread_id, record.id)
        return current or record


def _postpone(patch: dict[str, Any], column: str, until: datetime) -> None:
    """Make it due then; a full delivery never comes before the summary that it follows."""
    patch[column] = until
    deliver_at = patch.get("deliver_at")
    if deliver_at is not None:
        patch["deliver_at"] = max(deliver_at, until)


def _emits_now(record: NotificationRecord, decision: DeliveryDecision, now: datetime) -> bool:
    """Does the summary of this record go out at ingress? (notifications.md 6, step 6d)"""
    if decision.summary_at is None or decision.summary_at > now:
        return False
    if record.priority == "high":
        return decision.deliver_at is not None
    return record.priority == "medium"


def _is_decided_repeat(event: CreateNotification, record: NotificationRecord) -> bool:
    """Was this call made before, and carried out?"""
    if event.id is None or record.id != event.id:
        return False
    return record.status != "pending" or bool(
        record.delivery_reason is not None
        or record.summary_signal_id
        or record.delivered_signal_id
        or record.delivery_attempts
    )


def _result_of_before(record: NotificationRecord) -> NotificationResult:
    action: DeliveryAction = _STATUS_ACTIONS.get(record.status, "persist")
    if record.status == "pending":
        action = "summarize" if record.summary_at else "defer" if record.deliver_at else "persist"
    return NotificationResult(
        record=record,
        decision=DeliveryDecision(
            action=action,
            deliver_at=record.deliver_at,
            summary_at=record.summary_at,
            reason=record.delivery_reason,
        ),
    )


def _result(
    record: NotificationRecord, decision: DeliveryDecision, sent: Sent
) -> NotificationResult:
    has_run = sent.accepted.action in {"wake", "deliver", "blocked"}
    return NotificationResult(
        record=record,
        decision=decision,
        signal=sent.signal,
        accepted=sent.accepted,
        persisted=sent.persisted if sent.accepted.action == "persist" else None,
        run_id=sent.accepted.run_id if has_run else None,
    )
