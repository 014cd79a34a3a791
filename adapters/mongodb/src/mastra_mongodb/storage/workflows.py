"""Run snapshots: persist, merge, claim (snapshots.md 5-7, 12)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

import bson
from bson.raw_bson import RawBSONDocument
from pymongo import ReturnDocument, UpdateOne
from pymongo.errors import DuplicateKeyError

from mastra_core.base.jsonjs import decode, json_path, sanitize_copy
from mastra_core.contracts.storage import (
    ClaimOutcome,
    PruneOptions,
    PrunePolicy,
    PruneResult,
)
from mastra_core.errors import (
    RunNotFoundError,
    StorageArgumentError,
    StorageConflictError,
    StorageDataError,
)
from mastra_core.rules import pruning
from mastra_core.rules import snapshots as rules
from mastra_core.rules.arguments import check_limit, check_text, choices, moment
from mastra_core.wire.snapshots import ResumeClaim, WorkflowRun
from mastra_core.wire.tables import WORKFLOW_SNAPSHOTS
from mastra_mongodb.documents import RAW
from mastra_mongodb.pool import Collection, Session
from mastra_mongodb.storage import workflow_pipelines as pipelines
from mastra_mongodb.storage.host import Host, LostRaceError
from mastra_mongodb.storage.pruning import Prunable, prune
from mastra_mongodb.storage.snapshots import (
    ESCAPED,
    encode_part,
    encode_snapshot,
    snapshot_from_row,
    version_from_row,
)
from mastra_mongodb.storage.workflow_lists import RunLists, run_from_row

__all__ = ("Document", "MongoWorkflows")

Document = dict[str, Any]

#: Keyword arguments that one of several snapshots may have.
_PERSIST: Final = frozenset(
    {"workflow_name", "run_id", "snapshot", "resource_id", "created_at", "updated_at"}
)
_CLAIM_ID: Final = "snapshot.resumeClaim.claimId"


class _Stored(NamedTuple):
    """A row as a change needs it."""

    key: Any
    document: Document
    #: What the row must still be when it is written.
    observed: dict[str, Any]
    store_now: datetime
    #: Whether the server can change single members of the document.
    is_native: bool


class MongoWorkflows(RunLists):
    """Domain ``workflows``; see ``contracts.storage.workflows``."""

    def __init__(self, host: Host) -> None:
        self._host = host

    @property
    def _rows(self) -> Collection:
        """Rows whose documents are decoded when they are needed."""
        return self._host.collection(WORKFLOW_SNAPSHOTS, RAW)

    def supports_concurrent_updates(self) -> bool:
        """Partial updates are steps of the server."""
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
        """Upsert the whole document, in one command."""
        wanted, update = self._persist(
            workflow_name=workflow_name,
            run_id=run_id,
            snapshot=snapshot,
            resource_id=resource_id,
            created_at=created_at,
            updated_at=updated_at,
        )
        with self._host.errors("persist_workflow_snapshot"):
            if claim_id is None and expected_version is None:
                await self._upsert(wanted, update)
                return
            await self._persist_checked(wanted, update, claim_id, expected_version)

    async def _upsert(self, wanted: Document, update: list[Any]) -> None:
        try:
            await self._rows.update_one(wanted, update, upsert=True)
        except DuplicateKeyError:
            # Somebody else inserted it just now: there is a row to update.
            await self._rows.update_one(wanted, update, upsert=True)

    async def _persist_checked(
        self,
        wanted: Document,
        update: list[Any],
        claim_id: str | None,
        expected_version: str | None,
    ) -> None:
        """Write if claim and version still are what the caller thinks, in one command."""
        checked = dict(wanted)
        if claim_id is not None:
            checked[_CLAIM_ID] = claim_id
        if expected_version is not None:
            stored = await self._row(wanted)
            found = None
            if stored is not None:
                found = version_from_row(stored["updatedAt"], stored.get("snapshot"))
            rules.check_version(expected_version, found)
            if stored is not None:
                checked |= _observed(stored)
        result = await self._rows.update_one(checked, update)
        if result.matched_count:
            return
        if claim_id is not None:
            await self._check_claim(wanted, claim_id)
        raise StorageConflictError(what="snapshot", expected=expected_version, found=None)

    async def persist_workflow_snapshots(
        self, snapshots: Sequence[Mapping[str, Any]], *, claim_id: str | None = None
    ) -> None:
        """Upsert all documents or none; the claim is checked on the first."""
        for arguments in snapshots:
            if unknown := arguments.keys() - _PERSIST:
                raise StorageArgumentError(f"A snapshot has no argument {min(unknown)!r}.")
        writes = [self._persist(**arguments) for arguments in snapshots]
        if not writes:
            return
        outer, outer_update = writes[0]
        checked = outer if claim_id is None else {**outer, _CLAIM_ID: claim_id}

        async def body(session: Session | None) -> None:
            if claim_id is not None:
                found = await self._rows.find_one(checked, {"_id": 1}, session=session)
                if found is None:
                    await self._check_claim(outer, claim_id, session)
            # The first row is the one that is looked for; it comes when the others are there.
            batch = [UpdateOne(wanted, update, upsert=True) for wanted, update in writes[1:]]
            batch.append(UpdateOne(checked, outer_update, upsert=claim_id is None))
            result = await self._rows.bulk_write(batch, ordered=True, session=session)
            if result.matched_count + result.upserted_count < len(batch):
                raise LostRaceError

        with self._host.errors("persist_workflow_snapshots"):
            if len(writes) == 1 and claim_id is None:
                await self._upsert(outer, outer_update)
                return
            await self._host.together("persist_workflow_snapshots", body)

    def _persist(
        self,
        *,
        workflow_name: str,
        run_id: str,
        snapshot: Mapping[str, Any],
        resource_id: str | None = None,
        created_at: datetime | None = None,
        updated_at: datetime | None = None,
    ) -> tuple[Document, list[Any]]:
        """Which row, and what to do to it; raises before anything is changed."""
        rules.check_key(workflow_name, run_id)
        now = self._host.now()
        encoded = encode_snapshot(snapshot, run_id=run_id, max_bytes=self._host.max_snapshot_bytes)
        update = pipelines.persist(
            encoded,
            resource_id=resource_id,
            created_at=now if created_at is None else moment(created_at, "created_at"),
            updated_at=now if updated_at is None else moment(updated_at, "updated_at"),
        )
        return {"workflow_name": workflow_name, "run_id": run_id}, update

    async def load_workflow_snapshot(
        self, *, workflow_name: str, run_id: str
    ) -> dict[str, Any] | None:
        """The document, or None."""
        with self._host.errors("load_workflow_snapshot"):
            row = await self._rows.find_one(
                {"workflow_name": workflow_name, "run_id": run_id}, {"snapshot": 1, "_id": 0}
            )
            return None if row is None else snapshot_from_row(row.get("snapshot"), run_id=run_id)

    async def load_workflow_run(
        self, *, workflow_name: str, run_id: str, with_version: bool = False
    ) -> WorkflowRun | None:
        """The row, with a version token if it is asked for."""
        with self._host.errors("load_workflow_run"):
            row = await self._row({"workflow_name": workflow_name, "run_id": run_id})
            if row is None:
                return None
            version = None
            if with_version:
                version = version_from_row(row["updatedAt"], row.get("snapshot"))
            return run_from_row(row, version=version)

    async def _row(
        self, wanted: Document, session: Session | None = None
    ) -> RawBSONDocument | None:
        row: RawBSONDocument | None = await self._rows.find_one(wanted, session=session)
        return row

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
        """Merge one step result, in one step of the server; the merged context."""
        rules.check_key(workflow_name, run_id)
        check_text(step_id, "step_id")
        own = sanitize_copy(result, path_prefix=f"$.context{json_path([step_id])}")
        context = _encodable_context(request_context, run_id)
        wanted = {"workflow_name": workflow_name, "run_id": run_id}
        part = encode_part({step_id: own, "requestContext": context})
        with self._host.errors("update_workflow_results"):
            # The second try is for one who met another's insert.
            for _ in range(2 if part is not None else 0):
                merged = await self._merge_results(wanted, step_id, own, context, claim_id)
                if merged is not None:
                    return merged
            return await self._merge_results_slowly(wanted, step_id, own, context, claim_id)

    async def _merge_results(
        self,
        wanted: Document,
        step_id: str,
        result: Document,
        request_context: Document,
        claim_id: str | None,
    ) -> Document | None:
        """As a pipeline; None if the stored document can't be merged by the server."""
        now = self._host.now()
        empty = rules.empty_snapshot(wanted["run_id"], now=now)
        update = pipelines.merge_results(step_id, result, request_context, empty, now)
        checked = {**wanted, **self._mergeable({step_id: result, "r": request_context})}
        if claim_id is not None:
            checked[_CLAIM_ID] = claim_id
        row = await self._rows.find_one_and_update(
            checked,
            update,
            projection={"snapshot.context": 1, "snapshot.encoding": 1, "_id": 0},
            return_document=ReturnDocument.AFTER,
        )
        if row is None:
            if claim_id is not None:
                await self._check_claim(wanted, claim_id)
            # No row yet, or one whose document is text; of two inserts one meets the other.
            with contextlib.suppress(DuplicateKeyError):
                row = await self._rows.find_one_and_update(
                    {**wanted, "snapshot": None},
                    update,
                    projection={"snapshot.context": 1, "_id": 0},
                    upsert=True,
                    return_document=ReturnDocument.AFTER,
                )
        if row is None:
            return None
        document = snapshot_from_row(row["snapshot"], run_id=wanted["run_id"])
        merged: Document = document["context"]
        return merged

    def _mergeable(self, part: Mapping[str, Any]) -> Document:
        """What a stored document must be so that the server may merge a part into it."""
        room = self._host.max_snapshot_bytes - len(bson.encode(part))
        # What is text has no size as a document, and no context either.
        is_document = {"$eq": [{"$type": "$snapshot"}, "object"]}
        document = {"$cond": [is_document, "$snapshot", None]}
        return {
            "snapshot.context": {"$type": "object"},
            "$expr": {"$lte": [{"$bsonSize": document}, room]},
        }

    async def _merge_results_slowly(
        self,
        wanted: Document,
        step_id: str,
        result: Document,
        request_context: Document,
        claim_id: str | None,
    ) -> Document:
        """Read, merge, and write if nobody else wrote: for what needs escapes, and for text."""

        def change(stored: _Stored) -> Document:
            self._compare_claim(stored.document, wanted, claim_id)
            return rules.merge_results(
                stored.document,
                step_id=step_id,
                result=result,
                request_context=request_context,
            )

        document = await self._change("update_workflow_results", wanted, change, create=True)
        context: Document = sanitize_copy((document or {})["context"])
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
        """Replace top-level members, in one step of the server; the new document."""
        check_text(opts.get("status"), "opts['status']")
        merged = rules.merge_state({"context": {}}, opts) or {}
        changes = {name: merged[name] for name in merged if name in opts}
        wanted = {"workflow_name": workflow_name, "run_id": run_id}
        expected = choices(expected_status)
        part = encode_part(changes)
        with self._host.errors("update_workflow_state"):
            if part is not None:
                checked: Document = {**wanted, **self._mergeable(part)}
                if expected is not None:
                    checked["snapshot.status"] = {"$in": list(expected)}
                if claim_id is not None:
                    checked[_CLAIM_ID] = claim_id
                row = await self._rows.find_one_and_update(
                    checked,
                    pipelines.merge_state(part, self._host.now()),
                    projection={"snapshot": 1, "_id": 0},
                    return_document=ReturnDocument.AFTER,
                )
                if row is not None:
                    return snapshot_from_row(row["snapshot"], run_id=run_id)

            def change(stored: _Stored) -> Document | None:
                self._compare_claim(stored.document, wanted, claim_id)
                return rules.merge_state(stored.document, changes, expected_status=expected_status)

            document = await self._change("update_workflow_state", wanted, change)
            return None if document is None else sanitize_copy(document)

    # -- changes that compare what they read -----------------------------------------------

    async def _change(
        self,
        operation: str,
        wanted: Document,
        change: Callable[[_Stored], Document | None],
        *,
        create: bool = False,
    ) -> Document | None:
        """
        Apply a rule to one document and write it if the row is still as it was read.

        Returns:
            The new document; None if the row is missing or the rule declines.
        """

        async def attempt() -> Document | None:
            stored = await self._stored(wanted)
            if stored is None:
                return await self._create(wanted, change) if create else None
            changed = change(stored)
            if changed is not None:
                await self._replace(stored, changed, wanted["run_id"])
            return changed

        return await self._host.swap(operation, attempt)

    async def _create(
        self, wanted: Document, change: Callable[[_Stored], Document | None]
    ) -> Document | None:
        now = self._host.now()
        empty = rules.empty_snapshot(wanted["run_id"], now=now)
        changed = change(_Stored(None, empty, {}, now, is_native=False))
        if changed is None:
            return None
        row = {
            **wanted,
            "resourceId": None,
            "snapshot": self._encoded(changed, wanted["run_id"]),
            "createdAt": now,
            "updatedAt": now,
        }
        try:
            await self._rows.insert_one(row)
        except DuplicateKeyError as exc:
            raise LostRaceError from exc
        return changed

    async def _stored(self, wanted: Document) -> _Stored | None:
        """The row with the time of the server, which decides about claims."""
        stages: list[Document] = [
            {"$match": wanted},
            {"$limit": 1},
            {"$set": {"_now": "$$NOW"}},
        ]
        rows = await (await self._rows.aggregate(stages)).to_list()
        if not rows:
            return None
        [row] = rows
        document = snapshot_from_row(row.get("snapshot"), run_id=wanted["run_id"])
        stored = row.get("snapshot")
        is_native = isinstance(stored, RawBSONDocument) and stored.get("encoding") != ESCAPED
        return _Stored(row["_id"], document, _observed(row), row["_now"], is_native=is_native)

    async def _replace(self, stored: _Stored, document: Document, run_id: str) -> None:
        """
        Write a changed document over the one that it was made of.

        If possible only the members that differ: others may hold values of a peer's, such as
        dates, that are text to us.
        """
        whole = self._encoded(document, run_id)
        before = stored.document
        part = None
        if stored.is_native:
            part = encode_part(
                {name: value for name, value in document.items() if before.get(name) is not value}
            )
        now = self._host.now()
        if part is None:
            update = pipelines.replace(whole, now)
        else:
            update = pipelines.change(part, before.keys() - document.keys(), now)
        result = await self._rows.update_one({"_id": stored.key, **stored.observed}, update)
        if not result.matched_count:
            raise LostRaceError

    def _encoded(self, document: Document, run_id: str) -> RawBSONDocument:
        return encode_snapshot(document, run_id=run_id, max_bytes=self._host.max_snapshot_bytes)

    async def _check_claim(
        self, wanted: Document, claim_id: str, session: Session | None = None
    ) -> None:
        """Refuse the write of somebody whose claim is no longer current."""
        row = await self._row(wanted, session)
        document = None
        if row is not None:
            with contextlib.suppress(StorageDataError):
                document = snapshot_from_row(row.get("snapshot"), run_id=wanted["run_id"])
        self._compare_claim(document, wanted, claim_id)

    def _compare_claim(
        self, document: Document | None, wanted: Document, claim_id: str | None
    ) -> None:
        rules.check_claim(
            document,
            claim_id,
            workflow_name=wanted["workflow_name"],
            run_id=wanted["run_id"],
        )

    # -- resume claims ---------------------------------------------------------------------

    async def claim_resume(
        self, *, workflow_name: str, run_id: str, claim: ResumeClaim
    ) -> ClaimOutcome:
        """Become the one that resumes this run; losing is no error."""
        payload = sanitize_copy(claim.payload, path_prefix="$.payload")
        own = claim.replace(payload=payload)
        wanted = {"workflow_name": workflow_name, "run_id": run_id}

        async def attempt() -> ClaimOutcome:
            stored = await self._stored(wanted)
            if stored is None:
                return ClaimOutcome(acquired=False, snapshot=None)
            result = rules.claim_resume(stored.document, own, store_now=stored.store_now)
            if result.acquired:
                await self._replace(stored, result.snapshot, run_id)
            return ClaimOutcome(
                acquired=result.acquired,
                snapshot=sanitize_copy(result.snapshot),
                claim=result.claim,
            )

        with self._host.errors("claim_resume"):
            return await self._host.swap("claim_resume", attempt)

    async def extend_resume_claim(
        self, *, workflow_name: str, run_id: str, claim_id: str, ttl_ms: int
    ) -> bool:
        """Move the expiry on; False if the claim is no longer current."""
        check_limit(ttl_ms, "ttl_ms")

        def change(stored: _Stored) -> Document | None:
            return rules.extend_claim(
                stored.document, claim_id=claim_id, ttl_ms=ttl_ms, store_now=stored.store_now
            )

        wanted = {"workflow_name": workflow_name, "run_id": run_id}
        with self._host.errors("extend_resume_claim"):
            return await self._change("extend_resume_claim", wanted, change) is not None

    async def release_resume_claim(self, *, workflow_name: str, run_id: str, claim_id: str) -> bool:
        """Back to ``suspended``; False if the claim is no longer current."""

        def change(stored: _Stored) -> Document | None:
            return rules.release_claim(stored.document, claim_id=claim_id)

        wanted = {"workflow_name": workflow_name, "run_id": run_id}
        with self._host.errors("release_resume_claim"):
            return await self._change("release_resume_claim", wanted, change) is not None

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
        own = sanitize_copy(receipt)
        wanted = {"workflow_name": workflow_name, "run_id": run_id}

        def change(stored: _Stored) -> Document:
            self._compare_claim(stored.document, wanted, claim_id)
            return rules.record_receipt(stored.document, tool_call_id=tool_call_id, receipt=own)

        with self._host.errors("record_receipt"):
            if await self._change("record_receipt", wanted, change) is None:
                self._compare_claim(None, wanted, claim_id)
                raise RunNotFoundError(run_id=run_id)

    async def recover_expired_claims(
        self, *, workflow_names: Sequence[str], limit: int = 100
    ) -> int:
        """Return runs whose claim expired to ``suspended``; how many."""
        check_limit(limit)
        stages: list[Document] = [
            {
                "$match": {
                    "snapshot.resumeClaim.expiresAt": {"$gt": ""},
                    "workflow_name": {"$in": list(workflow_names)},
                    "snapshot.status": "running",
                    "$expr": {
                        "$lte": [
                            "$snapshot.resumeClaim.expiresAt",
                            {"$dateToString": {"date": "$$NOW"}},
                        ]
                    },
                }
            },
            {"$limit": limit},
            {"$project": {"_id": 0, "workflow_name": 1, "run_id": 1}},
        ]

        def change(stored: _Stored) -> Document | None:
            return rules.expire_claim(stored.document, store_now=stored.store_now)

        with self._host.errors("recover_expired_claims"):
            keys = await (await self._rows.aggregate(stages)).to_list()
            recovered = 0
            for key in keys:
                wanted = {"workflow_name": key["workflow_name"], "run_id": key["run_id"]}
                freed = await self._change("recover_expired_claims", wanted, change)
                recovered += freed is not None
            return recovered

    # -- delete ----------------------------------------------------------------------------

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
        """Delete the rows of one run; the claim is checked on the first."""
        names = list(dict.fromkeys(workflow_names))
        if not names:
            return
        outer = {"workflow_name": names[0], "run_id": run_id}
        checked = outer if claim_id is None else {**outer, _CLAIM_ID: claim_id}

        async def body(session: Session | None) -> None:
            # The first row is the one that is looked for, so it goes first.
            result = await self._rows.delete_one(checked, session=session)
            if claim_id is not None and not result.deleted_count:
                if await self._row(outer, session) is None:
                    return
                await self._check_claim(outer, claim_id, session)
                raise LostRaceError
            if len(names) > 1:
                await self._rows.delete_many(
                    {"workflow_name": {"$in": names[1:]}, "run_id": run_id}, session=session
                )

        with self._host.errors("delete_workflow_runs"):
            if len(names) == 1:
                await self._host.swap("delete_workflow_runs", lambda: body(None))
                return
            await self._host.together("delete_workflow_runs", body)

    # -- retention -------------------------------------------------------------------------

    async def prune(
        self, policies: Sequence[PrunePolicy], options: PruneOptions | None = None
    ) -> list[PruneResult]:
        """Delete rows last written before the limit; suspended ones only by their own name."""
        known = {
            pruning.SNAPSHOTS: Prunable(
                collection=WORKFLOW_SNAPSHOTS,
                anchor="updatedAt",
                condition={"snapshot.status": {"$ne": "suspended"}},
            ),
            pruning.SUSPENDED_SNAPSHOTS: Prunable(
                collection=WORKFLOW_SNAPSHOTS,
                anchor="updatedAt",
                condition={"snapshot.status": "suspended"},
            ),
        }
        with self._host.errors("prune"):
            return await prune(self._host, "workflows", known, policies, options)

    async def dangerously_clear_all(self) -> None:
        """Delete every row of the domain."""
        with self._host.errors("dangerously_clear_all"):
            await self._rows.delete_many({})


def _observed(row: RawBSONDocument) -> dict[str, Any]:
    """A filter that only the row as it was read passes (G8)."""
    observed: dict[str, Any] = {"updatedAt": row["updatedAt"]}
    snapshot = row.get("snapshot")
    if isinstance(snapshot, RawBSONDocument):
        observed["snapshot.timestamp"] = snapshot.get("timestamp")
        observed["snapshot.status"] = snapshot.get("status")
    else:
        observed["snapshot"] = snapshot
    return observed


def _encodable_context(context: Mapping[str, Any] | None, run_id: str) -> dict[str, Any]:
    """A request context without what can't be stored (G13)."""
    if not context:
        return {}
    encoded = rules.encode_snapshot({"requestContext": context}, run_id=run_id, max_bytes=2**62)
    kept: dict[str, Any] = decode(encoded)["requestContext"]
    return kept
