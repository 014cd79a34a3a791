"""The end of a streamed text, which waits until it is known what it is the beginning of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from mastra_core.processors import ProcessorArgs
from mastra_processors.redaction import Match, Region, redacted

__all__ = ("HeldText", "hold")

_Chunk = dict[str, Any]

#: What has gone out stays in sight so far, for patterns that look at what stands before.
_BEHIND: Final = 64
#: Chunks that may stand amid a text; any other one ends it.
_AMID: Final = frozenset({"raw", "response-metadata"})


class HeldText:
    """
    The text of one block: what has gone out and is still in sight, then what waits.

    ``text`` is both; what waits begins at ``start``.
    """

    def __init__(self) -> None:
        self.text = ""
        self.start = 0
        self._last: _Chunk | None = None
        #: How much of the block isn't in sight any more, and up to where matches were told of.
        self._gone = 0
        self._told_to = 0

    @property
    def block(self) -> Any:
        """The id of the block."""
        return None if self._last is None else self._last["payload"].get("id")

    def add(self, chunk: _Chunk) -> None:
        """Take a piece of the text in."""
        self._last = chunk
        self.text += chunk["payload"]["text"]

    def safe_end(self, regions: Sequence[Region], *, waits: int) -> int:
        """
        Up to where the text may go, so that no match is cut.

        Args:
            regions: The matches in what waits.
            waits: Characters at the end that wait in any case.
        """
        end = max(self.start, len(self.text) - waits)
        for region in regions:
            if region.end == len(self.text):
                # What reaches the end of what is known may go on.
                end = min(end, region.start)
            elif region.start < end < region.end:
                end = region.end
        return end

    def new_matches(self, matches: Iterable[Match]) -> list[Match]:
        """Those that weren't told of; one that has grown meanwhile was."""
        new = sorted(
            (match for match in matches if self._gone + match.start >= self._told_to),
            key=lambda match: match.start,
        )
        if new:
            self._told_to = self._gone + max(match.end for match in new)
        return new

    def drop(self) -> None:
        """Forget what waits."""
        self.text, self.start = "", 0

    def let_go(
        self, end: int, regions: Sequence[Region] = (), *, keep: int = _BEHIND
    ) -> _Chunk | None:
        """
        The chunk with the text up to a place; None if nothing goes.

        Args:
            end: The place; no region may be cut by it.
            regions: What is replaced.
            keep: How much of it stays in sight.
        """
        assert self._last is not None
        shown = redacted(self.text, regions, start=self.start, end=end)
        forgotten = max(0, end - keep)
        self.text = self.text[forgotten:]
        self.start = end - forgotten
        self._gone += forgotten
        if not shown:
            return None
        return {**self._last, "payload": {**self._last["payload"], "text": shown}}


def hold(args: ProcessorArgs) -> tuple[HeldText, bool] | None:
    """
    Take the chunk of a stream hook in, if it belongs to a text.

    Returns:
        The text and whether it has ended; None for a chunk that passes on as it is. The chunk
        that ends a text is pushed: all that waits goes first, and it comes back behind it.
    """
    part = args.part
    if part is None or part["type"] in _AMID:
        return None
    held: HeldText | None = args.state.get("held")
    is_text = part["type"] == "text-delta"
    if held is None:
        if not is_text:
            return None
        held = args.state["held"] = HeldText()
    elif not is_text or held.block != part["payload"].get("id"):
        del args.state["held"]
        assert args.push is not None
        args.push(part)
        return held, True
    held.add(part)
    return held, False
