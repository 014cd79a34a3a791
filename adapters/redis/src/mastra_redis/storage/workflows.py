"""Snapshots of runs in Redis (snapshots.md 5-7, 12, 13.5).

Records have the key and text that the TypeScript system gives them. What a partial update
does to a document is ``mastra_core.rules``; here a record is read, handed to a rule, and
replaced if nobody else replaced it meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from mastra_core.base import jsonjs
from mastra_core.base.coalesce import Coalescer
from mastra_core.base.isotime import to_iso_ms
from mastra_core.contracts.storage import PruneOptions, PrunePolicy, PruneResult
from mastra_core.errors import (
    FencedOutError,
    StorageArgumentError,
    StorageConflictError,
    StorageDataError,
    StorageError,
    StorageTimeoutError,
)
from mastra_core.rules import pruning
from mastra_core.rules import snapshots as rules
from mastra_core.rules.arguments import check_text, moment
from mastra_core.wire.snapshots import WorkflowRun
from mastra_redis.errors import error_id
from mastra_redis.keys import split
from mastra_redis.link import Argument
from mastra_redis.storage.host import Host, digest
from mastra_redis.storage.run_claims import ResumeStore
from mastra_redis.storage.run_foreign import ForeignRuns
from mastra_redis.storage.run_lists import RunLists
from mastra_redis.storage.run_records import (
    Record,
    member_of,
    place_of,
    record_from_text,
    stamp_of,
    token,
    version_of,
    words_of,
)

__all__ = ("RedisWorkflows",)

_Document = dict[str, Any]

#: Keyword arguments that one of several snapshots may have.
_PERSIST: Final = frozenset(
    {"workflow_name", "run_id", "snapshot", "resource_id", "created_at", "updated_at"}
)
_PRUNABLE: Final = (pruning.SNAPSHOTS, pruning.SUSPENDED_SNAPSHOTS)
#: How often an update is tried anew after others were faster.
_TRIES: Final = 200
_ANY: Final = "*"
#: Where the resource, and the key of the record on its way, stand among the words of a write.
_RESOURCE: Final = 5
_PLACE: Final = 6


class RedisWorkflows(RunLists, ResumeStore):
    """Domain ``workflows``; see ``contracts.storage.workflows``."""

    def __init__(self, host: Host, *, max_bytes: int, foreign: ForeignRuns) -> None:
        self._host = host
        self._keys = host.keys
        self._max_bytes = max_bytes
        self._foreign = foreign
        self._step_updates = Coalescer(self._update_steps)

    def supports_concurrent_updates(self) -> bool:
        """Partial updates replace exactly what they were made from."""
        return True

    # -- whole documents -----------------------------------------------------------------------

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
        """Upsert the whole document, in one step of the server."""
        words = self._write_words(
            workflow_name=workflow_name,
            run_id=run_id,
            snapshot=snapshot,
            resource_id=resource_id,
            created_at=created_at,
            updated_at=updated_at,
            version=_ANY if expected_version is None else expected_version,
            claim_id=claim_id,
        )
        answer = await self._write("persist_workflow_snapshot", [words])
        if answer[0] != 1:
            self._refuse(answer, workflow_name, run_id, claim_id, expected_version)

    async def persist_workflow_snapshots(
        self, snapshots: Sequence[Mapping[str, Any]], *, claim_id: str | None = None
    ) -> None:
        """Upsert all documents or none; the claim is checked on the first."""
        for arguments in snapshots:
            if unknown := arguments.keys() - _PERSIST:
                raise StorageArgumentError(f"A snapshot has no argument {min(unknown)!r}.")
        rows = [
            self._write_words(**arguments, claim_id=None if place else claim_id)
            for place, arguments in enumerate(snapshots)
        ]
        if not rows:
            return
        answer = await self._write("persist_workflow_snapshots", rows)
        if answer[0] != 1:
            refused = snapshots[answer[1] - 1]
            self._refuse(answer, refused["workflow_name"], refused["run_id"], claim_id, None)

    async def load_workflow_snapshot(
        self, *, workflow_name: str, run_id: str
    ) -> dict[str, Any] | None:
        """The document, or None."""
        found = await self._find("load_workflow_snapshot", workflow_name, run_id)
        return None if found is None else self._document_of(found[0])

    async def load_workflow_run(
        self, *, workflow_name: str, run_id: str, with_version: bool = False
    ) -> WorkflowRun | None:
        """The row, or None."""
        found = await self._find("load_workflow_run", workflow_name, run_id)
        if found is None:
            return None
        record, text = found
        return record.run(version=version_of(text) if with_version else None)

    # -- partial updates -----------------------------------------------------------------------

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
        """Merge one step result; writers that come at once are merged into one write."""
        rules.check_key(workflow_name, run_id)
        check_text(step_id, "step_id")
        # Refused here, so that one unencodable result doesn't fail those it is merged with.
        path = f"$.context{jsonjs.json_path([step_id])}"
        own = jsonjs.sanitize_copy(result, path_prefix=path)
        update = (step_id, own, request_context, claim_id)
        return await self._step_updates.submit((workflow_name, run_id), update)

    async def _update_steps(
        self,
        key: tuple[str, str],
        updates: Sequence[tuple[str, _Document, Mapping[str, Any] | None, str | None]],
    ) -> Sequence[_Document | Exception]:
        """Merge all results that wait for one row, in one write."""
        workflow_name, run_id = key
        now = self._host.clock.now()
        answers: list[_Document | Exception] = []

        def rule(stored: _Document | None) -> _Document | None:
            document = stored if stored is not None else rules.empty_snapshot(run_id, now=now)
            answers.clear()
            for step_id, result, request_context, claim_id in updates:
                try:
                    self._check_claim(stored, claim_id, workflow_name, run_id)
                    document = rules.merge_results(
                        document,
                        step_id=step_id,
                        result=result,
                        request_context=request_context,
                    )
                    answers.append(document)
                except StorageError as exc:
                    answers.append(exc)
            return None if all(isinstance(a, Exception) for a in answers) else document

        await self._change("update_workflow_results", workflow_name, run_id, rule)
        return [
            answer if isinstance(answer, Exception) else jsonjs.sanitize_copy(answer["context"])
            for answer in answers
        ]

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
        check_text(opts.get("status"), "opts['status']")
        own = jsonjs.sanitize_copy(opts)

        def rule(stored: _Document | None) -> _Document | None:
            if stored is None:
                return None
            self._check_claim(stored, claim_id, workflow_name, run_id)
            return rules.merge_state(stored, own, expected_status=expected_status)

        after = await self._change("update_workflow_state", workflow_name, run_id, rule)
        return None if after is None else jsonjs.sanitize_copy(after)

    # -- deleting ------------------------------------------------------------------------------

    async def delete_workflow_run_by_id(
        self, *, run_id: str, workflow_name: str, claim_id: str | None = None
    ) -> None:
        """Delete exactly one row."""
        await self.delete_workflow_runs(
            run_id=run_id, workflow_names=[workflow_name], claim_id=claim_id
        )

    async def delete_workflow_runs(
        self, *, run_id: str, workflow_names: Sequence[str], claim_id: str | None = None
    ) -> None:
        """Delete the rows of one run; the claim is checked on the first, if it is there."""
        names = list(dict.fromkeys(workflow_names))
        if not names:
            return
        args: list[Argument] = [token(claim_id), token(names[0]), token(run_id), "", ""]
        for name in names:
            args += [place_of(name, run_id), member_of(name, run_id)]
            self._host.recent.forget(self._keys.snapshot(name, run_id))
        # Once more if Node just put it under its other key; twice does no harm.
        answer = await self._foreign.fresh(
            "delete_workflow_runs", lambda: self._run("delete_workflow_runs", "run_delete", args)
        )
        if answer[0] != 1:
            raise FencedOutError(
                key=f"{names[0]}/{run_id}", fence=claim_id, current=_text(answer[1])
            )

    async def prune(
        self, policies: Sequence[PrunePolicy], options: PruneOptions | None = None
    ) -> list[PruneResult]:
        """Delete rows last written before the limit; suspended ones only if named."""
        options = pruning.check_policies(policies, options, _PRUNABLE)
        await self._foreign.settle()
        return [await self._prune(policy, options) for policy in policies]

    async def _prune(self, policy: PrunePolicy, options: PruneOptions) -> PruneResult:
        limit = to_iso_ms(pruning.cutoff(policy, self._host.clock.now()))
        waiting = await self._older_than(limit, policy.table == pruning.SUSPENDED_SNAPSHOTS)

        async def count() -> int:
            return len(waiting)

        async def delete(wanted: int) -> int:
            deleted = 0
            while waiting and deleted < wanted:
                batch = waiting[-(wanted - deleted) :]
                del waiting[-len(batch) :]
                args: list[Argument] = ["", "", "", "old", limit]
                for member in batch:
                    run_id, name = split(member)
                    args += [place_of(name, run_id), member]
                    self._host.recent.forget(self._keys.snapshot(name, run_id))
                deleted += (await self._run("prune", "run_delete", args))[1]
            return deleted

        return await pruning.prune_table(
            policy,
            options,
            domain="workflows",
            count=count,
            delete=delete,
            sleep=self._host.clock.sleep,
        )

    async def dangerously_clear_all(self) -> None:
        """Delete every row of the domain."""
        await self._host.clear(
            "dangerously_clear_all",
            (self._keys.snapshot_family, self._keys.runs),
        )

    # -- one row -------------------------------------------------------------------------------

    async def _find(
        self, operation: str, workflow_name: str, run_id: str
    ) -> tuple[Record, bytes] | None:
        """The record of a run with its text, wherever it lies."""
        key = self._keys.snapshot(workflow_name, run_id)
        text = await self._host.read(operation, "GET", key)
        if text is None and not self._foreign.is_on:
            return None
        if text is None or self._foreign.may_lie_elsewhere(workflow_name, run_id):
            await self._foreign.settle(operation)
            text = await self._foreign.text_of(operation, workflow_name, run_id)
        if text is None:
            return None
        self._host.recent.see(key, text)
        record = record_from_text(text)
        if (record.workflow_name, record.run_id) != (workflow_name, run_id):
            return None  # another name that gives the same key
        return record, text

    def _document_of(self, record: Record) -> _Document:
        if record.document is None:
            raise StorageDataError(
                f"The stored snapshot of run {record.run_id!r} is not JSON.",
                details={"runId": record.run_id},
            )
        return record.document

    async def _change(
        self,
        operation: str,
        workflow_name: str,
        run_id: str,
        rule: Callable[[_Document | None], _Document | None],
    ) -> _Document | None:
        """
        Apply a rule to a document; None if the rule declines, and then nothing was written.

        The rule is called again whenever somebody else was faster. A rule that goes by what
        this process saw last may decline or refuse only after a fresh look.
        """
        key = self._keys.snapshot(workflow_name, run_id)
        recent = self._host.recent
        async with self._host.turn(key):
            is_fresh = key not in recent
            text = None if is_fresh else recent.get(key)
            for attempt in range(_TRIES):
                if is_fresh:
                    found = await self._find(operation, workflow_name, run_id)
                    text = None if found is None else found[1]
                record = None if text is None else record_from_text(text)
                stored = None if record is None else self._document_of(record)
                try:
                    changed = rule(stored)
                except StorageError:
                    if is_fresh:
                        raise
                    changed = None
                if changed is None:
                    if is_fresh:
                        return None
                    is_fresh = True
                    continue
                words = self._write_words(
                    workflow_name=workflow_name,
                    run_id=run_id,
                    snapshot=changed,
                    resource_id=record.resource_id if record else None,
                    version=stamp_of(text) if attempt == 0 else digest(text),
                )
                answer = await self._write(operation, [words])
                if answer[0] == 1:
                    return changed
                if answer[2] == b"taken":
                    self._refuse(answer, workflow_name, run_id, None, None)
                recent.forget(key)
                is_fresh = True
        raise StorageTimeoutError(
            f"Others changed run {run_id!r} {_TRIES} times during {operation}.",
            id=error_id(operation),
        )

    def _write_words(
        self,
        *,
        workflow_name: str,
        run_id: str,
        snapshot: Mapping[str, Any],
        resource_id: str | None = None,
        created_at: datetime | None = None,
        updated_at: datetime | None = None,
        version: str = _ANY,
        claim_id: str | None = None,
    ) -> list[Any]:
        """What ``run_write`` wants to know of one row; raises before anything is changed."""
        rules.check_key(workflow_name, run_id)
        encoded = rules.encode_snapshot(snapshot, run_id=run_id, max_bytes=self._max_bytes)
        words = words_of(_plain(snapshot, encoded))
        name, run = token(workflow_name), token(run_id)
        head = b'{"namespace":"workflows","workflow_name":' + name + b',"run_id":' + run
        resource = b"" if not resource_id else b',"resourceId":' + token(resource_id)
        return [
            place_of(workflow_name, run_id),
            member_of(workflow_name, run_id),
            head,
            name,
            run,
            token(resource_id),
            self._host.new_place(),
            "" if created_at is None else to_iso_ms(moment(created_at, "created_at")),
            "" if updated_at is None else to_iso_ms(moment(updated_at, "updated_at")),
            words.status,
            words.agent,
            words.thread,
            words.inner,
            words.claim,
            words.expires,
            words.projection,
            version,
            token(claim_id),
            # Not for the script: the record without its end.
            head + resource + b',"snapshot":' + encoded,
        ]

    async def _write(self, operation: str, rows: Sequence[list[Any]]) -> list[Any]:
        """Write rows; what this process knows of them afterwards is exactly what was written."""
        args: list[Argument] = [to_iso_ms(self._host.clock.now())]
        for row in rows:
            args += row[:-1]
        answer: list[Any] = await self._host.script(
            operation,
            "run_write",
            (),
            [self._keys.snapshots, self._keys.runs, *args],
            puts=[(row[_PLACE], row[-1]) for row in rows],
            moves=[(row[_PLACE], self._keys.snapshots + row[0]) for row in rows],
        )
        for place, row in enumerate(rows):
            key = self._keys.snapshots + row[0]
            if answer[0] != 1:
                self._host.recent.forget(key)
                continue
            created, updated, resource = answer[1 + 3 * place : 4 + 3 * place]
            kept = b',"resourceId":' + resource if resource and not row[_RESOURCE] else b""
            times = b',"createdAt":"%s","updatedAt":"%s"}' % (created, updated)
            self._host.recent.see(key, row[-1] + kept + times)
        return answer

    async def _run(self, operation: str, script: str, args: Sequence[Argument]) -> Any:
        return await self._host.script(
            operation, script, (), [self._keys.snapshots, self._keys.runs, *args]
        )

    def _refuse(
        self,
        answer: Sequence[Any],
        workflow_name: str,
        run_id: str,
        claim_id: str | None,
        expected_version: str | None,
    ) -> None:
        """Raise why a write was refused."""
        _, _, reason, value, current = answer
        match reason:
            case b"claim":
                raise FencedOutError(
                    key=f"{workflow_name}/{run_id}", fence=claim_id, current=_text(current)
                )
            case b"version":
                raise StorageConflictError(
                    what="snapshot", expected=expected_version, found=version_of(value)
                )
            case _:
                raise StorageConflictError(
                    f"Another run lies under the key of run {run_id!r} of {workflow_name!r}: "
                    "names with colons can give one key; nothing was written.",
                    what="key",
                )

    def _check_claim(
        self, stored: _Document | None, claim_id: str | None, workflow_name: str, run_id: str
    ) -> None:
        rules.check_claim(stored, claim_id, workflow_name=workflow_name, run_id=run_id)


def _text(value: bytes | None) -> str | None:
    """The text of a JSON token of a script; None for none."""
    found = jsonjs.decode(value) if value else None
    return found if isinstance(found, str) else None


def _plain(snapshot: Mapping[str, Any], encoded: bytes) -> Mapping[str, Any]:
    """The document in plain values, as far as the index looks into it."""
    status = snapshot.get("status")
    looks_deep = rules.CLAIM in snapshot or status == "suspended" or type(status) is not str
    if looks_deep and not jsonjs.is_plain(snapshot):
        plain: dict[str, Any] = jsonjs.decode(encoded)
        return plain
    return snapshot
