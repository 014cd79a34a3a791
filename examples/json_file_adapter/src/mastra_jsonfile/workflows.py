"""Snapshots of runs (snapshots.md 5-8)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from mastra_core.base import jsonjs
from mastra_core.base.clock import Clock
from mastra_core.base.isotime import epoch_ms
from mastra_core.contracts.storage import (
    DateRange,
    SuspendedRunPage,
    SuspendedRunRow,
    WorkflowsStorage,
)
from mastra_core.errors import StorageArgumentError
from mastra_core.rules import snapshots as rules
from mastra_core.rules.arguments import check_limit, check_text, moment
from mastra_core.rules.paging import bounds_ms, cursor_page, optional_page
from mastra_core.rules.suspended import matches_thread, suspended_row
from mastra_core.wire.snapshots import WorkflowRun, WorkflowRuns
from mastra_jsonfile.capabilities import refuse, refused
from mastra_jsonfile.file import Document, JsonFile, row_of

__all__ = ("JsonFileWorkflows",)

PERSIST = {"workflow_name", "run_id", "snapshot", "resource_id", "created_at", "updated_at"}


class JsonFileWorkflows:
    """Domain ``workflows``; see ``contracts.storage.workflows``."""

    def __init__(self, file: JsonFile, clock: Clock, *, max_bytes: int) -> None:
        self._file = file
        self._clock = clock
        self._max_bytes = max_bytes

    def supports_concurrent_updates(self) -> bool:
        """Not promised: the capability ``workflows.atomic_updates`` isn't declared."""
        return False

    # -- writing ------------------------------------------------------------------------------

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
        _refuse_claim(claim_id)
        run = self._run(
            workflow_name,
            run_id,
            snapshot,
            resource_id=resource_id,
            created_at=created_at,
            updated_at=updated_at,
        )

        def change(document: Document) -> None:
            stored = _stored(document, workflow_name, run_id)
            rules.check_version(expected_version, stored.version if stored else None)
            _put(document, run)

        await self._file.write("persist_workflow_snapshot", change)

    async def persist_workflow_snapshots(
        self, snapshots: Sequence[Mapping[str, Any]], *, claim_id: str | None = None
    ) -> None:
        """Upsert all documents or none."""
        _refuse_claim(claim_id)
        for arguments in snapshots:
            if unknown := arguments.keys() - PERSIST:
                raise StorageArgumentError(f"A snapshot has no argument {min(unknown)!r}.")
        runs = [self._run(**arguments) for arguments in snapshots]

        def change(document: Document) -> None:
            for run in runs:
                _put(document, run)

        await self._file.write("persist_workflow_snapshots", change)

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
        _refuse_claim(claim_id)
        check_text(step_id, "step_id")
        path = f"$.context{jsonjs.json_path([step_id])}"
        result = jsonjs.sanitize_copy(result, path_prefix=path)

        def change(document: Document) -> dict[str, Any]:
            stored = _stored(document, workflow_name, run_id)
            before = _snapshot(stored) or rules.empty_snapshot(run_id, now=self._clock.now())
            after = rules.merge_results(
                before, step_id=step_id, result=result, request_context=request_context
            )
            _put(document, self._run(workflow_name, run_id, after))
            merged: dict[str, Any] = after["context"]
            return merged

        return await self._file.write("update_workflow_results", change)

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
        _refuse_claim(claim_id)
        check_text(opts.get("status"), "opts['status']")
        opts = jsonjs.sanitize_copy(opts)

        def change(document: Document) -> dict[str, Any] | None:
            before = _snapshot(_stored(document, workflow_name, run_id))
            if before is None:
                return None
            after = rules.merge_state(before, opts, expected_status=expected_status)
            if after is not None:
                _put(document, self._run(workflow_name, run_id, after))
            return after

        return await self._file.write("update_workflow_state", change)

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
        """Delete the rows of one run, in one step."""
        _refuse_claim(claim_id)

        def change(document: Document) -> None:
            for name in workflow_names:
                document["runs"].get(name, {}).pop(run_id, None)

        await self._file.write("delete_workflow_runs", change)

    async def dangerously_clear_all(self) -> None:
        """Delete every row of the domain."""

        def change(document: Document) -> None:
            document["runs"] = {}

        await self._file.write("clear_workflows", change)

    def _run(
        self,
        workflow_name: str,
        run_id: str,
        snapshot: Mapping[str, Any],
        *,
        resource_id: str | None = None,
        created_at: datetime | None = None,
        updated_at: datetime | None = None,
    ) -> WorkflowRun:
        """What to write; raises before anything is changed."""
        rules.check_key(workflow_name, run_id)
        encoded = rules.encode_snapshot(snapshot, run_id=run_id, max_bytes=self._max_bytes)
        now = self._clock.now()
        return WorkflowRun(
            workflow_name=workflow_name,
            run_id=run_id,
            resource_id=resource_id,
            snapshot=jsonjs.decode(encoded),
            created_at=moment(created_at, "created_at") if created_at else now,
            updated_at=moment(updated_at, "updated_at") if updated_at else now,
        )

    # -- reading ------------------------------------------------------------------------------

    async def load_workflow_snapshot(
        self, *, workflow_name: str, run_id: str
    ) -> dict[str, Any] | None:
        """The document, or None."""
        return _snapshot(await self.load_workflow_run(workflow_name=workflow_name, run_id=run_id))

    async def load_workflow_run(
        self, *, workflow_name: str, run_id: str, with_version: bool = False
    ) -> WorkflowRun | None:
        """The row, or None."""

        def query(document: Document) -> WorkflowRun | None:
            run = _stored(document, workflow_name, run_id)
            return run if run is None or with_version else run.replace(version=None)

        return await self._file.read("load_workflow_run", query)

    async def get_workflow_run_by_id(
        self, *, run_id: str, workflow_name: str | None = None
    ) -> WorkflowRun | None:
        """The row; without a name the newest with that run id."""
        runs = await self._newest_first("get_workflow_run_by_id")
        found = (
            run
            for run in runs
            if run.run_id == run_id and workflow_name in {None, run.workflow_name}
        )
        return next(found, None)

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
        """Rows, newest created first; reads all of them."""
        place = optional_page(page, per_page, store="jsonfile", operation="list_workflow_runs")
        low, high = bounds_ms(DateRange(start=from_date, end=to_date))
        found = [
            run
            for run in await self._newest_first("list_workflow_runs")
            if workflow_name in {None, "", run.workflow_name}
            and (low is None or epoch_ms(run.created_at) >= low)
            and (high is None or epoch_ms(run.created_at) < high)
            and resource_id in {None, run.resource_id}
            and status in {None, "", rules.status_of(_snapshot(run))}
            and (thread_id is None or matches_thread(_snapshot(run) or {}, thread_id))
        ]
        rows = found if place is None else found[place.offset : place.end]
        return WorkflowRuns(runs=rows, total=len(found))

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
        """Suspended rows of one agent, newest created first; reads all rows."""
        check_text(agent_id, "agent_id")
        place = cursor_page(
            page,
            per_page,
            has_cursor=after is not None,
            store="jsonfile",
            operation="list_suspended_runs",
        )
        low, high = bounds_ms(DateRange(start=from_date, end=to_date))
        found = [
            row
            for run in await self._newest_first("list_suspended_runs")
            if run.workflow_name in workflow_names
            and rules.status_of(_snapshot(run)) == "suspended"
            and (row := _projection(run)).agent_id == agent_id
            and thread_id in {None, row.thread_id}
            and resource_id in {None, row.resource_id}
            and (low is None or epoch_ms(row.created_at) >= low)
            and (high is None or epoch_ms(row.created_at) < high)
        ]
        rows = found
        if after is not None:
            behind = (moment(after[0], "after"), after[1])
            rows = [row for row in found if (row.created_at, row.run_id) < behind]
        if place is not None:
            rows = rows[place.offset : place.end]
        return SuspendedRunPage(rows=rows, total=len(found))

    async def list_corrupt_runs(self, *, limit: int = 100) -> list[WorkflowRun]:
        """None: one row can't be broken alone, since they share a file."""
        check_limit(limit)
        return []

    async def _newest_first(self, operation: str) -> list[WorkflowRun]:
        runs = await self._file.read(operation, lambda document: list(_runs(document)))
        runs.sort(key=lambda run: (run.created_at, run.run_id, run.workflow_name), reverse=True)
        return [run.replace(version=None) for run in runs]

    # -- what was never promised --------------------------------------------------------------

    claim_resume = refused(WorkflowsStorage.claim_resume, "workflows.claim_resume")
    extend_resume_claim = refused(WorkflowsStorage.extend_resume_claim, "workflows.claim_resume")
    release_resume_claim = refused(WorkflowsStorage.release_resume_claim, "workflows.claim_resume")
    record_receipt = refused(WorkflowsStorage.record_receipt, "workflows.claim_resume")
    recover_expired_claims = refused(
        WorkflowsStorage.recover_expired_claims, "workflows.claim_resume"
    )
    prune = refused(WorkflowsStorage.prune, "storage.retention")


