"""Run snapshots on SQL (snapshots.md 5-8, 12).

What a partial update or a claim does to a document is ``mastra_core.rules``; here a row is
read, handed to a rule and written, in one transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple

from sqlalchemy import ColumnElement, literal_column

from mastra_core.base.coalesce import Coalescer
from mastra_core.base.isotime import from_epoch_ms, to_iso_ms
from mastra_core.base.jsonjs import json_path, sanitize_copy, twin
from mastra_core.base.pace import BYTES_OF_A_UNIT
from mastra_core.contracts.storage import (
    ClaimOutcome,
    DateRange,
    PruneOptions,
    PrunePolicy,
    PruneResult,
    SuspendedRunPage,
)
from mastra_core.errors import RunNotFoundError, StorageArgumentError, StorageError
from mastra_core.rules import pruning
from mastra_core.rules import snapshots as rules
from mastra_core.rules.arguments import check_limit, check_text, moment
from mastra_core.rules.paging import Page, bounds_ms, cursor_page, optional_page
from mastra_core.wire.snapshots import ResumeClaim, WorkflowRun, WorkflowRuns
from mastra_sql.executor import Program, Rows, Step
from mastra_sql.rows.runs import (
    document_from_text,
    run_from_row,
    suspended_from_row,
    version_of,
)
from mastra_sql.statements.workflows import WorkflowStatements
from mastra_sql.storage.host import SqlHost
from mastra_sql.storage.pruning import Prunable, prune

__all__ = (
    "Document",
    "SqlWorkflows",
)

Document = dict[str, Any]


class _Stored(NamedTuple):
    """A row as a partial update needs it."""

    document: Document
    raw: Any


class _StepUpdate(NamedTuple):
    """One result that waits to be merged into its row."""

    step_id: str
    result: Mapping[str, Any]
    request_context: Mapping[str, Any] | None
    claim_id: str | None


class SqlWorkflows:
    """Domain ``workflows`` of a SQL store."""

    def __init__(self, host: SqlHost) -> None:
        self._host = host
        self._run = host.run
        self._sql = WorkflowStatements(host.dialect, host.tables)
        self._step_updates = Coalescer(self._update_steps)

    def supports_concurrent_updates(self) -> bool:
        return True

    # -- whole documents -------------------------------------------------------------------

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
        await self._host.pace.turn()
        write = self._persist_step(
            workflow_name=workflow_name,
            run_id=run_id,
            snapshot=snapshot,
            resource_id=resource_id,
            created_at=created_at,
            updated_at=updated_at,
        )
        self._host.pace.spent(len(write.values[_SNAPSHOT]) // BYTES_OF_A_UNIT)
        if claim_id is None and expected_version is None:
            await self._run.write("persist_workflow_snapshot", write)
            return

        def program() -> Program[None]:
            stored = yield from self._stored(
                workflow_name, run_id, with_version=expected_version is not None
            )
            self._check_claim(stored, claim_id, workflow_name, run_id)
            rules.check_version(expected_version, version_of(stored.raw if stored else None))
            yield (write,)

        await self._run.transact("persist_workflow_snapshot", program)

    async def persist_workflow_snapshots(
        self, snapshots: Sequence[Mapping[str, Any]], *, claim_id: str | None = None
    ) -> None:
        for arguments in snapshots:
            if unknown := arguments.keys() - _PERSIST:
                raise StorageArgumentError(f"A snapshot has no argument {min(unknown)!r}.")
        writes = [self._persist_step(**arguments) for arguments in snapshots]
        if not writes:
            return
        name, run_id = snapshots[0]["workflow_name"], snapshots[0]["run_id"]

        def program() -> Program[None]:
            if claim_id is not None:
                stored = yield from self._stored(name, run_id)
                self._check_claim(stored, claim_id, name, run_id)
            yield writes

        await self._run.transact("persist_workflow_snapshots", program)

    async def load_workflow_snapshot(
        self, *, workflow_name: str, run_id: str
    ) -> dict[str, Any] | None:
        key = {"workflow_name": workflow_name, "run_id": run_id}
        [rows] = await self._run.read("load_workflow_snapshot", Step.of(self._sql.load(), key))
        return document_from_text(rows[0][0], run_id=run_id) if rows else None

    async def load_workflow_run(
        self, *, workflow_name: str, run_id: str, with_version: bool = False
    ) -> WorkflowRun | None:
        statement = self._sql.get(with_version=with_version)
        key = {"workflow_name": workflow_name, "run_id": run_id}
        [rows] = await self._run.read("load_workflow_run", Step.of(statement, key))
        if not rows:
            return None
        row = rows[0]
        version = version_of(row[-1]) if with_version else None
        return run_from_row(row[:-1] if with_version else row, self._host.dialect, version=version)

    # -- partial updates -------------------------------------------------------------------

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
        rules.check_key(workflow_name, run_id)
        check_text(step_id, "step_id")
        # Refused here, so that one unencodable result doesn't fail those it is merged with.
        path = f"$.context{json_path([step_id])}"
        own = sanitize_copy(result, path_prefix=path)
        update = _StepUpdate(step_id, own, request_context, claim_id)
        return await self._step_updates.submit((workflow_name, run_id), update)

    async def _update_steps(
        self, key: tuple[str, str], updates: Sequence[_StepUpdate]
    ) -> Sequence[Document | Exception]:
        """Merge all results that wait for one row, in one transaction."""
        workflow_name, run_id = key
        now = self._host.clock.now()

        def program() -> Program[Sequence[Document | Exception]]:
            stored = yield from self._stored(workflow_name, run_id)
            document = stored.document if stored else rules.empty_snapshot(run_id, now=now)
            answers: list[Document | Exception] = []
            for update in updates:
                try:
                    rules.check_claim(
                        stored.document if stored else None,
                        update.claim_id,
                        workflow_name=workflow_name,
                        run_id=run_id,
                    )
                    document = rules.merge_results(
                        document,
                        step_id=update.step_id,
                        result=update.result,
                        request_context=update.request_context,
                    )
                    answers.append(document)
                except StorageError as exc:
                    answers.append(exc)
            if all(isinstance(answer, Exception) for answer in answers):
                return answers
            step = self._persist_step(workflow_name=workflow_name, run_id=run_id, snapshot=document)
            yield (step,)
            return [
                answer if isinstance(answer, Exception) else twin(answer["context"])
                for answer in answers
            ]

        return await self._run.transact("update_workflow_results", program)

    async def update_workflow_state(
        self,
        *,
        workflow_name: str,
        run_id: str,
        opts: Mapping[str, Any],
        expected_status: str | Sequence[str] | None = None,
        claim_id: str | None = None,
    ) -> dict[str, Any] | None:
        check_text(opts.get("status"), "opts['status']")

        def program() -> Program[dict[str, Any] | None]:
            stored = yield from self._stored(workflow_name, run_id)
            if stored is None:
                return None
            self._check_claim(stored, claim_id, workflow_name, run_id)
            merged = rules.merge_state(stored.document, opts, expected_status=expected_status)
            if merged is None:
                return None
            step = self._persist_step(workflow_name=workflow_name, run_id=run_id, snapshot=merged)
            yield (step,)
            return document_from_text(step.values[_SNAPSHOT], run_id=run_id)

        return await self._run.transact("update_workflow_state", program)

    async def _change(
        self,
        operation: str,
        workflow_name: str,
        run_id: str,
        change: Callable[[Document, datetime], Document | None],
    ) -> bool:
        """Apply a rule to one document; False if it is missing or the rule declines."""

        def program() -> Program[bool]:
            store_now, document = yield from self._stored_now(workflow_name, run_id)
            changed = change(document, store_now) if document is not None else None
            if changed is None:
                return False
            yield (
                self._persist_step(workflow_name=workflow_name, run_id=run_id, snapshot=changed),
            )
            return True

        return await self._run.transact(operation, program)

    # -- lists -----------------------------------------------------------------------------

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
        wanted = optional_page(
            page, per_page, store=self._host.store, operation="list_workflow_runs"
        )
        values = self._filters(
            workflow_name=workflow_name,
            resourceId=resource_id,
            threadId=thread_id,
            status=status,
            **self._bounds(from_date, to_date),
        )
        filters = set(values)
        if status == "suspended":
            # Worded as the partial index words it.
            filters = (filters - {"status"}) | {"suspended"}

        def steps(*, tolerant: bool) -> list[Step]:
            listing = self._sql.page(filters, limited=wanted is not None, tolerant=tolerant)
            return [
                Step.of(listing, {**values, **_limits(wanted)}),
                *self._count(wanted, self._sql.count(filters, tolerant=tolerant), values),
            ]

        rows, *counts = await self._tolerant("list_workflow_runs", steps)
        runs = [run_from_row(row, self._host.dialect) for row in rows]
        return WorkflowRuns(runs=runs, total=_total(counts, len(runs)))

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
        check_text(agent_id, "agent_id")
        wanted = cursor_page(
            page,
            per_page,
            has_cursor=after is not None,
            store=self._host.store,
            operation="list_suspended_runs",
        )
        names = list(dict.fromkeys(workflow_names))
        if not names:
            return SuspendedRunPage(rows=[], total=0)
        given = self._filters(
            threadId=thread_id, resourceId=resource_id, **self._bounds(from_date, to_date)
        )
        filters = set(given) | ({"after"} if after is not None else set())
        values = {**given, "agentId": agent_id}
        values |= {f"name_{index}": name for index, name in enumerate(names)}
        bound = {**values, **_limits(wanted)}
        if after is not None:
            bound |= {"after_at": self._time(moment(after[0], "after")), "after_run": after[1]}

        def steps(*, tolerant: bool) -> list[Step]:
            listing = self._sql.suspended_page(
                len(names), filters, limited=wanted is not None, tolerant=tolerant
            )
            counting = self._sql.suspended_count(len(names), filters, tolerant=tolerant)
            found = [Step.of(listing, bound)]
            if wanted is not None or after is not None:
                found.append(Step.of(counting, values))
            return found

        rows, *counts = await self._tolerant("list_suspended_runs", steps)
        runs = [suspended_from_row(row, self._host.dialect) for row in rows]
        return SuspendedRunPage(rows=runs, total=_total(counts, len(runs)))

    async def list_corrupt_runs(self, *, limit: int = 100) -> list[WorkflowRun]:
        check_limit(limit)
        [rows] = await self._run.read(
            "list_corrupt_runs", Step.of(self._sql.corrupt(), {"limit": limit})
        )
        return [run_from_row(row, self._host.dialect) for row in rows]

    async def get_workflow_run_by_id(
        self, *, run_id: str, workflow_name: str | None = None
    ) -> WorkflowRun | None:
        if not run_id:
            return None
        if workflow_name is not None:
            return await self.load_workflow_run(workflow_name=workflow_name, run_id=run_id)
        [rows] = await self._run.read(
            "get_workflow_run_by_id", Step.of(self._sql.newest(), {"run_id": run_id})
        )
        return run_from_row(rows[0], self._host.dialect) if rows else None

    async def _tolerant(self, operation: str, steps: Callable[..., list[Step]]) -> list[Rows]:
        """Read; if a row that is no JSON stands in the way, read around it (R1)."""
        try:
            return await self._run.read(operation, *steps(tolerant=False))
        except StorageError as exc:
            if not self._host.dialect.is_bad_json(exc):
                raise
        return await self._run.read(operation, *steps(tolerant=True))

    # -- delete ----------------------------------------------------------------------------

    async def delete_workflow_run_by_id(
        self, *, run_id: str, workflow_name: str, claim_id: str | None = None
    ) -> None:
        await self.delete_workflow_runs(
            run_id=run_id, workflow_names=[workflow_name], claim_id=claim_id
        )

    async def delete_workflow_runs(
        self, *, run_id: str, workflow_names: Sequence[str], claim_id: str | None = None
    ) -> None:
        names = list(dict.fromkeys(workflow_names))
        statement = self._sql.delete()
        steps = [Step.of(statement, {"workflow_name": name, "run_id": run_id}) for name in names]
        if not steps:
            return
        if claim_id is None and len(steps) == 1:
            await self._run.write("delete_workflow_runs", steps[0])
            return

        def program() -> Program[None]:
            if claim_id is not None:
                stored = yield from self._stored(names[0], run_id)
                if stored is None:
                    return
                self._check_claim(stored, claim_id, names[0], run_id)
            yield steps

        await self._run.transact("delete_workflow_runs", program)

    # -- claims ----------------------------------------------------------------------------

    async def claim_resume(
        self, *, workflow_name: str, run_id: str, claim: ResumeClaim
    ) -> ClaimOutcome:
        def program() -> Program[ClaimOutcome]:
            store_now, stored = yield from self._stored_now(workflow_name, run_id)
            if stored is None:
                return ClaimOutcome(acquired=False, snapshot=None)
            result = rules.claim_resume(stored, claim, store_now=store_now)
            if not result.acquired:
                return ClaimOutcome(acquired=False, snapshot=stored, claim=result.claim)
            step = self._persist_step(
                workflow_name=workflow_name, run_id=run_id, snapshot=result.snapshot
            )
            yield (step,)
            document = document_from_text(step.values[_SNAPSHOT], run_id=run_id)
            return ClaimOutcome(acquired=True, snapshot=document, claim=result.claim)

        return await self._run.transact("claim_resume", program)

    async def extend_resume_claim(
        self, *, workflow_name: str, run_id: str, claim_id: str, ttl_ms: int
    ) -> bool:
        check_limit(ttl_ms, "ttl_ms")
        return await self._change(
            "extend_resume_claim",
            workflow_name,
            run_id,
            lambda document, store_now: rules.extend_claim(
                document, claim_id=claim_id, ttl_ms=ttl_ms, store_now=store_now
            ),
        )

    async def release_resume_claim(self, *, workflow_name: str, run_id: str, claim_id: str) -> bool:
        return await self._change(
            "release_resume_claim",
            workflow_name,
            run_id,
            lambda document, _: rules.release_claim(document, claim_id=claim_id),
        )

    async def record_receipt(
        self,
        *,
        workflow_name: str,
        run_id: str,
        tool_call_id: str,
        receipt: Mapping[str, Any],
        claim_id: str | None = None,
    ) -> None:
        check_text(tool_call_id, "tool_call_id")

        def change(document: Document, _: datetime) -> Document:
            self._check_claim(_Stored(document, None), claim_id, workflow_name, run_id)
            return rules.record_receipt(document, tool_call_id=tool_call_id, receipt=receipt)

        if not await self._change("record_receipt", workflow_name, run_id, change):
            self._check_claim(None, claim_id, workflow_name, run_id)
            raise RunNotFoundError(run_id=run_id)

    async def recover_expired_claims(
        self, *, workflow_names: Sequence[str], limit: int = 100
    ) -> int:
        check_limit(limit)
        values = {"names": self._host.dialect.list_value(workflow_names), "limit": limit}

        def looking(store_now: datetime, *, tolerant: bool) -> Step:
            statement = self._sql.expired_claims(tolerant=tolerant)
            # Compared with a member of the document, which is a text in every database.
            return Step.of(statement, {**values, "store_now": to_iso_ms(store_now)})

        # Usually nothing expired: a look that takes no lock.
        local_now = self._host.clock.now()
        [keys] = await self._tolerant(
            "recover_expired_claims", lambda *, tolerant: [looking(local_now, tolerant=tolerant)]
        )
        if not keys:
            return 0

        def program() -> Program[int]:
            store_now = yield from self._host.store_now()
            statement = self._sql.get()
            found = yield [
                Step.of(statement, {"workflow_name": name, "run_id": run_id})
                for name, run_id in keys
            ]
            writes = []
            for rows in found:
                for name, run_id, _, text, *_times in rows:
                    document = document_from_text(text, run_id=run_id)
                    freed = rules.expire_claim(document, store_now=store_now)
                    if freed is not None:
                        writes.append(
                            self._persist_step(workflow_name=name, run_id=run_id, snapshot=freed)
                        )
            if writes:
                yield writes
            return len(writes)

        return await self._run.transact("recover_expired_claims", program)

    # -- retention -------------------------------------------------------------------------

    async def prune(
        self, policies: Sequence[PrunePolicy], options: PruneOptions | None = None
    ) -> list[PruneResult]:
        table, dialect = self._host.tables.snapshots, self._host.dialect
        status = dialect.when_valid(table.c.snapshot, dialect.json_at(table.c.snapshot, "status"))
        suspended: ColumnElement[str] = literal_column("'suspended'")
        known = {
            pruning.SNAPSHOTS: Prunable(
                table=table, anchor="updatedAt", condition=status.is_distinct_from(suspended)
            ),
            pruning.SUSPENDED_SNAPSHOTS: Prunable(
                table=table, anchor="updatedAt", condition=status == suspended
            ),
        }
        return await prune(self._host, self._sql, known, policies, options)

    async def dangerously_clear_all(self) -> None:
        for statement in self._sql.clear(self._host.tables.snapshots):
            await self._run.write("dangerously_clear_all", Step(statement))

    # -- rows ------------------------------------------------------------------------------

    def _stored(
        self, workflow_name: str, run_id: str, *, with_version: bool = False
    ) -> Program[_Stored | None]:
        statement = self._sql.get(with_version=with_version)
        key = {"workflow_name": workflow_name, "run_id": run_id}
        [rows] = yield from self._host.locked([(workflow_name, run_id)], Step.of(statement, key))
        if not rows:
            return None
        document = document_from_text(rows[0][3], run_id=run_id)
        return _Stored(document, rows[0][-1] if with_version else None)

    def _stored_now(
        self, workflow_name: str, run_id: str
    ) -> Program[tuple[datetime, Document | None]]:
        """The store's time, and the document of a key; later writers of the key wait."""
        step = Step.of(self._sql.get(), {"workflow_name": workflow_name, "run_id": run_id})
        now, [rows] = yield from self._host.timed(lambda _: [step], [(workflow_name, run_id)])
        return now, document_from_text(rows[0][3], run_id=run_id) if rows else None

    def _check_claim(
        self, stored: _Stored | None, claim_id: str | None, workflow_name: str, run_id: str
    ) -> None:
        document = stored.document if stored else None
        rules.check_claim(document, claim_id, workflow_name=workflow_name, run_id=run_id)

    def _persist_step(
        self,
        *,
        workflow_name: str,
        run_id: str,
        snapshot: Mapping[str, Any],
        resource_id: str | None = None,
        created_at: datetime | None = None,
        updated_at: datetime | None = None,
    ) -> Step:
        rules.check_key(workflow_name, run_id)
        encoded = rules.encode_snapshot(
            snapshot, run_id=run_id, max_bytes=self._host.max_snapshot_bytes
        )
        now = self._time(self._host.clock.now())
        values = {
            "workflow_name": workflow_name,
            "run_id": run_id,
            "resourceId": resource_id,
            "snapshot": encoded.decode(),
            "createdAt": now if created_at is None else self._time(moment(created_at)),
            "updatedAt": now if updated_at is None else self._time(moment(updated_at)),
        }
        return Step.of(self._sql.persist(), values)

    def _filters(self, **given: Any) -> dict[str, Any]:
        """Parameters of the filters that are given."""
        return {name: value for name, value in given.items() if value is not None}

    def _bounds(self, start: datetime | None, end: datetime | None) -> dict[str, Any]:
        """The first creation time that is inside, and the first that is behind."""
        low, high = bounds_ms(DateRange(start=start, end=end))
        return {
            name: self._time(from_epoch_ms(bound))
            for name, bound in (("from_date", low), ("to_date", high))
            if bound is not None
        }

    def _count(self, wanted: Page | None, statement: Any, values: dict[str, Any]) -> list[Step]:
        return [Step.of(statement, values)] if wanted is not None else []

    def _time(self, at: datetime) -> Any:
        return self._host.dialect.time_value(at)


#: Keyword arguments that one of several snapshots may have.
_PERSIST = frozenset(
    {"workflow_name", "run_id", "snapshot", "resource_id", "created_at", "updated_at"}
)
#: Where the document stands among the parameters of ``persist``.
_SNAPSHOT = 3


def _limits(wanted: Page | None) -> dict[str, int]:
    if wanted is None or wanted.limit is None:
        return {}
    return {
        "limit": wanted.limit,
        "offset": wanted.offset,
        "end": wanted.offset + wanted.limit,
    }


def _total(counts: list[Rows], found: int) -> int:
    return counts[0][0][0] if counts else found
