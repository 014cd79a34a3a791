"""Writes to threads that carry the fence of a lease (pubsub_and_lease.md 6.4, L9)."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import ClassVar, Final

import pytest

from mastra_conformance.fixtures import OpenStore
from mastra_conformance.histories.lease_checker import GuardedWrite, check_guarded_writes
from mastra_conformance.processes import Processes
from mastra_conformance.subject import Subject
from mastra_conformance.suite import Suite, requires, several_processes
from mastra_conformance.suites.storage.crowds import in_crowd
from mastra_conformance.suites.storage.guarded_workers import (
    KEY,
    write_after_a_stop,
    write_next,
    write_with_each,
)
from mastra_conformance.suites.storage.things import at, message, thread
from mastra_core.contracts.storage import MemoryStorage, PrunePolicy, Storage
from mastra_core.errors import FencedOutError, StorageArgumentError, ThreadNotFoundError

__all__ = ("GuardedCrowdSuite", "GuardedProcessSuite", "GuardedWriteSuite")

#: About what a server's clock in microseconds gives (L4).
_TERM: Final = 1_764_000_000_000_000
_STOPS: Final = 8
_FENCES: Final = 81

_Write = Callable[[MemoryStorage], Awaitable[object]]

#: Every write that a fence guards, on a store with thread ``t1`` and message ``m1``.
_WRITES: Final[dict[str, _Write]] = {
    "save_thread": lambda memory: memory.save_thread(thread(title="Changed")),
    "save_new_thread": lambda memory: memory.save_thread(thread("t2")),
    "create_thread": lambda memory: memory.create_thread(thread("t2")),
    "update_thread": lambda memory: memory.update_thread("t1", title="Changed", metadata={"a": 2}),
    "delete_thread": lambda memory: memory.delete_thread("t1"),
    "save_message": lambda memory: memory.save_messages([message("m2")]),
    "save_messages": lambda memory: memory.save_messages(
        [message("m2"), message("m1", text="changed"), message("m3")]
    ),
    "update_messages": lambda memory: memory.update_messages([{"id": "m1", "role": "assistant"}]),
    "delete_messages": lambda memory: memory.delete_messages(["m1"]),
}


async def _everything(store: Storage) -> tuple[list[str], list[str]]:
    """All threads and messages, as JSON."""
    threads = await store.memory.list_threads(per_page=False)
    messages = await store.memory.list_messages(["t1", "t2"], per_page=False)
    return (
        [row.model_dump_json() for row in threads.threads],
        [row.model_dump_json() for row in messages.messages],
    )


async def _prepare(store: Storage) -> None:
    await store.memory.save_thread(thread(metadata={"a": 1}))
    await store.memory.save_messages([message("m1")])


async def _is_accepted(write: Awaitable[object]) -> bool:
    try:
        await write
    except FencedOutError:
        return False
    return True


class GuardedWriteSuite(Suite):
    """What a store does with writes of somebody who owns, or has owned, a thread."""

    capabilities = ("storage.guarded_writes",)

    @pytest.mark.parametrize("write", _WRITES)
    async def test_an_older_fence_writes_nothing(self, store: Storage, write: str) -> None:
        """Whatever it is that a former owner writes, all of it is refused."""
        await _prepare(store)
        await store.memory.guarded((KEY, _TERM)).update_thread("t1", metadata={"b": 1})
        before = await _everything(store)

        with pytest.raises(FencedOutError) as caught:
            await _WRITES[write](store.memory.guarded((KEY, _TERM - 1)))

        assert before == await _everything(store)
        details = caught.value.details
        assert (KEY, _TERM - 1, _TERM) == (details["key"], details["fence"], details["current"])

    @pytest.mark.parametrize("write", _WRITES)
    async def test_equal_and_newer_fences_write(self, store: Storage, write: str) -> None:
        """What they leave is what the same write without a fence leaves."""
        await _prepare(store)
        await store.memory.raise_fence((KEY, _TERM))

        for fence in (_TERM, _TERM, _TERM + 1):
            before = await _everything(store)
            assert await _is_accepted(_WRITES[write](store.memory.guarded((KEY, fence))))
            after = await _everything(store)
            assert before != after
            # The next one finds what this one found.
            await store.memory.delete_thread("t2")
            await store.memory.delete_thread("t1")
            await _prepare(store)

    @requires("storage.retention")
    async def test_pruning_lets_no_former_owner_in(self, store: Storage) -> None:
        """Not even to a thread that is pruned: he would bring it back."""
        await _prepare(store)
        await store.memory.raise_fence((KEY, _TERM))
        policies = [PrunePolicy(table=name, max_age_ms=0) for name in ("messages", "threads")]

        await store.memory.prune(policies)

        for name in ("save_thread", "create_thread", "save_message", "save_messages"):
            assert not await _is_accepted(_WRITES[name](store.memory.guarded((KEY, _TERM - 1))))

    async def test_what_is_written_reads_back(self, store: Storage) -> None:
        """Guarded calls answer as others do."""
        memory = store.memory.guarded((KEY, _TERM))

        made = await memory.create_thread(thread())
        known = await memory.create_thread(thread(title="Other"))
        changed = await memory.update_thread("t1", title="New", metadata={"a": 1})
        saved = await memory.save_messages([message("m1"), message("m2", created_at=at(1))])
        patched = await memory.update_messages([{"id": "m2", "role": "assistant"}])

        assert ["Title", "Title", "New"] == [made.title, known.title, changed.title]
        assert ["m1", "m2"] == [row.id for row in saved]
        assert ["assistant"] == [row.role for row in patched]
        assert ["user", "assistant"] == [
            row.role for row in (await memory.list_messages("t1")).messages
        ]
        assert changed.metadata == {"a": 1}

    async def test_writes_without_a_fence_are_as_ever(self, store: Storage) -> None:
        """Whoever owns nothing isn't kept from writing, and keeps nobody from it."""
        await _prepare(store)
        await store.memory.raise_fence((KEY, _TERM))

        await store.memory.save_messages([message("m2", created_at=at(1))])
        await store.memory.update_thread("t1", title="Plain")
        await store.memory.guarded((KEY, _TERM)).save_messages([message("m3", created_at=at(2))])

        page = await store.memory.list_messages("t1")
        assert ["m1", "m2", "m3"] == [row.id for row in page.messages]
        found = await store.memory.get_thread_by_id("t1")
        assert found is not None
        assert "Plain" == found.title

    async def test_keys_know_nothing_of_each_other(self, store: Storage) -> None:
        """An owner of one thread says nothing about another, however alike their keys are."""
        keys = ["r1\0t1", "r1\0t2", "r1\\0t1", "r1", "r1\0T1", "r1\0t1 ", "%", "_"]
        for number, key in enumerate(keys):
            assert await _is_accepted(store.memory.raise_fence((key, _TERM - number)))

        for number, key in enumerate(keys):
            memory = store.memory.guarded((key, _TERM - number))
            row = message(f"m{number}", created_at=at(number))
            assert await _is_accepted(memory.save_messages([row]))
            assert not await _is_accepted(store.memory.raise_fence((key, _TERM - number - 1)))

        page = await store.memory.list_messages("t1")
        assert [f"m{number}" for number in range(len(keys))] == [row.id for row in page.messages]

    async def test_a_raised_fence_keeps_former_owners_out(self, store: Storage) -> None:
        """It is enough that a new owner begins, before it has written anything."""
        await _prepare(store)
        old, new = store.memory.guarded((KEY, _TERM)), (KEY, _TERM + 1)
        await old.save_messages([message("m2")])

        await store.memory.raise_fence(new)
        await store.memory.raise_fence(new)

        with pytest.raises(FencedOutError):
            await old.save_messages([message("m3")])
        with pytest.raises(FencedOutError):
            await store.memory.raise_fence((KEY, _TERM))
        page = await store.memory.list_messages("t1")
        assert {"m1", "m2"} == {row.id for row in page.messages}

    async def test_a_write_raises_the_fence(self, store: Storage) -> None:
        """Each of them, so that nobody has to begin first."""
        await _prepare(store)
        for number, write in enumerate(("save_message", "update_thread", "update_messages"), 1):
            await _WRITES[write](store.memory.guarded((KEY, _TERM + number)))

            with pytest.raises(FencedOutError):
                await store.memory.raise_fence((KEY, _TERM + number - 1))

    async def test_fences_outlive_the_handle(self, store: Storage, open_store: OpenStore) -> None:
        """They are in the store, not in the process."""
        await _prepare(store)
        mine = store.memory.guarded((KEY, _TERM))
        await mine.save_messages([message("m2")])
        async with open_store() as other:
            with pytest.raises(FencedOutError):
                await other.memory.guarded((KEY, _TERM - 1)).save_messages([message("m3")])
            await other.memory.raise_fence((KEY, _TERM + 1))
        with pytest.raises(FencedOutError):
            await mine.save_messages([message("m3")])

    async def test_faults_of_a_write_are_told_as_ever(self, store: Storage) -> None:
        """A fence changes nothing about what can't be written."""
        memory = store.memory.guarded((KEY, _TERM))
        await _prepare(store)

        with pytest.raises(ThreadNotFoundError):
            await memory.update_thread("absent", title="x")
        with pytest.raises(StorageArgumentError):
            await memory.save_messages([message("m1", thread_id="t2"), message("m2")])
        assert [] == await memory.update_messages([{"id": "absent", "role": "user"}])
        await memory.delete_messages(["absent"])
        assert [] == await memory.save_messages([])

        page = await store.memory.list_messages(["t1", "t2"])
        assert ["m1"] == [row.id for row in page.messages]


