"""Processes that share a thread die, or stand still, at every point of their work (22, G1-G5)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, ClassVar, Final

import pytest

from mastra_conformance import Suite, requires, several_processes
from mastra_conformance.faults.notebook import Notebook
from mastra_conformance.histories.thread_checker import Sent, check_thread, check_view
from mastra_conformance.opening import Opener
from mastra_conformance.outcomes import not_run
from mastra_conformance.processes import Processes, Worker, WorkerDiedError
from mastra_conformance.servers import RunningServer
from mastra_conformance.subject import find_subject
from mastra_conformance.suites.faults.participants import (
    TTL_MS,
    Participant,
    Places,
    participant,
)
from mastra_conformance.suites.faults.thread_workers import SAID, own, send

__all__ = ("ThreadCrashSuite",)

#: Where the owner of a thread dies, and when it is there for the n-th time.
_OWNER: Final[Sequence[tuple[str, int]]] = (
    # The first one lists the thread, the second is the signal that wakes it.
    ("thread_state.set_state:before", 2),
    ("thread_state.set_state:after", 2),
    ("lease.acquire_lease:before", 1),
    ("lease.acquire_lease:after", 1),
    ("pubsub.publish.run-registered:before", 1),
    ("pubsub.publish.run-registered:after", 1),
    ("memory.list_messages:after", 1),
    ("pubsub.publish.stream-part:after", 3),
    # The two turns, which wait behind the run.
    ("thread_state.set_state:before", 3),
    ("thread_state.set_state:after", 4),
    ("pubsub.publish.signal-admitted:before", 1),
    ("memory.save_messages:before", 1),
    ("memory.save_messages:after", 1),
    ("pubsub.publish.run-completed:before", 1),
    ("pubsub.publish.run-completed:after", 1),
    ("thread_state.delete_state:before", 1),
    ("thread_state.delete_state:after", 1),
    # The thread goes on to what waits.
    ("lease.transfer_lease:before", 1),
    ("lease.transfer_lease:after", 1),
    ("memory.save_messages:before", 2),
    ("memory.save_messages:after", 2),
    ("lease.transfer_lease:after", 2),
    ("thread_state.delete_state:after", 3),
    ("lease.release_lease:before", 1),
    ("lease.release_lease:after", 1),
)

#: Where somebody dies who sends to a thread that is another's.
_SENDER: Final[Sequence[tuple[str, int]]] = (
    ("thread_state.set_state:before", 1),
    ("thread_state.set_state:before", 2),
    ("thread_state.set_state:after", 2),
    ("lease.acquire_lease:before", 1),
    ("lease.acquire_lease:after", 1),
    ("pubsub.publish.signal-enqueued:before", 1),
    ("pubsub.publish.signal-enqueued:after", 1),
    ("thread_state.set_state:after", 3),
    ("pubsub.publish.signal-enqueued:before", 2),
    ("pubsub.publish.signal-enqueued:after", 3),
)

#: Where the owner stands still until another one has answered.
_PAUSED: Final[Sequence[tuple[str, int]]] = (
    ("thread_state.set_state:after", 2),
    ("lease.acquire_lease:after", 1),
    ("pubsub.publish.run-registered:before", 1),
    ("pubsub.publish.stream-part:before", 3),
    ("pubsub.publish.run-completed:before", 1),
    ("thread_state.delete_state:before", 1),
    ("lease.transfer_lease:before", 1),
    ("lease.transfer_lease:after", 1),
    ("lease.release_lease:before", 1),
)

#: The same for a store that refuses writes of former owners: in the middle of a write, too.
_PAUSED_IN_A_WRITE: Final[Sequence[tuple[str, int]]] = (
    ("memory.raise_fence:before", 1),
    ("memory.raise_fence:after", 1),
    ("memory.save_messages:before", 1),
    ("memory.save_messages:before", 2),
    ("memory.save_messages:after", 1),
)


def _named(points: Sequence[tuple[str, int]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        ("point", "nth"), points, ids=[f"{point}-{nth}" for point, nth in points]
    )


@several_processes()
@pytest.mark.usefixtures("store")
class ThreadCrashSuite(Suite):
    """What was accepted is answered once, whoever dies where."""

    role: ClassVar[str] = "runtime"
    capabilities: ClassVar[tuple[str, ...]] = (
        "memory",
        "thread_state",
        "pubsub.cross_process",
        "lease.cross_process",
    )
    tier: ClassVar[int] = 4
    #: Name of the server that keeps events and leases where they don't stand beside messages.
    other: ClassVar[str | None] = None

    @_named(_OWNER)
    async def test_an_owner_dies(
        self, opener: Opener, processes: Processes, notebook: Notebook, point: str, nth: int
    ) -> None:
        """Another process, which has sent to it, answers what it had accepted."""
        async with _witness(opener, notebook) as here:
            said: list[Sent] = []
            async with processes.start(own, point=point, nth=nth) as owner:
                with pytest.raises(WorkerDiedError, match="code 77"):
                    await _talk(owner, here, said)
            await _all_is_well(here, said)

    @_named(_SENDER)
    async def test_a_sender_dies(
        self, opener: Opener, processes: Processes, notebook: Notebook, point: str, nth: int
    ) -> None:
        """The owner, which is in the middle of a run, answers what it was told is accepted."""
        async with _witness(opener, notebook, stops=frozenset({1})) as here:
            await here.send("here1")
            await here.gates.reached("1")
            said: list[Sent] = []
            async with processes.start(send, point=point, nth=nth) as sender:
                with pytest.raises(WorkerDiedError, match="code 77"):
                    await _talk(sender, here, said)
            await here.queue("here2")
            here.gates.open("1")
            await _all_is_well(here, said)

    @_named(_PAUSED)
    async def test_an_owner_stands_still(
        self, opener: Opener, processes: Processes, notebook: Notebook, point: str, nth: int
    ) -> None:
        """Past its lease, until another has answered; then it goes on as if nothing happened."""
        await _stands_still(opener, processes, notebook, point, nth)

    @requires("storage.guarded_writes")
    @_named(_PAUSED_IN_A_WRITE)
    async def test_an_owner_stands_still_before_it_writes(
        self, opener: Opener, processes: Processes, notebook: Notebook, point: str, nth: int
    ) -> None:
        """Behind its last look at the lease: the store refuses what comes too late."""
        await _stands_still(opener, processes, notebook, point, nth)

    @pytest.mark.parametrize(
        ("point", "nth"),
        [
            ("thread_state.set_state:after", 2),
            ("pubsub.publish.stream-part:after", 3),
            ("memory.save_messages:after", 1),
            ("lease.transfer_lease:after", 1),
        ],
    )
    async def test_an_owner_dies_between_two_servers(
        self,
        opener: Opener,
        processes: Processes,
        notebook: Notebook,
        local_server: Callable[[str], RunningServer],
        *,
        request: pytest.FixtureRequest,
        point: str,
        nth: int,
    ) -> None:
        """Messages and input are here, events and leases somewhere else."""
        if self.other is None:
            not_run("No other server is named for this suite.")
        subject = find_subject(local_server(self.other).url, plugins=opener.subject.plugins)
        bus = Opener.for_test(
            subject, nodeid=request.node.nodeid, seed=0, clock=opener.clock, ids=opener.ids
        )
        places = Places(storage=opener, pubsub=bus, lease=bus)
        async with _witness(places, notebook) as here:
            said: list[Sent] = []
            arguments: dict[str, Any] = {"point": point, "nth": nth, "bus": bus.to_json()}
            async with processes.start(own, **arguments) as owner:
                with pytest.raises(WorkerDiedError, match="code 77"):
                    await _talk(owner, here, said)
            await _all_is_well(here, said)


async def _stands_still(
    opener: Opener, processes: Processes, notebook: Notebook, point: str, nth: int
) -> None:
    async with _witness(opener, notebook) as here:
        said: list[Sent] = []
        arguments: dict[str, Any] = {"point": point, "nth": nth, "stands": True}
        async with processes.start(own, **arguments) as owner:
            await _talk(owner, here, said)
        await _all_is_well(here, said)


@asynccontextmanager
async def _witness(
    places: Opener | Places, notebook: Notebook, *, stops: frozenset[int] = frozenset()
) -> AsyncIterator[Participant]:
    """The process that survives, and what it and its reader saw."""
    async with participant(places, "here", stops=stops) as here:
        async with here.reads() as seen:
            try:
                yield here
            finally:
                rows = await here.rows()
                notebook.note("Rows", "\n".join(f"{row.role}: {row.text}" for row in rows))
                notebook.note("Seen", "\n".join(map(str, seen)))
        await here.is_done()
        answers = [row.text for row in rows if row.role == "assistant"]
        assert [] == check_view(seen, answers)


async def _talk(worker: Worker, here: Participant, said: list[Sent]) -> None:
    """Note what a worker says; send something, too, when it is in the middle of its run."""
    turns = 0
    async for word in worker.told(SAID):
        match word:
            case {"accepted": str(accepted)}:
                said.append(Sent(word=accepted, sender="there"))
            case {"turn": str(accepted)}:
                turns += 1
                said.append(Sent(word=accepted, sender="there", turn=turns))
            case {"at": "middle"}:
                await here.send("here1")
                await here.queue("here2")
                with suppress(ConnectionError):
                    # It may be dead because of what was sent.
                    await worker.go()
            case None:
                # It stands still.
                worker.pause()
                await here.send("here3")
                await here.answered("here3", *(one.word for one in said))
                await asyncio.sleep(TTL_MS / 1000)
                worker.resume()
            case _:
                raise AssertionError(f"The worker said {word!r}.")


#: What workers may have sent before they could say so.
_UNTOLD: Final = (
    Sent(word="own1", sender="there", is_accepted=False),
    Sent(word="own2", sender="there", is_accepted=False, turn=1),
    Sent(word="own3", sender="there", is_accepted=False, turn=2),
    Sent(word="send1", sender="there", is_accepted=False),
    Sent(word="send2", sender="there", is_accepted=False, turn=1),
    Sent(word="send3", sender="there", is_accepted=False, turn=2),
)


async def _all_is_well(here: Participant, said: Sequence[Sent]) -> None:
    """Everything accepted is answered, nothing waits, nobody has the thread, all in order."""
    sent = [*here.sent, *said]
    await here.answered(*(one.word for one in sent if one.is_accepted))
    await here.is_quiet()
    told = {one.word for one in sent}
    sent += [one for one in _UNTOLD if one.word not in told]
    rows = await here.rows()
    assert [] == check_thread(rows, sent)
