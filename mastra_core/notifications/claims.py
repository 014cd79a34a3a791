"""Holding claims while something slow happens (notifications.md S12, S14)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from mastra_core.base.clock import Clock
from mastra_core.contracts.storage.notifications import (
    ClaimRef,
    NotificationClaim,
    NotificationsStorage,
)
from mastra_core.errors import StorageError

__all__ = ("ClaimKeeper",)

logger = logging.getLogger(__name__)


class ClaimKeeper:
    """Renews claims in time, and finds out which ones were lost meanwhile."""

    def __init__(self, storage: NotificationsStorage, *, clock: Clock, visibility_ms: int) -> None:
        self._storage = storage
        self._clock = clock
        self._visibility_ms = visibility_ms

    @property
    def renew_every(self) -> float:
        """Seconds between two renewals: a third of the time that a claim lasts."""
        return self._visibility_ms / 3000

    async def still_ours(
        self, claims: Sequence[NotificationClaim], *, claimed_at: float
    ) -> list[NotificationClaim]:
        """
        Those that nobody else took; asked just before a send.

        Args:
            claims: Claims of ours.
            claimed_at: When they were taken, by the monotonic clock. Young ones aren't
                asked about.
        """
        if self._clock.monotonic() - claimed_at < self.renew_every:
            return list(claims)
        return [claim for claim in claims if await self._extend(claim.ref)]

    @asynccontextmanager
    async def keeping(self, refs: Sequence[ClaimRef]) -> AsyncIterator[None]:
        """Renew these claims as long as the block runs."""
        task = asyncio.create_task(self._renew(refs), name="notification-claims")
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _renew(self, refs: Sequence[ClaimRef]) -> None:
        current = list(refs)
        while current:
            await self._clock.sleep(self.renew_every)
            current = [ref for ref in current if await self._extend_or_keep(ref)]

    async def _extend_or_keep(self, ref: ClaimRef) -> bool:
        try:
            return await self._extend(ref)
        except StorageError:
            # The next round tries again; until then the claim has two thirds of its time.
            logger.warning(
                "notification claim not renewed",
                exc_info=True,
                extra={"thread_id": ref.thread_id, "notification_id": ref.notification_id},
            )
            return True

    async def _extend(self, ref: ClaimRef) -> bool:
        kept = await self._storage.extend_claim(ref, visibility_ms=self._visibility_ms)
        if not kept:
            logger.info(
                "notification claim lost",
                extra={"thread_id": ref.thread_id, "notification_id": ref.notification_id},
            )
        return kept
