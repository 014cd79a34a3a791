"""Accepted signals that nobody has seen as a message are sent again (notifications.md S21).

``deliver`` means that a signal waits in a queue; if the process of that queue dies, the
record says delivered although no model ever saw it. The sidecar remembers such signals until
their message row exists.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta

from mastra_core.base.clock import Clock
from mastra_core.contracts.signal_sink import SignalTarget
from mastra_core.contracts.storage.notifications import (
    NotificationClaim,
    NotificationsStorage,
)
from mastra_core.notifications.agents import AgentInbox, FindAgent, find_agent
from mastra_core.notifications.claims import ClaimKeeper
from mastra_core.notifications.sending import NotSent, send
from mastra_core.notifications.settings import NotificationSettings
from mastra_core.notifications.signals import (
    create_notification_signal,
    create_notification_summary_signal,
)
from mastra_core.rules.notification_claims import full_signal_id
from mastra_core.wire.notifications import NotificationRecord
from mastra_core.wire.signals import Signal

__all__ = ("Confirmation",)

logger = logging.getLogger(__name__)


class Confirmation:
    """One round over what was accepted long enough ago."""

    def __init__(
        self,
        storage: NotificationsStorage,
        *,
        clock: Clock,
        settings: NotificationSettings,
        owner: str,
        find: FindAgent,
        agent_ids: Sequence[str] | None,
        now: datetime,
    ) -> None:
        self._storage = storage
        self._clock = clock
        self._settings = settings
        self._owner = owner
        self._find = find
        self._agent_ids = agent_ids
        self._now = now
        self._keeper = ClaimKeeper(storage, clock=clock, visibility_ms=settings.visibility_ms)

    async def run(self) -> list[Signal]:
        """The signals that were sent again."""
        wait = timedelta(milliseconds=self._settings.confirm_after_ms)
        claims = await self._storage.claim_unconfirmed(
            self._now - wait,
            self._owner,
            limit=self._settings.batch_size,
            visibility_ms=self._settings.visibility_ms,
            agent_ids=self._agent_ids,
        )
        if not claims:
            return []
        groups: dict[tuple[str, str], list[NotificationClaim]] = {}
        for claim in claims:
            groups.setdefault((claim.record.thread_id, claim.signal_id), []).append(claim)
        signals: list[Signal] = []
        try:
            for members in groups.values():
                try:
                    signals += await self._confirm(members)
                except Exception:
                    logger.warning(
                        "notification signal not confirmed; it will be looked for again",
                        exc_info=True,
                        extra={"notification_ids": [c.record.id for c in members]},
                    )
        finally:
            await self._storage.release_claims([claim.ref for claim in claims])
        return signals

    async def _confirm(self, claims: list[NotificationClaim]) -> list[Signal]:
        record, signal_id = claims[0].record, claims[0].signal_id
        inbox = await find_agent(self._find, record.agent_id) if record.agent_id else None
        if inbox is None:
            return []
        signal = self._rebuilt(claims)
        if signal is None or await inbox.sink.has_message(
            thread_id=record.thread_id, message_id=signal_id
        ):
            await self._forget(claims)
            return []
        return await self._send_again(claims, inbox, signal)

    async def _send_again(
        self, claims: list[NotificationClaim], inbox: AgentInbox, signal: Signal
    ) -> list[Signal]:
        record = claims[0].record
        target = SignalTarget(resource_id=record.resource_id, thread_id=record.thread_id)
        async with self._keeper.keeping([claim.ref for claim in claims]):
            sent = await send(inbox.sink, signal, target, timeout_ms=self._settings.send_timeout_ms)
        logger.warning(
            "unconfirmed notification signal sent again",
            extra={
                "thread_id": record.thread_id,
                "signal_id": signal.id,
                "notification_ids": [claim.record.id for claim in claims],
                "outcome": "failed" if isinstance(sent, NotSent) else sent.accepted.action,
            },
        )
        age = self._now - min(_since(claim.record) for claim in claims)
        if isinstance(sent, NotSent) or age < timedelta(
            milliseconds=self._settings.confirm_give_up_ms
        ):
            await self._ask_again(claims, age)
        else:
            await self._forget(claims)
        return [] if isinstance(sent, NotSent) else [sent.signal]

    async def _ask_again(self, claims: list[NotificationClaim], age: timedelta) -> None:
        """The next look comes later each time: a queue may be long, a run may be parked."""
        wait = timedelta(milliseconds=self._settings.confirm_after_ms)
        longest = timedelta(milliseconds=self._settings.retry_max_ms)
        at = self._now - wait + min(max(age, wait), max(longest, wait))
        for claim in claims:
            await self._storage.record_acceptance(
                claim.record.thread_id, claim.record.id, signal_id=claim.signal_id, at=at
            )

    async def _forget(self, claims: list[NotificationClaim]) -> None:
        for claim in claims:
            await self._storage.confirm_delivery(
                claim.record.thread_id, claim.record.id, signal_id=claim.signal_id
            )

    def _rebuilt(self, claims: list[NotificationClaim]) -> Signal | None:
        """
        The signal as it was, under its id; None if it was replaced by a newer one meanwhile.

        A crash may have come before the record knew the id; then only a full signal of the
        same content can be told from it.
        """
        first, signal_id = claims[0].record, claims[0].signal_id
        created_at = self._clock.now()
        current = full_signal_id(first.thread_id, first.id, first.coalesced_count)
        if signal_id in {first.delivered_signal_id, current}:
            return create_notification_signal(
                first.replace(status="delivered"), signal_id=signal_id, created_at=created_at
            )
        members = [c.record for c in claims if c.record.summary_signal_id == signal_id]
        pending = [record for record in members if record.status == "pending"]
        if not pending:
            return None
        return create_notification_summary_signal(
            pending, signal_id=signal_id, created_at=created_at
        )


def _since(record: NotificationRecord) -> datetime:
    return record.delivered_at or record.updated_at
