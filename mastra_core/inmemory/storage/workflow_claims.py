"""Resume claims of the in-memory store (snapshots.md G1, G2, G4).

Each method is one stretch without an await; our clock is the clock of the store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from mastra_core.base import jsonjs
from mastra_core.base.clock import Clock
from mastra_core.contracts.storage.workflows import ClaimOutcome
from mastra_core.errors import RunNotFoundError
from mastra_core.inmemory.storage.workflow_tables import Key, WorkflowTables
from mastra_core.rules import snapshots as rules
from mastra_core.rules.arguments import check_limit, check_text
from mastra_core.wire.snapshots import ResumeClaim

__all__ = ("ResumeStore",)


class ResumeStore:
    """The part of the workflows domain that knows who resumes a run."""

    _tables: WorkflowTables
    _clock: Clock
    _max_bytes: int

    async def claim_resume(
        self, *, workflow_name: str, run_id: str, claim: ResumeClaim
    ) -> ClaimOutcome:
        """Become the one that resumes this run; losing is no error."""
        payload = jsonjs.sanitize_copy(claim.payload, path_prefix="$.payload")
        key = (workflow_name, run_id)
        row = self._tables.rows.get(key)
        if row is None:
            return ClaimOutcome(acquired=False, snapshot=None)
        now = self._clock.now()
        result = rules.claim_resume(row.document(), claim.replace(payload=payload), store_now=now)
        if result.acquired:
            self._write(key, result.snapshot, now)
        return ClaimOutcome(acquired=result.acquired, snapshot=result.snapshot, claim=result.claim)

    async def extend_resume_claim(
        self, *, workflow_name: str, run_id: str, claim_id: str, ttl_ms: int
    ) -> bool:
        """Move the expiry on; False if the claim is no longer current."""
        check_limit(ttl_ms, "ttl_ms")
        now = self._clock.now()
        row = self._tables.rows.get((workflow_name, run_id))
        if row is None or row.claim_id != claim_id:
            return False
        after = rules.extend_claim(row.document(), claim_id=claim_id, ttl_ms=ttl_ms, store_now=now)
        return self._written(row.key, after, now)

    async def release_resume_claim(self, *, workflow_name: str, run_id: str, claim_id: str) -> bool:
        """Back to ``suspended``; False if the claim is no longer current."""
        row = self._tables.rows.get((workflow_name, run_id))
        if row is None or row.claim_id != claim_id:
            return False
        after = rules.release_claim(row.document(), claim_id=claim_id)
        return self._written(row.key, after, self._clock.now())

    async def record_receipt(
        self,
        *,
        workflow_name: str,
        run_id: str,
        tool_call_id: str,
        receipt: Mapping[str, Any],
        claim_id: str | None = None,
    ) -> None:
        """Merge what was decided and done for one tool call into the document."""
        check_text(tool_call_id, "tool_call_id")
        own = jsonjs.sanitize_copy(receipt)
        key = (workflow_name, run_id)
        self._check_claim(key, claim_id)
        row = self._tables.rows.get(key)
        if row is None:
            raise RunNotFoundError(run_id=run_id)
        after = rules.record_receipt(row.document(), tool_call_id=tool_call_id, receipt=own)
        self._write(key, after, self._clock.now())

    async def recover_expired_claims(
        self, *, workflow_names: Sequence[str], limit: int = 100
    ) -> int:
        """Return runs whose claim expired to ``suspended``; how many."""
        check_limit(limit)
        now = self._clock.now()
        recovered = 0
        for key in sorted(key for key in self._tables.claimed if key[0] in workflow_names):
            if recovered == limit:
                break
            after = rules.expire_claim(self._tables.rows[key].document(), store_now=now)
            recovered += self._written(key, after, now)
        return recovered

    def _written(self, key: Key, document: dict[str, Any] | None, now: datetime) -> bool:
        if document is not None:
            self._write(key, document, now)
        return document is not None

    def _write(self, key: Key, document: Mapping[str, Any], now: datetime) -> None:
        """Write a changed document of plain values."""
        encoded = rules.encode_snapshot(document, run_id=key[1], max_bytes=self._max_bytes)
        self._tables.put(key, document, encoded, now=now)

    def _check_claim(self, key: Key, claim_id: str | None) -> None:
        """Refuse the write of somebody whose claim is no longer current."""
        if claim_id is None:
            return
        row = self._tables.rows.get(key)
        rules.check_claim(
            None if row is None else row.document(),
            claim_id,
            workflow_name=key[0],
            run_id=key[1],
        )
