"""The fixtures of the suites; each test gets its own data, clock and handles."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, ExitStack

import pytest

from mastra_conformance.clock import ShiftedClock
from mastra_conformance.facts import add_facts
from mastra_conformance.leaks import LeakError, Snapshot, check_closed, leaked_tasks, leaked_threads
from mastra_conformance.limits import in_time
from mastra_conformance.naming import is_ours
from mastra_conformance.opening import Opener
from mastra_conformance.options import options_of
from mastra_conformance.outcomes import not_run
from mastra_conformance.processes import Processes
from mastra_conformance.server_info import server_of
from mastra_conformance.servers import Missing, RunningServer, product_named, start_server
from mastra_conformance.servers.find import find_server
from mastra_conformance.subject import Subject
from mastra_core.base.ids import Ids, UuidIds
from mastra_core.contracts.lease import LeaseProvider
from mastra_core.contracts.pubsub import PubSub
from mastra_core.contracts.storage import Storage

__all__ = (
    "OpenLease",
    "OpenPubSub",
    "OpenStore",
    "clock",
    "elapse",
    "emptied",
    "ids",
    "leak_check",
    "lease",
    "local_server",
    "no_leaks",
    "open_lease",
    "open_pubsub",
    "open_store",
    "opener",
    "processes",
    "pubsub",
    "rng",
    "soak_seconds",
    "store",
)

OpenStore = Callable[[], AbstractAsyncContextManager[Storage]]
OpenPubSub = Callable[[], AbstractAsyncContextManager[PubSub]]
OpenLease = Callable[[], AbstractAsyncContextManager[LeaseProvider]]


@pytest.fixture(autouse=True)
def no_leaks(request: pytest.FixtureRequest) -> None:
    """After each test of a suite nothing that it started may be left."""
    if is_ours(request.node) and request.node.get_closest_marker("anyio") is not None:
        request.getfixturevalue("leak_check")


@pytest.fixture
async def leak_check() -> AsyncIterator[None]:
    """Compare tasks and threads before and after everything else of the test."""
    before = Snapshot.take()
    yield
    left = [f"task {name}" for name in await leaked_tasks(before)]
    left += [f"thread {name}" for name in await leaked_threads(before)]
    if left:
        raise LeakError(f"Left behind after the test: {', '.join(left)}.")


@pytest.fixture
def clock() -> ShiftedClock:
    """The time that everything under test is opened with; ``clock.advance(ms)`` jumps."""
    return ShiftedClock()


@pytest.fixture
def ids() -> Ids:
    """Where everything under test gets its ids."""
    return UuidIds()


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> random.Random:
    """Random numbers that repeat with ``--mastra-seed``."""
    return random.Random(f"{options_of(request.config).seed}/{request.node.name}")


@pytest.fixture
def soak_seconds(request: pytest.FixtureRequest) -> float:
    """How long a concurrency test may repeat itself; 0 means once."""
    return options_of(request.config).soak_seconds


@pytest.fixture(scope="session")
def emptied() -> set[str]:
    """Names of the shared places that the last test in them has emptied."""
    return set()


@pytest.fixture
def opener(
    request: pytest.FixtureRequest,
    subject: Subject,
    clock: ShiftedClock,
    ids: Ids,
    emptied: set[str],
) -> Iterator[Opener]:
    """The adapter and this test's own place in it."""
    found = Opener.for_test(
        subject,
        nodeid=request.node.nodeid,
        seed=options_of(request.config).seed,
        clock=clock,
        ids=ids,
        emptied=emptied,
    )
    emptied.discard(found.place.shared_name)
    yield found
    found.place.remove_files()


@pytest.fixture
def open_store(opener: Opener) -> OpenStore:
    """Open another handle on the test's data, as a second process would have."""
    return opener.storage


@pytest.fixture
def open_pubsub(opener: Opener) -> OpenPubSub:
    """Open another handle on the test's topics."""
    return opener.pubsub


@pytest.fixture
def open_lease(opener: Opener) -> OpenLease:
    """Open another handle on the test's leases."""
    return opener.lease


@pytest.fixture
async def store(
    request: pytest.FixtureRequest, opener: Opener, emptied: set[str]
) -> AsyncIterator[Storage]:
    """An opened, initialised, empty store."""
    async with in_time(opener.clean_storage()) as opened:
        add_facts(
            request.node,
            server=await server_of(opened),
            narrowed=sorted(opener.subject.capabilities - opened.capabilities),
        )
        yield opened
    emptied.add(opener.place.shared_name)
    check_closed(opened)


@pytest.fixture
async def pubsub(opener: Opener) -> AsyncIterator[PubSub]:
    """An opened bus without any event."""
    async with in_time(opener.pubsub()) as opened:
        yield opened
    check_closed(opened)


@pytest.fixture
async def lease(opener: Opener) -> AsyncIterator[LeaseProvider]:
    """An opened lease provider without any lease."""
    async with in_time(opener.lease()) as opened:
        yield opened
    check_closed(opened)


@pytest.fixture(scope="session")
def local_server() -> Iterator[Callable[[str], RunningServer]]:
    """
    A real server by its name, such as ``sqld``; started once, stopped at the end of the run.

    A test that asks for one that isn't here is not run, with the reason and the command.
    """
    running: dict[str, RunningServer] = {}
    with ExitStack() as stack:

        def start(name: str) -> RunningServer:
            if name not in running:
                product = product_named(name)
                match find_server(product):
                    case Missing(reason=reason, command=command):
                        not_run(reason, command=command)
                    case found:
                        running[name] = stack.enter_context(start_server(product, found))
            return running[name]

        yield start


@pytest.fixture
def processes(opener: Opener) -> Processes:
    """Starts second processes that open the same URL and place."""
    return Processes(opener)


@pytest.fixture
def elapse(clock: ShiftedClock, opener: Opener) -> Callable[[int], Awaitable[None]]:
    """Let milliseconds pass: by our clock, and for a server with a clock of its own really."""

    async def pass_time(milliseconds: int) -> None:
        if opener.has_own_clock:
            await ShiftedClock().sleep(milliseconds / 1000)
        else:
            clock.advance(milliseconds)

    return pass_time
