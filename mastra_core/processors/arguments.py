"""What a processor hook is given and may return (processors.md 3, 4)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from mastra_core.errors import TripwireError
from mastra_core.messages.message_list import MessageList

__all__ = ("ProcessorArgs", "StepPatch")


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
    thread_id: str | None = None
    resource_id: str | None = None
    step_number: int = 0
    steps: Sequence[Mapping[str, Any]] = ()
    #: The chunk that passes (``process_output_stream``).
    part: dict[str, Any] | None = None
    #: What has passed this processor in this run so far, ``part`` included.
    stream_parts: Sequence[Mapping[str, Any]] = ()
    #: ``{text, usage, finishReason, steps}`` (``process_output_result``).
    result: Mapping[str, Any] | None = None
    tools: Sequence[str] = ()
    tool_choice: Any = None
    active_tools: Sequence[str] | None = None
    model_settings: Mapping[str, Any] = field(default_factory=dict)
    #: Puts a signal into the transcript now (``process_input_step``; signals.md 14).
    send_signal: Callable[[Mapping[str, Any]], Awaitable[Any]] | None = None

    def abort(
        self, reason: str | None = None, *, retry: bool = False, metadata: Any = None
    ) -> NoReturn:
        """
        Stop the run.

        Raises:
            TripwireError: Always.
        """
        raise TripwireError(
            reason or f"Tripwire triggered by {self.processor_id}",
            processor_id=self.processor_id,
            phase=self.phase,
            retry=retry,
            metadata=metadata,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPatch:
    """Changes for one step only (``process_input_step``)."""

    tool_choice: Any = None
    active_tools: Sequence[str] | None = None
    system_messages: Sequence[Mapping[str, Any]] | None = None
    model_settings: Mapping[str, Any] | None = None
