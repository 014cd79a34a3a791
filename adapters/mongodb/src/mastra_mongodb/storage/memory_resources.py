"""Resources with their working memory (streaming.md 10.6)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pymongo import ReturnDocument
from pymongo.errors import DuplicateKeyError

from mastra_core.base.unset import UNSET, Unset
from mastra_core.rules.arguments import check_text
from mastra_core.rules.snapshots import next_updated_at
from mastra_core.wire.tables import RESOURCES
from mastra_core.wire.threads import Resource
from mastra_mongodb.documents import ODD, DocumentCodec, member_from_json
from mastra_mongodb.pool import Collection
from mastra_mongodb.storage.host import Host, LostRaceError

__all__ = ("ResourceStore",)

_RESOURCES: Final = DocumentCodec(
    Resource, RESOURCES, json=("metadata",), times=("created_at", "updated_at")
)


class ResourceStore:
    """The part of the memory domain that knows resources."""

    _host: Host

    @property
    def _resources(self) -> Collection:
        return self._host.collection(RESOURCES)

    async def get_resource_by_id(self, resource_id: str) -> Resource | None:
        """The resource, or None."""
        with self._host.errors("get_resource_by_id"):
            document = await self._resources.find_one({"id": resource_id})
            return None if document is None else _RESOURCES.model(document)

    async def save_resource(self, resource: Resource) -> Resource:
        """Upsert; an existing row keeps its ``created_at``."""
        check_text(resource.id, "id")
        document = _RESOURCES.document(resource)
        created_at = document.pop("createdAt")
        update = {"$set": document, "$setOnInsert": {"createdAt": created_at}}

        async def attempt() -> Resource:
            return await self._upsert_resource({"id": resource.id}, update)

        with self._host.errors("save_resource"):
            return await self._host.swap("save_resource", attempt)

    async def _upsert_resource(self, wanted: Mapping[str, Any], update: Any) -> Resource:
        try:
            document = await self._resources.find_one_and_update(
                wanted, update, upsert=True, return_document=ReturnDocument.AFTER
            )
        except DuplicateKeyError as exc:
            raise LostRaceError from exc
        return _RESOURCES.model(document or {})

    async def update_resource(
        self,
        resource_id: str,
        *,
        working_memory: str | Unset | None = UNSET,
        metadata: Mapping[str, Any] | Unset = UNSET,
    ) -> Resource:
        """Create or change, in one command."""
        check_text(resource_id, "resource_id")
        now = self._host.now()
        given = None if metadata is UNSET else member_from_json(dict(metadata), "$.metadata")
        changes: dict[str, Any] = {
            "createdAt": {"$ifNull": ["$createdAt", now]},
            "updatedAt": {"$max": [now, {"$add": ["$updatedAt", 1]}]},
            "workingMemory": {"$ifNull": ["$workingMemory", None]},
            "metadata": {"$ifNull": ["$metadata", None]},
        }
        if working_memory is not UNSET:
            changes["workingMemory"] = {"$literal": working_memory}
        if given is not None:
            stored = {"$ifNull": ["$metadata", {}]}
            changes["metadata"] = {"$mergeObjects": [stored, {"$literal": given}]}

        async def attempt() -> Resource:
            wanted: dict[str, Any] = {"id": resource_id}
            document = None
            if given is not None:
                document = await self._odd(resource_id, given)
            if document is None:
                return await self._upsert_resource(wanted, [{"$set": changes}])
            return await self._rewrite_resource(document, working_memory, metadata)

        with self._host.errors("update_resource"):
            return await self._host.swap("update_resource", attempt)

    async def _odd(self, resource_id: str, given: Mapping[str, Any]) -> dict[str, Any] | None:
        """The document, if its metadata or what is to be merged is kept as text."""
        wanted: dict[str, Any] = {"id": resource_id}
        if ODD not in given:
            wanted[f"metadata.{ODD}"] = {"$exists": True}
        found: dict[str, Any] | None = await self._resources.find_one(wanted)
        return found

    async def _rewrite_resource(
        self,
        document: Mapping[str, Any],
        working_memory: str | Unset | None,
        metadata: Mapping[str, Any] | Unset,
    ) -> Resource:
        """Merge here, and write if nobody else wrote."""
        observed = {"_id": document["_id"], "updatedAt": document["updatedAt"]}
        before = _RESOURCES.model(document)
        more = {} if metadata is UNSET else metadata
        changes: dict[str, Any] = {
            "metadata": {**(before.metadata or {}), **more},
            "updated_at": next_updated_at(self._host.now(), before.updated_at),
        }
        if working_memory is not UNSET:
            changes["working_memory"] = working_memory
        after = before.replace(**changes)
        result = await self._resources.update_one(observed, {"$set": _RESOURCES.document(after)})
        if not result.matched_count:
            raise LostRaceError
        return after
