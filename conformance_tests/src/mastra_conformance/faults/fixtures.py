"""The fixtures of fault tests: a site to break, notes, plans."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager

import pytest

from mastra_conformance.clock import ShiftedClock
from mastra_conformance.faults.notebook import Notebook, notebook_of
from mastra_conformance.faults.own_server import BreakableServer, start_own_server
from mastra_conformance.faults.site import Site, open_site
from mastra_conformance.faults.versions import Older, older_version
from mastra_conformance.options import options_of
from mastra_conformance.outcomes import not_run
from mastra_conformance.processes import Processes, Worker, WorkerFailedError
from mastra_conformance.subject import Subject
from mastra_core.base.ids import Ids

__all__ = ("StartOlder", "notebook", "older", "own_servers", "site", "start_older")

#: Starts a worker of an earlier version by its import string.
StartOlder = Callable[[str], AbstractAsyncContextManager[Worker]]


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


@pytest.fixture(scope="session")
def older(request: pytest.FixtureRequest) -> Iterator[Older]:
    """An earlier version of our own code; where there is none the test is not run."""
    with older_version(options_of(request.config).older) as found:
        yield found


@pytest.fixture
def start_older(older: Older, processes: Processes, subject: Subject) -> StartOlder:
    """Starts workers of the earlier version on the test's data, if it had the adapter already."""
    package = subject.plugin_module.partition(".")[0]
    if not older.has(package):
        not_run(f"Version {older.name} had no {package} yet.")

    @asynccontextmanager
    async def start(worker: str) -> AsyncIterator[Worker]:
        try:
            async with processes.start(worker, older.environment()) as running:
                yield running
        except WorkerFailedError as exc:
            if exc.error == "ConfigError":
                not_run(f"Version {older.name} says: {exc}")
            raise

    return start
