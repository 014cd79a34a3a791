"""The inbox: creating, merging, listing, changing (notifications.md 1-3)."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import pytest

from mastra_conformance.cases import case
from mastra_conformance.clock import ShiftedClock
from mastra_conformance.fixtures import OpenStore
from mastra_conformance.processes import Processes
from mastra_conformance.subject import Subject
from mastra_conformance.suite import Suite, requires
from mastra_conformance.suites.storage.crowds import at_once, in_crowd
from mastra_conformance.suites.storage.things import T0, at, event
from mastra_conformance.suites.storage.values import (
    ODD_TEXTS,
    kept_or_refused,
    kept_values,
    refused_values,
)
from mastra_core.contracts.storage import PruneOptions, PrunePolicy, Storage
from mastra_core.errors import (
    NotificationExistsError,
    NotificationNotFoundError,
    StorageArgumentError,
    WireEncodeError,
)
from mastra_core.wire.notifications import (
    STATUSES,
    NotificationPatch,
    NotificationRecord,
)

__all__ = (
    "TIMESTAMPS",
    "NotificationCrowdSuite",
    "NotificationSuite",
    "create_many",
    "inbox",
    "set_status",
    "stored",
)

TIMESTAMPS = {
    "delivered": "delivered_at",
    "seen": "seen_at",
    "dismissed": "dismissed_at",
    "archived": "archived_at",
    "discarded": "discarded_at",
}


async def stored(
    store: Storage, notification_id: str = "n1", thread_id: str = "t1"
) -> NotificationRecord:
    """The record as it is read now."""
    record = await store.notifications.get_notification(thread_id, notification_id)
    assert record is not None
    return record


async def inbox(store: Storage, thread_id: str = "t1", **filters: Any) -> list[str]:
    """The ids of an inbox, in its order."""
    rows = await store.notifications.list_notifications(thread_id, **filters)
    return [row.id for row in rows]


async def set_status(store: Storage, notification_id: str, status: str) -> None:
    """Put a record of thread ``t1`` into a status."""
    await store.notifications.update_notification(
        "t1", notification_id, NotificationPatch(status=status)
    )


class NotificationSuite(Suite):
    """What a store does with inbox records."""

    capabilities = ("notifications",)

    # -- creating -------------------------------------------------------------------------------

    @case("notifications", 1)
    async def test_a_new_record_has_the_defaults(self, store: Storage, clock: ShiftedClock) -> None:
        """A random id, pending, medium, one event, no attempt; created is updated."""
        record = await store.notifications.create_notification(event())

        assert str(uuid.UUID(record.id)) == record.id
        assert ("pending", "medium", 1, 0) == (
            record.status,
            record.priority,
            record.coalesced_count,
            record.delivery_attempts,
        )
        assert record.created_at == record.updated_at
        assert abs(record.created_at - clock.now()) < timedelta(minutes=1)
        assert record.to_wire() == (await stored(store, record.id)).to_wire()

    @case("notifications", 2)
    async def test_a_given_creation_time_is_both_times(self, store: Storage) -> None:
        """``created_at`` and ``updated_at`` equal it to the millisecond."""
        await store.notifications.create_notification(event(id="n1", created_at=at(7)))

        record = await stored(store)

        assert (at(7), at(7)) == (record.created_at, record.updated_at)

    async def test_every_member_of_an_event_is_stored(self, store: Storage) -> None:
        """What was given is read back, member by member."""
        given = event(
            id="n1",
            priority="high",
            payload={"a": [1, None]},
            resource_id="r1",
            agent_id="a1",
            source_id="s1",
            dedupe_key="d",
            coalesce_key="c",
            attributes={"pr": 12, "ok": True, "x": None, "t": "v", "f": 1.5},
            metadata={"m": {"n": 1}},
            deliver_at=at(1),
            summary_at=at(2),
            delivery_reason="why",
            created_at=T0,
        )

        await store.notifications.create_notification(given)

        record = await stored(store)
        expected = given.model_dump(exclude={"created_at"})
        assert expected == record.model_dump(include=set(expected))

    @case("notifications", 3)
    async def test_one_id_in_two_threads_is_two_records(self, store: Storage) -> None:
        """Each thread returns its own record; a third thread none."""
        for name in ("t1", "t2"):
            await store.notifications.create_notification(
                event(id="n1", thread_id=name, summary=name)
            )

        found = [(await stored(store, "n1", name)).summary for name in ("t1", "t2")]

        assert ["t1", "t2"] == found
        assert await store.notifications.get_notification("t3", "n1") is None

    @case("notifications", 4)
    async def test_what_callers_change_afterwards_changes_nothing_stored(
        self, store: Storage
    ) -> None:
        """Nested members of inputs and results are not shared with the store."""
        given = event(id="n1", payload={"l": [1]}, attributes={"a": 1}, metadata={"l": [1]})
        returned = await store.notifications.create_notification(given)
        listed = await store.notifications.list_notifications("t1")
        shown: Any
        for shown in (given, returned, *listed, await stored(store)):
            assert shown.metadata is not None
            assert shown.attributes is not None
            shown.payload["l"].append(2)
            shown.metadata["l"].append(2)
            shown.attributes["b"] = 2

        record = await stored(store)

        assert ({"l": [1]}, {"a": 1}, {"l": [1]}) == (
            record.payload,
            record.attributes,
            record.metadata,
        )

    @case("notifications", 5)
    async def test_an_existing_pair_is_never_written_twice(self, store: Storage) -> None:
        """By default an error, on request the unchanged record; one row in any case."""
        await store.notifications.create_notification(event(id="n1", summary="first"))
        again = event(id="n1", summary="second", kind="other")

        with pytest.raises(NotificationExistsError):
            await store.notifications.create_notification(again)
        returned = await store.notifications.create_notification(again, on_conflict="return")

        assert ("first", 1) == (returned.summary, returned.coalesced_count)
        assert ["n1"] == await inbox(store)

    async def test_repeating_a_keyed_create_with_its_id_counts_once(self, store: Storage) -> None:
        """The id is an idempotency handle: a retried create is not a second event."""
        given = event(id="n1", dedupe_key="k")
        await store.notifications.create_notification(given)

        returned = await store.notifications.create_notification(given, on_conflict="return")

        assert returned.coalesced_count == 1

    @case("notifications", 53)
    @pytest.mark.parametrize("name", ["bad name", "", "1a", "a:b", "ü", 'a"', "a\n"])
    async def test_a_bad_attribute_name_is_refused(self, store: Storage, name: str) -> None:
        """Rejected before any row is written, with the text of the renderer."""
        with pytest.raises(StorageArgumentError) as caught:
            await store.notifications.create_notification(event(id="n1", attributes={name: 1}))

        assert f"Invalid signal XML attribute name: {name}" == str(caught.value)
        assert [] == await inbox(store)

    @pytest.mark.parametrize(
        "members",
        [
            {"thread_id": ""},
            {"source": ""},
            {"kind": ""},
            {"id": ""},
            {"priority": "critical"},
            {"attributes": {"a": [1]}},
            {"attributes": {"a": float("nan")}},
            {"deliverAtt": T0},
        ],
    )
    async def test_a_bad_event_is_refused(self, store: Storage, members: dict[str, Any]) -> None:
        """Enumerations, ids and attributes are checked before anything is written."""
        with pytest.raises(StorageArgumentError):
            await store.notifications.create_notification(event(**members))

        assert [] == await inbox(store)

    # -- merging --------------------------------------------------------------------------------

    @case("notifications", 6)
    async def test_the_same_dedupe_key_merges(self, store: Storage) -> None:
        """Same id, new summary, count 2, one row; the input's id is ignored."""
        first = await store.notifications.create_notification(event(dedupe_key="k"))

        second = await store.notifications.create_notification(
            event(id="other", dedupe_key="k", summary="newer")
        )

        assert (first.id, "newer", 2) == (second.id, second.summary, second.coalesced_count)
        assert [first.id] == await inbox(store)
        assert second.to_wire() == (await stored(store, first.id)).to_wire()

    @case("notifications", 7)
    async def test_the_same_coalesce_key_merges(self, store: Storage) -> None:
        """Merged likewise."""
        first = await store.notifications.create_notification(event(coalesce_key="k"))

        second = await store.notifications.create_notification(
            event(coalesce_key="k", summary="newer")
        )

        assert (first.id, "newer", 2) == (second.id, second.summary, second.coalesced_count)

    @case("notifications", 8)
    @pytest.mark.parametrize("member", ["kind", "source", "agent_id", "resource_id", "thread_id"])
    async def test_a_key_of_another_scope_does_not_merge(self, store: Storage, member: str) -> None:
        """The same key elsewhere is another event."""
        scope = {"agent_id": "a1", "resource_id": "r1"}
        first = await store.notifications.create_notification(event(dedupe_key="k", **scope))

        second = await store.notifications.create_notification(
            event(**{"dedupe_key": "k", **scope, member: "different"})
        )

        assert first.id != second.id
        assert [1, 1] == [first.coalesced_count, second.coalesced_count]

    @case("notifications", 9)
    @pytest.mark.parametrize("member", ["agent_id", "resource_id"])
    async def test_absent_equals_absent_only(self, store: Storage, member: str) -> None:
        """A record without agent is not that of an agent, in either direction."""
        bare = await store.notifications.create_notification(event(dedupe_key="k"))
        owned = await store.notifications.create_notification(
            event(dedupe_key="k", **{member: "x"})
        )

        again = await store.notifications.create_notification(event(dedupe_key="k"))

        assert bare.id != owned.id
        assert bare.id == again.id

    @case("notifications", 10)
    async def test_a_key_is_compared_with_its_own_column_only(self, store: Storage) -> None:
        """A dedupe key "k" is not a coalesce key "k"."""
        await store.notifications.create_notification(event(dedupe_key="k"))

        await store.notifications.create_notification(event(coalesce_key="k"))

        assert len(await inbox(store)) == 2

    async def test_empty_keys_never_match(self, store: Storage) -> None:
        """No key is no key, however it is written."""
        for _ in range(2):
            await store.notifications.create_notification(event(dedupe_key="", coalesce_key=""))

        assert len(await inbox(store)) == 2

    @case("notifications", 11)
    @pytest.mark.parametrize("status", [status for status in STATUSES if status != "pending"])
    async def test_a_record_that_is_not_pending_is_not_merged_into(
        self, store: Storage, status: str
    ) -> None:
        """Its key can be used again for a new pending record."""
        await store.notifications.create_notification(event(id="n1", dedupe_key="k"))
        await set_status(store, "n1", status)

        record = await store.notifications.create_notification(
            event(dedupe_key="k", summary="newer")
        )

        assert record.id != "n1"
        assert ("pending", 1) == (record.status, record.coalesced_count)
        assert (await stored(store)).summary == "CI failed"

    @case("notifications", 12)
    async def test_attributes_and_metadata_merge_per_key(self, store: Storage) -> None:
        """Both keep their keys; the input wins per top-level key."""
        await store.notifications.create_notification(
            event(id="n1", dedupe_key="k", attributes={"a": 1, "s": 1}, metadata={"x": {"o": 1}})
        )

        await store.notifications.create_notification(
            event(dedupe_key="k", attributes={"b": 2, "s": 2}, metadata={"y": 2, "x": {"n": 2}})
        )
        await store.notifications.create_notification(event(dedupe_key="k"))

        record = await stored(store)
        assert record.attributes == {"a": 1, "b": 2, "s": 2}
        assert record.metadata == {"x": {"n": 2}, "y": 2}

    @case("notifications", 13)
    async def test_priority_stays_unless_given(self, store: Storage) -> None:
        """Urgent stays urgent; an explicit low lowers it."""
        await store.notifications.create_notification(
            event(id="n1", dedupe_key="k", priority="urgent")
        )

        kept = await store.notifications.create_notification(event(dedupe_key="k"))
        lowered = await store.notifications.create_notification(
            event(dedupe_key="k", priority="low")
        )

        assert ("urgent", "low") == (kept.priority, lowered.priority)

    @case("notifications", 14)
    async def test_the_payload_stays_unless_given(self, store: Storage) -> None:
        """A merge without payload keeps the old one; falsy payloads are payloads."""
        await store.notifications.create_notification(
            event(id="n1", dedupe_key="k", payload={"a": 1})
        )

        kept = await store.notifications.create_notification(event(dedupe_key="k"))
        replaced = await store.notifications.create_notification(event(dedupe_key="k", payload=0))

        assert kept.payload == {"a": 1}
        assert replaced.payload == 0
        assert replaced.payload is not False

    @case("notifications", 15)
    async def test_schedule_and_identity_stay_when_merging(self, store: Storage) -> None:
        """Times, creation, references and keys are those of the first event."""
        first = await store.notifications.create_notification(
            event(
                id="n1",
                dedupe_key="k",
                coalesce_key="c",
                source_id="s1",
                deliver_at=at(1),
                summary_at=at(2),
                delivery_reason="why",
                created_at=T0,
            )
        )

        merged = await store.notifications.create_notification(
            event(dedupe_key="k", coalesce_key="other", source_id="s2", created_at=at(99))
        )

        same = ("id", "created_at", "source_id", "dedupe_key", "coalesce_key", "deliver_at",
                "summary_at", "delivery_reason", "status", "delivery_attempts")  # fmt: skip
        assert first.model_dump(include=set(same)) == merged.model_dump(include=set(same))
        assert merged.updated_at > first.updated_at

    async def test_a_given_schedule_replaces_the_stored_one(self, store: Storage) -> None:
        """Times that come with an event are those that count."""
        await store.notifications.create_notification(
            event(id="n1", dedupe_key="k", deliver_at=at(1), summary_at=at(2))
        )

        merged = await store.notifications.create_notification(
            event(dedupe_key="k", deliver_at=at(50), delivery_reason="new")
        )

        assert (at(50), at(2), "new") == (
            merged.deliver_at,
            merged.summary_at,
            merged.delivery_reason,
        )

    async def test_of_several_matches_the_latest_updated_one_is_chosen(
        self, store: Storage
    ) -> None:
        """An event that matches one record by each key goes into the newer one."""
        for name, key, seconds in (
            ("n1", {"dedupe_key": "d"}, 2),
            ("n2", {"coalesce_key": "c"}, 1),
        ):
            await store.notifications.create_notification(
                event(id=name, created_at=at(seconds), **key)
            )

        merged = await store.notifications.create_notification(
            event(dedupe_key="d", coalesce_key="c")
        )

        assert merged.id == "n1"
        assert (await stored(store, "n2")).coalesced_count == 1

    # -- the inbox ------------------------------------------------------------------------------

    @case("notifications", 18)
    async def test_filters_are_an_intersection_newest_first(self, store: Storage) -> None:
        """Status list, priority list, source, resource and agent, latest updated first."""
        rows: list[dict[str, Any]] = [
            {"id": "n1", "priority": "high"},
            {"id": "n2", "priority": "low"},
            {"id": "n3", "priority": "high", "source": "slack"},
            {"id": "n4", "priority": "urgent"},
            {"id": "n5", "priority": "high", "agent_id": "a2"},
            {"id": "n6", "priority": "high", "resource_id": "r2"},
        ]
        for number, members in enumerate(rows):
            given = {"agent_id": "a1", "resource_id": "r1", **members}
            await store.notifications.create_notification(event(created_at=at(number), **given))
        await set_status(store, "n1", "delivered")

        found = await inbox(
            store,
            status=["pending", "delivered"],
            priority=["high", "urgent"],
            source="github",
            resource_id="r1",
            agent_id="a1",
        )

        assert ["n1", "n4"] == found
        assert ["n6", "n5", "n4", "n3", "n2"] == await inbox(store, status="pending")
        assert ["n4"] == await inbox(store, priority="urgent")

    async def test_equal_update_times_are_ordered_by_creation_and_id(self, store: Storage) -> None:
        """(updated desc, created desc, id asc)."""
        for name in ("b", "a", "c"):
            await store.notifications.create_notification(event(id=name, created_at=T0))

        assert ["a", "b", "c"] == await inbox(store)
        assert ["a", "b"] == await inbox(store, limit=2)

    async def test_empty_filters_do_not_filter(self, store: Storage) -> None:
        """An empty text is like an absent one."""
        await store.notifications.create_notification(event(id="n1"))

        assert ["n1"] == await inbox(store, source="", resource_id="", agent_id="", search="")

    @case("notifications", 19)
    async def test_search_ignores_case(self, store: Storage) -> None:
        """Summary and kind are searched."""
        await store.notifications.create_notification(event(id="n1", summary="Daily standup now"))
        await store.notifications.create_notification(event(id="n2", kind="Standing-order"))
        await store.notifications.create_notification(event(id="n3"))

        assert {"n1", "n2"} == set(await inbox(store, search="STAND"))

    @case("notifications", 20)
    async def test_search_is_literal_and_covers_the_source(self, store: Storage) -> None:
        """``%``, ``_`` and regular expressions mean themselves."""
        for name, summary in (("n1", "at 50%_x today"), ("n2", "at 50 and x"), ("n3", "a.c")):
            await store.notifications.create_notification(event(id=name, summary=summary))
        await store.notifications.create_notification(event(id="n4", source="a%b"))

        assert ["n1"] == await inbox(store, search="50%_x")
        assert ["n3"] == await inbox(store, search="a.c")
        assert ["n4"] == await inbox(store, search="A%B")
        assert [] == await inbox(store, search=".*")
        assert [] == await inbox(store, search="\\")

    @case("notifications", 21)
    async def test_an_empty_list_of_statuses_matches_nothing(self, store: Storage) -> None:
        """And a limit below one is an error, here and in the list of what is due."""
        await store.notifications.create_notification(event(id="n1", deliver_at=T0))

        assert [] == await inbox(store, status=[])
        assert [] == await inbox(store, priority=[])
        for limit in (0, -1, 10**30):
            with pytest.raises(StorageArgumentError):
                await store.notifications.list_notifications("t1", limit=limit)
            with pytest.raises(StorageArgumentError):
                await store.notifications.list_due_notifications(at(1), limit=limit)

    @pytest.mark.parametrize(
        "filters",
        [
            {"status": "SEEN"},
            {"status": ["pending", "bogus"]},
            {"status": 5},
            {"priority": "normal"},
            {"priority": [None]},
            {"search": 5},
        ],
        ids=str,
    )
    async def test_a_filter_that_matches_nothing_ever_is_refused(
        self, store: Storage, filters: Mapping[str, Any]
    ) -> None:
        """A misspelled word must not look like an empty inbox."""
        await store.notifications.create_notification(event(id="n1"))

        with pytest.raises(StorageArgumentError) as caught:
            await store.notifications.list_notifications("t1", **filters)

        assert next(iter(filters)) in str(caught.value)

    # -- what is due ----------------------------------------------------------------------------

    @case("notifications", 22)
    async def test_only_pending_records_with_a_schedule_that_has_come_are_due(
        self, store: Storage
    ) -> None:
        """By the earlier of both times, then by update, then by id; across threads."""
        rows: list[dict[str, Any]] = [
            {"id": "deliver", "deliver_at": at(5)},
            {"id": "summary", "summary_at": at(4), "thread_id": "t2"},
            {"id": "both", "deliver_at": at(99), "summary_at": at(3)},
            {"id": "future", "deliver_at": at(99), "summary_at": at(98)},
            {"id": "unscheduled"},
            {"id": "tie-b", "deliver_at": at(5), "created_at": at(1)},
            {"id": "tie-a", "summary_at": at(5), "created_at": at(1)},
        ]
        for members in rows:
            await store.notifications.create_notification(event(**{"created_at": T0, **members}))
        for status in STATUSES[1:]:
            await store.notifications.create_notification(event(id=status, deliver_at=at(1)))
            await set_status(store, status, status)

        due = await store.notifications.list_due_notifications(at(10))

        assert ["both", "summary", "deliver", "tie-a", "tie-b"] == [row.id for row in due]

    @case("notifications", 23)
    async def test_due_records_are_limited_after_ordering(self, store: Storage) -> None:
        """The two earliest; agent and resource filters apply."""
        for number in (3, 1, 2):
            await store.notifications.create_notification(
                event(
                    id=f"n{number}",
                    deliver_at=at(number),
                    agent_id=f"a{number % 2}",
                    resource_id="r1" if number == 1 else "r2",
                )
            )

        async def due(**filters: Any) -> list[str]:
            rows = await store.notifications.list_due_notifications(at(10), **filters)
            return [row.id for row in rows]

        assert ["n1", "n2"] == await due(limit=2)
        assert ["n1", "n3"] == await due(agent_id="a1")
        assert ["n2", "n3"] == await due(resource_id="r2")
        assert ["n3"] == await due(agent_id="a1", resource_id="r2", limit=1)

    @case("notifications", 24)
    async def test_a_record_is_due_from_its_very_millisecond(self, store: Storage) -> None:
        """At the time it is due, one millisecond before it isn't."""
        await store.notifications.create_notification(event(id="n1", deliver_at=at(5)))

        on_time = await store.notifications.list_due_notifications(at(5))
        early = await store.notifications.list_due_notifications(at(4.999))

        assert (1, 0) == (len(on_time), len(early))

    async def test_a_time_without_a_zone_is_refused(self, store: Storage) -> None:
        """Nobody knows which instant it is."""
        with pytest.raises((StorageArgumentError, WireEncodeError)):
            await store.notifications.list_due_notifications(T0.replace(tzinfo=None))

    # -- changing -------------------------------------------------------------------------------

    @case("notifications", 25)
    async def test_none_clears_a_time_and_absence_leaves_it(self, store: Storage) -> None:
        """A field given replaces, a field not given is untouched."""
        await store.notifications.create_notification(
            event(id="n1", deliver_at=at(1), summary_at=at(2), delivery_reason="why")
        )

        await store.notifications.update_notification(
            "t1", "n1", NotificationPatch(deliver_at=None, delivery_reason=None)
        )

        record = await stored(store)
        assert (None, at(2), None) == (
            record.deliver_at,
            record.summary_at,
            record.delivery_reason,
        )

    @case("notifications", 26)
    async def test_a_patch_replaces_objects_whole(self, store: Storage) -> None:
        """Payload, attributes and metadata are not merged."""
        await store.notifications.create_notification(
            event(id="n1", payload={"a": 1}, attributes={"a": 1}, metadata={"a": 1})
        )

        returned = await store.notifications.update_notification(
            "t1",
            "n1",
            NotificationPatch(payload={"b": 2}, attributes={"b": 2}, metadata={"b": 2}),
        )

        assert returned is not None
        for record in (returned, await stored(store)):
            assert record.payload == record.attributes == record.metadata == {"b": 2}

    async def test_every_member_of_a_patch_is_written(self, store: Storage) -> None:
        """And the update time moves, that of creation doesn't."""
        await store.notifications.create_notification(event(id="n1", created_at=T0))
        patch = NotificationPatch(
            summary="new",
            delivery_reason="why",
            delivery_attempts=3,
            last_delivery_attempt_at=at(5),
            last_delivery_error="boom",
            delivered_signal_id="d",
            summary_signal_id="s",
            deliver_at=at(6),
            summary_at=at(7),
        )

        await store.notifications.update_notification("t1", "n1", patch)

        record = await stored(store)
        expected = patch.model_dump(exclude_unset=True)
        assert expected == record.model_dump(include=set(expected))
        assert record.created_at == T0
        assert record.updated_at > T0

    @case("notifications", 27)
    @pytest.mark.parametrize("status", STATUSES)
    async def test_a_status_sets_its_own_timestamp_only(self, store: Storage, status: str) -> None:
        """Delivered, seen, dismissed, archived, discarded have one; pending and failed none."""
        await store.notifications.create_notification(event(id="n1", created_at=T0))

        await set_status(store, "n1", status)

        record = await stored(store)
        assert status == record.status
        times = {name: getattr(record, name) for name in TIMESTAMPS.values()}
        own = TIMESTAMPS.get(status)
        assert ([own] if own else []) == [name for name, time in times.items() if time is not None]
        if own:
            assert times[own] == record.updated_at

    async def test_a_status_never_clears_another_timestamp(self, store: Storage) -> None:
        """What happened before stays on record."""
        await store.notifications.create_notification(event(id="n1"))
        await set_status(store, "n1", "delivered")
        delivered_at = (await stored(store)).delivered_at

        await set_status(store, "n1", "seen")

        record = await stored(store)
        assert delivered_at == record.delivered_at
        assert record.seen_at is not None

    @case("notifications", 28)
    async def test_updating_an_unknown_pair_raises(self, store: Storage) -> None:
        """The text is part of the contract."""
        await store.notifications.create_notification(event(id="n1"))

        with pytest.raises(NotificationNotFoundError) as caught:
            await store.notifications.update_notification(
                "t2", "n1", NotificationPatch(summary="new")
            )

        assert str(caught.value) == "Notification n1 was not found for thread t2"

    @pytest.mark.parametrize(
        "patch",
        [
            NotificationPatch(status="read"),
            NotificationPatch(attributes={"bad name": 1}),
            NotificationPatch().model_copy(update={"delivery_attempts": -1}),
            NotificationPatch.model_validate({"statuss": "seen"}),
        ],
    )
    async def test_a_bad_patch_is_refused(self, store: Storage, patch: NotificationPatch) -> None:
        """Nothing is written, not even the update time."""
        await store.notifications.create_notification(event(id="n1", created_at=T0))

        with pytest.raises(StorageArgumentError):
            await store.notifications.update_notification("t1", "n1", patch)

        assert (await stored(store)).updated_at == T0

    async def test_an_empty_status_changes_no_status(self, store: Storage) -> None:
        """Falsy means no change."""
        await store.notifications.create_notification(event(id="n1"))

        await store.notifications.update_notification(
            "t1", "n1", NotificationPatch(status="", summary="new")
        )

        record = await stored(store)
        assert ("pending", "new") == (record.status, record.summary)

    async def test_a_change_may_depend_on_status_and_count(self, store: Storage) -> None:
        """When the condition doesn't hold, nothing is written and None is returned."""
        await store.notifications.create_notification(event(id="n1", dedupe_key="k", created_at=T0))
        patch = NotificationPatch(summary="changed")

        refused = [
            await store.notifications.update_notification(
                "t1", "n1", patch, expected_statuses=["seen"]
            ),
            await store.notifications.update_notification("t1", "n1", patch, expected_count=2),
        ]
        untouched = await stored(store)
        written = await store.notifications.update_notification(
            "t1", "n1", patch, expected_statuses=["pending", "seen"], expected_count=1
        )

        assert [None, None] == refused
        assert ("CI failed", T0) == (untouched.summary, untouched.updated_at)
        assert written is not None
        assert written.summary == "changed"

    @requires("notifications.bulk_status")
    @case("notifications", 29)
    async def test_a_bulk_change_returns_each_changed_record_once(self, store: Storage) -> None:
        """Duplicates collapse, unknown ids are skipped, the order is that of the ids."""
        for name, owner in (("a", "t1"), ("b", "t1"), ("a", "t2")):
            await store.notifications.create_notification(event(id=name, thread_id=owner))

        changed = await store.notifications.update_notifications_status(
            "t1", ["b", "a", "missing", "b"], "seen"
        )
        nothing = await store.notifications.update_notifications_status("t1", [], "seen")

        assert ["b", "a"] == [row.id for row in changed]
        assert {"seen"} == {row.status for row in changed}
        assert all(row.seen_at == row.updated_at for row in changed)
        assert (await stored(store, "a", "t2")).status == "pending"
        assert nothing == []

    @requires("notifications.bulk_status")
    @case("notifications", 30)
    async def test_a_bulk_change_takes_any_number_of_ids(self, store: Storage) -> None:
        """40 000 ids at once; each existing record is returned once."""
        for number in range(20):
            await store.notifications.create_notification(event(id=f"n{number * 2000}"))

        changed = await store.notifications.update_notifications_status(
            "t1", [f"n{number}" for number in range(40_000)], "archived"
        )

        assert [f"n{number * 2000}" for number in range(20)] == [row.id for row in changed]

    @requires("notifications.bulk_status")
    @case("notifications", 31)
    async def test_a_conditional_bulk_change_leaves_others_alone(self, store: Storage) -> None:
        """A record that was dismissed meanwhile is neither changed nor returned."""
        for name in ("a", "b", "c"):
            await store.notifications.create_notification(event(id=name))
        await set_status(store, "b", "dismissed")
        await set_status(store, "c", "delivered")

        changed = await store.notifications.update_notifications_status(
            "t1", ["a", "b", "c"], "seen", expected_statuses=["pending", "delivered"]
        )

        assert ["a", "c"] == sorted(row.id for row in changed)
        assert (await stored(store, "b")).status == "dismissed"

    @requires("notifications.bulk_status")
    async def test_a_bulk_change_to_an_unknown_status_is_refused(self, store: Storage) -> None:
        """Statuses are a closed set."""
        with pytest.raises(StorageArgumentError):
            await store.notifications.update_notifications_status("t1", ["a"], "read")

    @case("notifications", 32)
    async def test_marking_a_pending_record_delivers_it(self, store: Storage) -> None:
        """Status, timestamp, signal id and attempt time in one step."""
        await store.notifications.create_notification(event(id="n1"))

        marked = await store.notifications.mark_notification_delivered(
            "t1", "n1", delivered_signal_id="sig", last_delivery_attempt_at=at(5)
        )

        assert marked is not None
        record = await stored(store)
        assert marked.to_wire() == record.to_wire()
        assert ("delivered", "sig", at(5)) == (
            record.status,
            record.delivered_signal_id,
            record.last_delivery_attempt_at,
        )
        assert record.delivered_at == record.updated_at

    @case("notifications", 33)
    async def test_marking_never_downgrades_a_seen_record(self, store: Storage) -> None:
        """The facts are written, the status stays; None for a missing record."""
        await store.notifications.create_notification(event(id="n1"))
        await set_status(store, "n1", "seen")

        marked = await store.notifications.mark_notification_delivered(
            "t1", "n1", delivered_signal_id="sig", last_delivery_attempt_at=at(5)
        )
        missing = await store.notifications.mark_notification_delivered(
            "t1", "nowhere", delivered_signal_id="sig", last_delivery_attempt_at=at(5)
        )

        assert missing is None
        assert marked is not None
        assert ("seen", "sig", at(5), None) == (
            marked.status,
            marked.delivered_signal_id,
            marked.last_delivery_attempt_at,
            marked.delivered_at,
        )

    @case("notifications", 34)
    async def test_a_record_without_summary_stays_due_for_delivery(self, store: Storage) -> None:
        """Clearing one schedule leaves the other."""
        await store.notifications.create_notification(
            event(id="n1", deliver_at=at(5), summary_at=at(1))
        )

        await store.notifications.update_notification(
            "t1", "n1", NotificationPatch(summary_at=None)
        )

        due = [await store.notifications.list_due_notifications(at(s)) for s in (4, 5)]
        assert [0, 1] == [len(rows) for rows in due]

    # -- guards ---------------------------------------------------------------------------------

    async def test_a_guard_is_written_only_where_no_schedule_is(self, store: Storage) -> None:
        """S6: the ingress' guard makes an undecided record due, and nothing else."""
        guarded = await store.notifications.create_notification(event(id="n1"), guard_until=at(60))
        scheduled = await store.notifications.create_notification(
            event(id="n2", summary_at=at(5)), guard_until=at(60)
        )

        assert (at(60), None) == (guarded.deliver_at, guarded.summary_at)
        assert (None, at(5)) == (scheduled.deliver_at, scheduled.summary_at)
        due = await store.notifications.list_due_notifications(at(60))
        assert ["n2", "n1"] == [row.id for row in due]

    async def test_settling_takes_a_guard_away(self, store: Storage) -> None:
        """S6: persist, discard and a delivery restore None in the same write."""
        await store.notifications.create_notification(event(id="n1"), guard_until=at(60))

        settled = await store.notifications.update_notification(
            "t1", "n1", NotificationPatch(delivery_reason="persisted"), settle_guard=True
        )

        assert settled is not None
        assert (None, "persisted") == (settled.deliver_at, settled.delivery_reason)
        assert await store.notifications.list_due_notifications(at(99)) == []

    async def test_settling_keeps_a_real_schedule(self, store: Storage) -> None:
        """S6: only the guard's own value goes."""
        await store.notifications.create_notification(
            event(id="n1", deliver_at=at(30)), guard_until=at(60)
        )
        await store.notifications.create_notification(event(id="n2"), guard_until=at(60))

        await store.notifications.update_notification(
            "t1", "n1", NotificationPatch(), settle_guard=True
        )
        await store.notifications.update_notification(
            "t1", "n2", NotificationPatch(deliver_at=at(40)), settle_guard=True
        )
        await store.notifications.update_notification(
            "t1", "n2", NotificationPatch(), settle_guard=True
        )

        assert at(30) == (await stored(store, "n1")).deliver_at
        assert at(40) == (await stored(store, "n2")).deliver_at

    async def test_a_merged_event_renews_the_guard(self, store: Storage) -> None:
        """S6: whoever decides last is guarded last; a schedule takes the guard's place."""
        await store.notifications.create_notification(
            event(id="n1", dedupe_key="k"), guard_until=at(60)
        )

        renewed = await store.notifications.create_notification(
            event(dedupe_key="k"), guard_until=at(90)
        )
        replaced = await store.notifications.create_notification(
            event(dedupe_key="k", summary_at=at(5)), guard_until=at(120)
        )

        assert at(90) == renewed.deliver_at
        assert (None, at(5)) == (replaced.deliver_at, replaced.summary_at)

    # -- retention ------------------------------------------------------------------------------

    @requires("storage.retention")
    @case("notifications", 35)
    async def test_pruning_goes_by_creation_whatever_the_status(
        self, store: Storage, clock: ShiftedClock
    ) -> None:
        """Strictly older rows go, also pending ones and those that were just changed."""
        now = clock.now()
        for name, age in (("old", 7200), ("older", 7300), ("young", 3000)):
            created = now - timedelta(seconds=age)
            await store.notifications.create_notification(event(id=name, created_at=created))
        await set_status(store, "older", "seen")
        policy = PrunePolicy(table="notifications", max_age_ms=3_600_000)

        preview = await store.notifications.prune([policy], PruneOptions(dry_run=True))
        results = await store.notifications.prune([policy])

        assert [(2, 2)] == [
            (dry.deleted, done.deleted) for dry, done in zip(preview, results, strict=True)
        ]
        assert ["young"] == await inbox(store)

    # -- values ---------------------------------------------------------------------------------

    @kept_values()
    async def test_payloads_and_metadata_are_kept(self, store: Storage, value: object) -> None:
        """Odd JSON values come back equal."""
        await store.notifications.create_notification(
            event(id="n1", payload=value, metadata={"value": value})
        )

        record = await stored(store)

        assert (value, {"value": value}) == (record.payload, record.metadata)

    @refused_values()
    async def test_payloads_without_json_form_are_refused(
        self, store: Storage, make: Callable[[], Any]
    ) -> None:
        """Neither a new record, nor a merge, nor a patch writes anything."""
        await store.notifications.create_notification(event(id="n1", dedupe_key="k", created_at=T0))

        with pytest.raises(WireEncodeError):
            await store.notifications.create_notification(event(dedupe_key="k", payload=[make()]))
        with pytest.raises(WireEncodeError):
            await store.notifications.create_notification(event(id="n2", metadata={"bad": make()}))
        with pytest.raises(WireEncodeError):
            await store.notifications.update_notification(
                "t1", "n1", NotificationPatch(summary="new", payload={"bad": make()})
            )

        record = await stored(store)
        assert ("CI failed", 1, T0) == (
            record.summary,
            record.coalesced_count,
            record.updated_at,
        )
        assert ["n1"] == await inbox(store)

    @pytest.mark.parametrize("text", ODD_TEXTS.values(), ids=ODD_TEXTS)
    async def test_odd_summaries_are_kept_or_refused(self, store: Storage, text: str) -> None:
        """A summary is never changed quietly; an attribute is a JSON value."""
        given = event(id="n1", summary=text)
        if await kept_or_refused(store.notifications.create_notification(given)):
            assert text == (await stored(store)).summary
        await store.notifications.create_notification(event(id="n2", attributes={"a": text}))
        assert {"a": text} == (await stored(store, "n2")).attributes


