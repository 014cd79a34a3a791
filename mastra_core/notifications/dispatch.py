"""One dispatch: due records become summaries and full signals (notifications.md 7, S10-S22).

Each record is claimed before anything is done with it and settled afterwards. Whatever
happens in between - a crash, a frozen process, a second dispatcher - the claim lapses and
the next one sends the same signal id, which a thread takes once.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from random import Random
from typing import Any

from mastra_core.base.clock import Clock
from mastra_core.base.telemetry import NoopTracer, Span, Tracer
from mastra_core.contracts.signal_sink import IfIdle, SignalTarget, ThreadActivity
from mastra_core.contracts.storage.notifications import NotificationClaim, NotificationsStorage
from mastra_core.errors import NotificationError, StorageError
from mastra_core.notifications.agents import AgentInbox, FindAgent, find_agent
from mastra_core.notifications.claim_book import ClaimBook, DispatchFailure, DispatchResult
from mastra_core.notifications.claims import ClaimKeeper
from mastra_core.notifications.decision import DeliveryDecision, DeliveryInput, check_has_time
from mastra_core.notifications.ingest import decision_patch
from mastra_core.notifications.policy import choose_decision
from mastra_core.notifications.sending import NotSent, Sent, send
from mastra_core.notifications.settings import NotificationSettings
from mastra_core.notifications.signals import (
    create_notification_signal,
    create_notification_summary_signal,
)
from mastra_core.notifications.summary import priority_rank
from mastra_core.rules.notification_claims import full_signal_id, summary_signal_id
from mastra_core.wire.notifications import NotificationPatch, NotificationRecord
from mastra_core.wire.signals import Signal

__all__ = ("Dispatch",)

logger = logging.getLogger(__name__)

_Group = tuple[str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Item:
    """One signal to send: a full one, or a summary of several records."""

    claims: tuple[NotificationClaim, ...]
    is_summary: bool
    #: What the policy said when the guard of this record had expired.
    decision: DeliveryDecision | None = None

    @property
    def order(self) -> tuple[int, datetime]:
        """Urgent ones first, then old ones."""
        records = [claim.record for claim in self.claims]
        return (
            min(priority_rank(record.priority) for record in records),
            min(record.created_at for record in records),
        )


class Dispatch:
    """The work of one dispatch call; make a new one for each."""

    def __init__(
        self,
        storage: NotificationsStorage,
        *,
        clock: Clock,
        random: Random,
        settings: NotificationSettings,
        owner: str,
        find: FindAgent,
        agent_ids: Sequence[str] | None,
        now: datetime,
        on_wait: Callable[[str, str, datetime], None],
        on_idle: Callable[[str, str], None],
        on_failed: Callable[[NotificationRecord], None] | None = None,
        is_stopping: Callable[[], bool] = lambda: False,
        tracer: Tracer | None = None,
    ) -> None:
        self._tracer = tracer or NoopTracer()
        self._storage = storage
        self._clock = clock
        self._settings = settings
        self._owner = owner
        self._find = find
        self._agent_ids = agent_ids
        self._now = now
        self._on_idle = on_idle
        self._is_stopping = is_stopping
        self._keeper = ClaimKeeper(storage, clock=clock, visibility_ms=settings.visibility_ms)
        self._result = DispatchResult()
        self._book = ClaimBook(
            storage,
            random=random,
            settings=settings,
            now=now,
            result=self._result,
            on_wait=on_wait,
            on_failed=on_failed,
        )
        self._claimed_at = 0.0

    # -- claiming -------------------------------------------------------------------------

    async def run(self, *, limit: int) -> DispatchResult:
        """
        Handle at most ``limit`` due records.

        Records that only wait - for an idle thread, for a process that knows their agent -
        don't count, so that they starve nobody (S20).

        Raises:
            StorageError: Due records can't be claimed.
        """
        try:
            while (room := limit - self._result.handled) > 0 and not self._is_stopping():
                claims = await self._claim(self._now, limit=room)
                await self._handle(self._book.enter(claims))
                if len(claims) < room:
                    break
            else:
                self._result.has_more = True
        finally:
            await self._book.give_back()
        return self._result

    async def run_waiting(
        self, thread_id: str, waiting: Mapping[str, datetime], *, limit: int
    ) -> DispatchResult:
        """
        Handle what waits for a thread that has become idle.

        Args:
            thread_id: The thread.
            waiting: The time until which each record was put off; one that somebody gave
                another time meanwhile is left alone.
            limit: Further due records of the thread that may come along.
        """
        horizon = max(waiting.values(), default=self._now)
        try:
            claims = await self._claim(
                max(horizon, self._now), limit=limit + len(waiting), thread_id=thread_id
            )
            claims = self._book.enter(claims)
            ready = [claim for claim in claims if self._is_ready(claim, waiting)]
            self._book.hold(claim for claim in claims if claim not in ready)
            await self._handle(ready)
        finally:
            await self._book.give_back()
        return self._result

    def _is_ready(self, claim: NotificationClaim, waiting: Mapping[str, datetime]) -> bool:
        record = claim.record
        due = [record.deliver_at if claim.full_due else None]
        due.append(record.summary_at if claim.summary_due else None)
        put_off = waiting.get(record.id)
        return all(at is None or at <= self._now or at == put_off for at in due)

    async def _claim(
        self, until: datetime, *, limit: int, thread_id: str | None = None
    ) -> list[NotificationClaim]:
        claims = await self._storage.claim_due(
            until,
            self._owner,
            limit=limit,
            visibility_ms=self._settings.visibility_ms,
            agent_ids=self._agent_ids,
            thread_id=thread_id,
        )
        self._claimed_at = self._clock.monotonic()
        return claims

    # -- groups ---------------------------------------------------------------------------

    async def _handle(self, claims: Sequence[NotificationClaim]) -> None:
        groups: dict[_Group, list[NotificationClaim]] = {}
        lonely: list[NotificationClaim] = []
        for claim in claims:
            record = claim.record
            if record.agent_id and record.resource_id:
                group = (record.agent_id, record.resource_id, record.thread_id)
                groups.setdefault(group, []).append(claim)
            else:
                lonely.append(claim)
        for claim in (c for c in lonely if c.summary_due):
            await self._book.fail([claim], _cannot_summarize(claim.record))
        for group, members in groups.items():
            if self._is_stopping():
                return
            try:
                await self._handle_group(group, members)
            except StorageError:
                # What isn't settled is given back at the end; the other groups have their turn.
                logger.warning(
                    "notification group not handled",
                    exc_info=True,
                    extra={"agent_id": group[0], "thread_id": group[2]},
                )
        rest = [_Item(claims=(c,), is_summary=False) for c in lonely if not c.summary_due]
        for item in sorted(rest, key=lambda item: item.order):
            await self._book.fail(item.claims, _is_missing(item.claims[0].record))

    async def _handle_group(self, group: _Group, claims: list[NotificationClaim]) -> None:
        agent_id, resource_id, thread_id = group
        try:
            inbox = await find_agent(self._find, agent_id)
            if inbox is None:
                # Another process may know it; no attempt is counted (S19).
                logger.debug("notification agent unknown here", extra={"agent_id": agent_id})
                self._book.hold(claims)
                return
            state = inbox.sink.thread_activity(resource_id=resource_id, thread_id=thread_id)
        except Exception as error:  # noqa: BLE001 – the door to the look-up: records keep the reason
            await self._book.fail(claims, error)
            return
        for item in sorted(await self._items(claims, inbox, state), key=lambda item: item.order):
            if self._is_stopping():
                return
            handle = self._summarize if item.is_summary else self._deliver
            await self._guarded(item, handle(item, inbox, state))

    async def _guarded(self, item: _Item, work: Awaitable[None]) -> None:
        """Whatever goes wrong with one item leaves the others alone."""
        record = item.claims[0].record
        facts = {
            "notificationIds": [claim.record.id for claim in item.claims],
            "agentId": record.agent_id,
            "threadId": record.thread_id,
            "resourceId": record.resource_id,
            "isSummary": item.is_summary,
        }
        with self._tracer.span("notification dispatch", facts) as span:
            await self._watched(item, work, span)

    async def _watched(self, item: _Item, work: Awaitable[None], span: Span) -> None:
        try:
            await work
        except StorageError as error:
            span.record_error(error)
            # Nothing can be written about it: the claim lapses.
            logger.warning(
                "notification not settled; it will be sent again under the same id",
                exc_info=True,
                extra={"notification_ids": [c.record.id for c in item.claims]},
            )
            self._book.close(item.claims)
            self._result.failed += [
                DispatchFailure(record=claim.record, error=error) for claim in item.claims
            ]
        except Exception as error:
            span.record_error(error)
            # A record that can't be handled must end some day, not come back for ever.
            logger.exception(
                "notification not delivered",
                extra={"notification_ids": [c.record.id for c in item.claims]},
            )
            await self._book.fail(item.claims, error)

    async def _items(
        self, claims: Sequence[NotificationClaim], inbox: AgentInbox, state: ThreadActivity
    ) -> list[_Item]:
        summaries: list[NotificationClaim] = []
        items: list[_Item] = []
        for claim in claims:
            if claim.summary_due:
                summaries.append(claim)
            elif not claim.guard_expired:
                items.append(_Item(claims=(claim,), is_summary=False))
            elif (decision := await self._decide_again(claim, inbox, state)) is not None:
                items.append(_Item(claims=(claim,), is_summary=False, decision=decision))
        if summaries:
            items.insert(0, _Item(claims=tuple(summaries), is_summary=True))
        return items

    async def _decide_again(
        self, claim: NotificationClaim, inbox: AgentInbox, state: ThreadActivity
    ) -> DeliveryDecision | None:
        """
        The decision that an ingress never came to write (S6); None if nothing is to be sent.

        If the policy raises again the record is delivered in full, as a peer would do that
        knows nothing of guards: more than was asked for, but not lost.
        """
        subject = DeliveryInput(record=claim.record, thread_state=state, now=self._now)
        try:
            decision = await choose_decision(inbox.policy, subject)
            check_has_time(decision)
        except Exception as error:  # noqa: BLE001 – the door to the policy
            _warn_policy(claim.record, error)
            return DeliveryDecision(action="deliver")
        if decision.hold:
            self._book.hold([claim])
            return None
        patch = decision_patch(decision)
        is_sent_now = decision.action in {"deliver", "queue"}
        if is_sent_now and not patch:
            return decision
        written = await self._storage.update_notification(
            claim.record.thread_id,
            claim.record.id,
            NotificationPatch(**patch),
            expected_statuses=["pending"],
            expected_count=claim.record.coalesced_count,
            settle_guard=not is_sent_now,
        )
        if is_sent_now:
            return decision
        await self._book.release([claim])
        if written is not None:
            self._result.decided.append(written)
        return None

    # -- full signals ---------------------------------------------------------------------

    async def _deliver(self, item: _Item, inbox: AgentInbox, state: ThreadActivity) -> None:
        (claim,) = item.claims
        record = await self._storage.get_notification(claim.record.thread_id, claim.record.id)
        if record is None or record.status != "pending":
            await self._book.release([claim])
            return
        if record.delivered_signal_id:
            # Whoever made it pending again knows that it was sent; look again rarely.
            await self._book.release([claim], after_ms=self._settings.retry_max_ms)
            return
        if record.priority == "high" and record.summary_signal_id and state == "active":
            await self._book.wait([claim])
            self._notice_idle(inbox, record)
            return
        decision = item.decision or await self._options_decision(inbox, record, state)
        if decision is not None and decision.hold:
            self._book.hold([claim])
            return
        if not await self._keeper.still_ours([claim], claimed_at=self._claimed_at):
            self._book.close([claim])
            return
        signal = create_notification_signal(
            record.replace(status="delivered", delivered_at=self._now),
            signal_id=full_signal_id(record.thread_id, record.id, record.coalesced_count),
            created_at=self._clock.now(),
        )
        sent = await self._send([claim], inbox, signal, IfIdle(stream_options=_options(decision)))
        if sent is None:
            return
        done = await self._storage.finalize_full(
            claim.ref, delivered_signal_id=signal.id, at=self._now
        )
        self._book.close([claim])
        if not inbox.sink.stores_messages:
            await self._storage.confirm_delivery(record.thread_id, record.id, signal_id=signal.id)
        if done is None:
            logger.info("notification claim was taken over", extra={"notification_id": record.id})
        elif done.status == "pending":
            # Something was merged into it meanwhile: due again, with the new text (S16).
            self._result.has_more = True
        else:
            self._result.delivered.append(done)

    def _notice_idle(self, inbox: AgentInbox, record: NotificationRecord) -> None:
        """
        The run may have ended while its record was being put off; it tells so only once, and
        that may have been too early.
        """
        resource_id, thread_id = record.resource_id or "", record.thread_id
        state = inbox.sink.thread_activity(resource_id=resource_id, thread_id=thread_id)
        if state == "idle":
            self._on_idle(resource_id, thread_id)

    async def _options_decision(
        self, inbox: AgentInbox, record: NotificationRecord, state: ThreadActivity
    ) -> DeliveryDecision | None:
        """What the policy says; of it only options and ``hold`` count now."""
        try:
            return await choose_decision(
                inbox.policy, DeliveryInput(record=record, thread_state=state, now=self._now)
            )
        except Exception as error:  # noqa: BLE001 – the door to the policy
            _warn_policy(record, error)
            return None

    # -- summaries ------------------------------------------------------------------------

    async def _summarize(self, item: _Item, inbox: AgentInbox, state: ThreadActivity) -> None:
        current = await self._pending_members(item.claims)
        ours = await self._keeper.still_ours(
            [claim for claim, _ in current], claimed_at=self._claimed_at
        )
        members = [(claim, record) for claim, record in current if claim in ours]
        self._book.close(claim for claim, _ in current if claim not in ours)
        if not members:
            return
        claims = [claim for claim, _ in members]
        records = [record for _, record in members]
        if all(record.priority == "low" for record in records):
            if_idle = IfIdle(behavior="persist")
        else:
            decision = await self._options_decision(inbox, records[0], state)
            if decision is not None and decision.hold:
                self._book.hold(claims)
                return
            if_idle = IfIdle(stream_options=_options(decision))
        signal = create_notification_summary_signal(
            records, signal_id=_summary_id(claims), created_at=self._clock.now()
        )
        sent = await self._send(claims, inbox, signal, if_idle)
        if sent is None:
            return
        if sent.reaches_model and inbox.sink.stores_messages:
            await self._remember_accepted(claims, signal.id)
        await self._finalize_summary(claims, signal.id)

    async def _pending_members(
        self, claims: Sequence[NotificationClaim]
    ) -> list[tuple[NotificationClaim, NotificationRecord]]:
        """The members that are still pending; the others lose their claim (S17)."""
        members: list[tuple[NotificationClaim, NotificationRecord]] = []
        dropped: list[NotificationClaim] = []
        for claim in claims:
            record = await self._storage.get_notification(claim.record.thread_id, claim.record.id)
            if record is None or record.status != "pending":
                dropped.append(claim)
            else:
                members.append((claim, record))
        await self._book.release(dropped)
        return members

    async def _remember_accepted(self, claims: Sequence[NotificationClaim], signal_id: str) -> None:
        for claim in claims:
            await self._storage.record_acceptance(
                claim.record.thread_id, claim.record.id, signal_id=signal_id, at=self._now
            )

    async def _finalize_summary(self, claims: Sequence[NotificationClaim], signal_id: str) -> None:
        """All members in one transaction; those that were taken over meanwhile are left out."""
        refs = [claim.ref for claim in claims]
        done = await self._storage.finalize_summary(refs, summary_signal_id=signal_id, at=self._now)
        if not done:
            for ref in refs:
                await self._storage.finalize_summary(
                    [ref], summary_signal_id=signal_id, at=self._now
                )
        self._book.close(claims)
        for claim in claims:
            record = await self._storage.get_notification(claim.record.thread_id, claim.record.id)
            if record is not None and record.summary_signal_id == signal_id:
                self._result.delivered.append(record)

    # -- sending and settling -------------------------------------------------------------

    async def _send(
        self,
        claims: Sequence[NotificationClaim],
        inbox: AgentInbox,
        signal: Signal,
        if_idle: IfIdle,
    ) -> Sent | None:
        """Send while keeping the claims; None if it failed or was blocked, and settled so."""
        record = claims[0].record
        target = SignalTarget(
            resource_id=record.resource_id, thread_id=record.thread_id, if_idle=if_idle
        )
        async with self._keeper.keeping([claim.ref for claim in claims]):
            sent = await send(inbox.sink, signal, target, timeout_ms=self._settings.send_timeout_ms)
        if isinstance(sent, NotSent):
            await self._book.fail(claims, sent.error)
            return None
        if sent.accepted.action == "blocked":
            await self._book.wait(claims)
            return None
        if sent.accepted.action == "discard":
            await self._book.fail(claims, NotificationError("The signal was discarded."))
            return None
        self._result.signals.append(sent.signal)
        return sent


def _options(decision: DeliveryDecision | None) -> Mapping[str, Any] | None:
    return None if decision is None else decision.stream_options


def _summary_id(claims: Sequence[NotificationClaim]) -> str:
    return summary_signal_id(
        claims[0].record.thread_id,
        [(claim.record.id, claim.record.coalesced_count) for claim in claims],
        max(claim.generation for claim in claims),
    )


def _warn_policy(record: NotificationRecord, error: Exception) -> None:
    logger.warning(
        "notification policy raised; delivering without its options",
        exc_info=error,
        extra={"thread_id": record.thread_id, "notification_id": record.id},
    )


def _cannot_summarize(record: NotificationRecord) -> NotificationError:
    return NotificationError(
        f"Notification {record.id} cannot be summarized without agentId, resourceId, and threadId"
    )


def _is_missing(record: NotificationRecord) -> NotificationError:
    name = "resourceId" if record.agent_id else "agentId"
    return NotificationError(f"Notification {record.id} is missing {name}")
