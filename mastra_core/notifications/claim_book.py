"""The claims that one dispatch holds, and how each of them ends (notifications.md S19-S22)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random
from typing import Any, Final

from mastra_core.base.tasks import shielded
from mastra_core.contracts.storage.notifications import (
    ClaimRef,
    NotificationClaim,
    NotificationsStorage,
)
from mastra_core.errors import StorageError
from mastra_core.notifications.failures import (
    MAX_NOTIFICATION_DELIVERY_ATTEMPTS,
    error_text,
    retry_delay_ms,
)
from mastra_core.notifications.settings import NotificationSettings
from mastra_core.wire.notifications import NotificationRecord
from mastra_core.wire.signals import Signal

__all__ = ("ClaimBook", "DispatchFailure", "DispatchResult")

logger = logging.getLogger(__name__)

#: Seconds that giving claims back may take while we are being cancelled.
_RELEASE_DEADLINE: Final = 2.0

_Key = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchFailure:
    """A record whose delivery failed, as it was claimed."""

    record: NotificationRecord
    error: Exception


@dataclass(slots=True, kw_only=True)
class DispatchResult:
    """What one dispatch did."""

    #: Delivered and summarized ones, as they are now.
    delivered: list[NotificationRecord] = field(default_factory=list)
    failed: list[DispatchFailure] = field(default_factory=list)
    signals: list[Signal] = field(default_factory=list)
    #: Records whose guard had expired and that were decided about without a signal.
    decided: list[NotificationRecord] = field(default_factory=list)
    #: True if more may be due right now.
    has_more: bool = False

    @property
    def handled(self) -> int:
        """How many records moved on; those that only wait don't count."""
        return len(self.delivered) + len(self.failed) + len(self.decided)


class ClaimBook:
    """
    Knows what is claimed and unsettled, so that nothing is forgotten whatever happens.

    Args:
        storage: Where the claims are.
        random: Where the jitter of retries comes from.
        settings: The pauses.
        now: The time of the dispatch.
        result: Where failures are noted.
        on_wait: Told of each record that was put off because its thread is busy.
        on_failed: Told of each record that was given up.
    """

    def __init__(
        self,
        storage: NotificationsStorage,
        *,
        random: Random,
        settings: NotificationSettings,
        now: datetime,
        result: DispatchResult,
        on_wait: Callable[[str, str, datetime], None],
        on_failed: Callable[[NotificationRecord], None] | None,
    ) -> None:
        self._storage = storage
        self._random = random
        self._settings = settings
        self._now = now
        self._result = result
        self._on_wait = on_wait
        self._on_failed = on_failed
        self._open: dict[_Key, ClaimRef] = {}
        self._held: dict[_Key, ClaimRef] = {}
        self._seen: set[_Key] = set()

    def enter(self, claims: Sequence[NotificationClaim]) -> list[NotificationClaim]:
        """
        Take claims in; those of records that this dispatch has not handled yet come back.

        The others are held, so that one dispatch never handles a record twice.
        """
        for claim in claims:
            self._open[_key(claim)] = claim.ref
        first = [claim for claim in claims if _key(claim) not in self._seen]
        self.hold([claim for claim in claims if _key(claim) in self._seen])
        self._seen.update(_key(claim) for claim in first)
        return first

    def hold(self, claims: Iterable[NotificationClaim]) -> None:
        """
        Keep these until the dispatch is over and give them back unchanged: another process,
        or the next dispatch, shall have them.
        """
        for claim in claims:
            self._held[_key(claim)] = claim.ref

    def close(self, claims: Iterable[NotificationClaim]) -> None:
        """These are settled, taken over, or left to lapse."""
        for claim in claims:
            self._open.pop(_key(claim), None)

    async def release(
        self, claims: Sequence[NotificationClaim], *, after_ms: int | None = None
    ) -> None:
        """Give these back now, with their schedule or put off; nothing is counted."""
        if not claims:
            return
        due_at = None if after_ms is None else self._now + timedelta(milliseconds=after_ms)
        await self._storage.release_claims([claim.ref for claim in claims], due_at=due_at)
        self.close(claims)

    async def wait(self, claims: Sequence[NotificationClaim]) -> None:
        """The thread is busy: again soon, or when it becomes idle (S9, S20)."""
        await self.release(claims, after_ms=self._settings.idle_recheck_ms)
        until = self._now + timedelta(milliseconds=self._settings.idle_recheck_ms)
        for claim in claims:
            self._on_wait(claim.record.thread_id, claim.record.id, until)

    async def fail(self, claims: Sequence[NotificationClaim], error: Exception) -> None:
        """Count one failure for each, in one transaction, and try again later (S20, S22)."""
        self._result.failed += [DispatchFailure(record=c.record, error=error) for c in claims]
        try:
            changed = await self._storage.fail_claims(
                [claim.ref for claim in claims],
                error=error_text(error),
                at=self._now,
                retry_at=[self._retry_at(claim.record) for claim in claims],
                max_attempts=MAX_NOTIFICATION_DELIVERY_ATTEMPTS,
            )
        except StorageError:
            # The claim lapses and the delivery is tried again; nothing was counted.
            logger.warning("notification failure not recorded", exc_info=True)
            changed = []
        self.close(claims)
        for record in changed:
            self._report(record, error)

    def _retry_at(self, record: NotificationRecord) -> datetime:
        delay = retry_delay_ms(record.delivery_attempts + 1, self._settings, self._random)
        return self._now + timedelta(milliseconds=delay)

    def _report(self, record: NotificationRecord, error: Exception) -> None:
        extra: dict[str, Any] = {
            "thread_id": record.thread_id,
            "notification_id": record.id,
            "attempts": record.delivery_attempts,
            "error": error_text(error),
        }
        if record.status != "failed":
            logger.warning("notification delivery failed", extra=extra)
            return
        logger.error("notification delivery given up", extra=extra)
        if self._on_failed is not None:
            self._on_failed(record)

    async def give_back(self) -> None:
        """Let go of everything that is not settled, also when we are being cancelled."""
        refs = list({**self._open, **self._held}.values())
        if not refs:
            return
        try:
            await shielded(self._release_refs(refs), _RELEASE_DEADLINE)
        except (StorageError, TimeoutError):
            logger.warning("notification claims not released; they will lapse", exc_info=True)

    async def _release_refs(self, refs: Sequence[ClaimRef]) -> None:
        await self._storage.release_claims(refs)


def _key(claim: NotificationClaim) -> _Key:
    return (claim.ref.thread_id, claim.ref.notification_id)
