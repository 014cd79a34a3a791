"""Stored messages before live chunks, each thing once (signals.md 12.12)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mastra_core.messages.recalling import is_row_hidden
from mastra_core.messages.signals import is_signal_chunk, normalise_type
from mastra_core.streaming.broadcast import ChunkBuffer
from mastra_core.wire.chunks import Chunk
from mastra_core.wire.messages import Message

__all__ = ("HISTORY_PAGE", "HistoryPage", "ReadHistory", "is_prompt", "read_history")

#: How many messages are read unless a reader says otherwise.
HISTORY_PAGE: Final = 40
#: How often the messages are read again because some were stored meanwhile.
_READS: Final = 50
_PROMPTS: Final = ("tool-call-approval", "tool-call-suspended")


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryPage:
    """The newest messages of a thread, in time order."""

    messages: Sequence[Message] = ()
    has_more: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadHistory:
    """The chunk with the messages, and what of the runs stands in it."""

    chunk: Chunk
    #: Per buffer: how many of its first chunks storage had when the messages were read.
    covered: dict[int, int]
    #: Buffers of runs that storage has from beginning to end.
    complete: Collection[int]
    message_ids: Collection[str]

    def has(self, buffer: ChunkBuffer, position: int, chunk: Chunk) -> bool:
        """Do the messages say what this chunk says?"""
        if is_signal_chunk(chunk) and (chunk.get("data") or {}).get("id") in self.message_ids:
            return True
        return position < self.covered.get(id(buffer), 0)


def is_prompt(chunk: Chunk) -> bool:
    """Does this chunk wait for somebody's answer?"""
    return chunk.get("type") in _PROMPTS


async def read_history(
    load: Callable[[], Awaitable[HistoryPage]],
    buffers: Callable[[], Iterable[ChunkBuffer]],
    *,
    hide_signals: bool | Sequence[str] | None,
) -> ReadHistory:
    """
    Read the messages at a moment when no run was storing any.

    Args:
        load: Reads the newest messages.
        buffers: The runs that follow, also those that begin meanwhile.
        hide_signals: Which signals the reader doesn't want.
    """
    for _ in range(_READS):
        before = {id(b): (b.saves_begun, b.saves_done, b.covered, b.is_stored) for b in buffers()}
        page = await load()
        after = list(buffers())
        is_still = all(
            b.saves_begun == before.get(id(b), (0, 0, 0, False))[0]
            and b.saves_begun == before.get(id(b), (0, 0, 0, False))[1]
            for b in after
        )
        if is_still:
            break
        # Let whoever is storing go on.
        await asyncio.sleep(0)
    names = None if hide_signals is None or isinstance(hide_signals, bool) else hide_signals
    hidden = [normalise_type(name) for name in names] if names is not None else hide_signals
    shown = [row for row in page.messages if not is_row_hidden(row, hide_signals=hidden or False)]
    payload: dict[str, Any] = {
        "messages": [row.to_wire() for row in shown],
        "hasMore": page.has_more,
    }
    return ReadHistory(
        chunk={"type": "thread-history", "runId": "", "from": "AGENT", "payload": payload},
        covered={key: covered for key, (_, _, covered, _) in before.items()},
        complete={key for key, (_, _, _, is_stored) in before.items() if is_stored},
        message_ids={row.id for row in page.messages},
    )
