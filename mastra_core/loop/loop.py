"""The run loop: step after step until nothing is left to do (streaming.md 2).

One :class:`AgentLoop` runs one segment and never raises; how it ended is in its output.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, cast

from mastra_core.base.tasks import call_maybe_async, shielded
from mastra_core.base.telemetry import Attribute
from mastra_core.contracts.tool import Tool
from mastra_core.errors import (
    ConfigError,
    MastraError,
    ProcessorError,
    RunTimeoutError,
    TripwireError,
)
from mastra_core.loop.asking import ask_models, seconds_of
from mastra_core.loop.completion import (
    ask_about_iteration,
    is_limit_reached,
    is_task_unfinished,
)
from mastra_core.loop.continue_rule import may_run_tools, wants_another_step
from mastra_core.loop.ending import (
    end_aborted,
    end_broken,
    end_failed,
    end_finished,
    end_tripped,
    flat_model,
    give_up,
)
from mastra_core.loop.guarding import guarded
from mastra_core.loop.handed_over import LiveTranscript, heal_placeholders, wait_for_tasks
from mastra_core.loop.interrupt import Interrupt, RequestPreempted, RunInterrupted
from mastra_core.loop.model_step import StepCall, StepResult
from mastra_core.loop.parking import park, restore_tools, result_of_parked, resume_tools
from mastra_core.loop.repeating import (
    FEEDBACK_TAG,
    RepeatStep,
    drop_request,
    repeat_request,
    repeat_step,
)
from mastra_core.loop.segment import ResumePoint, RunSegment
from mastra_core.loop.setup import RunSetup
from mastra_core.loop.structuring import settle_object, structure_answer
from mastra_core.loop.tool_step import ToolStep
from mastra_core.messages.message_list import MessageList
from mastra_core.messages.signals import create_signal, echo_chunk
from mastra_core.processors.arguments import StepPatch
from mastra_core.streaming.output import ModelOutput
from mastra_core.wire.signals import Signal

__all__ = ("AgentLoop",)

logger = logging.getLogger(__name__)

#: Seconds that saving may take after the run was cancelled.
_LAST_SAVE_SECONDS: Final = 5.0
#: What stops more than this run.
_NOT_OURS: Final = (asyncio.CancelledError, KeyboardInterrupt, GeneratorExit)


class AgentLoop:
    """Runs one segment of a run."""

    def __init__(
        self,
        setup: RunSetup,
        output: ModelOutput,
        interrupt: Interrupt,
        *,
        resume: ResumePoint | None = None,
    ) -> None:
        self._segment = RunSegment(setup, output, interrupt, resume=resume)
        self._setup = setup

    # -- from start to end ----------------------------------------------------------------

    async def run(self) -> None:
        """Go on until the run ends or is parked; closes the output."""
        live = LiveTranscript(self._segment)
        background = self._setup.background
        if background is not None:
            background.enter(live)
        try:
            await self._run_to_its_end()
        except asyncio.CancelledError:
            await shielded(give_up(self._segment), deadline=_LAST_SAVE_SECONDS)
            raise
        except Exception as exc:  # noqa: BLE001 - even then it ends, and says so
            await end_broken(self._segment, exc)
        finally:
            if background is not None:
                live.end()
                background.leave(live)
            self._segment.output.close()

    async def _run_to_its_end(self) -> None:
        segment = self._segment
        try:
            async with asyncio.timeout(seconds_of(self._setup.model_settings, "totalMs")) as limit:
                await self._run_steps()
        except RunInterrupted:
            if segment.interrupt.error is None:
                await end_aborted(segment)
            else:
                await end_failed(segment, segment.interrupt.error)
        except TripwireError as exc:
            await end_tripped(segment, exc)
        except TimeoutError as exc:
            error: Exception = exc
            if limit.expired():
                error = RunTimeoutError(run_id=self._setup.run_id)
                error.__cause__ = exc
            await end_failed(segment, error)
        except ExceptionGroup as exc:
            error = _first_of(exc)
            if isinstance(error, TripwireError):
                await end_tripped(segment, error)
            else:
                await end_failed(segment, error)
        except _NOT_OURS:
            raise
        except BaseException as exc:  # noqa: BLE001 - the door of the run: it ends as failed
            await end_failed(segment, exc)

    async def _run_steps(self) -> None:
        segment = self._segment
        if segment.resume is None:
            await self._start()
            goes_on = True
        else:
            goes_on = await self._resume(segment.resume)
        while goes_on:
            goes_on = await self._iterate()
        if not segment.is_parked:
            await end_finished(segment)

    async def _start(self) -> None:
        segment, setup = self._segment, self._setup
        segment.started_at = setup.clock.now()
        await heal_placeholders(segment)
        if setup.processors is not None:
            await segment.guard(
                setup.processors.process_input(
                    send_signal=segment.send_signal_in_place, **segment.hook_members()
                )
            )
        await segment.show(
            segment.chunk("start", {"id": setup.agent_id, "messageId": segment.writer.message_id})
        )
        segment.is_streaming = True
        opening = [
            signal
            for signal in (*setup.opening_signals, *segment.early_signals)
            if segment.messages.find(signal.id)
        ]
        for signal in opening:
            await segment.emit(echo_chunk(signal))
        await segment.save_signals(opening)

    async def _resume(self, resume: ResumePoint) -> bool:
        """Go on with the tool calls of the parked step; True if another step follows."""
        segment = self._segment
        await heal_placeholders(segment)
        result = result_of_parked(resume.parked)
        segment.open_step = 0
        await self._find_tools(result.calls)
        tools = self._tools(result.calls)
        answers = await restore_tools(segment, resume, tools)
        await self._run_tools(tools, resume_tools(segment, tools, answers))
        if tools.parked:
            segment.open_step = None
            await park(segment, tools, result)
            return False
        await self._enter_results(tools)
        segment.open_step = None
        segment.rotate()
        return await self._finish_step(result, tools, has_rotated=True)

    async def _find_tools(self, calls: Sequence[StepCall]) -> None:
        """
        The tools of a parked step that only its input-step hooks had offered.

        They are asked again, with a copy of the transcript, which nobody sees or keeps.
        """
        segment, setup = self._segment, self._setup
        processors = setup.processors
        missing = {call.tool_name for call in calls if not setup.offers(call.tool_name)}
        if not missing or processors is None or not processors.has_input_step:
            return
        messages = MessageList.deserialize(
            segment.messages.serialize(), clock=setup.clock, ids=setup.ids
        )

        async def write(chunk: Mapping[str, Any]) -> None:
            """It was streamed when the step was made."""

        async def send_signal(value: Mapping[str, Any]) -> Signal:
            return messages.add_signal(create_signal(value, clock=setup.clock, ids=setup.ids))

        members = segment.hook_members() | {
            "write": write,
            "rotate_response_message_id": lambda: segment.writer.message_id,
        }
        try:
            patched = await segment.guard(
                processors.looking_at(messages).process_input_step(
                    self._unpatched(),
                    resolve=self._resolve,
                    send_signal=send_signal,
                    structured_output=setup.structured,
                    **members,
                )
            )
        except MastraError:
            # The run goes on without; the model is told that the tool isn't there.
            logger.warning("tools of a parked step were not found", exc_info=True)
            return
        offered: Mapping[str, Tool] = cast(Any, patched.tools) or {}
        found = {name: offered[name] for name in missing & set(offered)}
        active = setup.active_tools
        if found:
            segment.use_tools(
                {**setup.tools, **found}, None if active is None else [*active, *found]
            )

    # -- one iteration --------------------------------------------------------------------

    async def _iterate(self) -> bool:
        """One model request and its tools, measured; True if another one follows."""
        setup, index = self._setup, len(self._segment.record.steps)
        facts: dict[str, Attribute] = {"stepIndex": index, "runId": setup.run_id}
        with setup.tracer.span(f"step: {index}", facts, kind="model_step") as span:
            goes_on = await self._step()
            span.set_attribute("isContinued", goes_on)
            return goes_on

    async def _step(self) -> bool:
        segment = self._segment
        segment.iteration += 1
        await segment.assert_ours()
        setup = self._setup
        attempt = segment.attempt = segment.interrupt.begin_attempt(
            setup.clock, debounce=setup.interruption_debounce
        )
        while await self._admit():
            # What came meanwhile belongs to this request, too.
            pass
        limit = setup.max_interruptions
        if limit is None or segment.record.interruptions < limit:
            attempt.arm()
        segment.open_step = segment.output.buffer.count
        mark, message_id = segment.writer.mark(), segment.writer.message_id
        segment.writer.begin_step()
        segment.answer_mark = mark
        self._tell_feedback()
        try:
            patch = await self._input_step()
            if segment.writer.message_id != message_id:
                # A hook has ended the message that the step was to go on with.
                mark = segment.answer_mark = 0
            attempt.check()
            result = await ask_models(segment, patch)
            await self._output_step(result)
            attempt.check()
        except RequestPreempted:
            segment.answer_mark = None
            await drop_request(segment, mark)
            return True
        except TripwireError as exc:
            segment.answer_mark = None
            if attempt.is_preempted:
                await drop_request(segment, mark)
                return True
            await repeat_step(segment, exc, mark)
            return True
        except RepeatStep as exc:
            segment.answer_mark = None
            await repeat_request(segment, exc, mark)
            return True
        finally:
            attempt.accept()
        segment.answer_mark = None
        segment.retries = 0
        calls = result.calls if may_run_tools(result.reason) else []
        tools = self._tools(calls)
        if segment.payloads:
            await segment.payloads.keep_inputs(segment.writer, result.calls)
        if calls:
            await self._run_tools(tools, tools.run())
            if tools.parked:
                segment.open_step = None
                await park(segment, tools, result)
                return False
            await self._enter_results(tools)
        segment.open_step = None
        return await self._finish_step(result, tools)

    def _tell_feedback(self) -> None:
        """Why the last answer was rejected; for this request only."""
        segment = self._segment
        tagged = segment.messages.tagged_system_messages
        tagged.pop(FEEDBACK_TAG, None)
        if segment.feedback is not None:
            tagged[FEEDBACK_TAG] = [{"role": "system", "content": segment.feedback}]
            segment.feedback = None

    async def _input_step(self) -> StepPatch:
        """What the input-step hooks want for this step; the run's own values come back with
        the next one."""
        segment, setup = self._segment, self._setup
        step = self._unpatched()
        segment.step_setup = setup
        processors = setup.processors
        if processors is None or not processors.has_input_step:
            return step
        segment.keep_system_messages()
        patched = await segment.guard(
            processors.process_input_step(
                step,
                resolve=self._resolve,
                lanes=segment.lanes(),
                send_signal=segment.send_signal,
                structured_output=setup.structured,
                **segment.hook_members(),
            )
        )
        if patched.message_id is not None:
            segment.use_message(patched.message_id)
        if (patched.tools, patched.active_tools) != (setup.tools, setup.active_tools):
            segment.use_tools(cast(Any, patched.tools), patched.active_tools)
        return patched

    def _unpatched(self) -> StepPatch:
        """A step as the run has it."""
        setup = self._setup
        return StepPatch(
            model=setup.models[0],
            tools=setup.tools,
            tool_choice=setup.tool_choice,
            active_tools=setup.active_tools,
            model_settings=setup.model_settings,
            provider_options=setup.provider_options,
        )

    def _resolve(self, patch: StepPatch) -> StepPatch:
        """Names and lists become the things that the loop works with."""
        model, tools = patch.model, patch.tools
        if isinstance(model, str):
            if self._setup.find_model is None:
                raise ConfigError(f"Model {model!r} can't be looked up here.")
            model = self._setup.find_model(model)
        elif getattr(model, "specification", "v2") == "v1":
            raise ProcessorError(
                "A processor chose a model of the oldest specification.",
                id="PROCESSOR_RETURNED_UNSUPPORTED_MODEL",
            )
        if tools is not None and not isinstance(tools, Mapping):
            tools = {tool.id: tool for tool in tools}
        return replace(patch, model=model, tools=tools)

    async def _output_step(self, result: StepResult) -> None:
        """The hooks that judge an answer before its tools run."""
        await structure_answer(self._segment, result)
        segment, processors = self._segment, self._setup.processors
        if processors is None or not processors.has("process_output_step"):
            return
        await segment.guard(
            processors.process_output_step(
                finish_reason=result.reason,
                provider_metadata=result.metadata.get("providerMetadata"),
                tool_calls=[
                    {"toolName": c.tool_name, "toolCallId": c.tool_call_id, "args": c.args}
                    for c in result.calls
                ],
                text=result.text,
                usage=result.usage,
                send_signal=segment.send_signal_in_place,
                **segment.hook_members(),
            )
        )

    def _tools(self, calls: Sequence[StepCall]) -> ToolStep:
        segment = self._segment
        messages = segment.messages
        return ToolStep(
            segment.step_setup,
            process_result=self._process_result,
            emit=segment.emit,
            save=segment.save,
            writer=segment.writer,
            calls=calls,
            abort=segment.interrupt.event,
            transcript=lambda: [m.to_wire() for m in messages.to_messages(messages.messages)],
        )

    async def _run_tools(self, tools: ToolStep, work: Awaitable[None]) -> None:
        try:
            await self._segment.interrupt.guard(work)
        except BaseException:
            # What is done stays done, whatever became of the others.
            await self._enter_results(tools)
            raise

    async def _enter_results(self, tools: ToolStep) -> None:
        """Put what came of the calls into the transcript."""
        tools.apply_results()
        segment = self._segment
        if segment.payloads:
            for call, outcome in tools.settled():
                await segment.payloads.keep_outcome(segment.writer, call, outcome)

    async def _process_result(self, call: StepCall, result: Any) -> None:
        """The hooks that look at what a tool returned, while the list holds it."""
        segment, processors = self._segment, self._setup.processors
        if processors is not None:
            await processors.process_tool_result(
                tool_call_id=call.tool_call_id,
                tool_name=call.tool_name,
                args=call.args,
                result=result,
                **segment.hook_members(),
            )

    async def _finish_step(
        self, result: StepResult, tools: ToolStep, *, has_rotated: bool = False
    ) -> bool:
        segment = self._segment
        reason = result.reason
        goes_on = wants_another_step(
            reason,
            pending_calls=len(tools.calls),
            open_client_calls=tools.open_client_calls,
            has_output=result.has_output,
        )
        if await wait_for_tasks(segment, tools):
            goes_on = True
        if await self._drain():
            # Input that arrived is answered, whatever the model thought (signals.md 9).
            has_rotated = goes_on = True
            reason = "other"
        if not goes_on and await is_task_unfinished(segment, result, tools):
            goes_on = True
        if goes_on and (tools.is_final or await self._must_stop(result)):
            goes_on = False
        if not goes_on:
            await settle_object(segment, result)
            if segment.object_error is not None:
                reason = "error"
        step_result: dict[str, Any] = {"reason": reason, "isContinued": goes_on}
        if segment.step is not None and segment.step.is_replay:
            # As peers write the steps that asked nobody.
            step_result["warnings"] = result.warnings
            result.metadata.update(flat_model(result.metadata))
        if has_rotated:
            step_result["messageId"] = segment.writer.message_id
        segment.last_finish = segment.step_payload(result, step_result)
        await segment.emit(segment.chunk("step-finish", segment.last_finish))
        on_step_finish = self._setup.callbacks.on_step_finish
        if segment.record.steps and on_step_finish is not None:
            await segment.notify(on_step_finish, segment.output.last_step())
        if self._setup.save_per_step:
            await segment.save()
        return await ask_about_iteration(segment, result, tools, goes_on=goes_on)

    async def _admit(self) -> bool:
        """Let input into the request that is made now; True if there was any (signals.md 9)."""
        segment, signals = self._segment, self._setup.signals
        drained = [*signals.drain_pre_run(), *signals.drain_pending()]
        if not drained:
            return False
        drained = await guarded(segment, drained)
        if not drained:
            # Meanwhile others may have come.
            return True
        segment.rotate()
        entered = [segment.messages.add_signal(signal) for signal in drained]
        for signal in entered:
            await segment.emit(echo_chunk(signal))
        await segment.save_signals(entered)
        return True

    async def _drain(self) -> bool:
        """Let signals in that arrived during the step; True if there were any."""
        segment = self._segment
        drained = await guarded(segment, self._setup.signals.drain_pending())
        if not drained:
            return False
        segment.rotate()
        for signal in drained:
            await segment.emit(echo_chunk(segment.messages.add_signal(signal)))
        await segment.save()
        return True

    async def _must_stop(self, result: StepResult) -> bool:
        """Stop conditions, asked only if the loop would go on."""
        setup, steps = self._setup, self._segment.record.steps
        if is_limit_reached(self._segment, len(steps) + 1):
            return True
        seen = [
            *steps,
            {"text": result.text, "finishReason": result.reason, "usage": result.usage},
        ]
        for condition in setup.stop_when:
            if await self._segment.guard(call_maybe_async(condition, seen)):
                return True
        return False


def _first_of(group: ExceptionGroup[Exception]) -> Exception:
    first = group.exceptions[0]
    return _first_of(first) if isinstance(first, ExceptionGroup) else first
