"""Snapshots of the in-memory store: persist, merge, list (snapshots.md 5, 12)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from mastra_core.base import jsonjs
from mastra_core.base.clock import Clock
from mastra_core.base.pace import BYTES_OF_A_UNIT, Pace
from mastra_core.contracts.storage.pruning import PruneOptions, PrunePolicy, PruneResult
from mastra_core.errors import StorageArgumentError
from mastra_core.inmemory.storage.domain import Domain
from mastra_core.inmemory.storage.workflow_claims import ResumeStore
from mastra_core.inmemory.storage.workflow_lists import RunLists
from mastra_core.inmemory.storage.workflow_tables import Key, WorkflowTables
from mastra_core.rules import pruning
from mastra_core.rules import snapshots as rules
from mastra_core.rules.arguments import check_text, moment
from mastra_core.wire.snapshots import WorkflowRun

__all__ = ("InMemoryWorkflows",)

#: Keyword arguments that one of several snapshots may have.
_PERSIST = frozenset(
    {"workflow_name", "run_id", "snapshot", "resource_id", "created_at", "updated_at"}
)
_PRUNABLE = (pruning.SNAPSHOTS, pruning.SUSPENDED_SNAPSHOTS)


class InMemoryWorkflows(RunLists, ResumeStore, Domain[WorkflowTables]):
    """
    Domain ``workflows``; see ``contracts.storage.workflows``.

    A write encodes first, which may fail, and then changes the tables in one stretch
    without an await.
    """

    def __init__(self, clock: Clock, *, max_bytes: int = rules.DEFAULT_MAX_BYTES) -> None:
        self.attach(None)
        self._clock = clock
        self._pace = Pace()
        self._max_bytes = max_bytes

    def supports_concurrent_updates(self) -> bool:
        """Partial updates are stretches without an await."""
        return True

    # -- whole documents ----------------------------------------------------------------------

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
        """Upsert the whole document."""
        await self._pace.turn()
        write = self._prepared(
            workflow_name=workflow_name,
            run_id=run_id,
            snapshot=snapshot,
            resource_id=resource_id,
            created_at=created_at,
            updated_at=updated_at,
        )
        key = (workflow_name, run_id)
        stored = self._tables.rows.get(key)
        self._check_claim(key, claim_id)
        rules.check_version(expected_version, str(stored.version) if stored else None)
        self._tables.put(**write)

    async def persist_workflow_snapshots(
        self, snapshots: Sequence[Mapping[str, Any]], *, claim_id: str | None = None
    ) -> None:
        """Upsert all documents or none; the claim is checked on the first."""
        await self._pace.turn()
        for arguments in snapshots:
            if unknown := arguments.keys() - _PERSIST:
                raise StorageArgumentError(f"A snapshot has no argument {min(unknown)!r}.")
        writes = [self._prepared(**arguments) for arguments in snapshots]
        if writes:
            self._check_claim(writes[0]["key"], claim_id)
        for write in writes:
            self._tables.put(**write)

    def _prepared(
        self,
        *,
        workflow_name: str,
        run_id: str,
        snapshot: Mapping[str, Any],
        resource_id: str | None = None,
        created_at: datetime | None = None,
        updated_at: datetime | None = None,
    ) -> dict[str, Any]:
        """What to write; raises before anything is changed."""
        rules.check_key(workflow_name, run_id)
        encoded = rules.encode_snapshot(snapshot, run_id=run_id, max_bytes=self._max_bytes)
        self._pace.spent(len(encoded) // BYTES_OF_A_UNIT)
        document = jsonjs.decode(encoded) if _needs_reading(snapshot) else snapshot
        return {
            "key": (workflow_name, run_id),
            "document": document,
            "encoded": encoded,
            "now": self._clock.now(),
            "resource_id": resource_id,
            "created_at": None if created_at is None else moment(created_at, "created_at"),
            "updated_at": None if updated_at is None else moment(updated_at, "updated_at"),
        }

    async def load_workflow_snapshot(
        self, *, workflow_name: str, run_id: str
    ) -> dict[str, Any] | None:
        """A copy of the document, or None."""
        await self._pace.turn()
        row = self._tables.rows.get((workflow_name, run_id))
        if row is None:
            return None
        self._pace.spent(len(row.encoded) // BYTES_OF_A_UNIT)
        return row.document()

    async def load_workflow_run(
        self, *, workflow_name: str, run_id: str, with_version: bool = False
    ) -> WorkflowRun | None:
        """The row, or None."""
        await self._pace.turn()
        row = self._tables.rows.get((workflow_name, run_id))
        return None if row is None else row.run(with_version=with_version)

    # -- partial updates ----------------------------------------------------------------------

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
        """Merge one step result; a missing row starts empty."""
        await self._pace.turn()
        rules.check_key(workflow_name, run_id)
        check_text(step_id, "step_id")
        key = (workflow_name, run_id)
        own = jsonjs.sanitize_copy(result, path_prefix=f"$.context{jsonjs.json_path([step_id])}")
        self._check_claim(key, claim_id)
        stored = self._tables.rows.get(key)
        now = self._clock.now()
        before = stored.document() if stored else rules.empty_snapshot(run_id, now=now)
        after = rules.merge_results(
            before, step_id=step_id, result=own, request_context=request_context
        )
        self._write(key, after, now)
        context: dict[str, Any] = after["context"]
        return context

    async def update_workflow_state(
        self,
        *,
        workflow_name: str,
        run_id: str,
        opts: Mapping[str, Any],
        expected_status: str | Sequence[str] | None = None,
        claim_id: str | None = None,
    ) -> dict[str, Any] | None:
        """Merge top-level members; None if the row is missing or its status unexpected."""
        await self._pace.turn()
        check_text(opts.get("status"), "opts['status']")
        own = jsonjs.sanitize_copy(opts)
        key = (workflow_name, run_id)
        stored = self._tables.rows.get(key)
        if stored is None:
            return None
        self._check_claim(key, claim_id)
        after = rules.merge_state(stored.document(), own, expected_status=expected_status)
        if after is not None:
            self._write(key, after, self._clock.now())
        return after

    # -- deleting -----------------------------------------------------------------------------

    async def delete_workflow_run_by_id(
        self, *, run_id: str, workflow_name: str, claim_id: str | None = None
    ) -> None:
        """Delete exactly one key."""
        await self.delete_workflow_runs(
            run_id=run_id, workflow_names=[workflow_name], claim_id=claim_id
        )

    async def delete_workflow_runs(
        self, *, run_id: str, workflow_names: Sequence[str], claim_id: str | None = None
    ) -> None:
        """Delete the rows of one run; the claim is checked on the first, if it is there."""
        first = (workflow_names[0], run_id) if workflow_names else None
        if first in self._tables.rows:
            self._check_claim(first, claim_id)
        for name in workflow_names:
            self._tables.drop((name, run_id))

    async def prune(
        self, policies: Sequence[PrunePolicy], options: PruneOptions | None = None
    ) -> list[PruneResult]:
        """Delete rows last written before the limit; suspended ones only if named."""
        options = pruning.check_policies(policies, options, _PRUNABLE)
        return [await self._prune(policy, options) for policy in policies]

    async def _prune(self, policy: PrunePolicy, options: PruneOptions) -> PruneResult:
        limit = pruning.cutoff(policy, self._clock.now())
        wants_suspended = policy.table == pruning.SUSPENDED_SNAPSHOTS
        rows = self._tables.rows

        def is_old(key: Key) -> bool:
            row = rows.get(key)
            if row is None or row.updated_at >= limit:
                return False
            return (row.status == "suspended") == wants_suspended

        waiting = list(filter(is_old, rows))

        async def count() -> int:
            return len(waiting)

        async def delete(wanted: int) -> int:
            deleted = 0
            while waiting and deleted < wanted:
                if is_old(key := waiting.pop()):
                    self._tables.drop(key)
                    deleted += 1
            return deleted

        return await pruning.prune_table(
            policy,
            options,
            domain="workflows",
            count=count,
            delete=delete,
            sleep=self._clock.sleep,
        )

    async def dangerously_clear_all(self) -> None:
        """Delete every row of the domain."""
        self._tables.clear()


def _needs_reading(snapshot: Mapping[str, Any]) -> bool:
    """Whether more of a document is read than its status, which a foreign type may hide."""
    status = snapshot.get("status")
    if rules.CLAIM not in snapshot and status != "suspended" and type(status) is str:
        return False
    return not jsonjs.is_plain(snapshot)
