"""Runs single tests of the storage suites against stores that are wrong on purpose."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from mastra_conformance import Suite
from mastra_conformance.clock import ShiftedClock
from mastra_core.inmemory.storage import InMemoryStorage
from mastra_core.inmemory.storage.settings import InMemoryStorageSettings
from mastra_core.plugins import AdapterContext, SharedResources

__all__ = ("bench",)


@dataclass(frozen=True, kw_only=True)
class Bench:
    """Stands in for the fixtures: opens the in-memory store, with one fault or none."""

    #: A mixin over a domain of the store; None for the right store.
    fault: type | None = None
    #: Which domain the fault is in.
    domain: str = ""
    clock: ShiftedClock = field(default_factory=ShiftedClock)
    resources: SharedResources = field(default_factory=SharedResources)

    @asynccontextmanager
    async def storage(self) -> AsyncIterator[InMemoryStorage]:
        """Another handle on the same data."""
        context = AdapterContext(clock=self.clock, resources=self.resources)
        async with InMemoryStorage(InMemoryStorageSettings(), context) as store:
            if self.fault is not None:
                right: Any = getattr(store, self.domain)
                wrong: Any = object.__new__(type("Wrong", (self.fault, type(right)), {}))
                wrong.__dict__ = right.__dict__
                setattr(store, f"_{self.domain}", wrong)
            yield store

    async def run(self, suite: type[Suite], test: str, **parameters: Any) -> None:
        """Call one test of a suite with everything that it asks for."""
        method: Callable[..., Any] = getattr(suite(), test)
        wanted = inspect.signature(method).parameters
        async with self.storage() as store:
            given = {
                "store": store,
                "open_store": self.storage,
                "clock": self.clock,
                "elapse": self._elapse,
                "subject": SimpleNamespace(is_volatile=True),
                "processes": None,
                **parameters,
            }
            await method(**{name: given[name] for name in wanted})

    async def _elapse(self, milliseconds: int) -> None:
        self.clock.advance(milliseconds)


@pytest.fixture
def bench() -> type[Bench]:
    """Makes benches."""
    return Bench
