"""Runs of other processes, as their events tell (signals.md 12.9-12.11, 19.9)."""

from __future__ import annotations

from typing import Any

import pytest

from mastra_core.errors import LeaseUnavailableError, StreamGapError
from mastra_core.inmemory.lease import InMemoryLease
from mastra_core.inmemory.pubsub import InMemoryPubSub
from mastra_core.plugins import AdapterContext, SharedResources
from mastra_core.streaming.broadcast import ChunkBuffer
from mastra_core.testing.fake_clock import FakeClock
from mastra_core.threads import events
from mastra_core.threads.events import ThreadEvent
from mastra_core.threads.reach import Backends, ThreadReach
from mastra_core.threads.remote import MAX_REMOTE_PARTS, MAX_REMOTE_RUNS, RemoteRuns
from mastra_core.threads.thread_key import thread_key, thread_topic

__all__ = ()

pytestmark = pytest.mark.anyio

START = {"type": "start", "runId": "r1", "payload": {}}
FINISH = {"type": "finish", "runId": "r1", "payload": {"stepResult": {"reason": "stop"}}}
DELTA = {"type": "text-delta", "runId": "r1", "payload": {"text": "x"}}
APPROVAL = {"type": "tool-call-approval", "runId": "r1", "payload": {}}


class Elsewhere:
    """Another process, and what readers here see of it."""

    def __init__(self) -> None:
        self.owner: str | None = "r1"
        self.is_cut = False
        self.shown: list[tuple[str, ChunkBuffer]] = []
        self.runs = RemoteRuns(source_id="us", owner=self.ask, show=self.show)

    async def ask(self) -> str | None:
        if self.is_cut:
            raise LeaseUnavailableError("The line is cut.")
        return self.owner

    def show(self, run_id: str, buffer: ChunkBuffer) -> None:
        self.shown.append((run_id, buffer))

    async def says(
        self, kind: str, run_id: str = "r1", *, is_past: bool = False, **members: Any
    ) -> None:
        data = {"type": kind, "runId": run_id, "sourceId": "them", **members}
        await self.runs.take(ThreadEvent(type=kind, data=data), is_past=is_past)

    async def part(self, chunk: dict[str, Any], stream_id: str = "s1") -> None:
        await self.says("stream-part", streamId=stream_id, part=chunk)

    def chunks(self, index: int = 0) -> list[Any]:
        return [chunk["type"] for chunk in self.shown[index][1].chunks]


@pytest.fixture
def elsewhere() -> Elsewhere:
    return Elsewhere()


async def test_a_run_that_has_the_lease_is_live(elsewhere: Elsewhere) -> None:
    """Its parts are seen as they come, and its end ends them."""
    await elsewhere.says("run-registered", streamId="s1", streamSeq=1)
    await elsewhere.part(START)
    assert ["start"] == elsewhere.chunks()
    active = elsewhere.runs.active
    assert active is not None
    assert ("r1", "s1") == (active.run_id, active.stream_id)

    await elsewhere.part(FINISH)
    await elsewhere.says("run-completed", streamId="s1", persisted=True)
    await elsewhere.part(START)

    assert ["start", "finish"] == elsewhere.chunks()
    assert elsewhere.shown[0][1].is_closed
    assert elsewhere.runs.active is None
    assert 1 == len(elsewhere.shown)


async def test_what_we_say_ourselves_is_skipped(elsewhere: Elsewhere) -> None:
    """It is read from the run itself."""
    await elsewhere.says("run-registered", streamId="s1", sourceId="us")
    await elsewhere.says("stream-part", streamId="s1", sourceId="us", part=START)

    assert [] == elsewhere.shown


@pytest.mark.parametrize("end", ["run-aborted", "run-failed"])
async def test_half_an_answer_of_the_past_is_not_shown(elsewhere: Elsewhere, end: str) -> None:
    """A retained topic brings no phantom (signals.md 12.9)."""
    elsewhere.owner = None
    await elsewhere.says("run-registered", streamId="s1")
    await elsewhere.part(START)
    await elsewhere.says(end, streamId="s1", error="no")
    await elsewhere.says("run-completed", streamId="s1", persisted=False)

    assert [] == elsewhere.shown


@pytest.mark.parametrize(
    ("parts", "members", "is_shown"),
    [
        ([START, FINISH], {"persisted": True}, True),
        ([START, FINISH], {"persisted": False}, False),
        # Version 1.71 may not say; then its parts tell.
        ([START, FINISH], {}, True),
        ([START], {}, False),
        ([START, {"type": "error"}, FINISH], {}, False),
    ],
)
async def test_a_whole_run_of_the_past_is_shown(
    elsewhere: Elsewhere, parts: list[Any], members: dict[str, Any], is_shown: bool
) -> None:
    """Once it is known to be whole."""
    elsewhere.owner = None
    await elsewhere.says("run-registered", streamId="s1")
    for part in parts:
        await elsewhere.part(part)
    assert [] == elsewhere.shown

    await elsewhere.says("run-completed", streamId="s1", **members)

    assert is_shown == bool(elsewhere.shown)


