"""Rows of run snapshots (snapshots.md 2, 8)."""

from __future__ import annotations

import hashlib
import logging
from typing import Any

from mastra_core.base.jsonjs import decode
from mastra_core.contracts.storage import SuspendedRunRow
from mastra_core.errors import StorageDataError, WireDecodeError
from mastra_core.rules.suspended import suspended_row
from mastra_core.wire.base import trusted
from mastra_core.wire.snapshots import WorkflowRun
from mastra_sql.dialect import SqlDialect
from mastra_sql.executor import Row

__all__ = ("document_from_text", "run_from_row", "suspended_from_row", "version_of")

logger = logging.getLogger(__name__)


def document_from_text(text: Any, *, run_id: str) -> dict[str, Any]:
    """
    The document of a column.

    Raises:
        StorageDataError: It is no JSON object.
    """
    try:
        document = decode(text)
    except (WireDecodeError, TypeError) as exc:
        raise StorageDataError(
            f"The stored snapshot of run {run_id!r} is no JSON.", details={"runId": run_id}
        ) from exc
    if not isinstance(document, dict):
        raise StorageDataError(
            f"The stored snapshot of run {run_id!r} is no JSON object.", details={"runId": run_id}
        )
    return document


def run_from_row(row: Row, dialect: SqlDialect, *, version: str | None = None) -> WorkflowRun:
    """The row as a run; a document that is no JSON stays the text that it is."""
    workflow_name, run_id, resource_id, text, created_at, updated_at = row
    snapshot: dict[str, Any] | str
    try:
        snapshot = document_from_text(text, run_id=run_id)
    except StorageDataError:
        logger.warning("snapshot is no JSON", extra={"run_id": run_id, "workflow": workflow_name})
        snapshot = "" if text is None else str(text)
    values = {
        "workflow_name": workflow_name,
        "run_id": run_id,
        "resource_id": resource_id,
        "snapshot": snapshot,
        "created_at": dialect.time_from(created_at),
        "updated_at": dialect.time_from(updated_at),
        "version": version,
    }
    return trusted(WorkflowRun, values, {name for name in values if values[name] is not None})


def version_of(stored: Any) -> str | None:
    """The opaque token of a stored document (G8): a digest of its bytes."""
    if stored is None:
        return None
    data = stored if isinstance(stored, bytes) else str(stored).encode("utf-8", "surrogatepass")
    return hashlib.sha1(data, usedforsecurity=False).hexdigest()


def suspended_from_row(row: Row, dialect: SqlDialect) -> SuspendedRunRow:
    """The projection that ``WorkflowStatements.suspended_page`` selects."""
    (
        workflow_name,
        run_id,
        resource_id,
        created_at,
        updated_at,
        text,
        has_state,
        regular,
        durable,
    ) = row
    document = document_from_text(text, run_id=run_id)
    if has_state:
        state = {"messageList": {"memoryInfo": _decoded(regular)}}
        _put_back(document, state, ("executionWorkflow", "suspendPayload"), "__streamState")
    if durable is not None:
        state = {"memoryInfo": _decoded(durable)}
        _put_back(document, state, ("input",), "messageListState")
    return suspended_row(
        document,
        workflow_name=workflow_name,
        run_id=run_id,
        resource_id=resource_id,
        created_at=dialect.time_from(created_at),
        updated_at=dialect.time_from(updated_at),
    )


def _decoded(info: Any) -> Any:
    return None if info is None else decode(info)


def _put_back(document: dict[str, Any], value: Any, parents: tuple[str, ...], member: str) -> None:
    """Give a document that was stripped in the database its memory info back."""
    parent: Any = document.get("context")
    for name in parents:
        parent = parent.get(name) if isinstance(parent, dict) else None
    if isinstance(parent, dict):
        parent[member] = value