async def create_many(store: Storage, arguments: Mapping[str, Any]) -> int:
    """One member of a crowd: create the same event so many times."""
    for _ in range(arguments["times"]):
        await store.notifications.create_notification(event(dedupe_key="k"))
    return int(arguments["times"])


class NotificationCrowdSuite(Suite):
    """What many writers at once do to an inbox."""

    capabilities = ("notifications", "notifications.unique_dedupe")
    tier = 2

    @case("notifications", 16)
    async def test_fifty_parallel_creates_with_one_key_make_one_record(
        self, store: Storage, subject: Subject, open_store: OpenStore, processes: Processes
    ) -> None:
        """Parallel creates of five processes end in one row that counts them all."""
        await in_crowd(
            create_many,
            [{"times": 10}] * 5,
            subject=subject,
            open_store=open_store,
            processes=processes,
        )

        rows = await store.notifications.list_notifications("t1")
        assert [50] == [row.coalesced_count for row in rows]

    async def test_parallel_creates_by_tasks_of_two_handles_make_one_record(
        self, store: Storage, open_store: OpenStore
    ) -> None:
        """Also within one process, by either key, no event is lost."""
        async with open_store() as other:
            results = await at_once(
                [
                    handle.notifications.create_notification(
                        event(coalesce_key="c", dedupe_key=f"d{number}")
                    )
                    for number in range(20)
                    for handle in (store, other)
                ]
            )

        assert [] == [result for result in results if isinstance(result, BaseException)]
        rows = await store.notifications.list_notifications("t1")
        assert [40] == [row.coalesced_count for row in rows]

    @case("notifications", 17)
    async def test_an_event_never_goes_into_a_record_that_stopped_being_pending(
        self, store: Storage, open_store: OpenStore
    ) -> None:
        """While others deliver, every event is in a pending record or was there before."""
        sent: list[str] = []

        async def create(number: int) -> None:
            summary = f"event {number}"
            record = await store.notifications.create_notification(
                event(dedupe_key="k", summary=summary)
            )
            assert (record.status, record.summary) == ("pending", summary)
            sent.append(record.id)

        async def deliver(handle: Storage) -> None:
            for record in await handle.notifications.list_notifications("t1", status="pending"):
                await handle.notifications.mark_notification_delivered(
                    "t1", record.id, delivered_signal_id="s", last_delivery_attempt_at=T0
                )

        async with open_store() as other:
            results = await at_once(
                [call for n in range(25) for call in (create(n), deliver(other))]
            )

        assert [] == [result for result in results if isinstance(result, BaseException)]
        rows = await store.notifications.list_notifications("t1")
        assert len(sent) == sum(row.coalesced_count for row in rows)
        after = await store.notifications.create_notification(event(dedupe_key="k", summary="last"))
        assert (after.status, after.summary) == ("pending", "last")

    async def test_one_id_created_at_once_is_one_record(
        self, store: Storage, open_store: OpenStore
    ) -> None:
        """S3: the pair is unique, however many write it."""
        async with open_store() as other:
            results = await at_once(
                [
                    handle.notifications.create_notification(event(id="n1"))
                    for _ in range(10)
                    for handle in (store, other)
                ]
            )

        refused = [result for result in results if isinstance(result, NotificationExistsError)]
        assert len(refused) == 19
        assert ["n1"] == await inbox(store)

    @requires("notifications.bulk_status")
    async def test_of_two_conditional_changes_one_wins(
        self, store: Storage, open_store: OpenStore
    ) -> None:
        """The condition is checked in the write, per record."""
        for number in range(10):
            await store.notifications.create_notification(event(id=f"n{number}"))
        names = [f"n{number}" for number in range(10)]

        async with open_store() as other:
            results = await at_once(
                [
                    handle.notifications.update_notifications_status(
                        "t1", names, status, expected_statuses=["pending"]
                    )
                    for handle, status in ((store, "seen"), (other, "dismissed"))
                ]
            )

        changed = [row.id for rows in results for row in rows]
        assert sorted(names) == sorted(changed)
