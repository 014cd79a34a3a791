"""The object that a caller of ``stream`` gets (streaming.md 4, 5)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from mastra_core.base.telemetry import TraceLink
from mastra_core.errors import wire_from_error
from mastra_core.messages.message_list import MessageList
from mastra_core.messages.signals import is_hidden
from mastra_core.streaming.broadcast import ChunkBuffer
from mastra_core.streaming.settle import RunRecord
from mastra_core.streaming.transcript import Transcript, step_content

__all__ = (
    "FullOutput",
    "ModelOutput",
    "OuterStream",
    "RunStatus",
    "Settled",
)

RunStatus = Literal["running", "success", "failed", "canceled", "suspended", "tripwire"]
FullOutput = dict[str, Any]
T = TypeVar("T")


class Settled(Generic[T]):
    """A property that can be awaited any number of times, before and after the end."""

    def __init__(self, wait: Callable[[], Awaitable[T]]) -> None:
        self._wait = wait

    def __await__(self) -> Generator[Any, None, T]:
        return self._wait().__await__()


@dataclass(slots=True, kw_only=True)
class OuterStream:
    """A stream that goes on over further turns (streaming.md 9)."""

    buffer: ChunkBuffer
    #: The last reader went away before its end.
    abandon: Callable[[], None]
    #: Why it ended before its time.
    failure: BaseException | None = None
    readers: int = 0

    async def read(self) -> AsyncGenerator[dict[str, Any], None]:
        """Every chunk of all turns from the first on."""
        self.readers += 1
        try:
            async for chunk in self.buffer.read():
                yield chunk
        finally:
            self.readers -= 1
            if not self.readers and not self.buffer.is_closed:
                self.abandon()
        if self.failure is not None:
            raise self.failure


class ModelOutput:
    """
    A running or finished run.

    ``async for chunk in output.full_stream`` and ``await output.text`` may be used in any
    order, any number of times, by any number of tasks: every iteration replays from the
    first chunk, every property settles once. With ``max_buffered_chunks``, an iteration that
    needs a chunk that is gone raises a ``StreamGapError``. Nothing hangs: if the run fails,
    what can't be given raises the run's error.
    """

    def __init__(
        self,
        *,
        run_id: str,
        agent_id: str,
        message_list: MessageList,
        record: RunRecord | None = None,
        hide_signals: bool | Sequence[str] | None = None,
        max_buffered_chunks: int | None = None,
    ) -> None:
        self.run_id = run_id
        self.agent_id = agent_id
        self.message_list = message_list
        self.message_id = ""
        #: Where the run is in a trace; None if nobody measures.
        self.trace: TraceLink | None = None
        self.record = record or RunRecord()
        self.buffer = ChunkBuffer(limit=max_buffered_chunks)
        self.status: RunStatus = "running"
        self.failure: BaseException | None = None
        self._finish_reason: str | None = None
        self._hide_signals = hide_signals
        #: Somebody iterated the chunks, so they have seen an error chunk (decisions.md 7).
        self._was_iterated = False
        self._settled = asyncio.Event()
        self._abort: Callable[[], None] | None = None
        #: What ``full_stream`` shows instead of this run alone.
        self._outer: OuterStream | None = None
        #: Structured output as the caller gets it: the value of its type.
        self.parsed: Any = None
        #: The model's answer didn't fit, so the fallback stands in for it.
        self.used_fallback = False

    # -- the run's side -------------------------------------------------------------------

    def bind_abort(self, abort: Callable[[], None]) -> None:
        """How this run is aborted."""
        self._abort = abort

    def emit(self, chunk: dict[str, Any]) -> None:
        """Take a chunk of the run: count it, keep it, wake the readers."""
        self.record.add(chunk)
        if chunk.get("type") == "step-finish":
            self.record.step_messages[-1] = [
                message.id for message in self.message_list.of_source("response")
            ]
        self.buffer.append(chunk)

    def settle(
        self,
        status: RunStatus,
        *,
        finish_reason: str | None,
        error: BaseException | None = None,
    ) -> None:
        """The values are final; chunks may still follow until :meth:`close`."""
        self.status = status
        self._finish_reason = finish_reason
        self.failure = error
        self._settled.set()

    def close(self) -> None:
        """The stream is over."""
        if not self._settled.is_set():
            self.settle("canceled", finish_reason="aborted")
        self.buffer.close()

    @property
    def trace_id(self) -> str | None:
        """The trace that the run is part of; None if nobody measures."""
        return self.trace.trace_id if self.trace is not None else None

    @property
    def span_id(self) -> str | None:
        """The span of the run; None if nobody measures."""
        return self.trace.span_id if self.trace is not None else None

    @property
    def is_running(self) -> bool:
        """Has the run not ended or suspended yet?"""
        return self.status == "running"

    def go_on_as(self, outer: OuterStream) -> None:
        """Show the chunks of further turns, too; everything else stays that of this one."""
        self._outer = outer

    def abort_run(self) -> None:
        """Ask this run alone to end."""
        if self._abort is not None:
            self._abort()

    # -- the caller's side ----------------------------------------------------------------

    def abort(self) -> None:
        """Ask the run to end; its stream then ends with ``abort`` and ``finish``."""
        if self._outer is not None and not self._outer.buffer.is_closed:
            self._outer.abandon()
        else:
            self.abort_run()

    def __aiter__(self) -> AsyncIterator[dict[str, Any]]:
        """``async for chunk in output``: the same as :attr:`full_stream`."""
        return self.full_stream

    @property
    def full_stream(self) -> AsyncIterator[dict[str, Any]]:
        """All chunks from the first on, without those that ``hide_signals`` hides."""
        return self._full_stream()

    async def _full_stream(self) -> AsyncIterator[dict[str, Any]]:
        self._was_iterated = True
        source = self.buffer.read() if self._outer is None else self._outer.read()
        async with aclosing(source) as chunks:
            async for chunk in chunks:
                if self._hide_signals and is_hidden(chunk, hide=self._hide_signals):
                    continue
                yield chunk

    @property
    def text_stream(self) -> AsyncIterator[str]:
        """The text as it arrives; raises the run's error at its end."""
        return self._text_stream()

    async def _text_stream(self) -> AsyncIterator[str]:
        async for chunk in self.buffer.read():
            if chunk.get("type") == "text-delta":
                yield chunk["payload"]["text"]
        await self._settled.wait()
        self._raise_failure()

    def _raise_failure(self) -> None:
        if self.failure is not None:
            raise self.failure

    async def wait(self) -> None:
        """Wait for the end of the run without looking at how it ended."""
        await self._settled.wait()

    async def consume_stream(
        self, *, on_error: Callable[[BaseException], Any] | None = None
    ) -> None:
        """Drive the run to its end; errors go to ``on_error`` and are not raised."""
        await self._settled.wait()
        if self.failure is not None and on_error is not None:
            on_error(self.failure)

    def _property(self, read: Callable[[], T], *, lenient: bool = True) -> Settled[T]:
        async def wait() -> T:
            await self._settled.wait()
            if self.failure is not None and not (lenient and self._was_iterated):
                raise self.failure
            return read()

        return Settled(wait)

    def _always(self, read: Callable[[], T]) -> Settled[T]:
        async def wait() -> T:
            await self._settled.wait()
            return read()

        return Settled(wait)

    @property
    def text(self) -> Settled[str]:
        """Rule of streaming.md 5.3; raises if the run failed and nobody read its chunks."""
        return self._property(lambda: self.record.text(is_suspended=self.status == "suspended"))

    @property
    def reasoning(self) -> Settled[list[dict[str, Any]]]:
        """The model's reasoning, part by part."""
        return self._property(self._reasoning_parts)

    def _reasoning_parts(self) -> list[dict[str, Any]]:
        return [dict(part) for step in self.record.steps for part in step.get("reasoning") or ()]

    @property
    def reasoning_text(self) -> Settled[str]:
        """The model's reasoning, joined."""
        return self._property(lambda: self.record.reasoning_text)

    @property
    def steps(self) -> Settled[list[dict[str, Any]]]:
        """Results of the steps that were made."""
        return self._property(self.full_steps)

    def full_steps(self) -> list[dict[str, Any]]:
        """The steps so far, with their messages in all forms."""
        record = self.record
        return Transcript(self.message_list).steps(record.steps, record.step_messages)

    def last_step(self) -> dict[str, Any]:
        """The step that was made last, as :meth:`full_steps` has it."""
        record = self.record
        return Transcript(self.message_list).step(record.steps[-1], record.step_messages[-1])

    @property
    def tool_calls(self) -> Settled[list[dict[str, Any]]]:
        """``tool-call`` chunks of all steps."""
        return self._property(lambda: list(self.record.tool_calls))

    @property
    def tool_results(self) -> Settled[list[dict[str, Any]]]:
        """``tool-result`` chunks of all steps."""
        return self._property(lambda: list(self.record.tool_results))

    @property
    def usage(self) -> Settled[dict[str, Any]]:
        """Tokens of all steps."""
        return self._property(lambda: dict(self.record.usage))

    @property
    def total_usage(self) -> Settled[dict[str, Any]]:
        """Like ``usage``, with the total always there."""
        return self._property(lambda: self.record.total_usage)

    @property
    def sources(self) -> Settled[list[dict[str, Any]]]:
        """Citations."""
        return self._property(lambda: list(self.record.sources))

    @property
    def files(self) -> Settled[list[dict[str, Any]]]:
        """Generated files."""
        return self._property(lambda: list(self.record.files))

    @property
    def warnings(self) -> Settled[list[Any]]:
        """Warnings of the last step."""
        return self._property(lambda: list(self.record.warnings))

    @property
    def request(self) -> Settled[dict[str, Any]]:
        """What the provider was sent in the last step, as far as it said so."""
        return self._property(lambda: dict(self.record.request))

    @property
    def provider_metadata(self) -> Settled[dict[str, Any] | None]:
        """What the provider said beside the answer of the last step."""
        return self._property(lambda: self.record.provider_metadata)

    @property
    def content(self) -> Settled[list[dict[str, Any]]]:
        """The parts of the last step."""
        return self._property(
            lambda: step_content(self.record.steps[-1]) if self.record.steps else []
        )

    @property
    def response(self) -> Settled[dict[str, Any]]:
        """Identity of the last response, and the messages of the run in all forms."""
        return self._property(self._full_response)

    def _full_response(self, transcript: Transcript | None = None) -> dict[str, Any]:
        ids = [message.id for message in self.message_list.of_source("response")]
        made = transcript or Transcript(self.message_list)
        return made.response(self.record.response, ids)

    @property
    def object(self) -> Settled[Any]:
        """
        Structured output, as an instance of the type that was asked for; None without any.

        Raises the run's error if the answer doesn't fit.
        """
        return self._property(lambda: self.parsed, lenient=False)

    @property
    def used_fallback_value(self) -> Settled[bool]:
        """Whether ``object`` is the fallback."""
        return self._property(lambda: self.used_fallback)

    @property
    def object_stream(self) -> AsyncIterator[Any]:
        """The object while it grows, as JSON values; the last one is complete."""
        return self._object_stream()

    async def _object_stream(self) -> AsyncIterator[Any]:
        async for chunk in self.buffer.read():
            if chunk.get("type") in ("object", "object-result"):
                yield chunk["object"]
        await self._settled.wait()
        self._raise_failure()

    @property
    def element_stream(self) -> AsyncIterator[Any]:
        """The elements of a list, each once it is complete."""
        return self._element_stream()

    async def _element_stream(self) -> AsyncIterator[Any]:
        given = 0
        async for chunk in self.buffer.read():
            seen = chunk.get("object")
            if chunk.get("type") not in ("object", "object-result") or not isinstance(seen, list):
                continue
            # The last element of a partial list may still grow.
            complete = len(seen) - (chunk["type"] == "object")
            for element in seen[given:complete]:
                yield element
            given = max(given, complete)
        await self._settled.wait()
        self._raise_failure()

    @property
    def finish_reason(self) -> Settled[str | None]:
        """How the run ended; ``error`` if it failed. Never raises."""
        return self._always(lambda: self._finish_reason)

    @property
    def error(self) -> Settled[BaseException | None]:
        """What went wrong; None if nothing did. Never raises."""
        return self._always(lambda: self.failure)

    @property
    def tripwire(self) -> Settled[dict[str, Any] | None]:
        """Why a processor stopped the run; None if none did."""
        return self._always(lambda: self.record.tripwire)

    @property
    def interruptions(self) -> int:
        """How many requests input took the place of so far (signals.md 10)."""
        return self.record.interruptions

    @property
    def rejected_signals(self) -> list[dict[str, Any]]:
        """
        Input that guardrails have dropped in mid-run so far: ``{id, type, tagName, reason,
        processorId?, metadata?}`` (signals.md G19).
        """
        return list(self.record.rejected_signals)

    @property
    def suspend_payload(self) -> Settled[Any]:
        """What is still parked; None unless the run is suspended."""
        return self._always(
            lambda: self.record.suspend_payload if self.status == "suspended" else None
        )

    @property
    def resume_schema(self) -> Settled[Any]:
        """JSON text of the schema of resume data; None unless suspended."""
        return self._always(
            lambda: self.record.resume_schema if self.status == "suspended" else None
        )

    async def get_full_output(self) -> FullOutput:
        """
        Everything at once, under wire names; ``text`` is that of all steps.

        Raises:
            MastraError: The run failed (decisions.md 7).
        """
        await self._settled.wait()
        self._raise_failure()
        return self.full_output()

    def full_output(self) -> FullOutput:
        """The same as it stands now, with the error as a member."""
        record = self.record
        is_suspended = self.status == "suspended"
        transcript = Transcript(self.message_list)
        return {
            "text": record.all_text,
            "usage": dict(record.usage),
            "steps": transcript.steps(record.steps, record.step_messages),
            "finishReason": self._finish_reason,
            "warnings": list(record.warnings),
            "providerMetadata": record.provider_metadata,
            "request": record.request,
            "reasoning": self._reasoning_parts(),
            "reasoningText": record.reasoning_text,
            "toolCalls": list(record.tool_calls),
            "toolResults": list(record.tool_results),
            "sources": list(record.sources),
            "files": list(record.files),
            "response": self._full_response(transcript),
            "totalUsage": record.total_usage,
            "object": self.parsed,
            "usedFallbackValue": self.used_fallback,
            "error": None if self.failure is None else wire_from_error(self.failure),
            "tripwire": record.tripwire,
            "traceId": self.trace_id,
            "spanId": self.span_id,
            "runId": self.run_id,
            "suspendPayload": record.suspend_payload if is_suspended else None,
            "resumeSchema": record.resume_schema if is_suspended else None,
            "messages": transcript.rows(),
            "rememberedMessages": transcript.rows("memory"),
        }
