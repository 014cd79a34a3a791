"""Resources with their working memory (streaming.md 10.5, 10.6)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mastra_conformance.fixtures import OpenStore
from mastra_conformance.suite import Suite, requires, tier
from mastra_conformance.suites.storage.crowds import at_once
from mastra_conformance.suites.storage.things import T0, at, resource
from mastra_conformance.suites.storage.values import (
    ODD_TEXTS,
    kept_or_refused,
    kept_values,
    refused_values,
)
from mastra_core.contracts.storage import PrunePolicy, Storage
from mastra_core.errors import StorageArgumentError, WireEncodeError

__all__ = ("ResourceSuite",)


class ResourceSuite(Suite):
    """What a store does with resources."""

    capabilities = ("memory", "memory.resources")

    async def test_a_saved_resource_reads_back_equal(self, store: Storage) -> None:
        """Working memory, metadata and times are what was saved; absent is None."""
        given = resource(working_memory="# Notes\n", metadata={"a": [1, None]})

        returned = await store.memory.save_resource(given)

        found = await store.memory.get_resource_by_id("r1")
        assert found is not None
        assert given.to_wire() == found.to_wire() == returned.to_wire()
        assert await store.memory.get_resource_by_id("nowhere") is None

    async def test_saving_again_keeps_the_creation_time(self, store: Storage) -> None:
        """An upsert replaces everything else."""
        await store.memory.save_resource(resource(working_memory="old", metadata={"a": 1}))

        await store.memory.save_resource(
            resource(working_memory=None, metadata={"b": 1}, created_at=at(5), updated_at=at(6))
        )

        found = await store.memory.get_resource_by_id("r1")
        assert found is not None
        assert (None, {"b": 1}, T0) == (found.working_memory, found.metadata, found.created_at)

    async def test_updating_a_missing_resource_creates_it(self, store: Storage) -> None:
        """The first write of working memory needs no other call before."""
        returned = await store.memory.update_resource("r1", working_memory="notes")

        found = await store.memory.get_resource_by_id("r1")
        assert found is not None
        assert ("notes", "notes") == (returned.working_memory, found.working_memory)

    async def test_updating_touches_only_what_is_given(self, store: Storage) -> None:
        """Absent means untouched, None clears, metadata merges one level deep."""
        await store.memory.save_resource(resource(working_memory="notes", metadata={"a": 1}))

        merged = await store.memory.update_resource("r1", metadata={"b": {"c": 2}})
        cleared = await store.memory.update_resource("r1", working_memory=None)

        assert ("notes", {"a": 1, "b": {"c": 2}}) == (merged.working_memory, merged.metadata)
        assert (None, {"a": 1, "b": {"c": 2}}) == (cleared.working_memory, cleared.metadata)
        assert cleared.created_at == T0
        assert cleared.updated_at > T0

    async def test_what_callers_change_afterwards_changes_nothing_stored(
        self, store: Storage
    ) -> None:
        """Nothing is shared with the store."""
        metadata: dict[str, Any] = {"list": [1]}
        returned = await store.memory.save_resource(resource(metadata=metadata))
        metadata["list"].append(2)
        assert returned.metadata is not None
        returned.metadata["list"].append(3)

        found = await store.memory.get_resource_by_id("r1")

        assert found is not None
        assert found.metadata == {"list": [1]}

    @kept_values()
    async def test_metadata_values_are_kept(self, store: Storage, value: object) -> None:
        """Odd JSON values come back equal."""
        await store.memory.update_resource("r1", metadata={"value": value})

        found = await store.memory.get_resource_by_id("r1")

        assert found is not None
        assert found.metadata == {"value": value}

    @refused_values()
    async def test_metadata_without_json_form_is_refused_whole(
        self, store: Storage, make: Callable[[], Any]
    ) -> None:
        """Nothing is written, not even the working memory."""
        await store.memory.save_resource(resource(working_memory="old"))

        with pytest.raises(WireEncodeError):
            await store.memory.update_resource("r1", working_memory="new", metadata={"bad": make()})

        found = await store.memory.get_resource_by_id("r1")
        assert found is not None
        assert found.working_memory == "old"

    @pytest.mark.parametrize("text", ODD_TEXTS.values(), ids=ODD_TEXTS)
    async def test_odd_working_memory_is_kept_or_refused(self, store: Storage, text: str) -> None:
        """Working memory is never changed quietly."""
        if await kept_or_refused(store.memory.update_resource("r1", working_memory=text)):
            found = await store.memory.get_resource_by_id("r1")
            assert found is not None
            assert text == found.working_memory

    async def test_a_resource_without_an_id_is_refused(self, store: Storage) -> None:
        """An empty id is an argument fault."""
        with pytest.raises(StorageArgumentError):
            await store.memory.update_resource("", working_memory="notes")

    @requires("storage.retention")
    async def test_pruning_takes_old_resources(self, store: Storage) -> None:
        """By ``updated_at``, strictly older than the limit."""
        await store.memory.save_resource(resource("old"))
        await store.memory.update_resource("fresh", working_memory="notes")

        results = await store.memory.prune([PrunePolicy(table="resources", max_age_ms=3_600_000)])

        assert [(1, True)] == [(result.deleted, result.done) for result in results]
        assert await store.memory.get_resource_by_id("old") is None
        assert await store.memory.get_resource_by_id("fresh") is not None

    @tier(2)
    async def test_parallel_first_updates_lose_no_key(
        self, store: Storage, open_store: OpenStore
    ) -> None:
        """Creating and merging is one atomic step, also between handles."""
        async with open_store() as other:
            results = await at_once(
                [
                    handle.memory.update_resource("r1", metadata={f"{name}{n}": n})
                    for n in range(15)
                    for name, handle in (("a", store), ("b", other))
                ]
            )

        assert [] == [result for result in results if isinstance(result, BaseException)]
        found = await store.memory.get_resource_by_id("r1")
        assert found is not None
        assert {f"{name}{n}": n for n in range(15) for name in "ab"} == found.metadata
