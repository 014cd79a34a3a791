"""Does a run go on, other than by its model's wish? (streaming.md 2.2, steps 16 and 17)"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from mastra_core.base.tasks import call_maybe_async
from mastra_core.contracts.completion import CheckResult, IterationState, TaskCheck, Verdict
from mastra_core.errors import shown
from mastra_core.loop.continue_rule import step_limit
from mastra_core.loop.model_step import StepResult
from mastra_core.loop.segment import RunSegment
from mastra_core.loop.tool_step import ToolStep

__all__ = ("ask_about_iteration", "is_limit_reached", "is_task_unfinished")

logger = logging.getLogger(__name__)

#: After these nothing can be expected of a further request.
_HOPELESS: Final = ("error", "content-filter")


def is_limit_reached(segment: RunSegment, made: int) -> bool:
    """Whether the run has made all the requests that it may make."""
    setup = segment.setup
    limit = step_limit(setup.max_steps, has_conditions=bool(setup.stop_when))
    return limit is not None and made + segment.unrecorded_steps >= limit


def _state(
    segment: RunSegment, result: StepResult, tools: ToolStep, *, is_final: bool
) -> IterationState:
    setup, messages, record = segment.setup, segment.messages, segment.record
    return IterationState(
        iteration=segment.iteration,
        max_iterations=step_limit(setup.max_steps, has_conditions=bool(setup.stop_when)),
        text=result.text,
        tool_calls=[call.to_wire() for call in tools.calls],
        tool_results=list(record.steps[-1]["toolResults"] if record.steps else ()),
        is_final=is_final,
        finish_reason=result.reason,
        run_id=setup.run_id,
        thread_id=messages.thread_id,
        resource_id=messages.resource_id,
        agent_id=setup.agent_id,
        messages=[m.to_wire() for m in messages.to_messages(messages.messages)],
    )


# -- checks ---------------------------------------------------------------------------------------


async def is_task_unfinished(segment: RunSegment, result: StepResult, tools: ToolStep) -> bool:
    """Ask the checks of a run that would end; True if it is to go on, with feedback."""
    check = segment.setup.task_check
    if check is None or tools.open_client_calls or result.reason in _HOPELESS:
        return False
    state = _state(segment, result, tools, is_final=True)
    started = segment.setup.clock.monotonic()
    results, has_timed_out = await segment.interrupt.guard(_ask_all(check, state))
    passed = [found.passed for found in results]
    has_passed = (any if check.strategy == "any" else all)(passed)
    reasons = "; ".join(found.reason for found in results if not found.passed and found.reason)
    payload: dict[str, Any] = {
        "iteration": state.iteration,
        "passed": has_passed,
        "results": [_wire(number, found) for number, found in enumerate(results)],
        "duration": round((segment.setup.clock.monotonic() - started) * 1000),
        "timedOut": has_timed_out,
        "maxIterationReached": is_limit_reached(segment, len(segment.record.steps) + 1),
        "suppressFeedback": check.suppress_feedback,
    }
    if reasons:
        payload["reason"] = reasons
    await segment.emit(segment.chunk("is-task-complete", payload))
    if not has_passed and not check.suppress_feedback:
        segment.feedback = f"The task is not complete yet: {reasons or 'a check did not pass'}."
    return not has_passed


def _wire(number: int, found: CheckResult) -> dict[str, Any]:
    wire: dict[str, Any] = {"check": number, "passed": found.passed}
    if found.score is not None:
        wire["score"] = found.score
    if found.reason is not None:
        wire["reason"] = found.reason
    return wire


async def _ask_all(check: TaskCheck, state: IterationState) -> tuple[list[CheckResult], bool]:
    """What each check found, in order, and whether one took too long."""
    asked = [asyncio.create_task(_ask(one, state)) for one in check.checks]
    if not asked:
        return [], False
    try:
        _, late = await asyncio.wait(asked, timeout=check.timeout_ms / 1000)
        results = [
            CheckResult(passed=False, reason="a check took too long")
            if task in late
            else task.result()
            for task in asked
        ]
        return results, bool(late)
    finally:
        for task in asked:
            task.cancel()
        await asyncio.gather(*asked, return_exceptions=True)


async def _ask(
    check: Callable[[IterationState], Verdict | Awaitable[Verdict]], state: IterationState
) -> CheckResult:
    try:
        verdict = await call_maybe_async(check, state)
    except Exception as exc:
        logger.exception("a check of a task failed", extra={"run_id": state.run_id})
        return CheckResult(passed=False, reason=f"a check failed: {exc}")
    match verdict:
        case CheckResult():
            return verdict
        case bool():
            return CheckResult(passed=verdict)
        case int() | float():
            return CheckResult(passed=verdict >= 1, score=float(verdict))
        case _:
            logger.error("a check returned %s", shown(verdict))
            return CheckResult(passed=False, reason="a check returned no verdict")


# -- the caller's last word -----------------------------------------------------------------------


async def ask_about_iteration(
    segment: RunSegment, result: StepResult, tools: ToolStep, *, goes_on: bool
) -> bool:
    """
    Whether the run goes on after ``on_iteration_complete``.

    It may end a run, and continue one that would end, as long as steps are left.
    """
    callback = segment.setup.callbacks.on_iteration_complete
    if callback is None:
        return goes_on
    state = _state(segment, result, tools, is_final=not goes_on)
    try:
        verdict = await segment.guard(call_maybe_async(callback, state))
    except Exception:
        logger.exception("callback failed", extra={"run_id": segment.setup.run_id})
        return goes_on
    if not isinstance(verdict, Mapping):
        return goes_on
    wish = verdict.get("continue")
    if wish is True and not goes_on:
        goes_on = not (
            tools.open_client_calls
            or tools.is_final
            or segment.object_error is not None
            or result.reason in _HOPELESS
            or is_limit_reached(segment, len(segment.record.steps))
        )
    elif wish is False:
        goes_on = False
    feedback = verdict.get("feedback")
    if goes_on and isinstance(feedback, str) and feedback:
        segment.feedback = feedback
    segment.last_finish["stepResult"]["isContinued"] = goes_on
    return goes_on
