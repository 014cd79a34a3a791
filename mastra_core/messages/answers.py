"""Whether a message answers what was said before it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ("is_answer",)

#: Marks of a message that waits for somebody, under an id of its own.
_WAITS = ("pendingToolApprovals", "suspendedTools")
#: Parts that say nothing.
_SILENT = frozenset({"step-start", "error"})


def is_answer(role: str, content: Mapping[str, Any]) -> bool:
    """
    Does this message of an agent say something?

    One that broke off before it came to words doesn't: an error alone, or calls whose results
    nobody has looked at.
    """
    if role != "assistant":
        return False
    metadata = content.get("metadata") or {}
    if any(metadata.get(mark) for mark in _WAITS):
        return True
    kinds = [part.get("type") for part in content.get("parts") or ()]
    said = [kind for kind in kinds if kind not in _SILENT]
    return bool(said) and said[-1] != "tool-invocation"
