"""Resume claims in Redis (snapshots.md G1, G2, G4); expiry is judged by the server's clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from mastra_core.base import jsonjs
from mastra_core.base.isotime import epoch_ms
from mastra_core.contracts.storage.workflows import ClaimOutcome
from mastra_core.errors import RunNotFoundError
from mastra_core.rules import snapshots as rules
from mastra_core.rules.arguments import check_limit, check_text
from mastra_core.wire.snapshots import ResumeClaim
from mastra_redis.keys import Keys, split
from mastra_redis.storage.host import Host

__all__ = ("ResumeStore",)

_Document = dict[str, Any]


class _Changes(Protocol):
    async def __call__(
        self,
        operation: str,
        workflow_name: str,
        run_id: str,
        rule: Callable[[_Document | None], _Document | None],
    ) -> _Document | None: ...


class ResumeStore:
    """The part of the workflows domain that knows who resumes a run."""

    _host: Host
    _keys: Keys
    _change: _Changes

    async def claim_resume(
        self, *, workflow_name: str, run_id: str, claim: ResumeClaim
    ) -> ClaimOutcome:
        """Become the one that resumes this run; losing is no error."""
        payload = jsonjs.sanitize_copy(claim.payload, path_prefix="$.payload")
        own = claim.replace(payload=payload)
        now = await self._host.now("claim_resume")
        # Losing must not be decided on what this process saw last.
        self._host.recent.forget(self._keys.snapshot(workflow_name, run_id))
        outcome = ClaimOutcome(acquired=False, snapshot=None)

        def rule(stored: _Document | None) -> _Document | None:
            nonlocal outcome
            if stored is None:
                outcome = ClaimOutcome(acquired=False, snapshot=None)
                return None
            result = rules.claim_resume(stored, own, store_now=now)
            outcome = ClaimOutcome(
                acquired=result.acquired, snapshot=result.snapshot, claim=result.claim
            )
            return result.snapshot if result.acquired else None

        await self._change("claim_resume", workflow_name, run_id, rule)
        snapshot = jsonjs.sanitize_copy(outcome.snapshot) if outcome.snapshot else outcome.snapshot
        return ClaimOutcome(acquired=outcome.acquired, snapshot=snapshot, claim=outcome.claim)

    async def extend_resume_claim(
        self, *, workflow_name: str, run_id: str, claim_id: str, ttl_ms: int
    ) -> bool:
        """Move the expiry on; False if the claim is no longer current."""
        check_limit(ttl_ms, "ttl_ms")
        now = await self._host.now("extend_resume_claim")

        def rule(stored: _Document | None) -> _Document | None:
            if stored is None:
                return None
            return rules.extend_claim(stored, claim_id=claim_id, ttl_ms=ttl_ms, store_now=now)

        after = await self._change("extend_resume_claim", workflow_name, run_id, rule)
        return after is not None

    async def release_resume_claim(self, *, workflow_name: str, run_id: str, claim_id: str) -> bool:
        """Back to ``suspended``; False if the claim is no longer current."""

        def rule(stored: _Document | None) -> _Document | None:
            return None if stored is None else rules.release_claim(stored, claim_id=claim_id)

        after = await self._change("release_resume_claim", workflow_name, run_id, rule)
        return after is not None

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

        def rule(stored: _Document | None) -> _Document | None:
            rules.check_claim(stored, claim_id, workflow_name=workflow_name, run_id=run_id)
            if stored is None:
                return None
            return rules.record_receipt(stored, tool_call_id=tool_call_id, receipt=own)

        if await self._change("record_receipt", workflow_name, run_id, rule) is None:
            raise RunNotFoundError(run_id=run_id)

    async def recover_expired_claims(
        self, *, workflow_names: Sequence[str], limit: int = 100
    ) -> int:
        """Return runs whose claim expired to ``suspended``; how many."""
        check_limit(limit)
        now = await self._host.now("recover_expired_claims")
        wanted = set(workflow_names)
        recovered = 0
        for run_id, name in await self._expired(epoch_ms(now)):
            if recovered == limit:
                break
            if name in wanted:
                recovered += await self._recover(name, run_id, now)
        return recovered

    async def _expired(self, now_ms: int) -> list[list[str]]:
        members = await self._host.read(
            "recover_expired_claims",
            "ZRANGEBYSCORE",
            self._keys.runs + b"claimed",
            "-inf",
            now_ms,
        )
        return sorted(map(split, members))

    async def _recover(self, workflow_name: str, run_id: str, now: datetime) -> bool:
        def rule(stored: _Document | None) -> _Document | None:
            return None if stored is None else rules.expire_claim(stored, store_now=now)

        after = await self._change("recover_expired_claims", workflow_name, run_id, rule)
        return after is not None
