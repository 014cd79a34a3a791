"""What the interop suites share: one database, opened here and by a Node process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

import pytest
from pydantic import BaseModel

from mastra_conformance.fixtures import OpenStore
from mastra_conformance.node import NodePeer, NodePlace, find_node, node_peer, node_store
from mastra_conformance.opening import Opener
from mastra_conformance.outcomes import not_run
from mastra_conformance.servers import Missing
from mastra_conformance.suite import Suite
from mastra_core.base.isotime import to_iso_ms
from mastra_core.contracts.storage import Storage

__all__ = (
    "AGENT",
    "RESOURCE",
    "THREAD",
    "TIMES",
    "InteropSuite",
    "NodeSuite",
    "at",
    "open_node",
    "same_values",
)

AGENT: Final = "helper"
THREAD: Final = "thread_1"
RESOURCE: Final = "user_1"
TIMES: Final = ("createdAt", "updatedAt")


class NodeSuite(Suite):
    """Something that a Node process uses, too."""

    tier = 5

    @pytest.fixture
    def node_place(self) -> NodePlace:
        """Node and the packages; without them the test isn't run."""
        found = find_node()
        if isinstance(found, Missing):
            not_run(found.reason, command=found.command)
        return found

    @pytest.fixture
    def shared_opener(self, opener: Opener) -> Opener:
        """The opener of the place that both know."""
        return replace(opener, place=replace(opener.place, namespace="", table_namespace=""))


class InteropSuite(NodeSuite):
    """
    One database under the names that the TypeScript system expects.

    A server's database must be empty, since all tests use the same tables; it is emptied again.
    """

    role = "runtime"

    @pytest.fixture
    async def shared_store(self, shared_opener: Opener) -> AsyncIterator[Storage]:
        """Our handle on the database, empty."""
        async with shared_opener.storage() as store:
            page = await store.memory.list_threads()
            assert page.total == 0, "Tier 5 needs a database without threads: it empties it."
            await store.dangerously_clear_all()
            yield store
        # Through a handle of its own: a test may have closed or broken the other one.
        async with shared_opener.storage() as store:
            await store.dangerously_clear_all()

    @pytest.fixture
    def open_shared(self, shared_opener: Opener) -> OpenStore:
        """Open another handle on the same database."""
        return shared_opener.storage

    @pytest.fixture
    async def node(
        self, node_place: NodePlace, shared_store: Storage, shared_opener: Opener
    ) -> AsyncIterator[NodePeer]:
        """A Node process that has the database open, too."""
        async with AsyncExitStack() as stack:
            peer = await stack.enter_async_context(open_node(node_place, shared_opener))
            yield peer


@asynccontextmanager
async def open_node(place: NodePlace, opener: Opener) -> AsyncIterator[NodePeer]:
    """A Node process with the opener's database open."""
    async with node_peer(place) as peer:
        await peer.do("open", store=node_store(opener.place.url))
        yield peer


def at(second: int, millisecond: int = 0) -> datetime:
    """A moment that both sides can hold to the millisecond."""
    return datetime(2026, 3, 1, 12, 0, second, millisecond * 1000, tzinfo=UTC)


def same_values(ours: object, theirs: object) -> bool:
    """Whether two forms of a record are equal, a missing member and null being one."""
    assert _comparable(ours) == _comparable(theirs)
    return True


def _comparable(value: object) -> object:
    match value:
        case datetime():
            return to_iso_ms(value)
        case BaseModel():
            return _comparable(value.model_dump(by_alias=True))
        case dict():
            # MongoDB's key of a document, which Node shows of some.
            shown = {key: part for key, part in value.items() if key != "_id"}
            return {key: _comparable(part) for key, part in shown.items() if part is not None}
        case list():
            return [_comparable(part) for part in value]
        case _:
            return value
