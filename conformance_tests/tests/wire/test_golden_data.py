"""The recordings and the list of what differs: whole, well-formed, and all of it needed."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from mastra_conformance.wire import differences
from mastra_conformance.wire.differences import Verdict, all_differences, judge
from mastra_conformance.wire.player import observed_of, play
from mastra_conformance.wire.scene import (
    GoldenDataError,
    check_golden_data,
    load_scene,
    scene_ids,
)
from mastra_core.contracts.storage import MemoryStorage, Storage
from mastra_core.inmemory.storage import InMemoryStorage
from mastra_core.plugins import AdapterContext
from mastra_core.testing.logical_clock import LogicalClock

__all__ = ()

pytestmark = pytest.mark.anyio


class FaultyStore:
    """A store with a fault in its messages; everything else is as it should be."""

    def __init__(self, store: Storage, memory: MemoryStorage) -> None:
        self._store = store
        self.memory = memory

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class FaultyMemory:
    """Messages, changed on their way in by ``change``."""

    def __init__(self, memory: MemoryStorage, change: Any) -> None:
        self._memory = memory
        self._change = change

    def __getattr__(self, name: str) -> Any:
        return getattr(self._memory, name)

    async def save_messages(self, messages: Any) -> Any:
        return await self._memory.save_messages([self._change(message) for message in messages])


async def verdict_on(scene_id: str, change: Any = None) -> Verdict:
    clock = LogicalClock()
    scene = load_scene(scene_id)
    store: Any = InMemoryStorage(context=AdapterContext(clock=clock))
    if change is not None:
        store = FaultyStore(store, FaultyMemory(store.memory, change))
    return judge(scene_id, observed_of(scene), await play(scene, store, clock=clock))


def without_metadata(message: Any) -> Any:
    return message.replace(content={k: v for k, v in message.content.items() if k != "metadata"})


def of_another_resource(message: Any) -> Any:
    return message.replace(resource_id="somebody")


def answered_too_late(message: Any) -> Any:
    late = timedelta(hours=message.role == "assistant")
    return message.replace(created_at=message.created_at + late)


# -- the data ---------------------------------------------------------------------------------


async def test_the_recordings_are_those_that_were_released() -> None:
    """None was changed, none is missing."""
    check_golden_data()


async def test_an_unknown_scene_is_named() -> None:
    with pytest.raises(GoldenDataError, match="no scene 'stream-99'"):
        load_scene("stream-99")


async def test_every_allowed_difference_is_about_scenes_that_are_there() -> None:
    assert [] == differences.unknown_scenes(scene_ids())


async def test_every_allowed_difference_occurs() -> None:
    """Also those that needn't occur on every store occur here, save for what is one store's own."""
    used = set()
    for scene_id in scene_ids():
        verdict = await verdict_on(scene_id)
        assert [] == verdict.faults
        used |= set(verdict.used)

    allowed = {
        (entry, place)
        for entry in all_differences()
        if entry.only_on is None
        for place in entry.pointers
    }
    assert set() == allowed - used


# -- wrong stores -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (without_metadata, "/messages/1/content/metadata:"),
        (of_another_resource, "/messages/0/resourceId:"),
        (answered_too_late, "/messages/1/createdAt:"),
    ],
)
async def test_a_wrong_store_is_caught(change: Any, place: str) -> None:
    """The scene names the member that isn't as recorded."""
    verdict = await verdict_on("stream-01-text", change)

    assert any(fault.startswith(place) for fault in verdict.faults), verdict.faults
