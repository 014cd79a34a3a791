"""Domain ``memory`` in Redis: threads, messages, resources (streaming.md 10.5-10.7).

Records have the keys and texts that the TypeScript system gives them; its own sorted sets and
message keys are kept as it keeps them. What it doesn't have are indexes beside them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, Final

from mastra_core.base.isotime import epoch_ms
from mastra_core.base.unset import UNSET, Unset
from mastra_core.contracts.pubsub import FenceToken
from mastra_core.contracts.storage import PruneOptions, PrunePolicy, PruneResult
from mastra_core.errors import FencedOutError
from mastra_core.rules import pruning
from mastra_core.rules.arguments import check_text
from mastra_core.rules.snapshots import next_updated_at
from mastra_core.wire.threads import Resource
from mastra_redis.keys import raw, text
from mastra_redis.storage.foreign import ForeignKeys
from mastra_redis.storage.host import Command, Host, Outcome, Values
from mastra_redis.storage.memory_messages import MessageStore
from mastra_redis.storage.memory_records import resource_from_text, resource_to_text
from mastra_redis.storage.memory_threads import ThreadStore

__all__ = ("RedisMemory",)

_PRUNABLE: Final = (pruning.THREADS, pruning.MESSAGES, pruning.RESOURCES)
_PORTION: Final = 500


class RedisMemory(ThreadStore, MessageStore):
    """Domain ``memory``; see ``contracts.storage.memory``."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._keys = host.keys
        self.foreign: ForeignKeys = ForeignKeys(host, host.keys.threads, self._check_threads)

    # -- owners --------------------------------------------------------------------------------

    def guarded(self, fence: FenceToken) -> RedisMemory:
        """The same records; what is written carries the fence, in the same script."""
        view = copy(self)
        view._fence = fence  # noqa: SLF001 - its own
        return view

    async def raise_fence(self, fence: FenceToken) -> None:
        """Refuse writes with an older fence from now on."""
        key, token = fence
        newest = await self._host.script(
            "raise_fence", "fence_raise", [self._keys.fence(key)], [token]
        )
        if newest is not None:
            raise FencedOutError(key=key, fence=token, current=int(newest))

    # -- resources -----------------------------------------------------------------------------

    async def get_resource_by_id(self, resource_id: str) -> Resource | None:
        """The resource, or None."""
        key = self._keys.resource(resource_id)
        found = await self._host.read("get_resource_by_id", "GET", key)
        return None if found is None else resource_from_text(found)

    async def save_resource(self, resource: Resource) -> Resource:
        """Upsert; an existing row keeps its ``created_at``."""
        check_text(resource.id, "id")

        def compute(seen: Values) -> Outcome[Resource]:
            stored = None if seen[0] is None else resource_from_text(seen[0])
            mine = resource
            if stored is not None:
                mine = mine.replace(created_at=stored.created_at)
            return self._put_resource(mine)

        return await self._change_resource("save_resource", resource.id, compute)

    async def update_resource(
        self,
        resource_id: str,
        *,
        working_memory: str | Unset | None = UNSET,
        metadata: Mapping[str, Any] | Unset = UNSET,
    ) -> Resource:
        """Create or change, in one step of the server."""
        check_text(resource_id, "resource_id")
        now = self._host.clock.now()

        def compute(seen: Values) -> Outcome[Resource]:
            stored = None if seen[0] is None else resource_from_text(seen[0])
            before = stored or Resource(id=resource_id, created_at=now, updated_at=now)
            changes: dict[str, Any] = {
                "updated_at": now if stored is None else next_updated_at(now, stored.updated_at)
            }
            if working_memory is not UNSET:
                changes["working_memory"] = working_memory
            if metadata is not UNSET:
                changes["metadata"] = {**(before.metadata or {}), **metadata}
            return self._put_resource(before.replace(**changes))

        return await self._change_resource("update_resource", resource_id, compute)

    async def _change_resource(self, operation: str, resource_id: str, compute: Any) -> Resource:
        found: Resource = await self._host.change(
            operation, [self._keys.resource(resource_id)], compute
        )
        return found

    def _put_resource(self, resource: Resource) -> Outcome[Resource]:
        written = resource_to_text(resource)
        score = epoch_ms(resource.updated_at)
        commands: list[Command] = [
            ("SET", self._keys.resource(resource.id), written),
            ("ZADD", self._keys.memory + b"resources", score, raw(resource.id)),
        ]
        return Outcome(resource_from_text(written), commands, [written])

    # -- retention -----------------------------------------------------------------------------

    async def prune(
        self, policies: Sequence[PrunePolicy], options: PruneOptions | None = None
    ) -> list[PruneResult]:
        """Delete rows older than their policy, in batches."""
        options = pruning.check_policies(policies, options, _PRUNABLE)
        await self.foreign.settle("prune")
        return [await self._prune(policy, options) for policy in policies]

    async def _prune(self, policy: PrunePolicy, options: PruneOptions) -> PruneResult:
        before = epoch_ms(pruning.cutoff(policy, self._host.clock.now())) - 1
        waiting = await self._older(policy.table, before)

        async def count() -> int:
            return len(waiting)

        async def delete(wanted: int) -> int:
            batch = waiting[-wanted:]
            del waiting[-wanted:]
            return await self._delete_old(policy.table, batch, before)

        return await pruning.prune_table(
            policy,
            options,
            domain="memory",
            count=count,
            delete=delete,
            sleep=self._host.clock.sleep,
        )

    async def _older(self, table: str, before: int) -> list[bytes]:
        if table == pruning.MESSAGES:
            found: list[bytes] = []
            places = await self._host.read("prune", "SMEMBERS", self._keys.memory + b"places")
            for place in sorted(places):
                key = self._keys.thread_messages(text(place))
                found += await self._host.read(
                    "prune", "ZRANGEBYSCORE", key, "-inf", f"({(before + 1) * 1000}"
                )
            return found
        name = b"threads:updated" if table == pruning.THREADS else b"resources"
        key = self._keys.memory + name
        older: list[bytes] = await self._host.read("prune", "ZRANGEBYSCORE", key, "-inf", before)
        return older

    async def _delete_old(self, table: str, batch: Sequence[bytes], before: int) -> int:
        if not batch:
            return 0
        match table:
            case pruning.THREADS:
                scores = await self._host.read(
                    "prune", "ZMSCORE", self._keys.memory + b"threads:updated", *batch
                )
                # Who was written meanwhile stays.
                old = [
                    name
                    for name, score in zip(batch, scores, strict=True)
                    if score is not None and float(score) <= before
                ]
                return int(await self._delete("prune", threads=old, messages=[]))
            case pruning.MESSAGES:
                return int(await self._delete("prune", threads=[], messages=batch, touches=False))
            case _:
                names = [self._keys.resources + name for name in batch]
                gone, _ = await self._host.read_all(
                    "prune",
                    [
                        ("DEL", *names),
                        ("ZREM", self._keys.memory + b"resources", *batch),
                    ],
                )
                for name in names:
                    self._host.recent.forget(name)
                return int(gone)

    async def dangerously_clear_all(self) -> None:
        """Delete every thread, message and resource."""
        keys = self._keys
        await self._host.clear(
            "dangerously_clear_all",
            (
                keys.prefix + b"mastra_threads:",
                keys.prefix + b"mastra_messages:",
                keys.resources,
                keys.message_threads,
                keys.prefix + b"thread:",
                keys.memory,
                keys.fences,
            ),
        )