class GuardedCrowdSuite(Suite):
    """Many owners at once."""

    capabilities: ClassVar[tuple[str, ...]] = ("storage.guarded_writes",)
    tier: ClassVar[int] = 2

    async def test_of_owners_at_once_the_newest_is_last(
        self,
        subject: Subject,
        store: Storage,
        open_store: OpenStore,
        processes: Processes,
        rng: random.Random,
    ) -> None:
        """However their writes overlap, none is accepted behind one of a newer owner (S6)."""
        await store.memory.raise_fence((KEY, 0))
        await store.memory.save_thread(thread())
        fences = rng.sample(range(1, _FENCES), _FENCES - 1)
        told = await in_crowd(
            write_with_each,
            [{"fences": fences[number::4]} for number in range(4)],
            subject=subject,
            open_store=open_store,
            processes=processes,
        )
        found = await store.memory.get_thread_by_id("t1")
        accepted = [fence for ones in told for fence in ones]
        assert found is not None
        assert _FENCES - 1 == max(accepted) == (found.metadata or {})["by"]


@several_processes()
class GuardedProcessSuite(Suite):
    """What it is for: a process that stood still doesn't write any more."""

    capabilities: ClassVar[tuple[str, ...]] = ("storage.guarded_writes",)
    tier: ClassVar[int] = 2

    async def test_stopped_between_check_and_write(
        self, processes: Processes, store: Storage
    ) -> None:
        """Each time another one takes over while it stands still; no writes are mixed (S6)."""
        await store.memory.raise_fence((KEY, 0))
        await store.memory.save_thread(thread())
        refused = 0
        async with processes.start(write_after_a_stop) as worker:
            for number in range(_STOPS):
                fence = 2 * number + 1
                await worker.reached("owns")
                await worker.go(fence)
                # It looks whether it is the owner, stands still, and writes.
                await worker.reached("checked")
                worker.pause()
                await store.memory.raise_fence((KEY, fence + 1))
                worker.resume()
                assert await write_next(store.memory, fence + 1, "here")
                refused += await worker.reached("wrote")
                await worker.go()
            await worker.reached("owns")
            await worker.go(None)
            await worker.result()

        page = await store.memory.list_messages("t1", per_page=False)
        writes = [
            GuardedWrite(key=KEY, fence=row.content["metadata"]["fence"]) for row in page.messages
        ]
        assert refused == _STOPS
        assert {2 * number + 2 for number in range(_STOPS)} == {one.fence for one in writes}
        assert [] == check_guarded_writes(writes)
