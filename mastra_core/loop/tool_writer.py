"""What a tool writes into the stream while it runs (streaming.md 6.6)."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from mastra_core.base.jsonjs import sanitize_copy
from mastra_core.errors import ToolError
from mastra_core.messages.from_output import ResponseWriter
from mastra_core.processors.checks import chunk_fault
from mastra_core.wire.chunks import RUN_CHUNKS

__all__ = ("RunToolWriter",)

logger = logging.getLogger(__name__)


class RunToolWriter:
    """The ``writer`` of one tool call; writes after its end are dropped with a warning."""

    def __init__(
        self,
        emit: Callable[[dict[str, Any]], Awaitable[Sequence[dict[str, Any]]]],
        response: ResponseWriter,
        *,
        run_id: str,
        tool_call_id: str,
        tool_name: str,
    ) -> None:
        self._emit = emit
        self._response = response
        self._run_id = run_id
        self._tool_call_id = tool_call_id
        self._tool_name = tool_name
        self._is_writing = False
        self._is_closed = False

    def close(self) -> None:
        """The tool has settled."""
        self._is_closed = True

    async def write(self, value: Any) -> None:
        """
        Stream one ``tool-output`` chunk.

        Raises:
            ToolError: An earlier write was not awaited.
            WireEncodeError: Something in it has no JSON form.
        """
        payload = {
            "output": sanitize_copy(value),
            "toolCallId": self._tool_call_id,
            "toolName": self._tool_name,
        }
        await self._send(
            {"type": "tool-output", "runId": self._run_id, "from": "USER", "payload": payload}
        )

    async def custom(self, chunk: Mapping[str, Any]) -> None:
        """
        Stream a chunk as given; a ``data-*`` chunk is stored unless it is transient.

        Raises:
            ToolError: It has no ``type``, or one with which a run speaks of itself; or an
                earlier write was not awaited.
            WireEncodeError: Something in it has no JSON form.
        """
        kind = chunk.get("type") if isinstance(chunk, Mapping) else None
        if not isinstance(kind, str):
            raise ToolError("A chunk written by a tool needs a type.")
        if kind in RUN_CHUNKS:
            raise ToolError(
                f"A tool can't write a chunk of type {kind!r}: readers would take it for one of "
                "the run.",
                hint="Use writer.write(...), or a type of your own that starts with 'data-'.",
            )
        own = sanitize_copy(chunk)
        if (fault := chunk_fault(own)) is not None:
            raise ToolError(f"A tool wrote a chunk that {fault}.")
        await self._send(own)

    async def _send(self, chunk: dict[str, Any]) -> None:
        if self._is_closed:
            logger.warning("write after the tool settled", extra={"tool": self._tool_name})
            return
        if self._is_writing:
            raise ToolError(
                f"Tool {self._tool_name!r} wrote again before its last write was awaited."
            )
        self._is_writing = True
        try:
            # What processors keep back isn't stored either.
            for passed in await self._emit(chunk):
                if str(passed["type"]).startswith("data-") and not passed.get("transient"):
                    self._response.data_part(self._tool_call_id, passed)
        finally:
            self._is_writing = False
