"""One segment of a run: what its parts share while it goes on.

A segment lasts from the start of a run, or from a resume, to its end or its next suspension.
``loop`` goes round, ``asking`` asks the model, ``tool_step`` runs tools, ``parking`` waits for
people, ``ending`` ends; all of them work on this object.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, TypeVar

from mastra_core.base.ids import uuid5
from mastra_core.base.jsonjs import sanitize_copy
from mastra_core.base.tasks import call_maybe_async
from mastra_core.contracts.tool import Tool
from mastra_core.errors import ClosedError, InvalidSignalError, ModelError, ProcessorError, shown
from mastra_core.loop.interrupt import Interrupt, RequestAttempt
from mastra_core.loop.model_step import ModelStep, StepResult
from mastra_core.loop.payloads import PayloadTransforms
from mastra_core.loop.setup import RunSetup
from mastra_core.messages.from_output import ResponseWriter
from mastra_core.messages.message_list import ListedMessage
from mastra_core.messages.signals import create_signal, echo_chunk
from mastra_core.processors.checks import chunk_fault
from mastra_core.processors.state_lanes import RunLanes
from mastra_core.streaming.objects import PartialObject
from mastra_core.streaming.output import ModelOutput
from mastra_core.wire.chunks import Chunk, agent_chunk
from mastra_core.wire.signals import Signal
from mastra_core.workflows.agent_snapshot import ParkedRun

__all__ = ("PARKED_MARKS", "ResumePoint", "RunSegment")

logger = logging.getLogger(__name__)

T = TypeVar("T")

_REASONING_EDGES: Final = ("reasoning-start", "reasoning-end")

#: Members of a message's metadata that say which of its calls wait for an answer.
PARKED_MARKS: Final = ("pendingToolApprovals", "suspendedTools")


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumePoint:
    """Where a parked run goes on, and with which answers."""

    parked: ParkedRun
    #: Answer per tool call id.
    answers: Mapping[str, Any]


class RunSegment:
    """State of one segment and the few things that every part of it does."""

    def __init__(
        self,
        setup: RunSetup,
        output: ModelOutput,
        interrupt: Interrupt,
        *,
        resume: ResumePoint | None = None,
    ) -> None:
        self.setup = setup
        self.output = output
        self.record = output.record
        self.messages = output.message_list
        self.interrupt = interrupt
        self.resume = resume
        self.iteration = resume.parked.iteration if resume else 0
        #: When the run began; None for a resumed one.
        self.started_at: datetime | None = None
        #: The model request of this segment that is going on or was the last.
        self.step: ModelStep | None = None
        #: Payload of the last ``step-finish``.
        self.last_finish: dict[str, Any] = {}
        self.is_parked = False
        #: The end is being told: an abort comes too late.
        self.is_ending = False
        self.payloads = PayloadTransforms(setup)
        #: Tasks of this agent and thread go on in the background.
        self.has_tasks = False
        #: The request that goes on.
        self.attempt = RequestAttempt()
        #: Where in the stream the step began whose parts and results no message has yet.
        self.open_step: int | None = None
        #: How much of the message there was before the answer that is being given; None if none is.
        self.answer_mark: int | None = None
        #: Reasoning that readers of the stream saw begin and not end.
        self.open_reasoning: dict[str, None] = {}
        self._saving = asyncio.Lock()
        #: Has the stream begun? Before, only ``process_input`` is at work.
        self.is_streaming = resume is not None
        #: Signals that entered before.
        self.early_signals: list[Signal] = []
        #: The run as the input-step hooks want it for the step that goes on.
        self.step_setup = setup
        #: How often the step that goes on was repeated, and further steps that repeats have
        #: cost without leaving one in the record.
        self.retries = 0
        self.unrecorded_steps = 0
        #: What the next request says about the rejected answer.
        self.feedback: str | None = None
        #: The answer as far as it is an object; None without structured output.
        self.partial: PartialObject | None = None
        #: Why the answer is no such object.
        self.object_error: ModelError | None = None
        #: Which of the models the next request starts with.
        self.first_model = 0
        #: The untagged system messages of the run, once a hook may have changed them.
        self._system_messages: list[dict[str, Any]] | None = None
        self._rotations = 0
        model = setup.models[0]
        self.writer = ResponseWriter(
            self.messages,
            clock=setup.clock,
            provider=model.provider,
            model_id=model.model_id,
        )
        self.use_message(resume.parked.message_id if resume else self._new_id())

    # -- the response message -------------------------------------------------------------

    def _new_id(self) -> str:
        """
        Id of the next assistant message.

        A resumed run that dies after its last message was stored is answered again, and then
        says the same once more: under the same ids, so that it replaces what it said.
        """
        if self.resume is None:
            return self.setup.ids.new("message")
        self._rotations += 1
        return uuid5(self.setup.run_id, self.resume.parked.message_id, self._rotations)

    def use_message(self, message_id: str) -> None:
        """Collect what follows under this id."""
        self.writer.message_id = message_id
        self.output.message_id = message_id

    def use_tools(self, tools: Mapping[str, Tool], active_tools: Sequence[str] | None) -> None:
        """What the step that goes on offers, in place of what the run does."""
        self.step_setup = replace(self.setup, tools=tools, active_tools=active_tools)
        self.payloads.add_tools(tools)

    def rotate(self) -> None:
        """End the current assistant message; what follows gets a new id."""
        self.messages.seal(self.writer.message_id)
        self.use_message(self._new_id())

    def unmark_message(self) -> None:
        """Nothing of the parked step waits any more (snapshots.md 4.6)."""
        message = self.messages.find(self.writer.message_id)
        if message is None:
            return
        metadata = message.content.get("metadata") or {}
        for name in PARKED_MARKS:
            metadata.pop(name, None)
        for part in message.parts:
            if str(part.get("type", "")).startswith("data-tool-call-"):
                part["data"] = {**(part.get("data") or {}), "resumed": True}
        message.saved = False

    # -- chunks ---------------------------------------------------------------------------

    def chunk(self, kind: str, payload: Mapping[str, Any]) -> Chunk:
        """A chunk of this run."""
        return agent_chunk(kind, self.setup.run_id, dict(payload))

    async def passed(self, chunk: Chunk) -> Sequence[Chunk]:
        """What becomes of a chunk at the processors that look at the stream."""
        processors = self.setup.processors
        if processors is None or not processors.has_stream_hooks:
            return (chunk,)
        return await processors.process_output_stream(chunk)

    async def emit(self, chunk: Chunk) -> Sequence[Chunk]:
        """Stream a chunk, past the processors that look at the stream; what was streamed."""
        passed = await self.passed(chunk)
        for one in passed:
            await self.show(one)
        return passed

    async def show(self, chunk: Chunk) -> None:
        """Stream a chunk as it is."""
        if chunk.get("type") in _REASONING_EDGES:
            self._note_reasoning(chunk)
        if self.payloads:
            chunk = await self.payloads.shown(chunk)
        self.output.emit(chunk)
        if self.setup.callbacks.on_chunk is not None:
            await self.notify(self.setup.callbacks.on_chunk, chunk)

    def _note_reasoning(self, chunk: Chunk) -> None:
        block = str((chunk.get("payload") or {}).get("id"))
        if chunk["type"] == "reasoning-start":
            self.open_reasoning[block] = None
        else:
            self.open_reasoning.pop(block, None)

    def step_payload(self, result: StepResult, step_result: Mapping[str, Any]) -> dict[str, Any]:
        """Payload of ``step-finish``; that of ``finish`` is built from it."""
        output: dict[str, Any] = {
            "text": result.text,
            "toolCalls": [call.to_wire() for call in result.calls],
            "usage": result.usage,
        }
        if self.record.object is not None:
            output["object"] = self.record.object
        payload: dict[str, Any] = {
            "messageId": self.writer.message_id,
            "stepResult": dict(step_result),
            "metadata": result.metadata,
            "output": output,
            "processorRetryCount": 0,
        }
        if self.has_tasks:
            payload["backgroundTaskPending"] = True
        return payload

    # -- processors -----------------------------------------------------------------------

    def hook_members(self) -> dict[str, Any]:
        """What every hook of a step is told about the step."""
        return {
            "step_number": len(self.record.steps),
            "steps": self.record.steps,
            "retry_count": self.retries,
            "message_id": self.writer.message_id,
            "rotate_response_message_id": self._rotated,
            "write": self.write,
        }

    def keep_system_messages(self) -> None:
        """Untagged system messages of a step are gone with the step (streaming.md 2.2)."""
        if self._system_messages is None:
            self._system_messages = list(self.messages.system_messages)
        self.messages.system_messages[:] = self._system_messages

    async def write(self, chunk: Chunk) -> None:
        """
        Stream a chunk of a processor's own, as it is; dropped with a warning after the end.

        Raises:
            ProcessorError: It is no chunk, or one with which a run speaks of itself.
            WireEncodeError: Something in it has no JSON form.
        """
        if (fault := chunk_fault(chunk)) is not None:
            raise ProcessorError(f"A processor wrote a chunk that {fault}.")
        own = sanitize_copy(chunk)
        if self.output.buffer.is_closed:
            logger.warning("a processor wrote after the end of its run")
            return
        await self.show(own)

    def _rotated(self) -> str:
        self.rotate()
        return self.writer.message_id

    def _created(self, value: Mapping[str, Any]) -> Signal:
        """
        A signal of a hook.

        Raises:
            InvalidSignalError: It can't be one.
            ClosedError: The run is over; nobody would see it.
        """
        if self.output.buffer.is_closed:
            raise ClosedError(what="run", hint="Send the signal to the thread instead.")
        if not isinstance(value, Mapping):
            raise InvalidSignalError(f"A signal must be a mapping, not {shown(value)}.")
        return create_signal(value, clock=self.setup.clock, ids=self.setup.ids)

    async def send_signal(self, value: Mapping[str, Any]) -> Signal:
        """``send_signal`` of a hook: rotate, add, echo (signals.md 14)."""
        signal = self._created(value)
        message = self.messages.find(self.writer.message_id)
        if message is not None and message.parts and message.parts[-1]["type"] == "step-start":
            # No model was asked under this id any more.
            message.parts[-1].pop("model", None)
        self.rotate()
        entered = self.messages.add_signal(signal)
        await self.emit(echo_chunk(entered))
        return entered

    async def send_signal_in_place(self, value: Mapping[str, Any]) -> Signal:
        """``send_signal`` of a hook that can't rotate: what is being said goes on."""
        signal = self._created(value)
        entered = self.messages.add_signal(signal)
        await self.echo(entered)
        return entered

    async def echo(self, signal: Signal) -> None:
        """Show that a signal entered the transcript; once the stream has begun."""
        if self.is_streaming:
            await self.emit(echo_chunk(signal))
        else:
            self.early_signals.append(signal)

    def lanes(self) -> RunLanes:
        """The state lanes of this run."""
        return RunLanes(
            tracker=self.setup.lanes,
            tracer=self.setup.tracer,
            loader=self.setup.saver,
            messages=self.messages,
            transcript=self,
            clock=self.setup.clock,
            ids=self.setup.ids,
        )

    def enter(self, signal: Signal) -> Signal:
        """End the message in flight and add a signal behind it."""
        self.rotate()
        return self.messages.add_signal(signal)

    def withdraw(self, signal: Signal) -> None:
        """Take a signal out again that nobody has seen."""
        self.messages.remove(signal.id)

    # -- surroundings ---------------------------------------------------------------------

    async def notify(
        self, callback: Callable[..., Awaitable[None] | None] | None, facts: Mapping[str, Any]
    ) -> None:
        """
        Call a callback of the user; what it raises is logged and changes nothing.

        Raises:
            RunInterrupted: The run was aborted while it went on.
        """
        if callback is None:
            return
        try:
            await self.guard(call_maybe_async(callback, facts))
        except Exception:
            logger.exception("callback failed", extra={"run_id": self.setup.run_id})

    async def guard(self, work: Awaitable[T]) -> T:
        """
        Wait for something that others wrote, unless the run is aborted first.

        Raises:
            RunInterrupted: It was aborted, and its end isn't being told yet.
        """
        return await (work if self.is_ending else self.interrupt.guard(work))

    async def assert_ours(self) -> None:
        """
        Before anything that can't be taken back: nobody has taken a resumed run over.

        Raises:
            FencedOutError: Somebody has.
            LeaseLostError: The thread is another process's by now.
        """
        self.setup.signals.assert_owned()
        if self.setup.claim is not None:
            await self.setup.claim.assert_held()

    async def save(self, entries: Sequence[ListedMessage] | None = None) -> None:
        """Store messages, by default all that storage lacks; nothing without memory."""
        saver = self.setup.saver
        if saver is None:
            return
        # One after the other: the end of a task may be entered while a step is being stored.
        async with self._saving:
            unsaved = self.messages.unsaved() if entries is None else list(entries)
            if not unsaved:
                return
            await self.assert_ours()
            messages = self.messages.to_messages(unsaved)
            for entry in unsaved:
                entry.saved = True
            # What of the stream these messages say, and those that were stored before.
            said = self._said()
            self.output.buffer.saves_begun += 1
            try:
                await saver.save(messages)
            except BaseException:
                for entry in unsaved:
                    entry.saved = False
                raise
            finally:
                self.output.buffer.saves_done += 1
            self.output.buffer.covered = max(self.output.buffer.covered, said)

    def _said(self) -> int:
        """How many of the first chunks of the stream the messages hold, all being stored."""
        if any(not m.saved for m in self.messages.unsaved()):
            return 0
        end = self.output.buffer.count
        return end if self.open_step is None else min(end, self.open_step)

    async def save_signals(self, signals: Sequence[Signal]) -> None:
        """What a sender was told is accepted must not live in memory alone."""
        ids = {signal.id for signal in signals}
        await self.save([m for m in self.messages.unsaved() if m.id in ids])
