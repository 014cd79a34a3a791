"""Run snapshots: persist, merge, claim, list (snapshots.md 5-8, 12)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol

from mastra_core.contracts.storage.pruning import PruneOptions, PrunePolicy, PruneResult
from mastra_core.wire.snapshots import ResumeClaim, WorkflowRun, WorkflowRuns

__all__ = ("ClaimOutcome", "SuspendedRunPage", "SuspendedRunRow", "WorkflowsStorage")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimOutcome:
    """The answer to a request for a resume claim; losing is not an error."""

    acquired: bool
    #: The document after the claim; None if the row is absent.
    snapshot: dict[str, Any] | None
    #: The claim that stands in the way (or ours); None without any.
    claim: ResumeClaim | None = None

    def __bool__(self) -> bool:
        return self.acquired


@dataclass(frozen=True, slots=True, kw_only=True)
class SuspendedRunRow:
    """What listing needs of one suspended row, without the conversation inside it.

    ``steps`` maps a suspended step id to its ``suspendPayload`` without any
    ``__streamState`` (also inside ``__workflow_meta.foreachOutput``); ``resume_labels`` are
    the top-level labels, ``receipts`` the top-level ``resumeReceipts``, ``orphaned`` the
    ``orphanedResume`` member.
    """

    workflow_name: str
    run_id: str
    agent_id: str | None
    thread_id: str | None
    resource_id: str | None
    created_at: datetime
    updated_at: datetime
    steps: dict[str, Any]
    resume_labels: dict[str, Any] = field(default_factory=dict)
    receipts: dict[str, Any] = field(default_factory=dict)
    orphaned: dict[str, Any] | None = None
    schema_version: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SuspendedRunPage:
    """One page of suspended rows and the number of all matches."""

    rows: list[SuspendedRunRow]
    total: int


class WorkflowsStorage(Protocol):
    """Domain ``workflows``.

    The snapshot is an opaque JSON document: stored as given, never validated, unknown members
    kept. Values follow the encoder rules of snapshots.md G13; what can't be stored raises
    ``WireEncodeError`` (id ``SNAPSHOT_UNENCODABLE_VALUE``) before anything is written, and a
    document over the adapter's limit ``StorageArgumentError`` (id ``SNAPSHOT_TOO_LARGE``).
    ``updated_at`` is monotonic per row: ``max(now, stored + 1 ms)`` (G14).

    ``claim_id`` on a write: if the stored document carries a ``resumeClaim`` with another id,
    or none while one is given, nothing is written and ``FencedOutError`` (id ``STALE_CLAIM``)
    is raised (G2). Writes without a claim id are not checked.
    """

    def supports_concurrent_updates(self) -> bool:
        """True: partial updates of one row are single critical sections."""
        ...

    async def persist_workflow_snapshot(
        self,
        *,
        workflow_name: str,
        run_id: str,
        snapshot: Mapping[str, Any],
        resource_id: str | None = None,
        created_at: datetime | None = None,
        updated_at: datetime | None = None,
        claim_id: str | None = None,
        expected_version: str | None = None,
    ) -> None:
        """
        Upsert the whole document (snapshots.md 5.1).

        An existing row keeps ``created_at``, and its ``resource_id`` unless one is given.

        Raises:
            StorageConflictError: ``expected_version`` no longer holds
                (id ``STORAGE_VERSION_CONFLICT``); nothing was written.
            FencedOutError: The claim is no longer current.
        """
        ...

    async def persist_workflow_snapshots(
        self, snapshots: Sequence[Mapping[str, Any]], *, claim_id: str | None = None
    ) -> None:
        """
        Persist several documents in one transaction: all or none.

        Each mapping holds the keyword arguments of ``persist_workflow_snapshot`` without
        ``claim_id`` and ``expected_version``; the claim is checked on the first one only
        (the outer row of an agent run, snapshots.md G1).
        """
        ...

    async def load_workflow_snapshot(
        self, *, workflow_name: str, run_id: str
    ) -> dict[str, Any] | None:
        """The document, or None. Never shared with another caller."""
        ...

    async def load_workflow_run(
        self, *, workflow_name: str, run_id: str, with_version: bool = False
    ) -> WorkflowRun | None:
        """The row; with an opaque version token if asked for (G8)."""
        ...

    async def update_workflow_results(
        self,
        *,
        workflow_name: str,
        run_id: str,
        step_id: str,
        result: Mapping[str, Any],
        request_context: Mapping[str, Any] | None = None,
        claim_id: str | None = None,
    ) -> dict[str, Any]:
        """
        Merge one step result by the rule of snapshots.md 6; returns the merged context.

        A missing row is created as an empty ``pending`` document. Atomic, also on the first
        write (G9).
        """
        ...

    async def update_workflow_state(
        self,
        *,
        workflow_name: str,
        run_id: str,
        opts: Mapping[str, Any],
        expected_status: str | Sequence[str] | None = None,
        claim_id: str | None = None,
    ) -> dict[str, Any] | None:
        """
        Shallow-merge ``opts`` (wire names, ``status`` required) over the top level.

        Returns:
            The new document; None if the row is missing or its status isn't expected, and
            then nothing was written.
        """
        ...

    async def list_workflow_runs(
        self,
        *,
        workflow_name: str | None = None,
        from_date: datetime | None = None,
        to_date: datetime | None = None,
        page: int | None = None,
        per_page: int | Literal[False] | None = None,
        resource_id: str | None = None,
        thread_id: str | None = None,
        status: str | None = None,
    ) -> WorkflowRuns:
        """
        Rows by (created_at desc, run_id desc); rules of snapshots.md 5.5.

        Raises:
            StorageArgumentError: A bad page or per_page
                (``MASTRA_STORAGE_<STORE>_LIST_WORKFLOW_RUNS_INVALID_PAGE``).
        """
        ...

    async def list_suspended_runs(
        self,
        *,
        workflow_names: Sequence[str],
        agent_id: str,
        thread_id: str | None = None,
        resource_id: str | None = None,
        from_date: datetime | None = None,
        to_date: datetime | None = None,
        page: int | None = None,
        per_page: int | None = None,
        after: tuple[datetime, str] | None = None,
    ) -> SuspendedRunPage:
        """
        Suspended rows of one agent (owner rule of snapshots.md 4.4, default deny), by
        (created_at desc, run_id desc) across the names.

        Reads O(page) documents, through an index, and ships none of the conversation (G7).
        ``resource_id`` matches the column, else the resource inside the snapshot. ``after``
        is a keyset cursor: only rows that come later in the order; ``page`` then counts from
        it and may be left out, and ``total`` still counts all matches.
        """
        ...

    async def list_corrupt_runs(self, *, limit: int = 100) -> list[WorkflowRun]:
        """Rows whose document doesn't parse; they never break a listing (G15)."""
        ...

    async def get_workflow_run_by_id(
        self, *, run_id: str, workflow_name: str | None = None
    ) -> WorkflowRun | None:
        """The row; without a name the newest with that run id; None for an empty id."""
        ...

    async def delete_workflow_run_by_id(
        self, *, run_id: str, workflow_name: str, claim_id: str | None = None
    ) -> None:
        """Delete exactly one key; idempotent, so a claim is only checked on a row that exists."""
        ...

    async def delete_workflow_runs(
        self, *, run_id: str, workflow_names: Sequence[str], claim_id: str | None = None
    ) -> None:
        """Delete the rows of one run in one transaction; the claim is checked on the first."""
        ...

    async def claim_resume(
        self, *, workflow_name: str, run_id: str, claim: ResumeClaim
    ) -> ClaimOutcome:
        """
        Become the one that resumes this run (G1), in one atomic step.

        Succeeds iff the status is ``suspended`` and there is no unexpired claim; then the
        status becomes ``running`` and ``resumeClaim`` is set, its ``attempt`` one more than
        that of an orphaned predecessor. Expiry is judged by the store's clock.
        """
        ...

    async def extend_resume_claim(
        self, *, workflow_name: str, run_id: str, claim_id: str, ttl_ms: int
    ) -> bool:
        """Move the expiry on; False if the claim is no longer current."""
        ...

    async def release_resume_claim(self, *, workflow_name: str, run_id: str, claim_id: str) -> bool:
        """Back to ``suspended`` without a claim; False if it is no longer current."""
        ...

    async def record_receipt(
        self,
        *,
        workflow_name: str,
        run_id: str,
        tool_call_id: str,
        receipt: Mapping[str, Any],
        claim_id: str | None = None,
    ) -> None:
        """
        Merge ``receipt`` into ``resumeReceipts[tool_call_id]``, atomically (G4).

        Raises:
            RunNotFoundError: There is no such row.
            FencedOutError: The claim is no longer current.
        """
        ...

    async def recover_expired_claims(
        self, *, workflow_names: Sequence[str], limit: int = 100
    ) -> int:
        """
        Return runs whose claim expired to ``suspended`` (G4), each in one atomic step.

        The document gets ``orphanedResume {claimId, target, payloadHash, payload, at,
        attempt}`` and loses ``resumeClaim``. Returns how many.
        """
        ...

    async def prune(
        self, policies: Sequence[PrunePolicy], options: PruneOptions | None = None
    ) -> list[PruneResult]:
        """Delete rows last written strictly before the limit; suspended ones are kept unless
        the policy names the table ``workflowSnapshot:suspended`` (field report R145)."""
        ...

    async def dangerously_clear_all(self) -> None:
        """Delete every row of the domain."""
        ...
