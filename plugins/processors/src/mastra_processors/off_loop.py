"""Work on long texts, beside the event loop (processors.md 10.5, rule 1)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

__all__ = ("off_loop",)

T = TypeVar("T")

#: Characters that are dealt with in less time than others would notice.
_SHORT: Final = 8_000


async def off_loop(text: str, work: Callable[[str], T]) -> T:
    """What ``work`` makes of a text; in a worker thread if the text is long."""
    if len(text) <= _SHORT:
        return work(text)
    return await asyncio.to_thread(work, text)
