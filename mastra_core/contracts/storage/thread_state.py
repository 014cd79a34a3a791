"""Small JSON values of a thread, by type (table ``mastra_thread_state``; cross_agent.md 4)."""

from __future__ import annotations

from typing import Any, Protocol

__all__ = ("ThreadStateStorage",)


class ThreadStateStorage(Protocol):
    """Domain ``thread_state``; the pair ``(thread_id, type)`` is the key."""

    async def get_state(self, thread_id: str, state_type: str) -> Any:
        """The value, a copy; None if there is none (a stored null reads as None too)."""
        ...

    async def set_state(self, thread_id: str, state_type: str, value: Any) -> None:
        """Upsert in one statement; the row keeps its creation time."""
        ...

    async def compare_and_set(
        self, thread_id: str, state_type: str, *, expected: Any, value: Any
    ) -> bool:
        """
        Replace ``expected`` by ``value``, atomically; True for the winner.

        Values are compared as JSON (key order doesn't matter). ``expected=None`` means that
        there is no row, or a stored null. Capability ``thread_state.compare_and_set``.
        """
        ...

    async def delete_state(self, thread_id: str, state_type: str) -> bool:
        """Delete; True if there was one."""
        ...

    async def list_states(self, thread_id: str) -> dict[str, Any]:
        """All values of a thread by type."""
        ...

    async def dangerously_clear_all(self) -> None:
        """Delete every value."""
        ...
