"""Messages: saving, patching, pages and windows (streaming.md 10.1-10.7)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mastra_conformance.cases import case
from mastra_conformance.clock import ShiftedClock
from mastra_conformance.fixtures import OpenStore
from mastra_conformance.suite import Suite, requires, tier
from mastra_conformance.suites.storage.crowds import at_once
from mastra_conformance.suites.storage.things import T0, at, message, thread
from mastra_conformance.suites.storage.values import kept_values, refused_values
from mastra_core.contracts.storage import (
    DateRange,
    IncludeMessage,
    MessagePage,
    OrderBy,
    PruneOptions,
    PrunePolicy,
    Storage,
)
from mastra_core.errors import StorageArgumentError, WireEncodeError
from mastra_core.wire.messages import Message

__all__ = (
    "NEWEST_FIRST",
    "MessageSuite",
    "ids",
    "numbered",
)

NEWEST_FIRST = OrderBy(field="createdAt", direction="DESC")

#: What somebody writes who wants no bound.
_FIRST, _LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


def ids(page: MessagePage | Sequence[Message]) -> list[str]:
    """The ids of a page, in its order."""
    return [row.id for row in (page.messages if isinstance(page, MessagePage) else page)]


async def numbered(store: Storage, count: int, *, tied: bool = False, **members: Any) -> None:
    """Save messages ``m0`` … one second apart, or all at one time."""
    await store.memory.save_messages(
        [message(f"m{n}", created_at=T0 if tied else at(n), **members) for n in range(count)]
    )


class MessageSuite(Suite):
    """What a store does with messages."""

    capabilities = ("memory",)

    # -- saving ---------------------------------------------------------------------------------

    @case("streaming", 56)
    async def test_a_message_of_a_peer_survives_being_saved_again(self, store: Storage) -> None:
        """Parts and members that we don't know stay, in their order."""
        recorded = {
            "id": "m1",
            "role": "assistant",
            "createdAt": "2026-03-01T08:00:00.123Z",
            "threadId": "t1",
            "resourceId": "r1",
            "content": {
                "format": 2,
                "parts": [
                    {"type": "step-start"},
                    {"type": "hologram", "matrix": [[0, 1.5], [None, "x"]], "providerX": {"k": 1}},
                    {
                        "type": "tool-invocation",
                        "toolInvocation": {
                            "state": "result",
                            "toolCallId": "c1",
                            "toolName": "t",
                            "args": {"z": 1, "a": 2},
                            "result": {"ok": True, "big": 9007199254740993},
                        },
                        "createdAt": 1772352000123,
                    },
                    {"type": "text", "text": "done"},
                ],
                "content": "done",
                "metadata": {"modelId": "m", "mastra": {"sealed": True}},
                "providerMetadata": {"p": {"cacheHit": False}},
                "futureMember": {"deep": [1, 2]},
            },
        }
        await store.memory.save_messages([Message.model_validate(recorded)])

        read = await store.memory.list_messages_by_id(["m1"])
        await store.memory.save_messages(read)

        again = await store.memory.list_messages_by_id(["m1"])
        assert [recorded] == [row.model_dump(mode="json", by_alias=True, exclude_none=True)
                              for row in again]  # fmt: skip
        order = [part["type"] for part in again[0].content["parts"]]
        assert ["step-start", "hologram", "tool-invocation", "text"] == order

    @case("streaming", 57)
    async def test_saving_an_id_again_replaces_the_content_only(self, store: Storage) -> None:
        """The content is the last one, the creation time the first one; there is one row."""
        await store.memory.save_thread(thread())
        await store.memory.save_messages([message("m1", text="first", created_at=at(1))])

        returned = await store.memory.save_messages(
            [message("m1", text="second", created_at=at(9))]
        )

        page = await store.memory.list_messages("t1")
        rows = [(row.content["content"], row.created_at) for row in [*page.messages, *returned]]
        assert [("second", at(1)), ("second", at(1))] == rows

    @case("streaming", 58)
    async def test_saving_moves_the_time_of_every_thread_involved(self, store: Storage) -> None:
        """Both threads of a mixed batch get a new ``updated_at``, a third one doesn't."""
        for name in ("t1", "t2", "t3"):
            await store.memory.save_thread(thread(name))

        await store.memory.save_messages([message("m1"), message("m2", thread_id="t2")])

        rows = {row.id: row for row in (await store.memory.list_threads()).threads}
        assert rows["t1"].updated_at > T0
        assert rows["t2"].updated_at > T0
        assert rows["t3"].updated_at == T0

    async def test_an_id_twice_in_one_batch_is_one_row(self, store: Storage) -> None:
        """The last content and the first creation time win; the order is that of the batch."""
        batch = [
            message("m1", text="first", created_at=at(1)),
            message("m2", created_at=at(2)),
            message("m1", text="second", created_at=at(3)),
        ]

        returned = await store.memory.save_messages(batch)

        assert ["m1", "m2"] == ids(returned)
        page = await store.memory.list_messages("t1")
        assert [("second", at(1)), ("hello", at(2))] == [
            (row.content["content"], row.created_at) for row in page.messages
        ]

    async def test_saving_nothing_is_nothing(self, store: Storage) -> None:
        """An empty batch is no error."""
        assert await store.memory.save_messages([]) == []

    async def test_a_message_may_come_before_its_thread(self, store: Storage) -> None:
        """A row of a thread that has no row itself is stored."""
        await store.memory.save_messages([message("m1", thread_id="later")])

        assert ["m1"] == ids(await store.memory.list_messages("later"))

    @pytest.mark.parametrize("member", ["thread_id", "resource_id", "id"])
    async def test_a_message_without_a_place_is_refused_with_its_batch(
        self, store: Storage, member: str
    ) -> None:
        """All or nothing: the good message of the batch isn't stored either."""
        bad = message("m2").replace(**{member: None if member != "id" else ""})

        with pytest.raises(StorageArgumentError):
            await store.memory.save_messages([message("m1"), bad])

        assert await store.memory.list_messages_by_id(["m1", "m2"]) == []

    async def test_saving_never_moves_a_message(self, store: Storage) -> None:
        """The same id in another thread is refused, and the batch with it."""
        await store.memory.save_messages([message("m1", text="mine")])

        with pytest.raises(StorageArgumentError):
            await store.memory.save_messages(
                [message("m2", thread_id="t2"), message("m1", text="stolen", thread_id="t2")]
            )

        rows = await store.memory.list_messages_by_id(["m1", "m2"])
        assert [("t1", "mine")] == [(row.thread_id, row.content["content"]) for row in rows]

    async def test_the_filler_type_is_no_type(self, store: Storage) -> None:
        """``v2`` in the type column means that there is none; a signal's tag stays."""
        await store.memory.save_messages(
            [message("m1", type="v2"), message("m2", role="signal", type="notification")]
        )

        rows = await store.memory.list_messages_by_id(["m1", "m2"])

        assert [None, "notification"] == [row.type for row in rows]

    async def test_a_large_batch_is_stored_whole(self, store: Storage) -> None:
        """Parameter limits of a driver are not the caller's business."""
        batch = [message(f"m{n:04}", created_at=at(n)) for n in range(1200)]

        await store.memory.save_messages(batch)

        page = await store.memory.list_messages("t1", per_page=False)
        assert (1200, "m0000", "m1199") == (page.total, page.messages[0].id, page.messages[-1].id)

    async def test_what_callers_change_afterwards_changes_nothing_stored(
        self, store: Storage
    ) -> None:
        """Neither what was saved nor what was read is shared with the store."""
        given = message("m1")
        returned = await store.memory.save_messages([given])
        given.content["parts"].append({"type": "text", "text": "smuggled"})
        returned[0].content["parts"].clear()
        (await store.memory.list_messages_by_id(["m1"]))[0].content["parts"].clear()

        found = await store.memory.list_messages_by_id(["m1"])

        assert found[0].content["parts"] == [{"type": "text", "text": "hello"}]

    @kept_values()
    async def test_content_values_are_kept(self, store: Storage, value: object) -> None:
        """Odd JSON values in parts and metadata come back equal."""
        content = {"format": 2, "parts": [{"type": "data-x", "data": value}],
                   "metadata": {"value": value}}  # fmt: skip

        await store.memory.save_messages([message("m1", content=content)])

        assert content == (await store.memory.list_messages_by_id(["m1"]))[0].content

    @refused_values()
    async def test_content_without_json_form_is_refused_with_its_batch(
        self, store: Storage, make: Callable[[], Any]
    ) -> None:
        """Nothing of the batch is written."""
        bad = {"format": 2, "parts": [{"type": "data-x", "data": make()}]}

        with pytest.raises(WireEncodeError):
            await store.memory.save_messages([message("m1"), message("m2", content=bad)])

        assert await store.memory.list_messages_by_id(["m1", "m2"]) == []

    # -- patching and deleting ------------------------------------------------------------------

    async def test_patching_merges_content_and_its_metadata(self, store: Storage) -> None:
        """Members that aren't named stay; named ones are replaced whole."""
        content = {"format": 2, "parts": [{"type": "text", "text": "a"}], "content": "a",
                   "metadata": {"keep": 1, "x": {"old": 1}}}  # fmt: skip
        await store.memory.save_messages([message("m1", content=content)])

        returned = await store.memory.update_messages(
            [{"id": "m1", "content": {"content": "b", "metadata": {"x": {"new": 2}}}}]
        )

        expected = {
            "format": 2,
            "parts": [{"type": "text", "text": "a"}],
            "content": "b",
            "metadata": {"keep": 1, "x": {"new": 2}},
        }
        rows = await store.memory.list_messages_by_id(["m1"])
        assert [expected, expected] == [row.content for row in (*returned, *rows)]

    async def test_patching_other_members_replaces_them(self, store: Storage) -> None:
        """Role and type are written, content and time stay."""
        await store.memory.save_messages([message("m1", created_at=at(5))])

        await store.memory.update_messages([{"id": "m1", "role": "signal", "type": "reminder"}])

        row = (await store.memory.list_messages_by_id(["m1"]))[0]
        assert ("signal", "reminder", at(5)) == (row.role, row.type, row.created_at)
        assert row.content["content"] == "hello"

    async def test_patching_moves_a_message_between_threads(self, store: Storage) -> None:
        """Both threads get a new ``updated_at``; the message is listed in the new one."""
        for name in ("t1", "t2"):
            await store.memory.save_thread(thread(name))
        await store.memory.save_messages([message("m1")])
        for name in ("t1", "t2"):
            await store.memory.save_thread(thread(name))

        await store.memory.update_messages([{"id": "m1", "thread_id": "t2"}])

        assert [] == ids(await store.memory.list_messages("t1"))
        assert ["m1"] == ids(await store.memory.list_messages("t2"))
        rows = (await store.memory.list_threads()).threads
        assert all(row.updated_at > T0 for row in rows)

    async def test_patches_of_unknown_ids_are_skipped(self, store: Storage) -> None:
        """The known ones are changed and returned."""
        await store.memory.save_messages([message("m1")])

        returned = await store.memory.update_messages(
            [{"id": "nowhere", "role": "user"}, {"id": "m1", "role": "assistant"}]
        )

        assert [("m1", "assistant")] == [(row.id, row.role) for row in returned]
        assert await store.memory.list_messages_by_id(["nowhere"]) == []

    @pytest.mark.parametrize(
        "patch", [{"role": "user"}, {"id": "m1", "created_at": T0}, {"id": "m1", "content": "text"},
                  {"id": "m1", "thread_id": ""}, {"id": "m1", "rôle": "user"}],
    )  # fmt: skip
    async def test_a_bad_patch_is_refused_with_the_others(
        self, store: Storage, patch: dict[str, Any]
    ) -> None:
        """No id, a fixed member, a wrong kind, a typo: nothing is written."""
        await store.memory.save_messages([message("m1"), message("m2")])

        with pytest.raises(StorageArgumentError):
            await store.memory.update_messages([{"id": "m2", "role": "assistant"}, patch])

        assert [row.role for row in await store.memory.list_messages_by_id(["m2"])] == ["user"]

    @tier(2)
    async def test_parallel_patches_lose_nothing(
        self, store: Storage, open_store: OpenStore
    ) -> None:
        """Merging is one atomic step, also between handles."""
        await store.memory.save_messages([message("m1")])

        async with open_store() as other:
            await at_once(
                [
                    handle.memory.update_messages(
                        [{"id": "m1", "content": {"metadata": {f"{name}{n}": n}}}]
                    )
                    for n in range(15)
                    for name, handle in (("a", store), ("b", other))
                ]
            )

        row = (await store.memory.list_messages_by_id(["m1"]))[0]
        assert {f"{name}{n}": n for n in range(15) for name in "ab"} == row.content["metadata"]

    @requires("memory.delete_messages")
    async def test_deleting_messages_ignores_unknown_ids(self, store: Storage) -> None:
        """The named ones go, the thread's time moves, the others stay."""
        await store.memory.save_thread(thread())
        await numbered(store, 3)
        await store.memory.save_thread(thread())

        await store.memory.delete_messages(["m0", "nowhere", "m2", "m0"])

        assert ["m1"] == ids(await store.memory.list_messages("t1"))
        found = await store.memory.get_thread_by_id("t1")
        assert found is not None
        assert found.updated_at > T0

    # -- pages ----------------------------------------------------------------------------------

    async def test_messages_are_listed_oldest_first(self, store: Storage) -> None:
        """The default order is ``created_at`` ascending."""
        await store.memory.save_messages([message(f"m{n}", created_at=at(n)) for n in (2, 0, 1)])

        page = await store.memory.list_messages("t1")

        assert (["m0", "m1", "m2"], 3, False) == (ids(page), page.total, page.has_more)

    @pytest.mark.parametrize("tied", [False, True])
    @pytest.mark.parametrize("newest_first", [False, True])
    async def test_pages_show_each_message_once(
        self, store: Storage, *, tied: bool, newest_first: bool
    ) -> None:
        """Ties are broken by id in the same direction; ``has_more`` follows the order."""
        await numbered(store, 7, tied=tied)
        order = NEWEST_FIRST if newest_first else None

        pages = [
            await store.memory.list_messages("t1", page=n, per_page=3, order_by=order)
            for n in range(4)
        ]

        expected = sorted((f"m{n}" for n in range(7)), reverse=newest_first)
        assert [expected[:3], expected[3:6], expected[6:], []] == [ids(page) for page in pages]
        assert [True, True, False, False] == [page.has_more for page in pages]
        assert {7} == {page.total for page in pages}

    async def test_the_count_can_be_left_out(self, store: Storage) -> None:
        """Without the count ``has_more`` is still right."""
        await numbered(store, 3)

        first = await store.memory.list_messages("t1", per_page=2, include_total=False)
        last = await store.memory.list_messages("t1", page=1, per_page=2, include_total=False)

        assert [(None, True), (None, False)] == [(p.total, p.has_more) for p in (first, last)]

    async def test_several_threads_are_listed_as_one(self, store: Storage) -> None:
        """Merged by time; other threads stay out; the same thread twice is once."""
        rows = [message(f"m{n}", thread_id=f"t{n % 3}", created_at=at(n)) for n in range(6)]
        await store.memory.save_messages(rows)

        page = await store.memory.list_messages(["t0", "t2", "t0"], page=0, per_page=3)

        assert (["m0", "m2", "m3"], 4, True) == (ids(page), page.total, page.has_more)
        assert ([], 0) == (ids(await store.memory.list_messages([])), 0)

    async def test_per_page_false_is_everything(self, store: Storage) -> None:
        """All rows, whatever the page, and nothing more."""
        await numbered(store, 45)

        page = await store.memory.list_messages("t1", page=3, per_page=False)

        assert (45, False, False) == (len(page.messages), page.has_more, page.per_page)

    async def test_messages_of_another_resource_stay_out(self, store: Storage) -> None:
        """A resource narrows the thread, and the count with it."""
        await store.memory.save_messages(
            [message("m1"), message("m2", resource_id="r2"), message("m3")]
        )

        page = await store.memory.list_messages("t1", resource_id="r1", per_page=1)

        assert (["m1"], 2, True) == (ids(page), page.total, page.has_more)
        assert ids(await store.memory.list_messages("t1", resource_id="r3")) == []

    @pytest.mark.parametrize(
        ("given", "expected"),
        [
            (DateRange(start=at(2)), ["m2", "m3", "m4"]),
            (DateRange(start=at(2), start_exclusive=True), ["m3", "m4"]),
            (DateRange(end=at(2)), ["m0", "m1", "m2"]),
            (DateRange(end=at(2), end_exclusive=True), ["m0", "m1"]),
            (DateRange(start=at(1), end=at(3)), ["m1", "m2", "m3"]),
            (DateRange(start=at(3), end=at(1)), []),
            (DateRange(start=_FIRST, end=_LAST), ["m0", "m1", "m2", "m3", "m4"]),
            (DateRange(start=_LAST, start_exclusive=True), []),
            (DateRange(start=at(2) + timedelta(microseconds=1)), ["m3", "m4"]),
            (DateRange(end=at(2) + timedelta(microseconds=1), end_exclusive=True),
             ["m0", "m1", "m2"]),
        ],
    )  # fmt: skip
    async def test_messages_are_filtered_by_time(
        self, store: Storage, given: DateRange, expected: list[str]
    ) -> None:
        """Bounds are inclusive unless said otherwise."""
        await numbered(store, 5)

        page = await store.memory.list_messages("t1", date_range=given)

        assert (expected, len(expected)) == (ids(page), page.total)

    async def test_messages_are_filtered_by_their_metadata(self, store: Storage) -> None:
        """Scalars of ``content.metadata``, typed; the count and the pages follow the filter."""
        extras: list[dict[str, Any]] = [
            {"metadata": {"mode": "plan", "n": 1}},
            {"metadata": {"mode": "plan", "n": True}},
            {"metadata": {"mode": "act"}},
            {},
        ]
        rows = [
            message(f"m{n}", created_at=at(n), content={"format": 2, "parts": [], **extra})
            for n, extra in enumerate(extras)
        ]
        await store.memory.save_messages(rows)

        async def listed(**wanted: Any) -> list[str]:
            return ids(await store.memory.list_messages("t1", metadata=wanted))

        first = await store.memory.list_messages("t1", metadata={"mode": "plan"}, per_page=1)
        assert (["m0"], 2, True) == (ids(first), first.total, first.has_more)
        assert ["m0"] == await listed(n=1)
        assert ["m1"] == await listed(mode="plan", n=True)
        assert ["m2", "m3"] == await listed(n=None)

    @case("streaming", 60)
    @pytest.mark.parametrize("key", ["__proto__", "constructor", "a.b", "a'", "x" * 129])
    async def test_a_bad_metadata_key_is_refused(self, store: Storage, key: str) -> None:
        """Keys are plain names, since they end in a query."""
        with pytest.raises(StorageArgumentError):
            await store.memory.list_messages("t1", metadata={key: 1})

    @pytest.mark.parametrize(
        ("page", "per_page"),
        [
            (-1, 10),
            (0, -1),
            (0, 1.5),
            (True, 10),
            (0, True),
            (0, "10"),
            (0, 10**30),
            (10**30, 10),
            (2**52, 4),
        ],
    )
    async def test_a_bad_page_is_refused(self, store: Storage, page: Any, per_page: Any) -> None:
        """No page before the first, no half rows, no number that isn't one, or can't be one."""
        with pytest.raises(StorageArgumentError):
            await store.memory.list_messages("t1", page=page, per_page=per_page)

    @pytest.mark.parametrize("thread_id", ["", ["t1", ""], None, 5, ["t1", 5]])
    async def test_an_empty_thread_id_is_refused(self, store: Storage, thread_id: Any) -> None:
        """It would mean every thread, or none."""
        with pytest.raises(StorageArgumentError):
            await store.memory.list_messages(thread_id)

    async def test_messages_have_no_other_time_to_order_by(self, store: Storage) -> None:
        """``updatedAt`` is a time of threads."""
        with pytest.raises(StorageArgumentError):
            await store.memory.list_messages("t1", order_by=OrderBy(field="updatedAt"))

    # -- windows around a message ---------------------------------------------------------------

    @case("streaming", 59)
    async def test_only_the_included_message_and_its_predecessor_return(
        self, store: Storage
    ) -> None:
        """``per_page=0`` asks for no page, only for what is included."""
        await numbered(store, 5)

        page = await store.memory.list_messages(
            "t1", per_page=0, include=[IncludeMessage(id="m3", with_previous_messages=1)]
        )

        assert ["m2", "m3"] == ids(page)

    @pytest.mark.parametrize(
        ("wanted", "before", "after", "expected"),
        [
            ("m0", 0, 0, ["m0"]),
            ("m0", 1, 1, ["m0", "m1"]),
            ("m1", 1, 1, ["m0", "m1", "m2"]),
            ("m2", 1, 1, ["m1", "m2"]),
            ("m2", 9, 0, ["m0", "m1", "m2"]),
        ],
    )
    @pytest.mark.parametrize("tied", [False, True])
    async def test_a_window_holds_the_message_that_was_asked_for(
        self,
        store: Storage,
        *,
        wanted: str,
        before: int,
        after: int,
        expected: list[str],
        tied: bool,
    ) -> None:
        """Neighbours are those by (time, id), also where several share one time."""
        await numbered(store, 3, tied=tied)

        page = await store.memory.list_messages(
            "t1",
            per_page=0,
            include=[
                IncludeMessage(id=wanted, with_previous_messages=before, with_next_messages=after)
            ],
        )

        assert expected == ids(page)

    async def test_included_messages_join_the_page_sorted_and_once(self, store: Storage) -> None:
        """The union in the order asked for; nothing more if it holds all."""
        await numbered(store, 5)

        some = await store.memory.list_messages(
            "t1", per_page=2, order_by=NEWEST_FIRST, include=[IncludeMessage(id="m1")]
        )
        everything = await store.memory.list_messages(
            "t1",
            per_page=2,
            order_by=NEWEST_FIRST,
            include=[IncludeMessage(id="m2", with_previous_messages=2, with_next_messages=2)],
        )

        assert (["m4", "m3", "m1"], True) == (ids(some), some.has_more)
        assert (["m4", "m3", "m2", "m1", "m0"], False) == (ids(everything), everything.has_more)
        assert [5, 5] == [some.total, everything.total]

    async def test_included_messages_may_cross_threads_but_not_resources(
        self, store: Storage
    ) -> None:
        """The window is in the message's own thread; another resource's message stays out."""
        await store.memory.save_messages(
            [
                message("m1"),
                message("x0", thread_id="t2", created_at=at(1)),
                message("x1", thread_id="t2", created_at=at(2)),
                message("secret", thread_id="t3", resource_id="r2", created_at=at(3)),
            ]
        )

        page = await store.memory.list_messages(
            "t1",
            resource_id="r1",
            include=[
                IncludeMessage(id="x1", with_previous_messages=1),
                IncludeMessage(id="secret"),
                IncludeMessage(id="nowhere"),
            ],
        )

        assert (["m1", "x0", "x1"], 1) == (ids(page), page.total)

    @pytest.mark.parametrize(("before", "after"), [(-1, 0), (0, -1), (1.5, 0)])
    async def test_a_window_of_a_negative_size_is_refused(
        self, store: Storage, before: Any, after: Any
    ) -> None:
        """Sizes are whole numbers from 0."""
        item = IncludeMessage(id="m1", with_previous_messages=before, with_next_messages=after)

        with pytest.raises(StorageArgumentError):
            await store.memory.list_messages("t1", include=[item])

    # -- other look-ups -------------------------------------------------------------------------

    async def test_messages_by_id_come_in_time_order(self, store: Storage) -> None:
        """By (created_at, id), whatever the order of the ids; unknown ones are left out."""
        await store.memory.save_messages(
            [message("b", created_at=at(1)), message("a", created_at=at(1)), message("c")]
        )

        rows = await store.memory.list_messages_by_id(["b", "nowhere", "a", "c", "b"])

        assert ["c", "a", "b"] == ids(rows)
        assert await store.memory.list_messages_by_id([]) == []

    @requires("memory.messages_by_resource")
    async def test_messages_of_a_resource_span_its_threads(self, store: Storage) -> None:
        """All threads of the resource as one list, paged and filtered as usual."""
        rows = [
            message(f"m{n}", thread_id=f"t{n % 2}", created_at=at(n), resource_id=f"r{n // 4}")
            for n in range(6)
        ]
        await store.memory.save_messages(rows)

        page = await store.memory.list_messages_by_resource_id("r0", per_page=3)
        late = await store.memory.list_messages_by_resource_id(
            "r0", date_range=DateRange(start=at(2)), order_by=NEWEST_FIRST
        )

        assert (["m0", "m1", "m2"], 4, True) == (ids(page), page.total, page.has_more)
        assert ["m3", "m2"] == ids(late)

    @requires("storage.retention")
    async def test_pruning_deletes_old_messages_in_batches(
        self, store: Storage, clock: ShiftedClock
    ) -> None:
        """Messages by ``created_at``; a row limit stops the work and says so."""
        await numbered(store, 5)
        await store.memory.save_messages([message("fresh", created_at=clock.now())])
        policy = PrunePolicy(table="messages", max_age_ms=3_600_000)

        first = await store.memory.prune([policy], PruneOptions(batch_size=2, max_rows=3))
        second = await store.memory.prune([policy], PruneOptions(batch_size=2))

        assert [(3, False)] == [(result.deleted, result.done) for result in first]
        assert [(2, True)] == [(result.deleted, result.done) for result in second]
        assert ["fresh"] == ids(await store.memory.list_messages("t1"))
