"""Small typed values of a thread (cross_agent.md 4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mastra_conformance.fixtures import OpenStore
from mastra_conformance.suite import Suite, requires, tier
from mastra_conformance.suites.storage.crowds import at_once
from mastra_conformance.suites.storage.values import kept_values, refused_values
from mastra_core.contracts.storage import Storage
from mastra_core.errors import StorageArgumentError, WireEncodeError

__all__ = (
    "KIND",
    "ThreadStateSuite",
)

KIND = "agent_connection"


class ThreadStateSuite(Suite):
    """What a store does with the state of threads."""

    capabilities = ("thread_state",)

    async def test_a_value_reads_back_equal(self, store: Storage) -> None:
        """Per thread and type; absent is None."""
        value = {"peers": [{"id": "p", "future": {"x": None}}], "sentSignals": []}

        await store.thread_state.set_state("t1", KIND, value)

        assert value == await store.thread_state.get_state("t1", KIND)
        assert await store.thread_state.get_state("t1", "other") is None
        assert await store.thread_state.get_state("t2", KIND) is None

    async def test_setting_again_replaces_the_value(self, store: Storage) -> None:
        """There is one row per pair."""
        await store.thread_state.set_state("t1", KIND, {"a": 1})
        await store.thread_state.set_state("t1", KIND, [1, 2])

        assert await store.thread_state.list_states("t1") == {KIND: [1, 2]}

    async def test_states_are_listed_by_type(self, store: Storage) -> None:
        """Those of one thread; ids and types are names, not patterns."""
        for thread, kind, value in (("t1", "a", 1), ("t1", "b%", "two"), ("t_", "c", 3)):
            await store.thread_state.set_state(thread, kind, value)

        assert await store.thread_state.list_states("t1") == {"a": 1, "b%": "two"}
        assert await store.thread_state.list_states("t_") == {"c": 3}
        assert await store.thread_state.list_states("t3") == {}

    async def test_deleting_says_whether_there_was_one(self, store: Storage) -> None:
        """Only that pair goes."""
        await store.thread_state.set_state("t1", "a", 1)
        await store.thread_state.set_state("t1", "b", 2)

        first = await store.thread_state.delete_state("t1", "a")
        again = await store.thread_state.delete_state("t1", "a")

        assert (True, False) == (first, again)
        assert await store.thread_state.list_states("t1") == {"b": 2}

    @pytest.mark.parametrize("value", [0, False, "", [], {}])
    async def test_falsy_values_are_values(self, store: Storage, value: Any) -> None:
        """They are not the same as nothing."""
        await store.thread_state.set_state("t1", KIND, value)

        found = await store.thread_state.get_state("t1", KIND)

        assert (value, type(value)) == (found, type(found))

    async def test_what_callers_change_afterwards_changes_nothing_stored(
        self, store: Storage
    ) -> None:
        """Nothing is shared with the store."""
        value = {"list": [1]}
        await store.thread_state.set_state("t1", KIND, value)
        value["list"].append(2)
        (await store.thread_state.get_state("t1", KIND))["list"].append(3)
        (await store.thread_state.list_states("t1"))[KIND]["list"].append(4)

        assert await store.thread_state.get_state("t1", KIND) == {"list": [1]}

    @pytest.mark.parametrize(("thread", "kind"), [("", KIND), ("t1", "")])
    async def test_an_empty_key_is_refused(self, store: Storage, thread: str, kind: str) -> None:
        """Both halves are needed."""
        with pytest.raises(StorageArgumentError):
            await store.thread_state.set_state(thread, kind, 1)

    @kept_values()
    async def test_values_are_kept(self, store: Storage, value: object) -> None:
        """Odd JSON values come back equal, alone and inside."""
        await store.thread_state.set_state("t1", "alone", value)
        await store.thread_state.set_state("t1", "inside", {"value": [value]})

        assert value == await store.thread_state.get_state("t1", "alone")
        assert {"value": [value]} == await store.thread_state.get_state("t1", "inside")

    @refused_values()
    async def test_values_without_json_form_are_refused(
        self, store: Storage, make: Callable[[], Any]
    ) -> None:
        """The old value is intact."""
        await store.thread_state.set_state("t1", KIND, {"old": 1})

        with pytest.raises(WireEncodeError):
            await store.thread_state.set_state("t1", KIND, {"bad": make()})

        assert await store.thread_state.get_state("t1", KIND) == {"old": 1}

    # -- compare and set ------------------------------------------------------------------------

    @requires("thread_state.compare_and_set")
    async def test_only_the_expected_value_is_replaced(self, store: Storage) -> None:
        """Compared as JSON: the order of members doesn't matter, types do."""
        await store.thread_state.set_state("t1", KIND, {"a": 1, "b": [True, {"c": "x"}]})

        async def swap(expected: Any, value: Any) -> bool:
            return await store.thread_state.compare_and_set(
                "t1", KIND, expected=expected, value=value
            )

        assert not await swap({"a": 1}, "lost")
        assert not await swap({"a": 1, "b": [1, {"c": "x"}]}, "lost")
        assert not await swap({"a": True, "b": [True, {"c": "x"}]}, "lost")
        assert not await swap(None, "lost")
        assert await swap({"b": [True, {"c": "x"}], "a": 1.0}, {"n": 2**60})
        assert not await swap({"n": 2**60 + 1}, "lost")
        assert await swap({"n": 2**60}, "won")
        assert await store.thread_state.get_state("t1", KIND) == "won"

    @requires("thread_state.compare_and_set")
    async def test_none_expects_that_there_is_no_row(self, store: Storage) -> None:
        """It creates the first value, and only that."""
        first = await store.thread_state.compare_and_set("t1", KIND, expected=None, value={"n": 1})
        again = await store.thread_state.compare_and_set("t1", KIND, expected=None, value={"n": 2})
        other = await store.thread_state.compare_and_set("t2", KIND, expected={"n": 1}, value=3)

        assert (True, False, False) == (first, again, other)
        assert await store.thread_state.get_state("t1", KIND) == {"n": 1}
        assert await store.thread_state.get_state("t2", KIND) is None

    @requires("thread_state.compare_and_set")
    async def test_an_odd_expected_value_is_found(self, store: Storage) -> None:
        """Texts that databases like to change are compared as they were stored."""
        value = {"nul": "a\x00b", "cut": "\ud83d", "op": {"$gt": 1}, "f": 0.1}
        await store.thread_state.set_state("t1", KIND, value)

        assert await store.thread_state.compare_and_set("t1", KIND, expected=value, value=1)

    @tier(2)
    @requires("thread_state.compare_and_set")
    async def test_counting_by_compare_and_set_loses_nothing(
        self, store: Storage, open_store: OpenStore
    ) -> None:
        """Read, change, write if nobody else did; otherwise again."""

        async def add_one(handle: Storage) -> None:
            while True:
                value = await handle.thread_state.get_state("t1", KIND)
                after = {"n": (value or {"n": 0})["n"] + 1}
                if await handle.thread_state.compare_and_set(
                    "t1", KIND, expected=value, value=after
                ):
                    return

        async with open_store() as other:
            results = await at_once(
                [add_one(handle) for _ in range(10) for handle in (store, other)]
            )

        assert [None] * 20 == results
        assert await store.thread_state.get_state("t1", KIND) == {"n": 20}
