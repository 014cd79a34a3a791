"""Calls the hooks of an agent's processors in their order (processors.md 1, 2, 5)."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from mastra_core.base.tasks import call_maybe_async
from mastra_core.contracts.processor import HOOKS, Processor
from mastra_core.errors import (
    CapabilityNotSupportedError,
    DuplicateProcessorError,
    ProcessorError,
    TripwireError,
)
from mastra_core.messages.detect import messages_from_input
from mastra_core.messages.message_list import MessageList
from mastra_core.processors.arguments import ProcessorArgs, StepPatch
from mastra_core.wire.chunks import Chunk

__all__ = (
    "RUNNABLE_HOOKS",
    "ProcessorRunner",
    "RunProcessors",
)

logger = logging.getLogger(__name__)

#: Hooks that this version calls; a processor with another one is refused at construction.
RUNNABLE_HOOKS: Final = (
    "process_input",
    "process_input_step",
    "process_output_stream",
    "process_output_result",
)


class ProcessorRunner:
    """The processors of one agent; one :meth:`for_run` per run."""

    def __init__(
        self,
        *,
        input_processors: Sequence[Processor] = (),
        output_processors: Sequence[Processor] = (),
    ) -> None:
        self.input_processors = tuple(input_processors)
        self.output_processors = tuple(output_processors)
        for processors in (self.input_processors, self.output_processors):
            _check(processors)

    def __bool__(self) -> bool:
        return bool(self.input_processors or self.output_processors)

    def for_run(
        self,
        *,
        run_id: str,
        agent_id: str,
        message_list: MessageList,
        request_context: dict[str, Any],
    ) -> RunProcessors:
        """The hooks of one run, with state of its own."""
        return RunProcessors(
            self,
            run_id=run_id,
            agent_id=agent_id,
            message_list=message_list,
            request_context=request_context,
        )


def _check(processors: Sequence[Processor]) -> None:
    seen: set[str] = set()
    for processor in processors:
        if processor.id in seen:
            raise DuplicateProcessorError(processor_id=processor.id)
        seen.add(processor.id)
        for hook in HOOKS:
            if hook not in RUNNABLE_HOOKS and callable(getattr(processor, hook, None)):
                raise CapabilityNotSupportedError(
                    f"Processor {processor.id!r} implements {hook}, "
                    "which this version of mastra-core doesn't call.",
                    details={"processor": processor.id, "hook": hook},
                )


class RunProcessors:
    """The processors at work in one run."""

    def __init__(
        self,
        runner: ProcessorRunner,
        *,
        run_id: str,
        agent_id: str,
        message_list: MessageList,
        request_context: dict[str, Any],
    ) -> None:
        self._runner = runner
        self._facts: dict[str, Any] = {
            "run_id": run_id,
            "agent_id": agent_id,
            "message_list": message_list,
            "request_context": request_context,
            "thread_id": message_list.thread_id,
            "resource_id": message_list.resource_id,
        }
        self._messages = message_list
        self._states: dict[str, dict[str, Any]] = {}
        self._streamed: dict[str, list[Chunk]] = {}
        self._broken: set[str] = set()
        self.has_stream_hooks = any(
            callable(getattr(p, "process_output_stream", None)) for p in runner.output_processors
        )

    def _args(self, processor: Processor, phase: str, **members: Any) -> ProcessorArgs:
        return ProcessorArgs(
            processor_id=processor.id,
            phase=phase,
            state=self._states.setdefault(processor.id, {}),
            **self._facts,
            **members,
        )

    async def _call(self, processor: Processor, phase: str, **members: Any) -> Any:
        hook = getattr(processor, phase)
        try:
            return await call_maybe_async(hook, self._args(processor, phase, **members))
        except (TripwireError, ProcessorError):
            raise
        except Exception as exc:
            raise ProcessorError(
                processor_id=processor.id, phase=phase, reason=f"{type(exc).__name__}: {exc}"
            ) from exc

    async def process_input(self) -> None:
        """Hook 1, once per run; may change the input in place or return a new one."""
        for processor in self._having("process_input", self._runner.input_processors):
            returned = await self._call(processor, "process_input")
            if returned is not None and returned is not self._messages:
                self._replace_input(returned)

    def _replace_input(self, returned: Any) -> None:
        kept = self._messages.of_source("memory", "response", "context")
        self._messages.messages = kept
        self._messages.add_input(messages_from_input(returned))

    async def process_input_step(
        self,
        *,
        step_number: int,
        steps: Sequence[Mapping[str, Any]],
        tools: Sequence[str],
        tool_choice: Any,
        active_tools: Sequence[str] | None,
        model_settings: Mapping[str, Any],
        send_signal: Callable[[Mapping[str, Any]], Awaitable[Any]],
    ) -> StepPatch:
        """Hook 2, before each prompt; the patches of all processors, later ones winning."""
        patch = StepPatch(
            tool_choice=tool_choice, active_tools=active_tools, model_settings=model_settings
        )
        for processor in self._having("process_input_step", self._runner.input_processors):
            returned = await self._call(
                processor,
                "process_input_step",
                step_number=step_number,
                steps=steps,
                tools=tools,
                tool_choice=patch.tool_choice,
                active_tools=patch.active_tools,
                model_settings=patch.model_settings or {},
                send_signal=send_signal,
            )
            if isinstance(returned, StepPatch):
                patch = _overlay(patch, returned)
            elif returned is not None and returned is not self._messages:
                raise ProcessorError(
                    processor_id=processor.id,
                    phase="process_input_step",
                    reason=f"it returned {type(returned).__name__}, not a StepPatch",
                )
        return patch

    async def process_output_stream(self, chunk: Chunk) -> Chunk | None:
        """
        Hook 6; a processor that raises lets the chunk pass (decisions.md 31).

        Raises:
            TripwireError: A processor stopped the run.
        """
        passing: Chunk | None = chunk
        for processor in self._having("process_output_stream", self._runner.output_processors):
            is_data = str(chunk.get("type", "")).startswith("data-")
            if is_data and not getattr(processor, "process_data_parts", False):
                continue
            seen = self._streamed.setdefault(processor.id, [])
            assert passing is not None
            seen.append(dict(passing))
            try:
                passing = await self._call(
                    processor, "process_output_stream", part=passing, stream_parts=seen
                )
            except TripwireError:
                raise
            except ProcessorError:
                if processor.id not in self._broken:
                    self._broken.add(processor.id)
                    logger.exception(
                        "processor failed on a chunk", extra={"processor": processor.id}
                    )
                continue
            if passing is None:
                return None
        return passing

    async def process_output_result(self, result: Mapping[str, Any]) -> None:
        """Hook 9, once at the end; edits of the response messages are what is stored."""
        for processor in self._having("process_output_result", self._runner.output_processors):
            await self._call(processor, "process_output_result", result=result)

    @staticmethod
    def _having(hook: str, processors: Sequence[Processor]) -> list[Processor]:
        return [p for p in processors if callable(getattr(p, hook, None))]


def _overlay(base: StepPatch, patch: StepPatch) -> StepPatch:
    return StepPatch(
        tool_choice=patch.tool_choice if patch.tool_choice is not None else base.tool_choice,
        active_tools=patch.active_tools if patch.active_tools is not None else base.active_tools,
        system_messages=patch.system_messages
        if patch.system_messages is not None
        else base.system_messages,
        model_settings={**(base.model_settings or {}), **(patch.model_settings or {})},
    )