async def test_what_had_ended_before_anybody_read_is_history(elsewhere: Elsewhere) -> None:
    """Storage has it; a reader gets what goes on."""
    elsewhere.owner = None
    await elsewhere.says("run-registered", is_past=True, streamId="s1")
    await elsewhere.says("run-completed", is_past=True, streamId="s1", persisted=True)
    await elsewhere.says("run-failed", "r0", is_past=True, error="no")

    assert [] == elsewhere.shown


async def test_what_is_missing_of_the_past_is_no_gap(elsewhere: Elsewhere) -> None:
    """It stands in storage; a part that is missing from then on is one (12.2, 17.8)."""
    await elsewhere.says("run-registered", is_past=True, streamId="s1")
    for number in (0, 7):
        await elsewhere.says(
            "stream-part", is_past=True, streamId="s1", part=DELTA if number else START, seq=number
        )
    await elsewhere.says("stream-part", streamId="s1", part=DELTA, seq=12)
    await elsewhere.says("stream-part", streamId="s1", part=DELTA, seq=13)
    seen = elsewhere.chunks()
    await elsewhere.says("stream-part", streamId="s1", part=DELTA, seq=15)

    assert ["start", "text-delta", "text-delta", "text-delta"] == seen
    assert [*seen, "error"] == elsewhere.chunks()


async def test_an_end_without_a_stream_id_means_the_newest(elsewhere: Elsewhere) -> None:
    """As version 1.71 says it (19.9)."""
    await elsewhere.says("run-registered", streamId="s1")
    await elsewhere.says("run-suspended")
    await elsewhere.says("run-registered", streamId="s2")

    await elsewhere.says("run-completed", persisted=True)

    assert [True, True] == [buffer.is_closed for _, buffer in elsewhere.shown]
    assert elsewhere.runs.active is None


async def test_a_run_that_lost_its_lease_ends_in_an_error(elsewhere: Elsewhere) -> None:
    """Nobody waits for ever for a dead process."""
    await elsewhere.says("run-registered", streamId="s1")
    await elsewhere.part(START)
    assert not await elsewhere.runs.check()
    elsewhere.owner = None

    assert await elsewhere.runs.check()

    assert ["start", "error"] == elsewhere.chunks()
    assert elsewhere.runs.active is None


async def test_a_prompt_outlives_its_owner(elsewhere: Elsewhere) -> None:
    """The run waits for its answer in storage; that is no error."""
    await elsewhere.says("run-registered", streamId="s1")
    await elsewhere.part(START)
    await elsewhere.part(APPROVAL)
    elsewhere.owner = None

    assert await elsewhere.runs.check()

    assert ["start", "tool-call-approval"] == elsewhere.chunks()
    assert elsewhere.shown[0][1].is_closed


async def test_a_run_that_never_began_is_told(elsewhere: Elsewhere) -> None:
    """As an error of its own; one that Node can't write is told in general words."""
    await elsewhere.says("run-failed", error={})

    assert ["error"] == elsewhere.chunks()
    assert "another process" in elsewhere.shown[0][1].chunks[0]["payload"]["error"]


async def test_what_no_one_knows_is_ignored(elsewhere: Elsewhere) -> None:
    """A newer sender may say more."""
    await elsewhere.says("run-celebrated")
    await elsewhere.runs.take(ThreadEvent(type="stream-part", data={"part": START}))

    assert [] == elsewhere.shown


async def numbered(elsewhere: Elsewhere, number: int, chunk: dict[str, Any]) -> None:
    """A part with its number, as processes of ours tell it."""
    await elsewhere.says("stream-part", streamId="s1", part=chunk, seq=number)


WORD = {"type": "text-delta", "runId": "r1", "payload": {"text": "word"}}


async def test_a_part_that_comes_twice_is_shown_once(elsewhere: Elsewhere) -> None:
    """Its sender didn't know that it had arrived."""
    await elsewhere.says("run-registered", streamId="s1")
    for number, part in ((0, START), (1, WORD), (1, WORD), (0, START), (2, FINISH)):
        await numbered(elsewhere, number, part)
    await elsewhere.says("run-completed", streamId="s1", persisted=True, parts=3)

    assert ["start", "text-delta", "finish"] == elsewhere.chunks()


