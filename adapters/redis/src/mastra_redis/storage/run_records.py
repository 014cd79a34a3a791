"""Runs as their records and index lines, and back; pure functions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

from mastra_core.base import jsonjs
from mastra_core.base.isotime import epoch_ms, parse_iso
from mastra_core.contracts.storage.workflows import SuspendedRunRow
from mastra_core.errors import StorageDataError, WireDecodeError
from mastra_core.rules import snapshots as rules
from mastra_core.rules import suspended
from mastra_core.wire.snapshots import WorkflowRun
from mastra_redis.keys import join, raw
from mastra_redis.records import decoded
from mastra_redis.storage.host import digest

__all__ = (
    "Record",
    "RunWords",
    "member_of",
    "place_of",
    "record_from_text",
    "stamp_of",
    "suspended_from_lines",
    "token",
    "version_of",
    "words_of",
)


@lru_cache(maxsize=1_024)
def token(value: str | None) -> bytes:
    """A text as JSON, in which there is no line break; empty for none."""
    return jsonjs.encode_bytes(value) if value else b""


def place_of(workflow_name: str, run_id: str, resource_id: str | None = None) -> bytes:
    """The end of a run's key; with a resource that of the key where Node puts what has one."""
    place = raw(workflow_name) + b":run_id:" + raw(run_id)
    return place if resource_id is None else place + b":resourceId:" + raw(resource_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A stored run, read."""

    workflow_name: str
    run_id: str
    resource_id: str | None
    #: None if what is stored is no object.
    document: dict[str, Any] | None
    #: The snapshot if it is no JSON.
    corrupt: str | None
    created_at: datetime
    updated_at: datetime

    def run(self, *, version: str | None = None) -> WorkflowRun:
        """The row as it is handed out."""
        return WorkflowRun(
            workflow_name=self.workflow_name,
            run_id=self.run_id,
            resource_id=self.resource_id,
            snapshot=self.document if self.document is not None else self.corrupt or "",
            created_at=self.created_at,
            updated_at=self.updated_at,
            version=version,
        )


def record_from_text(text: bytes) -> Record:
    """
    Read a record, whoever wrote it.

    Raises:
        StorageDataError: It is no record of a run.
    """
    value = decoded(text, what="a run")
    try:
        snapshot = value.get("snapshot")
        document, corrupt = _document(snapshot)
        return Record(
            workflow_name=value["workflow_name"],
            run_id=value["run_id"],
            resource_id=value.get("resourceId") or None,
            document=document,
            corrupt=corrupt,
            created_at=parse_iso(value["createdAt"]),
            updated_at=parse_iso(value["updatedAt"]),
        )
    except (AttributeError, KeyError, TypeError, WireDecodeError) as exc:
        raise StorageDataError("A record of a run lacks what makes it one.") from exc


def _document(snapshot: Any) -> tuple[dict[str, Any] | None, str | None]:
    if isinstance(snapshot, dict):
        return snapshot, None
    if isinstance(snapshot, str):
        try:
            found = jsonjs.decode(snapshot)
        except WireDecodeError:
            return None, snapshot
        if isinstance(found, dict):
            return found, None
        return None, snapshot
    return None, jsonjs.encode(snapshot)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunWords:
    """What scripts want to know of a document, as JSON texts."""

    status: bytes
    agent: bytes
    thread: bytes
    #: The resource that the document itself names.
    inner: bytes
    claim: bytes
    #: When the claim expires, in epoch milliseconds.
    expires: bytes
    projection: bytes


def words_of(document: Mapping[str, Any]) -> RunWords:
    """What the index must know of a document."""
    status = rules.status_of(document)
    claim_id, expires = rules.claim_id_of(document), b""
    if rules.CLAIM in document:
        claim = rules.current_claim(document)
        if claim is not None and status == "running":
            expires = str(epoch_ms(claim.expires_at)).encode()
    thread = _given(suspended.thread_of(document))
    if status != "suspended":
        return RunWords(
            status=token(status), agent=b"", thread=token(thread), inner=b"",
            claim=token(claim_id), expires=expires, projection=b"",
        )  # fmt: skip
    row = suspended.suspended_row(
        document,
        workflow_name="",
        run_id="",
        resource_id=None,
        created_at=_NEVER,
        updated_at=_NEVER,
    )
    projection = {
        "agentId": row.agent_id,
        "threadId": row.thread_id,
        "resourceId": row.resource_id,
        "steps": row.steps,
        "resumeLabels": row.resume_labels,
        "receipts": row.receipts,
        "orphaned": row.orphaned,
        "schemaVersion": row.schema_version,
    }
    return RunWords(
        status=token(status),
        agent=token(row.agent_id),
        thread=token(thread),
        inner=token(row.resource_id),
        claim=token(claim_id),
        expires=expires,
        projection=jsonjs.encode_bytes(projection),
    )


_NEVER = parse_iso("1970-01-01T00:00:00.000Z")


def _given(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def suspended_from_lines(member: list[str], known: bytes, projection: bytes) -> SuspendedRunRow:
    """A row of a list from what the index knows; the record isn't read."""
    run_id, workflow_name = member
    lines = known.split(b"\n")
    shown = jsonjs.decode(projection)
    resource = jsonjs.decode(lines[4]) if lines[4] else shown["resourceId"]
    return SuspendedRunRow(
        workflow_name=workflow_name,
        run_id=run_id,
        agent_id=shown["agentId"],
        thread_id=shown["threadId"],
        resource_id=resource,
        created_at=parse_iso(lines[1].decode()),
        updated_at=parse_iso(lines[2].decode()),
        steps=shown["steps"],
        resume_labels=shown["resumeLabels"],
        receipts=shown["receipts"],
        orphaned=shown["orphaned"],
        schema_version=shown["schemaVersion"],
    )


def member_of(workflow_name: str, run_id: str) -> bytes:
    """The member that stands for a run in sorted sets."""
    return join(run_id, workflow_name)


def version_of(text: bytes | None) -> str | None:
    """The version token of a record (snapshots.md G8)."""
    return None if text is None else digest(text)


def stamp_of(text: bytes | None) -> str:
    """How ``run_write`` knows a record of ours by its length and time; else by its version."""
    found = None if text is None else _OUR_END.search(text)
    if text is None or found is None:
        return digest(text)
    return f"@{len(text)}:{found[1].decode()}"


_OUR_END = re.compile(rb'"createdAt":"[^"]{24}","updatedAt":"([^"]{24})"\}\Z')
