"""Calls the hooks of an agent's processors in their order (processors.md 1, 2, 5)."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from mastra_core.base.tasks import call_maybe_async
from mastra_core.base.telemetry import NoopTracer, Span, Tracer
from mastra_core.contracts.model import Model
from mastra_core.contracts.processor import HOOKS, Processor
from mastra_core.errors import (
    DuplicateProcessorError,
    InvalidSignalError,
    ProcessorError,
    ProcessorTimeoutError,
    RunArgumentError,
    TripwireError,
    reason_of,
)
from mastra_core.messages.message_list import MessageList, MessageSource
from mastra_core.processors.arguments import ContextWindow, ProcessorArgs, StepPatch, TracingContext
from mastra_core.processors.checks import (
    CALL_CHUNKS,
    check_patch,
    checked_prompt,
    checked_response,
    chunk_fault,
    kept,
)
from mastra_core.processors.returned import (
    apply_messages,
    apply_returned,
    check_one_of_both,
    check_own_list,
    replace_system_messages,
)
from mastra_core.processors.spans import processor_span
from mastra_core.processors.state_lanes import LaneView, RunLanes
from mastra_core.wire.chunks import Chunk

__all__ = (
    "LlmAnswer",
    "ProcessorRunner",
    "ProcessorWatch",
    "RunProcessors",
)

logger = logging.getLogger(__name__)

#: How many chunks may follow one chunk because processors pushed them.
_MAX_PUSHED: Final = 1000


class ProcessorWatch(Protocol):
    """Who learns what processors do; nothing that it raises reaches the run."""

    def failed(self, processor: Processor, phase: str, error: BaseException) -> None:
        """A hook raised."""
        ...

    def violated(self, processor: Processor, violation: Mapping[str, Any]) -> None:
        """A hook aborted or warned: ``{processorId, message, detail}``."""
        ...

    def around(self, processor: Processor, phase: str) -> AbstractAsyncContextManager[Any]:
        """Stands around one call of a hook; not used for single chunks."""
        ...


class _Unwatched:
    """Nobody looks."""

    def failed(self, processor: Processor, phase: str, error: BaseException) -> None:
        """Nothing."""

    def violated(self, processor: Processor, violation: Mapping[str, Any]) -> None:
        """Nothing."""

    def around(self, processor: Processor, phase: str) -> AbstractAsyncContextManager[Any]:
        """Nothing."""
        return nullcontext()


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmAnswer:
    """What the request hooks came to: the prompt for the model, or an answer instead of it."""

    prompt: list[dict[str, Any]]
    #: ``{chunks, warnings?, request?, raw_response?}``.
    response: Mapping[str, Any] | None = None


class ProcessorRunner:
    """
    The processors of one agent; one :meth:`for_run` per run.

    Args:
        input_processors: Asked before and around requests, in order.
        output_processors: Asked about what comes out, in order.
        error_processors: Asked about failed requests, after the others.
        timeout_ms: How long one hook may take, chunks excepted; None without a limit.

    Raises:
        DuplicateProcessorError: Two of one list have one id.
    """

    def __init__(
        self,
        *,
        input_processors: Sequence[Processor] = (),
        output_processors: Sequence[Processor] = (),
        error_processors: Sequence[Processor] = (),
        timeout_ms: int | None = None,
    ) -> None:
        self.input_processors = tuple(input_processors)
        self.output_processors = tuple(output_processors)
        self.error_processors = tuple(error_processors)
        self.timeout_ms = timeout_ms
        for processors in (self.input_processors, self.output_processors, self.error_processors):
            _check(processors)

    def __bool__(self) -> bool:
        return bool(self.input_processors or self.output_processors or self.error_processors)

    def with_last_input(self, processor: Processor) -> ProcessorRunner:
        """The same with one more input processor, behind all others."""
        return ProcessorRunner(
            input_processors=(*self.input_processors, processor),
            output_processors=self.output_processors,
            error_processors=self.error_processors,
            timeout_ms=self.timeout_ms,
        )

    def for_run(
        self,
        *,
        run_id: str,
        agent_id: str,
        message_list: MessageList,
        request_context: dict[str, Any],
        agent: Any = None,
        abort_signal: asyncio.Event | None = None,
        watch: ProcessorWatch | None = None,
        tracer: Tracer | None = None,
    ) -> RunProcessors:
        """The hooks of one run, with state of its own."""
        return RunProcessors(
            self,
            facts={
                "run_id": run_id,
                "agent_id": agent_id,
                "agent": agent,
                "message_list": message_list,
                "request_context": request_context,
                "abort_signal": abort_signal,
                "thread_id": message_list.thread_id,
                "resource_id": message_list.resource_id,
            },
            watch=watch or _Unwatched(),
            tracer=tracer or NoopTracer(),
        )


def _check(processors: Sequence[Processor]) -> None:
    seen: set[str] = set()
    for processor in processors:
        if processor.id in seen:
            raise DuplicateProcessorError(processor_id=processor.id)
        seen.add(processor.id)


def _having(hook: str, processors: Sequence[Processor]) -> tuple[Processor, ...]:
    return tuple(p for p in processors if callable(getattr(p, hook, None)))


class RunProcessors:
    """The processors at work in one run."""

    def __init__(
        self,
        runner: ProcessorRunner,
        *,
        facts: dict[str, Any],
        watch: ProcessorWatch,
        tracer: Tracer,
    ) -> None:
        self._runner = runner
        self._tracer = tracer
        self._facts = facts
        self._messages: MessageList = facts["message_list"]
        self._watch = watch
        self._timeout = None if runner.timeout_ms is None else runner.timeout_ms / 1000
        self._states: dict[str, dict[str, Any]] = {}
        self._streamed: dict[str, list[Chunk]] = {}
        self._broken: set[str] = set()
        before, after, errors = (
            runner.input_processors,
            runner.output_processors,
            runner.error_processors,
        )
        # Which of them has which hook is found out once per run, not per call.
        self._hooks: dict[str, tuple[Processor, ...]] = {
            **{hook: _having(hook, before) for hook in HOOKS[:5]},
            **{hook: _having(hook, after) for hook in HOOKS[5:9]},
            "process_api_error": _having("process_api_error", (*before, *after, *errors)),
        }
        self._steppers = tuple(
            p
            for p in before
            if p in self._hooks["process_input_step"] or p in self._hooks["compute_state_signal"]
        )
        self.has_error_processors = bool(errors)
        self._streamers = tuple(
            (processor, bool(getattr(processor, "process_data_parts", False)))
            for processor in self._hooks["process_output_stream"]
        )
        self.has_stream_hooks = bool(self._streamers)

    def looking_at(self, messages: MessageList, *, shares_state: bool = False) -> RunProcessors:
        """
        The same processors with another transcript.

        Args:
            messages: What they look at.
            shares_state: Let them know, and keep, what they know of the run.
        """
        facts = {**self._facts, "message_list": messages}
        others = RunProcessors(self._runner, facts=facts, watch=self._watch, tracer=self._tracer)
        if shares_state:
            others._states = self._states
        return others

    @property
    def has_input_step(self) -> bool:
        """Whether any processor wants to be called before a request."""
        return bool(self._steppers)

    def has(self, hook: str) -> bool:
        """Whether any processor wants to be called for it."""
        return bool(self._hooks[hook])

    def _args(self, processor: Processor, phase: str, members: Mapping[str, Any]) -> ProcessorArgs:
        return ProcessorArgs(
            processor_id=processor.id,
            phase=phase,
            state=self._states.setdefault(processor.id, {}),
            **self._facts,
            **members,
        )

    async def _call(self, processor: Processor, phase: str, **members: Any) -> Any:
        """One hook of one processor, measured; raises as :meth:`_call_unmeasured`."""
        with self._span(processor, phase) as span:
            return await self._call_unmeasured(processor, phase, span, **members)

    def _span(self, processor: Processor, phase: str) -> AbstractContextManager[Span]:
        return processor_span(self._tracer, processor, phase, run_id=self._facts["run_id"])

    async def _call_unmeasured(
        self, processor: Processor, phase: str, span: Span, **members: Any
    ) -> Any:
        """
        One hook of one processor.

        Raises:
            TripwireError: It stopped the run, or wants the step repeated.
            ProcessorError: It raised anything else.
        """
        args = self._args(processor, phase, members)
        args.tracing_context = TracingContext(current_span=span, tracer=self._tracer)
        try:
            async with (
                self._watch.around(processor, phase),
                asyncio.timeout(self._timeout) as limit,
            ):
                return await call_maybe_async(getattr(processor, phase), args)
        except TripwireError as exc:
            await self._violated(processor, exc)
            raise
        except TimeoutError as exc:
            error: ProcessorError
            if limit.expired():
                assert self._timeout is not None
                error = ProcessorTimeoutError(
                    processor_id=processor.id, phase=phase, limit_ms=self._timeout * 1000
                )
            else:
                error = _failure(processor, phase, exc)
            self._watch.failed(processor, phase, error)
            raise error from exc
        except ProcessorError as exc:
            self._watch.failed(processor, phase, exc)
            raise
        except Exception as exc:
            self._watch.failed(processor, phase, exc)
            raise _failure(processor, phase, exc) from exc

    async def _violated(self, processor: Processor, error: TripwireError) -> None:
        violation = {
            "processorId": processor.id,
            "message": error.reason,
            "detail": error.metadata,
        }
        callback = getattr(processor, "on_violation", None)
        if callable(callback):
            try:
                await call_maybe_async(callback, violation)
            except Exception:
                logger.exception("on_violation failed", extra={"processor": processor.id})
        self._watch.violated(processor, violation)

    def _apply(
        self, processor: Processor, phase: str, returned: object, source: MessageSource
    ) -> None:
        if returned is None:
            return
        stage = self._args(processor, phase, {}).messages
        try:
            apply_returned(
                self._messages,
                returned,
                stage=list(stage),
                source=source,
                processor_id=processor.id,
                phase=phase,
            )
        except RunArgumentError as exc:
            raise _failure(processor, phase, exc) from exc

    # -- before the loop, before a step ---------------------------------------------------

    async def process_input(self, **members: Any) -> None:
        """Hook 1, once per run; may change the input in place or return another one."""
        for processor in self._hooks["process_input"]:
            returned = await self._call(processor, "process_input", **members)
            self._apply(processor, "process_input", returned, "input")

    async def process_input_step(
        self,
        patch: StepPatch,
        *,
        resolve: Callable[[StepPatch], StepPatch],
        lanes: RunLanes | None = None,
        **members: Any,
    ) -> StepPatch:
        """
        Hook 2, before each prompt, and behind it what the same processor says about its lane.

        Args:
            patch: The step as the run has it; every member is set.
            resolve: Turns names into the things that they name, as soon as a hook gave them.
            lanes: The state lanes of the run; None offers none.
            members: Further members of the arguments.

        Returns:
            The step after all processors; each saw what the former had changed.
        """
        for processor in self._steppers:
            sender = lanes.sender(processor) if lanes is not None else None
            if processor in self._hooks["process_input_step"]:
                returned = await self._call(
                    processor,
                    "process_input_step",
                    model=patch.model,
                    tools=patch.tools,
                    tool_choice=patch.tool_choice,
                    active_tools=patch.active_tools,
                    model_settings=patch.model_settings or {},
                    provider_options=patch.provider_options or {},
                    send_state_signal=sender,
                    **members,
                )
                patch = self._stepped(processor, patch, returned, resolve)
            if lanes is not None and processor in self._hooks["compute_state_signal"]:
                await self._compute_state(processor, lanes, members)
        return patch

    def _stepped(
        self,
        processor: Processor,
        patch: StepPatch,
        returned: object,
        resolve: Callable[[StepPatch], StepPatch],
    ) -> StepPatch:
        if isinstance(returned, Mapping):
            returned = _patch_of(processor, returned)
        if isinstance(returned, StepPatch):
            self._apply_step(processor, returned)
            return resolve(_overlay(patch, returned))
        self._apply(processor, "process_input_step", returned, "context")
        return patch

    async def _compute_state(
        self, processor: Processor, lanes: RunLanes, members: Mapping[str, Any]
    ) -> None:
        """Hook 3: what is the case on the lane of this processor; None says: nothing new."""
        view = await lanes.view(processor)
        if view is None:
            return
        with self._span(processor, "compute_state_signal") as span:
            await self._compute_seen(processor, lanes, view, span, members)

    async def _compute_seen(
        self,
        processor: Processor,
        lanes: RunLanes,
        view: LaneView,
        span: Span,
        members: Mapping[str, Any],
    ) -> None:
        history = view.history
        returned = await self._call_unmeasured(
            processor,
            "compute_state_signal",
            span,
            active_state_signals=history.active,
            context_window=ContextWindow(has_snapshot=history.has_snapshot),
            last_snapshot=history.last_snapshot,
            deltas_since_snapshot=history.deltas,
            tracking=view.tracking,
            send_state_signal=lanes.sender(processor),
            **{name: value for name, value in members.items() if name != "send_signal"},
        )
        if returned is None:
            return
        if not isinstance(returned, Mapping):
            raise ProcessorError(
                processor_id=processor.id,
                phase="compute_state_signal",
                reason="it must return None or {cache_key, contents, …}",
            )
        try:
            await lanes.apply(processor, returned)
        except InvalidSignalError as exc:
            raise _failure(processor, "compute_state_signal", exc) from exc

    def _apply_step(self, processor: Processor, patch: StepPatch) -> None:
        phase = "process_input_step"
        check_patch(patch, processor_id=processor.id)
        check_one_of_both(
            patch.messages,
            patch.message_list,
            processor_id=processor.id,
            phase=phase,
        )
        if patch.message_list is not None:
            check_own_list(
                self._messages, patch.message_list, processor_id=processor.id, phase=phase
            )
        if patch.messages is not None:
            stage = list(self._messages.messages)
            try:
                apply_messages(self._messages, patch.messages, stage=stage, source="context")
            except RunArgumentError as exc:
                raise _failure(processor, phase, exc) from exc
        if patch.system_messages is not None:
            replace_system_messages(self._messages, patch.system_messages)

    # -- around a request -----------------------------------------------------------------

    async def process_llm_request(
        self, prompt: list[dict[str, Any]], *, model: Model, **members: Any
    ) -> LlmAnswer:
        """Hook 4, at each request; all are called, the first answer counts (decisions.md 5)."""
        response: Mapping[str, Any] | None = None
        for processor in self._hooks["process_llm_request"]:
            returned = await self._call(
                processor, "process_llm_request", prompt=prompt, model=model, **members
            )
            if returned is None:
                continue
            if not isinstance(returned, Mapping) or not set(returned) <= {"prompt", "response"}:
                raise ProcessorError(
                    processor_id=processor.id,
                    phase="process_llm_request",
                    reason="it must return None, {prompt} or {response}",
                )
            if returned.get("prompt") is not None:
                prompt = checked_prompt(returned["prompt"], processor_id=processor.id)
            if response is None and returned.get("response") is not None:
                response = checked_response(returned["response"], processor_id=processor.id)
        return LlmAnswer(prompt=prompt, response=response)

    async def process_llm_response(self, **members: Any) -> None:
        """Hook 5, after an answer became messages."""
        for processor in self._hooks["process_llm_response"]:
            await self._call(processor, "process_llm_response", **members)

    # -- the stream -----------------------------------------------------------------------

    async def process_output_stream(self, chunk: Chunk) -> list[Chunk]:
        """
        Hook 6: what becomes of a chunk; a processor that raises lets it pass (decisions.md 31).

        Raises:
            TripwireError: A processor stopped the run, or raised and may not let anything pass
                (``on_stream_error = "closed"``).
        """
        passed: list[Chunk] = []
        waiting = deque([(0, chunk)])
        entered = 0
        while waiting:
            position, part = waiting.popleft()
            entered += 1
            if entered > _MAX_PUSHED:
                logger.error("processors pushed chunks without end; the rest is dropped")
                break
            through = await self._stream_through(part, position, waiting)
            if through is not None:
                passed.append(through)
        return passed

    async def _stream_through(
        self, chunk: Chunk, position: int, waiting: deque[tuple[int, Chunk]]
    ) -> Chunk | None:
        passing = chunk
        for index in range(position, len(self._streamers)):
            processor, wants_data = self._streamers[index]
            if not wants_data and str(passing.get("type", "")).startswith("data-"):
                continue
            seen = self._streamed.setdefault(processor.id, [])
            seen.append(kept(passing))
            allowed = CALL_CHUNKS | {str(passing.get("type"))}

            def push(more: Chunk, place: int = index, own: frozenset[str] = allowed) -> None:
                if (fault := chunk_fault(more, allowed=own)) is not None:
                    raise TypeError(f"it pushed a chunk that {fault}")
                waiting.append((place, more))

            args = self._args(
                processor,
                "process_output_stream",
                {"part": passing, "stream_parts": seen, "push": push},
            )
            try:
                hook: Callable[[ProcessorArgs], Any] = processor.process_output_stream  # type: ignore[attr-defined]  # it has one, see _hooks
                returned = await call_maybe_async(hook, args)
            except TripwireError as exc:
                await self._violated(processor, exc)
                raise
            except Exception as exc:  # noqa: BLE001 – decisions.md 31: the chunk passes
                self._stream_failed(processor, exc)
                passing = kept(seen[-1])
                continue
            if returned is None:
                return None
            if (fault := chunk_fault(returned, allowed=allowed)) is not None:
                self._stream_failed(processor, TypeError(f"it returned a chunk that {fault}"))
                passing = kept(seen[-1])
                continue
            passing = returned
        return passing

    def _stream_failed(self, processor: Processor, error: Exception) -> None:
        self._watch.failed(processor, "process_output_stream", error)
        if getattr(processor, "on_stream_error", "open") == "closed":
            raise TripwireError(
                f"Processor {processor.id} failed and lets nothing pass: {reason_of(error)}",
                processor_id=processor.id,
                phase="process_output_stream",
            ) from error
        if processor.id not in self._broken:
            self._broken.add(processor.id)
            logger.error(
                "processor failed on a chunk", extra={"processor": processor.id}, exc_info=error
            )

    # -- what came out --------------------------------------------------------------------

    async def process_output_step(self, **members: Any) -> None:
        """Hook 7, after each answer and before its tools."""
        for processor in self._hooks["process_output_step"]:
            returned = await self._call(processor, "process_output_step", **members)
            self._apply(processor, "process_output_step", returned, "response")

    async def process_tool_result(self, **members: Any) -> None:
        """Hook 8, when a tool has answered; the value in the list afterwards is what counts."""
        for processor in self._hooks["process_tool_result"]:
            returned = await self._call(processor, "process_tool_result", **members)
            self._apply(processor, "process_tool_result", returned, "response")

    async def process_output_result(self, result: Mapping[str, Any], **members: Any) -> None:
        """Hook 9, once at the end; edits of the response messages are what is stored."""
        for processor in self._hooks["process_output_result"]:
            returned = await self._call(
                processor, "process_output_result", result=result, **members
            )
            self._apply(processor, "process_output_result", returned, "response")

    # -- a failed request -----------------------------------------------------------------

    async def process_api_error(self, error: BaseException, **members: Any) -> bool:
        """
        Hook 10: whether the request is to be repeated; the first that says so decides.

        One that raises is passed over, the error of the model stays what it is.

        Raises:
            TripwireError: One stopped the run.
        """
        for processor in self._hooks["process_api_error"]:
            try:
                returned = await self._call(processor, "process_api_error", error=error, **members)
            except TripwireError:
                raise
            except ProcessorError:
                logger.exception("error processor failed", extra={"processor": processor.id})
                continue
            if isinstance(returned, Mapping) and returned.get("retry") is True:
                return True
        return False


def _failure(processor: Processor, phase: str, error: BaseException) -> ProcessorError:
    return ProcessorError(
        processor_id=processor.id, phase=phase, reason=f"{type(error).__name__}: {reason_of(error)}"
    )


def _patch_of(processor: Processor, returned: Mapping[str, Any]) -> StepPatch:
    try:
        return StepPatch(**returned)
    except TypeError as exc:
        raise ProcessorError(
            processor_id=processor.id,
            phase="process_input_step",
            reason=f"it returned something that a step doesn't have: {exc}",
        ) from exc


def _overlay(base: StepPatch, patch: StepPatch) -> StepPatch:
    """What a hook said over what the step was; messages have taken effect already."""
    said = {
        name: value
        for name in ("model", "message_id", "tools", "tool_choice", "active_tools")
        if (value := getattr(patch, name)) is not None
    }
    if patch.provider_options is not None:
        said["provider_options"] = patch.provider_options
    if patch.model_settings is not None:
        kept = {
            name: value
            for name, value in (base.model_settings or {}).items()
            if name in ("maxRetries", "timeout")
        }
        said["model_settings"] = {**kept, **patch.model_settings}
    return replace(base, **said)
