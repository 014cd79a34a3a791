"""What a processor hook is given and may return (processors.md 3, 4)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

from mastra_core.base.telemetry import NOOP_SPAN, NoopTracer, Span, Tracer
from mastra_core.contracts.model import Model, ToolChoice
from mastra_core.contracts.tool import Tool
from mastra_core.errors import TripwireError
from mastra_core.messages.message_list import ListedMessage, MessageList, MessageSource
from mastra_core.wire.signals import Signal

__all__ = ("ContextWindow", "ProcessorArgs", "StepPatch", "TracingContext")

#: Messages that a hook is shown; a hook that isn't named here sees all.
_SHOWN: Final[Mapping[str, tuple[MessageSource, ...]]] = {
    "process_input": ("input",),
    "process_output_result": ("response",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextWindow:
    """What of a lane stands in the messages that the model is shown."""

    has_snapshot: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TracingContext:
    """Where a hook is in the trace of its run."""

    #: The span of this very call.
    current_span: Span = NOOP_SPAN
    #: Opens further ones below it.
    tracer: Tracer = field(default_factory=NoopTracer)


@dataclass(slots=True, kw_only=True)
class ProcessorArgs:
    """The one argument of every hook; members that a hook doesn't have are None or empty."""

    processor_id: str
    phase: str
    message_list: MessageList
    run_id: str
    agent_id: str
    request_context: dict[str, Any]
    #: Survives between the hooks of this processor in this run.
    state: dict[str, Any]
    #: The agent that runs; None for a loop without one.
    agent: Any = None
    tracing_context: TracingContext = field(default_factory=TracingContext)
    thread_id: str | None = None
    resource_id: str | None = None
    #: 0-based.
    step_number: int = 0
    #: Results of the steps that are done.
    steps: Sequence[Mapping[str, Any]] = ()
    #: How often processors have had the current step repeated.
    retry_count: int = 0
    #: Set when the run is to stop.
    abort_signal: asyncio.Event | None = None
    #: Id of the message that collects the answer.
    message_id: str | None = None
    #: Ends that message; what follows gets the id that this returns.
    rotate_response_message_id: Callable[[], str] | None = None
    #: Streams a chunk of one's own, such as ``{"type": "data-note", "data": …}``.
    write: Callable[[dict[str, Any]], Awaitable[None]] | None = None
    #: Puts a signal into the transcript now (signals.md 14); in ``process_input_step`` and
    #: ``process_api_error`` it ends the message that collects the answer. For hooks that judge
    #: single chunks, requests and tool results it is None.
    send_signal: Callable[[Mapping[str, Any]], Awaitable[Any]] | None = None
    #: Tells a state lane what is the case, by default the processor's own
    #: (``process_input_step``, ``compute_state_signal``; signals.md 13): the signal that it
    #: became, or an object whose ``skipped`` is True if all of it was known.
    send_state_signal: Callable[[Mapping[str, Any]], Awaitable[Any]] | None = None
    # -- before a step: process_input_step ------------------------------------------------
    #: Who will be asked; also in ``process_llm_request`` and ``process_llm_response``.
    model: Model | None = None
    tools: Mapping[str, Tool] = field(default_factory=dict)
    tool_choice: Any = None
    active_tools: Sequence[str] | None = None
    model_settings: Mapping[str, Any] = field(default_factory=dict)
    provider_options: Mapping[str, Any] = field(default_factory=dict)
    #: What the run is to end with; None for text.
    structured_output: Any = None
    # -- a state lane: compute_state_signal (signals.md 13.5) -------------------------------
    #: State signals of the lane that the thread knows, the oldest first.
    active_state_signals: Sequence[Signal] = ()
    #: What the model is shown anyway.
    context_window: ContextWindow | None = None
    last_snapshot: Signal | None = None
    #: Those after the last snapshot; all of them if there is none.
    deltas_since_snapshot: Sequence[Signal] = ()
    #: What the thread's row says about the lane, under wire names.
    tracking: Mapping[str, Any] | None = None
    # -- around a request: process_llm_request, process_llm_response -----------------------
    #: ``[{role, content}]`` as the model gets it.
    prompt: Sequence[Mapping[str, Any]] = ()
    #: ``{type, payload}`` of everything that the model said.
    chunks: Sequence[Mapping[str, Any]] = ()
    #: A processor gave the answer; no model was asked.
    from_cache: bool = False
    warnings: Sequence[Any] = ()
    # -- a chunk: process_output_stream ----------------------------------------------------
    part: dict[str, Any] | None = None
    #: What has reached this processor in this run so far, ``part`` included, as it came.
    stream_parts: Sequence[Mapping[str, Any]] = ()
    #: Lets a further chunk follow; it passes this processor and the later ones, too.
    push: Callable[[dict[str, Any]], None] | None = None
    # -- after an answer: process_output_step ----------------------------------------------
    finish_reason: str | None = None
    provider_metadata: Mapping[str, Any] | None = None
    #: ``[{toolName, toolCallId, args}]``.
    tool_calls: Sequence[Mapping[str, Any]] = ()
    text: str = ""
    #: Tokens of the answer; also in ``process_llm_response``.
    usage: Mapping[str, Any] = field(default_factory=dict)
    # -- a tool has answered: process_tool_result ------------------------------------------
    tool_call_id: str | None = None
    tool_name: str | None = None
    args: Any = None
    #: What the tool returned, or ``{text, usage, finishReason, steps}`` of the run
    #: (``process_output_result``).
    result: Any = None
    # -- the model failed: process_api_error -----------------------------------------------
    error: BaseException | None = None

    @property
    def messages(self) -> list[ListedMessage]:
        """
        The messages that this hook is about; the list's own objects.

        Only the input for ``process_input``, the answers of the run for
        ``process_output_result``, everything otherwise.
        """
        sources = _SHOWN.get(self.phase)
        return self.message_list.of_source(*sources) if sources else self.message_list.messages

    @property
    def system_messages(self) -> list[dict[str, Any]]:
        """The system messages without a tag."""
        return self.message_list.system_messages

    def abort(
        self, reason: str | None = None, *, retry: bool = False, metadata: Any = None
    ) -> NoReturn:
        """
        Stop the run, or have the step done again.

        Args:
            reason: What the chunk ``tripwire`` says, and the model if the step is repeated.
            retry: Repeat the step as long as there is budget (processors.md 5.1, 5.2).
            metadata: Goes into the chunk unchanged.

        Raises:
            TripwireError: Always.
        """
        what = (
            "Stream part blocked" if self.phase == "process_output_stream" else "Tripwire triggered"
        )
        raise TripwireError(
            reason or f"{what} by {self.processor_id}",
            processor_id=self.processor_id,
            phase=self.phase,
            retry=retry,
            metadata=metadata,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPatch:
    """Changes for one step only (``process_input_step``); None leaves a thing as it is."""

    #: Ask this one, and no other if it fails.
    model: Model | str | None = None
    #: Id of the message that collects the answer.
    message_id: str | None = None
    #: All tools of the step.
    tools: Mapping[str, Tool] | Sequence[Tool] | None = None
    tool_choice: ToolChoice | None = None
    active_tools: Sequence[str] | None = None
    #: All messages of the run; those that are left out are gone.
    messages: Sequence[Any] | None = None
    message_list: MessageList | None = None
    #: In place of all system messages.
    system_messages: Sequence[Mapping[str, Any]] | None = None
    provider_options: Mapping[str, Any] | None = None
    #: Laid over the run's; its ``maxRetries`` and ``timeout`` stay unless given.
    model_settings: Mapping[str, Any] | None = None
