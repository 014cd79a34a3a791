"""Threads: saving, partial changes, lists (streaming.md 10.5-10.7)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from mastra_conformance.cases import case
from mastra_conformance.clock import ShiftedClock
from mastra_conformance.fixtures import OpenStore
from mastra_conformance.suite import Suite, requires, tier
from mastra_conformance.suites.storage.crowds import at_once
from mastra_conformance.suites.storage.things import T0, at, message, thread
from mastra_conformance.suites.storage.values import (
    ODD_TEXTS,
    kept_or_refused,
    kept_values,
    refused_values,
)
from mastra_core.contracts.storage import OrderBy, PruneOptions, PrunePolicy, Storage
from mastra_core.errors import (
    StorageArgumentError,
    StorageConflictError,
    ThreadNotFoundError,
    WireEncodeError,
)

__all__ = ("ThreadSuite",)


class ThreadSuite(Suite):
    """What a store does with threads."""

    capabilities = ("memory",)

    # -- saving and reading ---------------------------------------------------------------------

    async def test_a_saved_thread_reads_back_equal(self, store: Storage) -> None:
        """Title, metadata and times are what was saved."""
        given = thread(metadata={"a": {"b": [1, None]}, "n": None})

        returned = await store.memory.save_thread(given)

        assert given.to_wire() == returned.to_wire()
        found = await store.memory.get_thread_by_id("t1")
        assert found is not None
        assert given.to_wire() == found.to_wire()

    async def test_an_absent_thread_is_none(self, store: Storage) -> None:
        """Not there is no error."""
        assert await store.memory.get_thread_by_id("nowhere") is None

    async def test_a_thread_of_another_resource_is_none(self, store: Storage) -> None:
        """Asking with a resource shows only its own threads."""
        await store.memory.save_thread(thread(resource_id="r1"))

        assert await store.memory.get_thread_by_id("t1", resource_id="r2") is None
        assert await store.memory.get_thread_by_id("t1", resource_id="r1") is not None

    async def test_saving_again_replaces_all_but_the_creation_time(self, store: Storage) -> None:
        """An upsert writes title and metadata whole and keeps ``created_at``."""
        await store.memory.save_thread(thread(title="old", metadata={"a": 1}))

        again = thread(title="new", metadata={"b": 2}, created_at=at(50), updated_at=at(60))
        await store.memory.save_thread(again)

        found = await store.memory.get_thread_by_id("t1")
        assert found is not None
        assert ("new", {"b": 2}) == (found.title, found.metadata)
        assert (T0, at(60)) == (found.created_at, found.updated_at)

    async def test_an_empty_title_is_kept(self, store: Storage) -> None:
        """``''`` is a title."""
        await store.memory.save_thread(thread(title=""))

        found = await store.memory.get_thread_by_id("t1")

        assert found is not None
        assert found.title == ""

    async def test_creating_an_existing_thread_returns_the_stored_one(self, store: Storage) -> None:
        """Creation is insert-if-absent: the first writer's row stays."""
        await store.memory.create_thread(thread(title="first", metadata={"a": 1}))

        second = await store.memory.create_thread(thread(title="second", metadata=None))

        assert ("first", {"a": 1}) == (second.title, second.metadata)
        found = await store.memory.get_thread_by_id("t1")
        assert found is not None
        assert found.title == "first"

    async def test_what_callers_change_afterwards_changes_nothing_stored(
        self, store: Storage
    ) -> None:
        """Neither the thread that was saved nor one that was read is shared with the store."""
        metadata: dict[str, Any] = {"list": [1]}
        returned = await store.memory.save_thread(thread(metadata=metadata))

        metadata["list"].append(2)
        assert returned.metadata is not None
        returned.metadata["list"].append(3)
        read = await store.memory.get_thread_by_id("t1")
        assert read is not None
        assert read.metadata is not None
        read.metadata["list"].append(4)

        found = await store.memory.get_thread_by_id("t1")
        assert found is not None
        assert found.metadata == {"list": [1]}

    @pytest.mark.parametrize("member", ["id", "resource_id"])
    async def test_a_thread_without_identity_is_refused(self, store: Storage, member: str) -> None:
        """An empty id or resource is an argument fault."""
        with pytest.raises(StorageArgumentError):
            await store.memory.save_thread(thread().replace(**{member: ""}))

    @kept_values()
    async def test_metadata_values_are_kept(self, store: Storage, value: object) -> None:
        """Odd JSON values in metadata come back equal."""
        await store.memory.save_thread(thread(metadata={"value": value}))

        found = await store.memory.get_thread_by_id("t1")

        assert found is not None
        assert found.metadata == {"value": value}

    @refused_values()
    async def test_metadata_without_json_form_is_refused_whole(
        self, store: Storage, make: Callable[[], Any]
    ) -> None:
        """What can't be stored raises, and the old row is intact."""
        await store.memory.save_thread(thread(title="old"))

        with pytest.raises(WireEncodeError):
            await store.memory.save_thread(thread(title="new", metadata={"bad": make()}))

        found = await store.memory.get_thread_by_id("t1")
        assert found is not None
        assert found.title == "old"

    @pytest.mark.parametrize("text", ODD_TEXTS.values(), ids=ODD_TEXTS)
    async def test_an_odd_title_is_kept_or_refused(self, store: Storage, text: str) -> None:
        """A title is never changed quietly."""
        if await kept_or_refused(store.memory.save_thread(thread(title=text))):
            found = await store.memory.get_thread_by_id("t1")
            assert found is not None
            assert text == found.title

    # -- partial changes ------------------------------------------------------------------------

    @requires("memory.partial_thread_update")
    async def test_updating_merges_metadata_one_level_deep(self, store: Storage) -> None:
        """Keys that aren't named stay; a named key is replaced whole; title is untouched."""
        await store.memory.save_thread(thread(metadata={"keep": 1, "deep": {"a": 1}, "x": 1}))

        returned = await store.memory.update_thread("t1", metadata={"deep": {"b": 2}, "x": None})

        expected = {"keep": 1, "deep": {"b": 2}, "x": None}
        found = await store.memory.get_thread_by_id("t1")
        assert found is not None
        assert (expected, expected) == (returned.metadata, found.metadata)
        assert found.title == "Title"

    @requires("memory.partial_thread_update")
    async def test_updating_the_title_leaves_metadata_alone(self, store: Storage) -> None:
        """Absent means untouched; the time of the change moves, that of creation doesn't."""
        await store.memory.save_thread(thread(metadata={"a": 1}))

        changed = await store.memory.update_thread("t1", title="new")

        assert ("new", {"a": 1}, T0) == (changed.title, changed.metadata, changed.created_at)
        assert changed.updated_at > T0

    @requires("memory.partial_thread_update")
    async def test_a_title_is_only_written_over_the_expected_one(self, store: Storage) -> None:
        """A generated title doesn't overwrite one that somebody set meanwhile."""
        await store.memory.save_thread(thread(title="by hand"))

        kept = await store.memory.update_thread(
            "t1", title="generated", expected_title="", metadata={"a": 1}
        )
        written = await store.memory.update_thread(
            "t1", title="generated", expected_title="by hand"
        )

        assert ("by hand", {"a": 1}) == (kept.title, kept.metadata)
        assert written.title == "generated"

    @case("streaming", 63)
    @requires("memory.partial_thread_update")
    async def test_updating_an_unknown_thread_raises(self, store: Storage) -> None:
        """An update never creates a thread; the error says 404."""
        with pytest.raises(ThreadNotFoundError) as caught:
            await store.memory.update_thread("nowhere", title="new")

        assert caught.value.http_status == 404
        assert await store.memory.get_thread_by_id("nowhere") is None

    @tier(2)
    @requires("memory.partial_thread_update")
    async def test_parallel_updates_lose_no_key(
        self, store: Storage, open_store: OpenStore
    ) -> None:
        """Merging is one atomic step, also between handles."""
        await store.memory.save_thread(thread())

        async with open_store() as other:
            results = await at_once(
                [
                    handle.memory.update_thread("t1", metadata={f"{name}{number}": number})
                    for number in range(20)
                    for name, handle in (("a", store), ("b", other))
                ]
            )

        assert [] == [result for result in results if isinstance(result, BaseException)]
        found = await store.memory.get_thread_by_id("t1")
        assert found is not None
        expected = {f"{name}{number}": number for number in range(20) for name in "ab"}
        assert expected == found.metadata

    @tier(2)
    async def test_parallel_creates_agree_on_one_thread(
        self, store: Storage, open_store: OpenStore
    ) -> None:
        """Of many creators one wins, and all get its thread."""
        async with open_store() as other:
            results = await at_once(
                [
                    handle.memory.create_thread(thread(title=f"{name}{number}"))
                    for number in range(15)
                    for name, handle in (("a", store), ("b", other))
                ]
            )

        stored = await store.memory.get_thread_by_id("t1")
        assert stored is not None
        assert {stored.title} == {result.title for result in results}

    # -- deleting -------------------------------------------------------------------------------

    async def test_deleting_a_thread_deletes_its_messages(self, store: Storage) -> None:
        """Its messages go with it, those of others stay; deleting twice is harmless."""
        await store.memory.save_thread(thread("t1"))
        await store.memory.save_thread(thread("t2"))
        await store.memory.save_messages([message("m1"), message("m2", thread_id="t2")])

        await store.memory.delete_thread("t1")
        await store.memory.delete_thread("t1")

        assert await store.memory.get_thread_by_id("t1") is None
        assert await store.memory.get_thread_by_id("t2") is not None
        left = await store.memory.list_messages_by_id(["m1", "m2"])
        assert ["m2"] == [row.id for row in left]

    # -- lists ----------------------------------------------------------------------------------

    async def test_an_empty_store_lists_nothing(self, store: Storage) -> None:
        """No rows, no total, nothing more."""
        page = await store.memory.list_threads()

        assert ([], 0, False) == (page.threads, page.total, page.has_more)

    async def test_threads_are_listed_newest_created_first(self, store: Storage) -> None:
        """The default order is ``created_at`` descending."""
        for seconds in (2, 1, 3):
            await store.memory.save_thread(thread(f"t{seconds}", created_at=at(seconds)))

        page = await store.memory.list_threads()

        assert ["t3", "t2", "t1"] == [row.id for row in page.threads]

    async def test_threads_are_listed_in_the_order_asked_for(self, store: Storage) -> None:
        """By ``updated_at`` or ``created_at``, up or down."""
        for number, updated in ((1, 30), (2, 10), (3, 20)):
            row = thread(f"t{number}", created_at=at(number), updated_at=at(updated))
            await store.memory.save_thread(row)

        async def listed(order: OrderBy) -> list[str]:
            return [row.id for row in (await store.memory.list_threads(order_by=order)).threads]

        assert ["t2", "t3", "t1"] == await listed(OrderBy(field="updatedAt", direction="ASC"))
        assert ["t1", "t3", "t2"] == await listed(OrderBy(field="updatedAt", direction="DESC"))
        assert ["t1", "t2", "t3"] == await listed(OrderBy(field="createdAt", direction="ASC"))

    @pytest.mark.parametrize("direction", ["ASC", "DESC"])
    async def test_paging_over_equal_times_shows_each_thread_once(
        self, store: Storage, direction: Any
    ) -> None:
        """Ties are broken by id, in the same direction."""
        for number in range(7):
            await store.memory.save_thread(thread(f"t{number}"))
        order = OrderBy(field="createdAt", direction=direction)

        pages = [
            await store.memory.list_threads(page=number, per_page=2, order_by=order)
            for number in range(5)
        ]

        ids = [row.id for page in pages for row in page.threads]
        assert sorted((f"t{n}" for n in range(7)), reverse=direction == "DESC") == ids
        assert [True, True, True, False, False] == [page.has_more for page in pages]
        assert {7} == {page.total for page in pages}

    async def test_per_page_false_is_everything_and_zero_is_nothing(self, store: Storage) -> None:
        """``False`` ignores the page; ``0`` still counts."""
        for number in range(3):
            await store.memory.save_thread(thread(f"t{number}"))

        everything = await store.memory.list_threads(page=5, per_page=False)
        nothing = await store.memory.list_threads(per_page=0)

        assert (3, 3, False) == (len(everything.threads), everything.total, everything.has_more)
        assert ([], 3) == (nothing.threads, nothing.total)

    @pytest.mark.parametrize(
        ("page", "per_page"), [(-1, 10), (0, -1), (0, 1.5), (0.5, 10), (True, 10), (0, True)]
    )
    async def test_a_bad_page_is_refused(self, store: Storage, page: Any, per_page: Any) -> None:
        """No page before the first, no half rows, no booleans for numbers."""
        with pytest.raises(StorageArgumentError):
            await store.memory.list_threads(page=page, per_page=per_page)

    @pytest.mark.parametrize(
        "order",
        [OrderBy(field="title; DROP TABLE"), OrderBy(direction="sideways")],  # type: ignore[arg-type]  # the fault that is tested
    )
    async def test_an_order_outside_the_allow_list_is_refused(
        self, store: Storage, order: OrderBy
    ) -> None:
        """Fields and directions are looked up, never passed on."""
        with pytest.raises(StorageArgumentError):
            await store.memory.list_threads(order_by=order)

    async def test_threads_are_filtered_by_resource(self, store: Storage) -> None:
        """Only threads of the resource, and only they are counted."""
        await store.memory.save_thread(thread("t1", resource_id="r1"))
        await store.memory.save_thread(thread("t2", resource_id="r2"))

        page = await store.memory.list_threads(resource_id="r2")

        assert (["t2"], 1) == ([row.id for row in page.threads], page.total)

    @pytest.mark.parametrize(
        ("wanted", "expected"),
        [
            ({"kind": "a"}, ["t1", "t2"]),
            ({"kind": "a", "n": 1}, ["t1"]),
            ({"n": True}, ["t3"]),
            ({"n": 1}, ["t1"]),
            ({"n": "1"}, ["t4"]),
            ({"missing": None}, ["t1", "t2", "t3", "t4"]),
            ({"n": None}, ["t2"]),
            ({"gone": None}, ["t1", "t2", "t3", "t4"]),
            ({"half": 0.5}, ["t4"]),
            ({"kind": "b' OR 1=1 --"}, []),
        ],
    )
    async def test_threads_are_filtered_by_metadata(
        self, store: Storage, wanted: dict[str, Any], expected: list[str]
    ) -> None:
        """Scalars are compared with their type; None matches a missing key and a null."""
        rows = {
            "t1": {"kind": "a", "n": 1, "gone": None},
            "t2": {"kind": "a", "n": None},
            "t3": {"kind": "b", "n": True},
            "t4": {"kind": "c", "n": "1", "half": 0.5},
        }
        for thread_id, metadata in rows.items():
            await store.memory.save_thread(thread(thread_id, metadata=metadata))

        page = await store.memory.list_threads(
            metadata=wanted, order_by=OrderBy(field="createdAt", direction="ASC")
        )

        assert expected == [row.id for row in page.threads]
        assert len(expected) == page.total

    async def test_a_thread_without_metadata_matches_a_missing_key(self, store: Storage) -> None:
        """No metadata at all is like an empty object."""
        await store.memory.save_thread(thread(metadata=None))

        page = await store.memory.list_threads(metadata={"a": None})

        assert ["t1"] == [row.id for row in page.threads]

    @case("streaming", 60)
    @pytest.mark.parametrize(
        "key",
        ["__proto__", "prototype", "constructor", "", "a-b", "a.b", "1a", "a b", "é", "x" * 129,
         "a'); --", "$where", "a\n"],
    )  # fmt: skip
    async def test_a_bad_metadata_key_is_refused(self, store: Storage, key: str) -> None:
        """Keys are plain names, since they end in a query."""
        with pytest.raises(StorageArgumentError):
            await store.memory.list_threads(metadata={key: 1})

    @pytest.mark.parametrize("value", [[1], {"a": 1}, float("nan")])
    async def test_a_filter_by_something_else_than_a_scalar_is_refused(
        self, store: Storage, value: Any
    ) -> None:
        """Only scalars have one meaning in all databases."""
        with pytest.raises(StorageArgumentError):
            await store.memory.list_threads(metadata={"a": value})

    # -- moving and copying ---------------------------------------------------------------------

    @requires("memory.move_thread")
    async def test_moving_a_thread_takes_its_messages_along(self, store: Storage) -> None:
        """Thread and messages belong to the new resource afterwards."""
        await store.memory.save_thread(thread())
        await store.memory.save_messages([message("m1"), message("m2")])

        moved = await store.memory.update_thread_resource_id("t1", "r2")

        assert moved.resource_id == "r2"
        rows = await store.memory.list_messages_by_id(["m1", "m2"])
        assert ["r2", "r2"] == [row.resource_id for row in rows]
        assert await store.memory.get_thread_by_id("t1", resource_id="r1") is None

    @requires("memory.move_thread")
    async def test_moving_an_unknown_thread_raises(self, store: Storage) -> None:
        """There is nothing to move."""
        with pytest.raises(ThreadNotFoundError):
            await store.memory.update_thread_resource_id("nowhere", "r2")

    @requires("memory.clone_thread")
    async def test_a_clone_has_new_ids_and_remembers_its_source(self, store: Storage) -> None:
        """The copy shares no id with its source, and both can be read."""
        await store.memory.save_thread(thread(title="Trip"))
        await store.memory.save_messages(
            [message(f"m{n}", text=f"text {n}", created_at=at(n)) for n in range(3)]
        )

        clone = await store.memory.clone_thread("t1", metadata={"why": "test"})

        page = await store.memory.list_messages(clone.thread.id)
        assert ["text 0", "text 1", "text 2"] == [row.content["content"] for row in page.messages]
        assert list(clone.message_id_map.values()) == [row.id for row in page.messages]
        assert {"m0", "m1", "m2"}.isdisjoint(row.id for row in page.messages)
        assert clone.thread.title == "Clone of Trip"
        assert clone.thread.metadata is not None
        origin = clone.thread.metadata["clone"]
        assert ("test", "t1") == (clone.thread.metadata["why"], origin["sourceThreadId"])
        assert origin["lastMessageId"] == "m2"
        assert (await store.memory.list_messages("t1")).total == 3

    @requires("memory.clone_thread")
    async def test_a_clone_may_take_the_newest_messages_only(self, store: Storage) -> None:
        """``message_limit`` keeps the newest n, oldest first."""
        await store.memory.save_thread(thread())
        await store.memory.save_messages([message(f"m{n}", created_at=at(n)) for n in range(4)])

        clone = await store.memory.clone_thread(
            "t1", new_thread_id="t2", resource_id="r2", title="Copy", message_limit=2
        )

        assert ["m2", "m3"] == list(clone.message_id_map)
        assert ("t2", "r2", "Copy") == (
            clone.thread.id,
            clone.thread.resource_id,
            clone.thread.title,
        )
        assert {"r2"} == {row.resource_id for row in clone.cloned_messages}

    @requires("memory.clone_thread")
    async def test_a_clone_of_or_over_the_wrong_thread_raises(self, store: Storage) -> None:
        """An unknown source, or a target that exists."""
        await store.memory.save_thread(thread("t1"))
        await store.memory.save_thread(thread("t2", title="untouched"))

        with pytest.raises(ThreadNotFoundError):
            await store.memory.clone_thread("nowhere")
        with pytest.raises(StorageConflictError):
            await store.memory.clone_thread("t1", new_thread_id="t2")

        found = await store.memory.get_thread_by_id("t2")
        assert found is not None
        assert found.title == "untouched"

    @requires("memory.copy_thread")
    async def test_a_copied_thread_has_its_messages(self, store: Storage) -> None:
        """Like a clone, without handing the messages back."""
        await store.memory.save_thread(thread())
        await store.memory.save_messages([message("m1")])

        copy = await store.memory.copy_thread("t1", new_thread_id="t2")

        page = await store.memory.list_messages(copy.id)
        assert copy.id == "t2"
        assert ["hello"] == [row.content["content"] for row in page.messages]

    # -- retention ------------------------------------------------------------------------------

    @requires("storage.retention")
    async def test_pruning_deletes_old_threads_with_their_messages(
        self, store: Storage, clock: ShiftedClock
    ) -> None:
        """Threads by ``updated_at``, strictly older than the limit."""
        fresh = clock.now() - timedelta(minutes=10)
        await store.memory.save_thread(thread("old"))
        await store.memory.save_messages([message("m1", thread_id="old")])
        # Saving a message moved the thread; it is old again.
        await store.memory.save_thread(thread("old"))
        await store.memory.save_thread(thread("fresh", updated_at=fresh))

        policy = PrunePolicy(table="threads", max_age_ms=3_600_000)
        preview = await store.memory.prune([policy], PruneOptions(dry_run=True))
        results = await store.memory.prune([policy])

        assert [1] == [result.deleted for result in preview]
        assert [(1, True)] == [(result.deleted, result.done) for result in results]
        assert ["fresh"] == [row.id for row in (await store.memory.list_threads()).threads]
        assert await store.memory.list_messages_by_id(["m1"]) == []

    @requires("storage.retention")
    async def test_pruning_a_table_of_another_domain_is_refused(self, store: Storage) -> None:
        """A policy that would do nothing is a fault of the caller."""
        with pytest.raises(StorageArgumentError):
            await store.memory.prune([PrunePolicy(table="notifications", max_age_ms=1)])
