"""Fewer, longer pieces of text on the stream."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field

from mastra_core.processors import ProcessorArgs
from mastra_processors.built_in import BuiltIn
from mastra_processors.options import Options

__all__ = ("BatchParts", "BatchPartsOptions")

_Chunk = dict[str, Any]


class BatchPartsOptions(Options):
    """Options of ``batch-parts``."""

    #: How many pieces of text become one.
    batch_size: int = Field(default=5, ge=1)
    #: Milliseconds after which a batch goes out with the next piece, full or not.
    max_wait_time: int | None = Field(default=None, ge=0)
    #: Let a batch go out before any other chunk; otherwise only before the end of its text.
    emit_on_non_text: bool = True


class BatchParts(BuiltIn[BatchPartsOptions]):
    """
    Collects pieces of text and lets them go as one; an output processor.

    Nothing is lost: the end of a text, of a step and of the run let the rest go first.
    """

    id = "batch-parts"
    options_type: ClassVar[type[Options]] = BatchPartsOptions

    def process_output_stream(self, args: ProcessorArgs) -> _Chunk | None:
        """Hook 6: hold a piece of text, or let all that are held go."""
        part, state = args.part, args.state
        if part is None:
            return None
        held: list[_Chunk] = state.setdefault("held", [])
        if part["type"] != "text-delta":
            return self._other(args, part, held)
        if held and held[0]["payload"].get("id") != part["payload"].get("id"):
            released = _joined(held)
            held[:] = [part]
            state["since"] = self.clock.monotonic()
            return released
        if not held:
            state["since"] = self.clock.monotonic()
        held.append(part)
        if len(held) >= self.options.batch_size or self._is_late(state["since"]):
            return _release(held)
        return None

    def _is_late(self, since: float) -> bool:
        limit = self.options.max_wait_time
        return limit is not None and (self.clock.monotonic() - since) * 1000 >= limit

    def _other(self, args: ProcessorArgs, part: _Chunk, held: list[_Chunk]) -> _Chunk:
        ends = part["type"] in ("text-end", "text-start", "finish", "tool-call", "step-finish")
        if not held or not (ends or self.options.emit_on_non_text):
            return part
        assert args.push is not None
        # The chunk comes back here right after the batch, and finds nothing held.
        args.push(part)
        return _release(held)


def _release(held: list[_Chunk]) -> _Chunk:
    released = _joined(held)
    held.clear()
    return released


def _joined(held: list[_Chunk]) -> _Chunk:
    text = "".join(chunk["payload"]["text"] for chunk in held)
    last = held[-1]
    return {**last, "payload": {**last["payload"], "text": text}}
