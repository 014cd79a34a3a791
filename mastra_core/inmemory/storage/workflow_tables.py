"""Data of the workflows domain, with the orders that keep its lists cheap."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from mastra_core.base import jsonjs
from mastra_core.contracts.storage.workflows import SuspendedRunRow
from mastra_core.inmemory.storage.copies import ms
from mastra_core.inmemory.storage.domain import Tables
from mastra_core.inmemory.storage.sorted_keys import SortedKeys
from mastra_core.rules import snapshots as rules
from mastra_core.rules import suspended
from mastra_core.wire.snapshots import WorkflowRun

__all__ = ("Key", "Row", "RunKey", "WorkflowTables", "copy_of_projection")

Key = tuple[str, str]
"""``(workflow_name, run_id)``: the identity of a row."""

RunKey = tuple[int, str, str]
"""``(created, run_id, workflow_name)``: its place in lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One stored snapshot; the document is kept encoded."""

    workflow_name: str
    run_id: str
    resource_id: str | None
    encoded: bytes
    created_at: datetime
    updated_at: datetime
    version: int
    status: str | None
    claim_id: str | None
    #: What listing shows of a suspended document; None for any other.
    projection: SuspendedRunRow | None = field(repr=False, default=None)

    @property
    def key(self) -> Key:
        return (self.workflow_name, self.run_id)

    @property
    def run_key(self) -> RunKey:
        return (ms(self.created_at), self.run_id, self.workflow_name)

    def document(self) -> dict[str, Any]:
        """A fresh copy of the document."""
        document: dict[str, Any] = jsonjs.decode(self.encoded)
        return document

    def run(self, *, with_version: bool = False) -> WorkflowRun:
        """The row as it is handed out."""
        return WorkflowRun(
            workflow_name=self.workflow_name,
            run_id=self.run_id,
            resource_id=self.resource_id,
            snapshot=self.document(),
            created_at=self.created_at,
            updated_at=self.updated_at,
            version=str(self.version) if with_version else None,
        )


class WorkflowTables(Tables):
    """Rows of one store."""

    def __init__(self) -> None:
        self._writes = 0
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self.rows: dict[Key, Row] = {}
        self.names_of_run: dict[str, set[str]] = {}
        #: Rows whose document holds a claim.
        self.claimed: set[Key] = set()
        #: ``()``, ``(name,)``, ``(name, status)`` and ``("", status)`` to list order.
        self._lists: dict[tuple[str, ...], SortedKeys[RunKey]] = {}
        #: Suspended rows by name, agent, and a thread, a resource, or neither.
        self._suspended: dict[tuple[str | None, ...], SortedKeys[RunKey]] = {}

    def put(
        self,
        key: Key,
        document: Mapping[str, Any],
        encoded: bytes,
        *,
        now: datetime,
        resource_id: str | None = None,
        created_at: datetime | None = None,
        updated_at: datetime | None = None,
    ) -> Row:
        """
        Write a document.

        Args:
            key: Which row.
            document: What ``encoded`` holds, as plain JSON values; only read.
            encoded: The document as it is kept.
            now: The clock of the store.
            resource_id: Kept from before if None.
            created_at: Of a new row; an old one keeps its own.
            updated_at: If not now; never earlier than the row's last one.
        """
        old = self.rows.get(key)
        self._writes += 1
        status = rules.status_of(document)
        row = Row(
            workflow_name=key[0],
            run_id=key[1],
            resource_id=resource_id or (old.resource_id if old else None),
            encoded=encoded,
            created_at=old.created_at if old else created_at or now,
            updated_at=rules.next_updated_at(updated_at or now, old.updated_at if old else None),
            version=self._writes,
            status=status,
            claim_id=rules.claim_id_of(document),
        )
        if status == "suspended":
            row = _projected(row, document)
        self.rows[key] = row
        if old is None:
            self._index(row)
        elif _places(old) != _places(row):
            self._unindex(old)
            self._index(row)
        return row

    def drop(self, key: Key) -> None:
        """Delete a row, if there is one."""
        row = self.rows.pop(key, None)
        if row is not None:
            self._unindex(row)

    def listed(self, workflow_name: str | None, status: str | None) -> SortedKeys[RunKey]:
        """Rows of a name and a status, either or none, oldest first."""
        return self._lists.get(_list_key(workflow_name, status), SortedKeys())

    def suspended(
        self, workflow_name: str, agent_id: str, thread_id: str | None, resource_id: str | None
    ) -> SortedKeys[RunKey]:
        """Suspended rows of an agent, of a thread or else of a resource if one is given."""
        place = _suspended_key(workflow_name, agent_id, thread_id, resource_id)
        return self._suspended.get(place, SortedKeys())

    def _index(self, row: Row) -> None:
        self.names_of_run.setdefault(row.run_id, set()).add(row.workflow_name)
        if row.claim_id is not None:
            self.claimed.add(row.key)
        for place in _list_places(row):
            self._lists.setdefault(place, SortedKeys()).add(row.run_key)
        for spot in _suspended_places(row):
            self._suspended.setdefault(spot, SortedKeys()).add(row.run_key)

    def _unindex(self, row: Row) -> None:
        names = self.names_of_run[row.run_id]
        names.discard(row.workflow_name)
        if not names:
            del self.names_of_run[row.run_id]
        self.claimed.discard(row.key)
        for place in _list_places(row):
            _take_out(self._lists, place, row.run_key)
        for spot in _suspended_places(row):
            _take_out(self._suspended, spot, row.run_key)


def _take_out(orders: dict[Any, SortedKeys[RunKey]], place: Any, key: RunKey) -> None:
    order = orders[place]
    order.discard(key)
    if not order:
        del orders[place]


def _projected(row: Row, document: Mapping[str, Any]) -> Row:
    projection = suspended.suspended_row(
        document,
        workflow_name=row.workflow_name,
        run_id=row.run_id,
        resource_id=row.resource_id,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )
    return replace(row, projection=copy_of_projection(projection))


def copy_of_projection(row: SuspendedRunRow) -> SuspendedRunRow:
    """The projection with JSON members of its own."""
    return replace(
        row,
        steps=jsonjs.sanitize_copy(row.steps),
        resume_labels=jsonjs.sanitize_copy(row.resume_labels),
        receipts=jsonjs.sanitize_copy(row.receipts),
        orphaned=jsonjs.sanitize_copy(row.orphaned),
    )


def _places(row: Row) -> tuple[Any, ...]:
    """What the indexes know of a row, apart from its key and creation."""
    shown = row.projection
    if shown is None:
        return (row.status, row.claim_id is None)
    return (row.status, row.claim_id is None, shown.agent_id, shown.thread_id, shown.resource_id)


def _list_key(workflow_name: str | None, status: str | None) -> tuple[str, ...]:
    if status:
        return (workflow_name or "", status)
    return (workflow_name,) if workflow_name else ()


def _list_places(row: Row) -> list[tuple[str, ...]]:
    places: list[tuple[str, ...]] = [(), (row.workflow_name,)]
    if row.status:
        places += [(row.workflow_name, row.status), ("", row.status)]
    return places


def _suspended_key(
    workflow_name: str, agent_id: str, thread_id: str | None, resource_id: str | None
) -> tuple[str | None, ...]:
    if thread_id is not None:
        return (workflow_name, agent_id, "thread", thread_id)
    if resource_id is not None:
        return (workflow_name, agent_id, "resource", resource_id)
    return (workflow_name, agent_id)


def _suspended_places(row: Row) -> list[tuple[str | None, ...]]:
    shown = row.projection
    if shown is None or shown.agent_id is None:
        return []
    owner = (row.workflow_name, shown.agent_id)
    places: list[tuple[str | None, ...]] = [owner]
    if shown.thread_id is not None:
        places.append((*owner, "thread", shown.thread_id))
    if shown.resource_id is not None:
        places.append((*owner, "resource", shown.resource_id))
    return places
