"""Claims on inbox records of the in-memory store (notifications.md 13).

Each method is one stretch without an await, so nobody sees a half of it. Our clock is the
clock of the store.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice

from mastra_core.base.clock import Clock
from mastra_core.base.pace import Pace
from mastra_core.contracts.storage.notifications import ClaimRef, NotificationClaim
from mastra_core.errors import StorageArgumentError
from mastra_core.inmemory.storage.notification_tables import Key, NotificationTables, given_out
from mastra_core.rules import notification_claims as claims
from mastra_core.rules.arguments import check_limit, check_text, moment
from mastra_core.wire.notifications import NotificationRecord

__all__ = ("ClaimStore",)


class ClaimStore:
    """The part of the notifications domain that knows claims."""

    _pace: Pace
    _tables: NotificationTables
    _clock: Clock

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
        """Take due records, each for exactly one claimer."""
        await self._pace.turn()
        now, store_now = moment(now), self._clock.now()
        _check_claim(owner, limit, visibility_ms)
        agents = None if agent_ids is None else {None, *agent_ids}
        tables = self._tables
        free = (
            record
            for record in tables.due(now)
            if (agents is None or record.agent_id in agents)
            and (thread_id is None or record.thread_id == thread_id)
            and claims.is_claimable(
                tables.sidecars.get((record.thread_id, record.id)), store_now=store_now
            )
        )
        taken = []
        for record in list(islice(free, limit)):
            claimed = claims.claim_due(
                record,
                tables.sidecars.get((record.thread_id, record.id)),
                owner=owner,
                now=now,
                store_now=store_now,
                visibility_ms=visibility_ms,
            )
            tables.put(claimed.record, claimed.sidecar)
            taken.append(_given_out(claimed.claim))
        return taken

    async def claim_unconfirmed(
        self,
        accepted_before: datetime,
        owner: str,
        *,
        limit: int = 100,
        visibility_ms: int = 120_000,
        agent_ids: Sequence[str] | None = None,
    ) -> list[NotificationClaim]:
        """Take records whose accepted signal nobody has seen as a message row."""
        await self._pace.turn()
        before, store_now = moment(accepted_before, "accepted_before"), self._clock.now()
        _check_claim(owner, limit, visibility_ms)
        agents = None if agent_ids is None else {None, *agent_ids}
        tables = self._tables
        free = (
            key
            for key in tables.accepted(before)
            if (agents is None or tables.records[key].agent_id in agents)
            and claims.is_unconfirmed(
                tables.records[key], tables.sidecar(key), before=before, store_now=store_now
            )
        )
        taken = []
        for key in list(islice(free, limit)):
            claimed = claims.claim_unconfirmed(
                tables.records[key],
                tables.sidecar(key),
                owner=owner,
                store_now=store_now,
                visibility_ms=visibility_ms,
            )
            tables.put(claimed.record, claimed.sidecar)
            taken.append(_given_out(claimed.claim))
        return taken

    async def extend_claim(self, ref: ClaimRef, *, visibility_ms: int = 120_000) -> bool:
        """Keep it longer; False if the token is not current."""
        await self._pace.turn()
        check_limit(visibility_ms, "visibility_ms")
        record = self._current(ref)
        if record is None:
            return False
        moved, sidecar = claims.extend(
            record,
            self._tables.sidecar(_key(ref)),
            store_now=self._clock.now(),
            visibility_ms=visibility_ms,
        )
        self._tables.put(moved, sidecar)
        return True

    async def finalize_full(
        self, ref: ClaimRef, *, delivered_signal_id: str, at: datetime
    ) -> NotificationRecord | None:
        """A full delivery was accepted; None if the token is not current."""
        await self._pace.turn()
        at = moment(at, "at")
        check_text(delivered_signal_id, "delivered_signal_id")
        record = self._current(ref)
        if record is None:
            return None
        done, sidecar = claims.finalize_full(
            record,
            self._tables.sidecar(_key(ref)),
            delivered_signal_id=delivered_signal_id,
            at=at,
            now=self._clock.now(),
        )
        self._tables.put(done, sidecar)
        return given_out(done)

    async def finalize_summary(
        self, refs: Sequence[ClaimRef], *, summary_signal_id: str, at: datetime
    ) -> bool:
        """A summary was accepted: all members or none; False if any token is not current."""
        await self._pace.turn()
        at = moment(at, "at")
        check_text(summary_signal_id, "summary_signal_id")
        members = [(ref, self._current(ref)) for ref in dict.fromkeys(refs)]
        if any(record is None for _, record in members):
            return False
        now = self._clock.now()
        for ref, record in members:
            if record is not None:
                done, sidecar = claims.finalize_summary(
                    record,
                    self._tables.sidecar(_key(ref)),
                    summary_signal_id=summary_signal_id,
                    at=at,
                    now=now,
                )
                self._tables.put(done, sidecar)
        return True

    async def fail_claims(
        self,
        refs: Sequence[ClaimRef],
        *,
        error: str,
        at: datetime,
        retry_at: Sequence[datetime],
        max_attempts: int,
    ) -> list[NotificationRecord]:
        """Count one failure for each current claim; stale tokens are skipped."""
        await self._pace.turn()
        at = moment(at, "at")
        if len(refs) != len(retry_at):
            raise StorageArgumentError(
                f"retry_at has {len(retry_at)} times for {len(refs)} claims."
            )
        times = [moment(value, "retry_at") for value in retry_at]
        now = self._clock.now()
        failed = []
        for ref, due_at in zip(refs, times, strict=True):
            record = self._current(ref)
            if record is None:
                continue
            after, sidecar, counted = claims.fail(
                record,
                self._tables.sidecar(_key(ref)),
                error=error,
                at=at,
                retry_at=due_at,
                max_attempts=max_attempts,
                now=now,
            )
            self._tables.put(after, sidecar)
            if counted:
                failed.append(given_out(after))
        return failed

    async def release_claims(
        self, refs: Sequence[ClaimRef], *, due_at: datetime | None = None
    ) -> int:
        """Give claims back without counting an attempt; how many were current."""
        await self._pace.turn()
        due_at = None if due_at is None else moment(due_at, "due_at")
        released = 0
        for ref in refs:
            record = self._current(ref)
            if record is None:
                continue
            after, sidecar = claims.release(record, self._tables.sidecar(_key(ref)), due_at=due_at)
            self._tables.put(after, sidecar)
            released += 1
        return released

    async def confirm_delivery(
        self, thread_id: str, notification_id: str, *, signal_id: str
    ) -> bool:
        """Forget the acceptance; False if it isn't that signal."""
        await self._pace.turn()
        key = (thread_id, notification_id)
        confirmed = claims.confirm(self._tables.sidecars.get(key), signal_id=signal_id)
        if confirmed is None:
            return False
        self._tables.put_sidecar(key, confirmed)
        return True

    async def record_acceptance(
        self, thread_id: str, notification_id: str, *, signal_id: str, at: datetime
    ) -> None:
        """Remember an accepted signal; nothing to remember for a record that is gone."""
        await self._pace.turn()
        key = (thread_id, notification_id)
        at = moment(at, "at")
        check_text(signal_id, "signal_id")
        if key in self._tables.records:
            accepted = claims.accept(self._tables.sidecar(key), signal_id=signal_id, at=at)
            self._tables.put_sidecar(key, accepted)

    def _current(self, ref: ClaimRef) -> NotificationRecord | None:
        """The record of a claim that still holds; None if it doesn't."""
        key = _key(ref)
        if not claims.is_current(self._tables.sidecars.get(key), ref):
            return None
        return self._tables.records.get(key)


def _key(ref: ClaimRef) -> Key:
    return (ref.thread_id, ref.notification_id)


def _check_claim(owner: str, limit: int, visibility_ms: int) -> None:
    check_text(owner, "owner")
    check_limit(limit)
    check_limit(visibility_ms, "visibility_ms")


def _given_out(claim: NotificationClaim) -> NotificationClaim:
    return replace(claim, record=given_out(claim.record))
