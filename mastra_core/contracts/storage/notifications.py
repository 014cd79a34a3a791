"""The durable inbox: records, claims, guards, confirmations (notifications.md 3, 13)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

from mastra_core.contracts.storage.pruning import PruneOptions, PrunePolicy, PruneResult
from mastra_core.wire.notifications import (
    CreateNotification,
    NotificationPatch,
    NotificationRecord,
)

__all__ = ("ClaimRef", "NotificationClaim", "NotificationsStorage")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRef:
    """Which claim a later write belongs to; tokens of one record strictly increase."""

    thread_id: str
    notification_id: str
    token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationClaim:
    """One due record that is ours until ``expires_at`` (notifications.md S10-S13)."""

    #: The record with the schedule that it had before the claim.
    record: NotificationRecord
    ref: ClaimRef
    owner: str
    #: When the claim lapses, by the store's clock.
    expires_at: datetime
    #: The full delivery is due.
    full_due: bool
    #: The summary is due.
    summary_due: bool
    #: Its due time was the guard of an ingress that never decided: run the policy again.
    guard_expired: bool
    #: Deterministic id of the full signal; the same again after expiry.
    signal_id: str
    #: Counts finished summaries of this record; part of a summary's deterministic id.
    generation: int


class NotificationsStorage(Protocol):
    """Domain ``notifications``.

    Writes validate enumerations, ids, source and kind (``StorageArgumentError``) before
    anything is written; reads tolerate unknown values. Inputs and results are never shared
    with the store. ``updated_at`` moves with every write, except that claims touch neither
    it nor status nor attempts (S11).
    """

    async def create_notification(
        self,
        notification: CreateNotification,
        *,
        on_conflict: Literal["raise", "return"] = "raise",
        guard_until: datetime | None = None,
    ) -> NotificationRecord:
        """
        Insert, or merge into the pending record with the same key (3.1, 3.2, S1-S4).

        One atomic step, whatever number of processes does it. A record that stopped being
        pending is never merged into. An existing ``(thread_id, id)`` is looked for before the
        keys, so that repeating a create with its id is one event.

        Args:
            notification: What happened.
            on_conflict: What an existing ``(thread_id, id)`` means.
            guard_until: Written as ``deliver_at`` only if the record would have no schedule
                otherwise, and remembered as a guard (S6).

        Raises:
            NotificationExistsError: The pair exists and ``on_conflict`` is ``raise``.
        """
        ...

    async def get_notification(
        self, thread_id: str, notification_id: str
    ) -> NotificationRecord | None:
        """Exactly that pair, whatever its status; None if there is none."""
        ...

    async def list_notifications(
        self,
        thread_id: str,
        *,
        status: str | Sequence[str] | None = None,
        priority: str | Sequence[str] | None = None,
        source: str | None = None,
        resource_id: str | None = None,
        agent_id: str | None = None,
        search: str | None = None,
        limit: int | None = None,
    ) -> list[NotificationRecord]:
        """
        The inbox: (updated_at desc, created_at desc, id asc); rules of 3.4.

        ``search`` is a case-insensitive literal substring of summary, kind or source; an
        empty list of statuses matches nothing.

        Raises:
            StorageArgumentError: ``limit`` is below 1, a status or priority is unknown, or
                ``search`` is no text.
        """
        ...

    async def list_due_notifications(
        self,
        now: datetime,
        *,
        limit: int | None = None,
        agent_id: str | None = None,
        resource_id: str | None = None,
    ) -> list[NotificationRecord]:
        """Pending records due at ``now``: earliest due, updated_at, id (3.5)."""
        ...

    async def update_notification(
        self,
        thread_id: str,
        notification_id: str,
        patch: NotificationPatch,
        *,
        expected_statuses: Sequence[str] | None = None,
        settle_guard: bool = False,
        expected_count: int | None = None,
    ) -> NotificationRecord | None:
        """
        Write the members that are set in ``patch`` in one atomic step (3.6).

        Args:
            thread_id: Half of the identity.
            notification_id: The other half.
            patch: What to change; a status also sets its timestamp.
            expected_statuses: Write only if the status is one of these; None is returned
                otherwise.
            settle_guard: Remove the ingress guard in the same statement: ``deliver_at``
                becomes None if it still is the guard's value and the patch doesn't set it.
            expected_count: Write only if ``coalesced_count`` still is this; None is returned
                otherwise.

        Raises:
            NotificationNotFoundError: There is no such pair.
        """
        ...

    async def update_notifications_status(
        self,
        thread_id: str,
        notification_ids: Sequence[str],
        status: str,
        *,
        expected_statuses: Sequence[str] | None = None,
    ) -> list[NotificationRecord]:
        """One status for many records (3.7); those that were changed, in the order of their ids."""
        ...

    async def mark_notification_delivered(
        self,
        thread_id: str,
        notification_id: str,
        *,
        delivered_signal_id: str,
        last_delivery_attempt_at: datetime,
    ) -> NotificationRecord | None:
        """Write both facts always, the status only if still pending; None if missing (3.7)."""
        ...

    async def claim_due(
        self,
        now: datetime,
        owner: str,
        *,
        limit: int = 100,
        visibility_ms: int = 120_000,
        agent_ids: Sequence[str] | None = None,
        thread_id: str | None = None,
    ) -> list[NotificationClaim]:
        """
        Take due records, each for exactly one claimer (S10, S11).

        Due columns move to claim time + visibility, so that nobody lists them; originals,
        token, owner, count and intended signal id go to the sidecar. Records without an
        agent id are claimed whatever ``agent_ids`` says, since nobody can run them.
        """
        ...

    async def extend_claim(self, ref: ClaimRef, *, visibility_ms: int = 120_000) -> bool:
        """Keep it longer; False if the token is not current (S12, S14)."""
        ...

    async def finalize_full(
        self, ref: ClaimRef, *, delivered_signal_id: str, at: datetime
    ) -> NotificationRecord | None:
        """
        A full delivery was accepted (S16): status, timestamps and original schedule.

        Never downgrades seen, dismissed or archived. If the record was merged into since the
        claim it stays pending and is due now. The sidecar remembers the acceptance (S21).
        Success clears ``last_delivery_error``. None if the token is not current.
        """
        ...

    async def finalize_summary(
        self, refs: Sequence[ClaimRef], *, summary_signal_id: str, at: datetime
    ) -> bool:
        """
        A summary was accepted (S17): all members in one transaction, or none.

        False if any token is not current. Members that stopped being pending only lose their
        claim; a schedule that somebody set during the claim stays.
        """
        ...

    async def fail_claims(
        self,
        refs: Sequence[ClaimRef],
        *,
        error: str,
        at: datetime,
        retry_at: Sequence[datetime],
        max_attempts: int,
    ) -> list[NotificationRecord]:
        """
        Count one failure for each current claim (S22), in one transaction.

        Only pending records change; at ``max_attempts`` they become ``failed``. Otherwise
        the due column becomes ``retry_at`` (one per ref). Stale tokens are skipped.
        """
        ...

    async def release_claims(
        self, refs: Sequence[ClaimRef], *, due_at: datetime | None = None
    ) -> int:
        """
        Give claims back without counting an attempt (S19, S20).

        The original schedule returns, or ``due_at`` in place of the due columns. Returns how
        many were current.
        """
        ...

    async def claim_unconfirmed(
        self,
        accepted_before: datetime,
        owner: str,
        *,
        limit: int = 100,
        visibility_ms: int = 120_000,
        agent_ids: Sequence[str] | None = None,
    ) -> list[NotificationClaim]:
        """
        Take records whose accepted signal nobody has seen as a message row (S21).

        Only records that are still pending or delivered. Each goes to one claimer;
        ``signal_id`` is the id that was accepted.
        """
        ...

    async def confirm_delivery(
        self, thread_id: str, notification_id: str, *, signal_id: str
    ) -> bool:
        """The message row exists: forget the acceptance; False if it isn't that signal."""
        ...

    async def record_acceptance(
        self, thread_id: str, notification_id: str, *, signal_id: str, at: datetime
    ) -> None:
        """
        Remember that ``signal_id`` was accepted but not yet confirmed (ingress, S21).

        Does nothing for a record that is gone.
        """
        ...

    async def requeue(self, thread_id: str, notification_id: str) -> NotificationRecord:
        """
        failed -> pending, attempts 0, due now (S23).

        Raises:
            NotificationNotFoundError: There is no such pair.
            StorageConflictError: It isn't failed.
        """
        ...

    async def prune(
        self, policies: Sequence[PrunePolicy], options: PruneOptions | None = None
    ) -> list[PruneResult]:
        """Delete rows created strictly before the limit, whatever their status (3.8)."""
        ...

    async def dangerously_clear_all(self) -> None:
        """Delete every record, claim and guard."""
        ...
