"""The fixtures of fault tests: a site to break, notes, plans."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack

import pytest

from mastra_conformance.clock import ShiftedClock
from mastra_conformance.faults.notebook import Notebook, notebook_of
from mastra_conformance.faults.own_server import BreakableServer, start_own_server
from mastra_conformance.faults.site import Site, open_site
from mastra_conformance.options import options_of
from mastra_conformance.subject import Subject
from mastra_core.base.ids import Ids

__all__ = ("notebook", "own_servers", "site")


@pytest.fixture(scope="session")
def own_servers(request: pytest.FixtureRequest) -> Iterator[Callable[[Subject], BreakableServer]]:
    """The server of our own for an adapter; started with the first test that breaks one."""
    running: dict[str, BreakableServer] = {}
    wanted = options_of(request.config).own_server
    with ExitStack() as stack:

        def server_for(subject: Subject) -> BreakableServer:
            if subject.key not in running:
                server = stack.enter_context(start_own_server(subject.url, wanted))
                running[subject.key] = BreakableServer(server)
            return running[subject.key]

        yield server_for


@pytest.fixture
async def site(
    request: pytest.FixtureRequest,
    subject: Subject,
    own_servers: Callable[[Subject], BreakableServer],
    clock: ShiftedClock,
    ids: Ids,
) -> AsyncIterator[Site]:
    """The adapter, a server of our own and a network between them, to be broken."""
    async with open_site(
        subject,
        own_servers(subject),
        nodeid=request.node.nodeid,
        seed=options_of(request.config).seed,
        clock=clock,
        ids=ids,
    ) as found:
        yield found


@pytest.fixture
def notebook(request: pytest.FixtureRequest) -> Notebook:
    """What is shown if the test fails."""
    return notebook_of(request.node)
