"""What a TypeScript process left in a store: a thread, its inbox, a run that waits.

The same rows lie in the database files that adapters keep for their own tests; here they
are in the form of the contract, so that any store can be given them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from mastra_conformance.wire.scene import VERSION
from mastra_core.base.isotime import parse_iso
from mastra_core.contracts.storage import Storage
from mastra_core.wire.messages import Message
from mastra_core.wire.notifications import CreateNotification, NotificationPatch
from mastra_core.wire.threads import Thread

__all__ = ("NodeRows", "load_node_rows", "write_node_rows")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRows:
    """The rows under their wire names, without columns that are null."""

    threads: list[dict[str, Any]]
    messages: list[dict[str, Any]]
    notifications: list[dict[str, Any]]
    snapshots: list[dict[str, Any]]

    @property
    def run_id(self) -> str:
        """The run that waits for an approval."""
        return str(self.snapshots[0]["runId"])


def load_node_rows() -> NodeRows:
    """Read the rows."""
    path = files("mastra_conformance.wire").joinpath("written", f"{VERSION}.json")
    return NodeRows(**json.loads(path.read_text("utf-8")))


async def write_node_rows(store: Storage, rows: NodeRows) -> None:
    """Put the rows into an empty store, through the contract."""
    for thread in rows.threads:
        await store.memory.save_thread(Thread.model_validate(thread))
    await store.memory.save_messages([Message.model_validate(row) for row in rows.messages])
    for row in rows.notifications:
        await _write_notification(store, row)
    await store.workflows.persist_workflow_snapshots(
        [
            {
                "workflow_name": row["workflowName"],
                "run_id": row["runId"],
                "resource_id": row["resourceId"],
                "snapshot": row["snapshot"],
                "created_at": parse_iso(row["createdAt"]),
                "updated_at": parse_iso(row["updatedAt"]),
            }
            for row in rows.snapshots
        ]
    )


async def _write_notification(store: Storage, row: Mapping[str, Any]) -> None:
    created = {name: row[name] for name in row if name in _CREATED}
    await store.notifications.create_notification(CreateNotification.model_validate(created))
    changed = {name: row[name] for name in row if name in _CHANGED}
    patch = NotificationPatch.model_validate(changed)
    await store.notifications.update_notification(row["threadId"], row["id"], patch)


_CREATED = frozenset(
    {
        *("id", "threadId", "resourceId", "agentId", "source", "kind", "priority", "summary"),
        *("payload", "sourceId", "dedupeKey", "coalesceKey", "attributes", "metadata"),
        *("createdAt", "deliverAt", "summaryAt", "deliveryReason"),
    }
)
_CHANGED = frozenset({"status", "deliveredSignalId", "summarySignalId"})