@pytest.mark.parametrize("numbers", [(0, 2, 3), (0, 1)])
async def test_readers_are_told_that_parts_are_missing(
    elsewhere: Elsewhere, numbers: tuple[int, ...]
) -> None:
    """In the middle or at the end; nothing else of this run is shown."""
    await elsewhere.says("run-registered", streamId="s1")
    for number in numbers:
        await numbered(elsewhere, number, START if not number else WORD)
    await elsewhere.says("run-completed", streamId="s1", persisted=True, parts=4)

    told = ["start", *["text-delta" for number in numbers if number == 1], "error"]
    assert told == elsewhere.chunks()
    assert "lost on their way" in elsewhere.shown[0][1].chunks[-1]["payload"]["error"]


@pytest.mark.parametrize("source", ["them", "us"])
async def test_who_takes_the_thread_ends_the_run_before(elsewhere: Elsewhere, source: str) -> None:
    """Its owner would have told how it ended, before it let the thread go."""
    await elsewhere.says("run-registered", streamId="s1")
    await elsewhere.part(START)
    elsewhere.owner = "r2"

    await elsewhere.says("run-registered", "r2", streamId="s2", sourceId=source)

    assert ["start", "error"] == elsewhere.chunks()
    assert elsewhere.shown[0][1].is_closed


async def test_a_run_whose_owner_nobody_knows_goes_on(elsewhere: Elsewhere) -> None:
    """Leases that don't answer say nothing about it (field report R101)."""
    await elsewhere.says("run-registered", streamId="s1")
    elsewhere.is_cut = True

    assert not await elsewhere.runs.check()
    await elsewhere.part(FINISH)

    assert ["finish"] == elsewhere.chunks()


async def test_a_run_that_was_taken_back_is_forgotten(elsewhere: Elsewhere) -> None:
    """Its owner could not begin it: readers see no end, and what follows changes nothing."""
    await elsewhere.says("run-registered", streamId="s1")
    await elsewhere.says("run-discarded", streamId="s1")
    await elsewhere.part(START)

    assert [] == elsewhere.chunks()
    assert elsewhere.shown[0][1].is_closed
    assert elsewhere.runs.active is None


async def test_runs_that_never_end_are_not_kept_for_ever(elsewhere: Elsewhere) -> None:
    """The oldest of those that may not be shown yet is forgotten first (G6)."""
    elsewhere.owner = "somebody else"
    for number in range(MAX_REMOTE_RUNS + 1):
        await elsewhere.says("run-registered", f"r{number}", streamId=f"s{number}")
    for number in (0, 1):
        await elsewhere.says("run-completed", f"r{number}", streamId=f"s{number}", persisted=True)

    assert ["r1"] == [run_id for run_id, _ in elsewhere.shown]


async def test_a_reader_that_is_far_behind_gets_a_gap(elsewhere: Elsewhere) -> None:
    """Of a run elsewhere only so many parts are kept (G6)."""
    await elsewhere.says("run-registered", streamId="s1")
    part = {"type": "text-delta", "runId": "r1", "payload": {}}
    for _ in range(MAX_REMOTE_PARTS + 1):
        await elsewhere.part(part)

    buffer = elsewhere.shown[0][1]
    with pytest.raises(StreamGapError):
        buffer.at(0)
    assert len(buffer.chunks) <= MAX_REMOTE_PARTS


class Readers:
    """A runtime that nobody sends to; keeps what readers here are shown."""

    def __init__(self) -> None:
        self.shown: list[ChunkBuffer] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None

    def show_remote(self, key: str, run_id: str, buffer: ChunkBuffer) -> None:
        self.shown.append(buffer)


@pytest.mark.parametrize("is_told", [True, False])
async def test_an_end_may_come_after_the_lease_is_free(clock: FakeClock, is_told: bool) -> None:
    """A bus without push brings it a moment later; without one the run has lost its lease."""
    key, readers = thread_key("r", "t"), Readers()
    resources = SharedResources()
    context = AdapterContext(clock=clock, resources=resources)
    async with InMemoryPubSub(None, context) as bus, InMemoryLease(None, context) as lease:
        backends = Backends(
            source_id="us", clock=clock, pubsub=bus, lease=lease, inbox=None, ttl_ms=15_000
        )
        reach = ThreadReach(readers, backends)
        who = {"stream_id": "s1", "source_id": "them"}
        async with reach.heard(key, runs=True):
            await lease.acquire_lease(key, "r1", 14_000)
            topic = thread_topic("r", "t")
            begun = events.run_registered("r1", stream_seq=1, agent_id="a", **who)
            await bus.publish(topic, begun)
            await clock.advance(16)
            if is_told:
                ended = events.run_ended("r1", status="success", persisted=True, parts=0, **who)
                await bus.publish(topic, ended)
            await clock.advance(3)
            chunks = [chunk["type"] for chunk in readers.shown[0].chunks]
            is_closed = readers.shown[0].is_closed
        await reach.aclose()

    assert ([] if is_told else ["error"], True) == (chunks, is_closed)
