"""What answers have cost, by whoever pays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol, runtime_checkable

__all__ = ("CostEntry", "CostLedger", "InMemoryCostLedger")

#: Answers of one model within this time become one entry.
_SLOT_MS: Final = 60_000
#: The longest window that can be asked for.
_KEPT_MS: Final = 366 * 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CostEntry:
    """What one answer, or several of one model, has cost."""

    at_ms: int
    provider: str
    model: str
    cost: float
    tokens: int


@runtime_checkable
class CostLedger(Protocol):
    """Where costs are noted; give your own for several processes."""

    async def add(self, key: str, entry: CostEntry) -> None:
        """Note a cost of whom ``key`` names."""
        ...

    async def entries(self, key: str, *, since_ms: int) -> Sequence[CostEntry]:
        """Costs from a time on."""
        ...


class InMemoryCostLedger:
    """Costs in this process's memory; one entry per minute and model."""

    def __init__(self) -> None:
        self._entries: dict[str, list[CostEntry]] = {}

    async def add(self, key: str, entry: CostEntry) -> None:
        """Note a cost."""
        kept = self._entries.setdefault(key, [])
        for place in range(len(kept) - 1, -1, -1):
            old = kept[place]
            if old.at_ms // _SLOT_MS != entry.at_ms // _SLOT_MS:
                break
            if (old.provider, old.model) == (entry.provider, entry.model):
                kept[place] = replace(
                    old, cost=old.cost + entry.cost, tokens=old.tokens + entry.tokens
                )
                return
        kept.append(entry)
        first = next(i for i, one in enumerate(kept) if one.at_ms > entry.at_ms - _KEPT_MS)
        del kept[:first]

    async def entries(self, key: str, *, since_ms: int) -> Sequence[CostEntry]:
        """Costs from a time on."""
        return [entry for entry in self._entries.get(key, ()) if entry.at_ms >= since_ms]
