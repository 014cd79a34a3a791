"""Where plugins put processors among those of an agent (processors.md 7)."""

from __future__ import annotations

from collections.abc import Sequence

from mastra_core.contracts.processor import Processor
from mastra_core.plugins import Placed

__all__ = ("place",)

_OWN_SLOT = "user"


def place(
    configured: Sequence[Processor], placed: Sequence[Placed], *, slots: Sequence[str]
) -> list[Processor]:
    """
    One list: the agent's own processors stand in slot ``user`` at order 0.

    A processor whose id one of the agent's own has is left out.

    Args:
        configured: The agent's own, in order.
        placed: What plugins add, sorted by slot and order.
        slots: All slots of this kind of list, in order.
    """
    own = (slots.index(_OWN_SLOT), 0)
    ids = {processor.id for processor in configured}
    placed = [p for p in placed if p.processor.id not in ids]
    before = [p.processor for p in placed if (slots.index(p.slot), p.order) < own]
    after = [p.processor for p in placed if (slots.index(p.slot), p.order) >= own]
    return [*before, *configured, *after]
