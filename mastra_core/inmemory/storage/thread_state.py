"""Small values of threads of the in-memory store (cross_agent.md 4)."""

from __future__ import annotations

from typing import Any

from mastra_core.inmemory.storage.copies import Encoded
from mastra_core.inmemory.storage.domain import Domain, Tables
from mastra_core.rules.arguments import check_text
from mastra_core.rules.json_values import same_json

__all__ = ("InMemoryThreadState", "ThreadStateTables")


class ThreadStateTables(Tables):
    """Values by thread and type, encoded."""

    def __init__(self) -> None:
        self.values: dict[str, dict[str, Encoded]] = {}


class InMemoryThreadState(Domain[ThreadStateTables]):
    """Domain ``thread_state``; see ``contracts.storage.thread_state``."""

    def __init__(self) -> None:
        self.attach(None)

    async def get_state(self, thread_id: str, state_type: str) -> Any:
        """A copy of the value; None if there is none."""
        stored = self._tables.values.get(thread_id, {}).get(state_type)
        return None if stored is None else stored.value()

    async def set_state(self, thread_id: str, state_type: str, value: Any) -> None:
        """Upsert."""
        self._put(thread_id, state_type, value)

    async def compare_and_set(
        self, thread_id: str, state_type: str, *, expected: Any, value: Any
    ) -> bool:
        """Replace ``expected`` by ``value``, in one step without an await."""
        stored = self._tables.values.get(thread_id, {}).get(state_type)
        current = None if stored is None else stored.value()
        if not same_json(current, Encoded.of(expected).value()):
            return False
        self._put(thread_id, state_type, value)
        return True

    async def delete_state(self, thread_id: str, state_type: str) -> bool:
        """Delete; True if there was one."""
        states = self._tables.values.get(thread_id, {})
        found = states.pop(state_type, None) is not None
        if found and not states:
            del self._tables.values[thread_id]
        return found

    async def list_states(self, thread_id: str) -> dict[str, Any]:
        """All values of a thread by type."""
        states = self._tables.values.get(thread_id, {})
        return {name: states[name].value() for name in sorted(states)}

    async def dangerously_clear_all(self) -> None:
        """Delete every value."""
        self._tables.values.clear()

    def _put(self, thread_id: str, state_type: str, value: Any) -> None:
        check_text(thread_id, "thread_id")
        check_text(state_type, "state_type")
        encoded = Encoded.of(value)
        self._tables.values.setdefault(thread_id, {})[state_type] = encoded
