"""Resources of the in-memory store (streaming.md 10.6)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mastra_core.base.clock import Clock
from mastra_core.base.unset import UNSET, Unset
from mastra_core.inmemory.storage.copies import copied
from mastra_core.inmemory.storage.memory_tables import MemoryTables
from mastra_core.rules.arguments import check_text
from mastra_core.rules.snapshots import next_updated_at
from mastra_core.wire.threads import Resource

__all__ = ("ResourceStore",)

_JSON = ("metadata",)


class ResourceStore:
    """The part of the memory domain that knows resources."""

    _tables: MemoryTables
    _clock: Clock

    async def get_resource_by_id(self, resource_id: str) -> Resource | None:
        """The resource, or None."""
        resource = self._tables.resources.get(resource_id)
        return None if resource is None else copied(resource, _JSON)

    async def save_resource(self, resource: Resource) -> Resource:
        """Upsert; an existing row keeps its ``created_at``."""
        check_text(resource.id, "id")
        mine = copied(resource, _JSON)
        stored = self._tables.resources.get(mine.id)
        if stored is not None:
            mine = mine.replace(created_at=stored.created_at)
        self._tables.resources[mine.id] = mine
        return copied(mine, _JSON)

    async def update_resource(
        self,
        resource_id: str,
        *,
        working_memory: str | Unset | None = UNSET,
        metadata: Mapping[str, Any] | Unset = UNSET,
    ) -> Resource:
        """Create or change, in one step without an await."""
        check_text(resource_id, "resource_id")
        now = self._clock.now()
        stored = self._tables.resources.get(resource_id)
        before = stored or Resource(id=resource_id, created_at=now, updated_at=now)
        changes: dict[str, Any] = {
            "updated_at": now if stored is None else next_updated_at(now, stored.updated_at)
        }
        if working_memory is not UNSET:
            changes["working_memory"] = working_memory
        if metadata is not UNSET:
            changes["metadata"] = {**(before.metadata or {}), **metadata}
        changed = copied(before.replace(**changes), _JSON)
        self._tables.resources[resource_id] = changed
        return copied(changed, _JSON)
