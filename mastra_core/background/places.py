"""How many tasks may run at once (streaming.md 8.3)."""

from __future__ import annotations

from collections import Counter

__all__ = ("Places",)


class Places:
    """The places of one process, in all and per agent."""

    def __init__(self, *, in_all: int, per_agent: int) -> None:
        self._in_all = in_all
        self._per_agent = per_agent
        self._taken: Counter[str] = Counter()

    def limit_for(self, agent_id: str) -> int:
        """The limit that keeps a further task of this agent out, or would first."""
        return self._per_agent if self._taken[agent_id] >= self._per_agent else self._in_all

    def take(self, agent_id: str) -> bool:
        """Take a place if there is one."""
        if self._taken[agent_id] >= self._per_agent or self._taken.total() >= self._in_all:
            return False
        self._taken[agent_id] += 1
        return True

    def give_back(self, agent_id: str) -> None:
        """A task of this agent is over."""
        self._taken[agent_id] -= 1
        if self._taken[agent_id] <= 0:
            del self._taken[agent_id]
