"""Opens the adapter under test in a place that belongs to one test alone.

Files and names of the place are derived from the test's id, so tests leave nothing
to each other and may run at once.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator, Container, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mastra_conformance.clock import ShiftedClock
from mastra_conformance.naming import namespace_of
from mastra_conformance.subject import Subject, find_subject, plugin_manager
from mastra_core.base.clock import Clock
from mastra_core.base.ids import Ids, UuidIds
from mastra_core.contracts.lease import LeaseProvider
from mastra_core.contracts.pubsub import PubSub
from mastra_core.contracts.storage import Storage
from mastra_core.errors import MastraError
from mastra_core.plugins import (
    AdapterContext,
    PluginManager,
    SharedResources,
    open_lease,
    open_pubsub,
    open_storage,
    parse_adapter_url,
)

__all__ = ("Opener", "Place", "place_for", "probe")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where one test keeps its data."""

    url: str
    #: Given to adapters that keep users of one database apart by name.
    namespace: str = ""
    #: The same for tables, which are too dear to be made anew for each test.
    table_namespace: str = ""
    #: Exists only because of this test.
    path: Path | None = None

    @property
    def is_fresh(self) -> bool:
        """Whether nothing can be there yet."""
        return not self.table_namespace

    @property
    def shared_name(self) -> str:
        """The same for all tests that find each other's rows here."""
        return f"{self.url}#{self.table_namespace}"

    def remove_files(self) -> None:
        """Delete what the test left in the file system."""
        if self.path is None:
            return
        if self.path.is_dir():
            shutil.rmtree(self.path)
        for path in self.path.parent.glob(f"{self.path.name}*"):
            # Beside files there may be folders, such as for sockets of processes that died.
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()


@dataclass(frozen=True, slots=True, kw_only=True)
class Opener:
    """Opens handles on one place; each is what a process of its own would have."""

    subject: Subject
    place: Place
    clock: Clock = field(default_factory=ShiftedClock)
    ids: Ids = field(default_factory=UuidIds)
    #: Holds what lives in this process only, so that all handles see the same.
    resources: SharedResources = field(default_factory=SharedResources)
    #: Whether an earlier test has left the shared place empty.
    is_empty: bool = False

    @classmethod
    def for_test(
        cls,
        subject: Subject,
        *,
        nodeid: str,
        seed: int,
        clock: Clock,
        ids: Ids,
        emptied: Container[str] = (),
    ) -> Opener:
        """The place of one test; ``emptied`` names the shared ones in which nothing is left."""
        place = place_for(
            subject,
            namespace=namespace_of(nodeid, f"{seed}/{os.getpid()}"),
            table_namespace=namespace_of("tables", f"{seed}/{os.getpid()}"),
        )
        is_empty = place.shared_name in emptied
        return cls(subject=subject, place=place, clock=clock, ids=ids, is_empty=is_empty)

    @property
    def has_own_clock(self) -> bool:
        """Whether a server decides what time it is."""
        return self.place.path is None and not self.subject.is_volatile

    def with_url(self, url: str) -> Opener:
        """The same with another URL."""
        return replace(self, place=replace(self.place, url=url))

    def storage(self) -> AbstractAsyncContextManager[Storage]:
        """Open and initialise the store."""
        return self._initialised()

    @asynccontextmanager
    async def clean_storage(self) -> AsyncIterator[Storage]:
        """Open the store; it is empty at the start, and in shared places at the end, too."""
        is_cleared = self.place.is_fresh
        async with self.storage() as store:
            if not (self.place.is_fresh or self.is_empty):
                await store.dangerously_clear_all()
            yield store
            if not is_cleared:
                with suppress(MastraError):  # the test may have closed or broken this handle
                    await store.dangerously_clear_all()
                    is_cleared = True
        if not is_cleared:
            async with self.storage() as store:
                await store.dangerously_clear_all()

    def pubsub(self) -> AbstractAsyncContextManager[PubSub]:
        """Open the bus."""
        context = self._context(self.place.namespace)
        return open_pubsub(self.place.url, self._manager(), context=context)

    def lease(self) -> AbstractAsyncContextManager[LeaseProvider]:
        """Open the lease provider."""
        context = self._context(self.place.namespace)
        return open_lease(self.place.url, self._manager(), context=context)

    def to_json(self) -> dict[str, Any]:
        """What a second process needs to open the same place."""
        return {
            "url": self.subject.url,
            "plugins": list(self.subject.plugins),
            "place": {
                "url": self.place.url,
                "namespace": self.place.namespace,
                "table_namespace": self.place.table_namespace,
                "path": str(self.place.path) if self.place.path else None,
            },
            "ahead_ms": getattr(self.clock, "ahead_ms", 0),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Opener:
        """The opener of another process."""
        path = value["place"]["path"]
        return cls(
            subject=find_subject(value["url"], plugins=tuple(value["plugins"])),
            place=Place(**{**value["place"], "path": Path(path) if path else None}),
            clock=ShiftedClock(ahead_ms=value["ahead_ms"]),
        )

    @asynccontextmanager
    async def _initialised(self) -> AsyncIterator[Storage]:
        context = self._context(self.place.table_namespace)
        async with open_storage(self.place.url, self._manager(), context=context) as store:
            await store.init()
            yield store

    def _manager(self) -> PluginManager:
        return plugin_manager(self.subject.plugins)

    def _context(self, namespace: str) -> AdapterContext:
        resources = self.resources if self.subject.is_volatile else SharedResources()
        return AdapterContext(
            clock=self.clock, ids=self.ids, namespace=namespace, resources=resources
        )


def place_for(subject: Subject, *, namespace: str, table_namespace: str) -> Place:
    """
    Where a test of an adapter keeps its data.

    In-process adapters get a name of their own, files a path of their own beside the
    given one; on servers the names of tables, keys and topics differ.
    """
    url = parse_adapter_url(subject.url, schemes=_schemes(subject))
    if subject.is_volatile:
        return Place(url=_named_memory(subject.url, namespace), namespace=namespace)
    if url.rest.startswith("//") and not url.rest.startswith("///"):
        return Place(url=subject.url, namespace=namespace, table_namespace=table_namespace)
    base, mark, query = subject.url.partition("?")
    path = Path(url.path)
    own = path.with_name(f"{path.stem}.{namespace}{path.suffix}")
    return Place(url=f"{base.removesuffix(url.path)}{own}{mark}{query}", path=own)


async def probe(subject: Subject) -> None:
    """
    Open and close every role once, to see whether the adapter can be reached at all.

    Raises:
        MastraError: It can't; the message says why.
    """
    namespace = namespace_of("probe", str(os.getpid()))
    place = place_for(subject, namespace=namespace, table_namespace=namespace)
    opener = Opener(subject=subject, place=replace(place, table_namespace=""))
    openers = {"storage": opener.storage, "pubsub": opener.pubsub, "lease": opener.lease}
    try:
        for role in subject.roles:
            async with openers[role]():
                pass
    finally:
        place.remove_files()


def _named_memory(url: str, namespace: str) -> str:
    return f"memory:{namespace}" if url.partition("?")[0].startswith("memory:") else url


def _schemes(subject: Subject) -> frozenset[str]:
    return frozenset(scheme for spec in subject.specs for scheme in spec.schemes)
