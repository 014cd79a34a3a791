"""The run loop: step after step until nothing is left to do (streaming.md 2).

One :class:`AgentLoop` runs one segment and never raises; how it ended is in its output.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from mastra_core.base.tasks import call_maybe_async, shielded
from mastra_core.errors import RunTimeoutError, TripwireError
from mastra_core.loop.asking import ask_models, seconds_of
from mastra_core.loop.continue_rule import (
    DEFAULT_MAX_STEPS,
    may_run_tools,
    wants_another_step,
)
from mastra_core.loop.ending import (
    end_aborted,
    end_failed,
    end_finished,
    end_tripped,
    give_up,
)
from mastra_core.loop.interrupt import Interrupt, RunInterrupted
from mastra_core.loop.model_step import StepCall, StepResult
from mastra_core.loop.parking import park, restore_tools, result_of_parked, resume_tools
from mastra_core.loop.segment import ResumePoint, RunSegment
from mastra_core.loop.setup import RunSetup
from mastra_core.loop.tool_step import ToolStep
from mastra_core.messages.signals import create_signal, echo_chunk
from mastra_core.processors.arguments import StepPatch
from mastra_core.streaming.output import ModelOutput
from mastra_core.wire.signals import Signal

__all__ = ("AgentLoop",)

#: Seconds that saving may take after the run was cancelled.
_LAST_SAVE_SECONDS: Final = 5.0


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
        try:
            await self._run_to_its_end()
        except asyncio.CancelledError:
            await shielded(give_up(self._segment), deadline=_LAST_SAVE_SECONDS)
            raise
        finally:
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
            await end_failed(segment, _first_of(exc))
        except Exception as exc:  # noqa: BLE001 - the door of the run: it ends as failed
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
        await segment.emit(
            segment.chunk("start", {"id": setup.agent_id, "messageId": segment.writer.message_id})
        )
        if setup.processors is not None:
            await setup.processors.process_input()
        opening = [s for s in setup.opening_signals if segment.messages.find(s.id)]
        for signal in opening:
            await segment.emit(echo_chunk(signal))
        entered = [segment.messages.add_signal(s) for s in setup.signals.drain_pre_run()]
        for signal in entered:
            await segment.emit(echo_chunk(signal))
        await segment.save_signals([*opening, *entered])

    async def _resume(self, resume: ResumePoint) -> bool:
        """Go on with the tool calls of the parked step; True if another step follows."""
        segment = self._segment
        result = result_of_parked(resume.parked)
        tools = self._tools(result.calls)
        answers = await restore_tools(segment, resume, tools)
        await segment.interrupt.guard(resume_tools(segment, tools, answers))
        if tools.parked:
            await park(segment, tools, result)
            return False
        tools.apply_results()
        segment.rotate()
        return await self._finish_step(result, tools, has_rotated=True)

    # -- one iteration --------------------------------------------------------------------

    async def _iterate(self) -> bool:
        """One model request and its tools; True if another one follows."""
        segment = self._segment
        segment.iteration += 1
        await segment.assert_ours()
        segment.writer.begin_step()
        result = await ask_models(segment, await self._input_step())
        calls = result.calls if may_run_tools(result.reason) else []
        tools = self._tools(calls)
        if calls:
            await segment.interrupt.guard(tools.run())
            if tools.parked:
                await park(segment, tools, result)
                return False
            tools.apply_results()
        return await self._finish_step(result, tools)

    async def _input_step(self) -> StepPatch:
        """What the input-step hooks want for this step."""
        setup, record = self._setup, self._segment.record
        if setup.processors is None:
            return StepPatch(
                tool_choice=setup.tool_choice,
                active_tools=setup.active_tools,
                model_settings=setup.model_settings,
            )
        return await setup.processors.process_input_step(
            step_number=len(record.steps),
            steps=record.steps,
            tools=tuple(setup.tools),
            tool_choice=setup.tool_choice,
            active_tools=setup.active_tools,
            model_settings=setup.model_settings,
            send_signal=self._send_signal,
        )

    async def _send_signal(self, value: Mapping[str, Any]) -> Signal:
        """``send_signal`` of an input-step hook: rotate, add, echo (signals.md 14)."""
        segment = self._segment
        signal = create_signal(value, clock=self._setup.clock, ids=self._setup.ids)
        segment.rotate()
        entered = segment.messages.add_signal(signal)
        await segment.emit(echo_chunk(entered))
        return entered

    def _tools(self, calls: Sequence[StepCall]) -> ToolStep:
        segment = self._segment
        messages = segment.messages
        return ToolStep(
            self._setup,
            emit=segment.emit,
            writer=segment.writer,
            calls=calls,
            abort=segment.interrupt.event,
            transcript=lambda: [m.to_wire() for m in messages.to_messages(messages.messages)],
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
        if await self._drain():
            # Input that arrived is answered, whatever the model thought (signals.md 9).
            has_rotated = goes_on = True
            reason = "other"
        if goes_on and await self._must_stop(result):
            goes_on = False
        step_result: dict[str, Any] = {"reason": reason, "isContinued": goes_on}
        if has_rotated:
            step_result["messageId"] = segment.writer.message_id
        segment.last_finish = segment.step_payload(result, step_result)
        await segment.emit(segment.chunk("step-finish", segment.last_finish))
        if segment.record.steps:
            await segment.notify(self._setup.callbacks.on_step_finish, segment.record.steps[-1])
        return goes_on

    async def _drain(self) -> bool:
        """Let signals in that arrived during the step; True if there were any."""
        segment = self._segment
        drained = self._setup.signals.drain_pending()
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
        limit = setup.max_steps
        if limit is None and not setup.stop_when:
            limit = DEFAULT_MAX_STEPS
        if limit is not None and len(steps) + 1 >= limit:
            return True
        seen = [
            *steps,
            {"text": result.text, "finishReason": result.reason, "usage": result.usage},
        ]
        for condition in setup.stop_when:
            if await call_maybe_async(condition, seen):
                return True
        return False


def _first_of(group: ExceptionGroup[Exception]) -> Exception:
    first = group.exceptions[0]
    return _first_of(first) if isinstance(first, ExceptionGroup) else first
