"""Runs single tests of the fault suites against a toy server, right and wrong."""

from __future__ import annotations

import inspect
import random
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from mastra_conformance import Suite
from mastra_conformance.clock import ShiftedClock
from mastra_conformance.faults import outcomes
from mastra_conformance.faults.notebook import Notebook
from mastra_conformance.faults.own_server import BreakableServer, start_own_server
from mastra_conformance.faults.site import Site, open_site
from mastra_conformance.opening import Opener
from mastra_conformance.processes import Processes
from mastra_conformance.subject import find_subject
from mastra_conformance.suites.pubsub import support
from mastra_core.base.ids import UuidIds

__all__ = ("bench", "hasty_bench", "toy_servers")

PACKAGES = str(Path(__file__).parent / "packages")
PLUGIN = "toynet.plugin"
#: What doesn't come in this time doesn't come.
SHORT_S = 4.0


@dataclass(frozen=True, kw_only=True)
class Bench:
    """Stands in for the fixtures: one adapter on one server."""

    scheme: str
    server: BreakableServer
    clock: ShiftedClock = field(default_factory=ShiftedClock)

    @asynccontextmanager
    async def site(self) -> AsyncIterator[Site]:
        """As the fixture."""
        subject = find_subject(f"{self.scheme}://127.0.0.1:9", plugins=(PLUGIN,))
        name = f"{self.scheme}-{random.getrandbits(32)}"
        async with open_site(
            subject, self.server, nodeid=name, seed=1, clock=self.clock, ids=UuidIds()
        ) as found:
            yield found

    async def run(self, suite: type[Suite], test: str, **parameters: Any) -> None:
        """Call one test of a suite with everything that it asks for."""
        method: Callable[..., Any] = getattr(suite(), test)
        wanted = inspect.signature(method).parameters
        async with AsyncExitStack() as stack:
            site = await stack.enter_async_context(self.site())
            opener: Opener = site.direct
            makers: dict[str, Callable[[], AbstractAsyncContextManager[Any]]] = {
                "store": opener.clean_storage,
                "pubsub": opener.pubsub,
                "lease": opener.lease,
            }
            given: dict[str, Any] = {
                "site": site,
                "opener": opener,
                "processes": Processes(opener),
                "open_store": opener.storage,
                "open_pubsub": opener.pubsub,
                "open_lease": opener.lease,
                "rng": random.Random(1),
                "notebook": Notebook(),
                "soak_seconds": 0.0,
                **parameters,
            }
            for name, make in makers.items():
                if name in wanted:
                    given[name] = await stack.enter_async_context(make())
            await method(**{name: given[name] for name in wanted})


@pytest.fixture(scope="session")
def toy_servers() -> Iterator[Callable[[str], BreakableServer]]:
    """Servers by the name of their product, started once."""
    sys.path.insert(0, PACKAGES)
    running: dict[str, BreakableServer] = {}
    with ExitStack() as stack:

        def server(name: str) -> BreakableServer:
            if name not in running:
                started = start_own_server("", f"toynet.products:{name}")
                running[name] = BreakableServer(stack.enter_context(started))
            return running[name]

        yield server
    sys.path.remove(PACKAGES)


@pytest.fixture
def bench(toy_servers: Callable[[str], BreakableServer]) -> Callable[[str, str], Bench]:
    """A bench by scheme and product."""
    return lambda scheme, product: Bench(scheme=scheme, server=toy_servers(product))


@pytest.fixture
def hasty_bench(
    bench: Callable[[str, str], Bench], monkeypatch: pytest.MonkeyPatch
) -> Callable[[str, str], Bench]:
    """For what is wrong: what it owes isn't waited for."""
    for name in ("CALL_S", "WAIT_S"):
        monkeypatch.setattr(outcomes, name, SHORT_S)
    monkeypatch.setattr(outcomes, "RECOVERY_S", 3.0)
    monkeypatch.setattr(support, "DEADLINE_S", SHORT_S)
    return bench
