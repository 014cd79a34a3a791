"""Runs single tests of the suites against adapters that exist only here."""

from __future__ import annotations

import inspect
import random
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qsl

import pytest

from mastra_conformance import Suite
from mastra_conformance.clock import ShiftedClock
from mastra_conformance.suites.lease import support as lease_support
from mastra_conformance.suites.pubsub import support as pubsub_support
from mastra_core.inmemory.lease import InMemoryLease, InMemoryLeaseSettings
from mastra_core.inmemory.pubsub import InMemoryPubSub, InMemoryPubSubSettings
from mastra_core.plugins import AdapterContext, SharedResources

__all__ = ("bench", "hasty_bench")

#: What doesn't come in this time doesn't come.
SHORT_S = 0.5


@dataclass(frozen=True, kw_only=True)
class Bench:
    """Stands in for the fixtures: opens the adapter that a test of a suite is called with."""

    make_bus: Callable[..., Any] = InMemoryPubSub
    make_lease: Callable[..., Any] = InMemoryLease
    url: str = "memory:bench"
    clock: ShiftedClock = field(default_factory=ShiftedClock)
    resources: SharedResources = field(default_factory=SharedResources)
    request: Any = None

    @property
    def place(self) -> SimpleNamespace:
        """As ``Opener.place``."""
        return SimpleNamespace(url=self.url)

    @property
    def context(self) -> AdapterContext:
        """One for all handles, so that they see the same."""
        return AdapterContext(clock=self.clock, resources=self.resources)

    def with_url(self, url: str) -> Bench:
        """As ``Opener.with_url``."""
        return replace(self, url=url)

    def pubsub(self) -> AbstractAsyncContextManager[Any]:
        """As ``Opener.pubsub``."""
        url, _, query = self.url.partition("?")
        options = {name.removeprefix("mastra_"): value for name, value in parse_qsl(query)}
        settings = InMemoryPubSubSettings.model_validate({**options, "url": url})
        return _opened(self.make_bus(settings, self.context))

    def lease(self) -> AbstractAsyncContextManager[Any]:
        """As ``Opener.lease``."""
        return _opened(self.make_lease(InMemoryLeaseSettings(url=self.url), self.context))

    async def elapse(self, milliseconds: int) -> None:
        """As the fixture."""
        self.clock.advance(milliseconds)

    async def run(self, suite: type[Suite], test: str, **parameters: Any) -> None:
        """Call one test of a suite with everything that it asks for."""
        method = getattr(suite(), test)
        given: dict[str, Any] = {
            "opener": self,
            "open_pubsub": self.pubsub,
            "open_lease": self.lease,
            "clock": self.clock,
            "elapse": self.elapse,
            "rng": random.Random(1),
            "caplog": self.request.getfixturevalue("caplog"),
            **parameters,
        }
        wanted = inspect.signature(method).parameters
        async with AsyncExitStack() as stack:
            if "pubsub" in wanted:
                given["pubsub"] = await stack.enter_async_context(self.pubsub())
            if "lease" in wanted:
                given["lease"] = await stack.enter_async_context(self.lease())
            await method(**{name: given[name] for name in wanted})


@asynccontextmanager
async def _opened(adapter: Any) -> AsyncIterator[Any]:
    async with adapter:
        yield adapter


@pytest.fixture
def bench(request: pytest.FixtureRequest) -> Bench:
    """A bench with right adapters."""
    return Bench(request=request)


@pytest.fixture
def hasty_bench(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """For a wrong adapter, by ``dataclasses.replace``: what it owes isn't waited for."""
    for support in (lease_support, pubsub_support):
        monkeypatch.setattr(support, "DEADLINE_S", SHORT_S)
    return bench
