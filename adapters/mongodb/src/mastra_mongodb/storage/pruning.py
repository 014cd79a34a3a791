"""Deleting old documents in bounded portions (snapshots.md 5.8)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mastra_core.base.isotime import to_iso_ms
from mastra_core.contracts.storage import PruneOptions, PrunePolicy, PruneResult
from mastra_core.rules import pruning as rules
from mastra_mongodb.migrate import create_index
from mastra_mongodb.pool import Document
from mastra_mongodb.schema import retention_index
from mastra_mongodb.storage.host import Host

__all__ = ("Prunable", "prune")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prunable:
    """One collection that a policy may name."""

    collection: str
    #: The member that says how old a document is.
    anchor: str
    #: Which documents may go at all.
    condition: Mapping[str, Any] = field(default_factory=dict)
    #: Whether the anchor is ISO text instead of a date.
    is_text: bool = False
    #: Deletes these documents, as far as the condition still holds, with what belongs to them.
    delete: Callable[[Sequence[Document], Mapping[str, Any]], Awaitable[int]] | None = None
    #: What is cleaned up after a batch.
    after: Callable[[Sequence[Document]], Awaitable[None]] | None = None


async def prune(
    host: Host,
    domain: str,
    known: Mapping[str, Prunable],
    policies: Sequence[PrunePolicy],
    options: PruneOptions | None,
) -> list[PruneResult]:
    """
    Delete what the policies allow, batch by batch, in the order given.

    Raises:
        StorageArgumentError: A policy names a collection that this domain doesn't have, or a
            portion makes no sense; nothing was deleted.
    """
    limits = rules.check_policies(policies, options, known.keys())
    return [
        await _prune_one(host, domain, known[policy.table], policy, limits) for policy in policies
    ]


async def _prune_one(
    host: Host, domain: str, target: Prunable, policy: PrunePolicy, limits: PruneOptions
) -> PruneResult:
    collection = host.collection(target.collection)
    limit = rules.cutoff(policy, host.now())
    bound = to_iso_ms(limit) if target.is_text else limit
    wanted = {**target.condition, target.anchor: {"$lt": bound}}
    if not limits.dry_run and host.may_create:
        await create_index(host.pool, retention_index(collection.name, target.anchor))

    async def count() -> int:
        return await collection.count_documents(wanted)

    async def delete(batch: int) -> int:
        members = {"_id": 1, "id": 1, "threadId": 1}
        found = await collection.find(wanted, members).limit(batch).to_list()
        if not found:
            return 0
        if target.delete is not None:
            return await target.delete(found, wanted)
        # Compared again: what was written to meanwhile stays.
        keys = [document["_id"] for document in found]
        result = await collection.delete_many({**wanted, "_id": {"$in": keys}})
        if target.after is not None:
            await target.after(found)
        return result.deleted_count

    return await rules.prune_table(
        policy,
        limits,
        domain=domain,
        count=count,
        delete=delete,
        sleep=host.clock.sleep,
    )