def _refuse_claim(claim_id: str | None) -> None:
    if claim_id is not None:
        refuse("workflows.fenced_writes")


def _stored(document: Document, workflow_name: str, run_id: str) -> WorkflowRun | None:
    row = document["runs"].get(workflow_name, {}).get(run_id)
    return None if row is None else WorkflowRun.model_validate(row)


def _runs(document: Document) -> Iterator[WorkflowRun]:
    for runs in document["runs"].values():
        yield from map(WorkflowRun.model_validate, runs.values())


def _put(document: Document, run: WorkflowRun) -> None:
    """Write a row; an old one keeps its creation time, and its resource if none is given."""
    old = _stored(document, run.workflow_name, run.run_id)
    row = run.replace(
        resource_id=run.resource_id or (old.resource_id if old else None),
        created_at=old.created_at if old else run.created_at,
        updated_at=rules.next_updated_at(run.updated_at, old.updated_at if old else None),
        version=str(document["writes"]),
    )
    document["runs"].setdefault(run.workflow_name, {})[run.run_id] = row_of(row)


def _snapshot(run: WorkflowRun | None) -> dict[str, Any] | None:
    return run.snapshot if run is not None and isinstance(run.snapshot, dict) else None


def _projection(run: WorkflowRun) -> SuspendedRunRow:
    return suspended_row(
        _snapshot(run) or {},
        workflow_name=run.workflow_name,
        run_id=run.run_id,
        resource_id=run.resource_id,
        created_at=run.created_at,
        updated_at=run.updated_at,
    )
