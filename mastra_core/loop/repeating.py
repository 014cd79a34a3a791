"""Steps that processors have repeated (processors.md 5.1, 5.2)."""

from __future__ import annotations

import logging
from typing import Any, Final

from mastra_core.errors import ModelError, TripwireError
from mastra_core.loop.continue_rule import step_limit
from mastra_core.loop.ending import flat_model
from mastra_core.loop.model_step import StepResult
from mastra_core.loop.segment import RunSegment

__all__ = (
    "FEEDBACK_TAG",
    "RepeatStep",
    "drop_request",
    "may_repeat",
    "repeat_request",
    "repeat_step",
)

logger = logging.getLogger(__name__)

#: Tag of the system message that tells the model why its answer was rejected.
FEEDBACK_TAG: Final = "processor-retry-feedback"
#: Repeats where error processors are configured and nothing was said about a budget.
_DEFAULT_BUDGET: Final = 3


class RepeatStep(Exception):  # noqa: N818 – no error: it says what to do next
    """Never leaves the loop: the request of this step failed and is to be repeated."""

    def __init__(self, error: ModelError, *, position: int) -> None:
        super().__init__(str(error))
        self.error = error
        #: Which of the models failed.
        self.position = position


def may_repeat(segment: RunSegment) -> bool:
    """Whether there is budget for one more repeat, and a step left to spend on it."""
    setup = segment.setup
    budget = setup.max_processor_retries
    if budget is None:
        has_error_processors = (
            setup.processors is not None and setup.processors.has_error_processors
        )
        budget = _DEFAULT_BUDGET if has_error_processors else 0
        setup.warn_once(
            "retry budget",
            f"A processor asked for a retry, but max_processor_retries isn't set: {budget} is used.",
        )
    elif budget == 0:
        setup.warn_once(
            "retry budget",
            "A processor asked for a retry, but max_processor_retries is 0: the run ends.",
        )
    limit = step_limit(setup.max_steps, has_conditions=bool(setup.stop_when))
    used = len(segment.record.steps) + segment.unrecorded_steps
    return segment.retries < budget and (limit is None or used + 1 < limit)


async def repeat_step(segment: RunSegment, error: TripwireError, mark: int) -> None:
    """
    Take back what the step brought, and have the model told why.

    Raises:
        TripwireError: The same, if the step isn't to be repeated.
    """
    wants = error.retry and error.phase in segment.setup.retry_hooks
    if not wants or not may_repeat(segment):
        raise error
    segment.retries += 1
    segment.feedback = (
        f"[Processor Feedback] Your previous response was not accepted: {error.reason}. "
        "Please try again with the feedback in mind."
    )
    step, segment.step = segment.step, None
    _take_back(segment, mark)
    if step is None or not step.was_answered:
        segment.unrecorded_steps += 1
        return
    reason: dict[str, Any] = {"reason": "retry", "isContinued": True, "retryReason": error.reason}
    if error.metadata is not None:
        reason["retryMetadata"] = error.metadata
    reason["retryProcessorId"] = error.processor_id
    payload = segment.step_payload(step.result, reason)
    payload["processorRetryCount"] = segment.retries
    payload["processorRetryFeedback"] = segment.feedback
    await segment.show(segment.chunk("step-finish", payload))


async def repeat_request(segment: RunSegment, repeat: RepeatStep, mark: int) -> None:
    """Ask again after a failed request; the model isn't told anything."""
    segment.retries += 1
    segment.first_model = repeat.position
    step, segment.step = segment.step, None
    _take_back(segment, mark)
    result = step.result if step is not None else StepResult()
    if step is not None and not step.was_answered:
        await segment.show(step.start_chunk())
    failed = StepResult(metadata={**result.metadata, **flat_model(result.metadata)})
    reason = {"reason": "retry", "warnings": result.warnings, "isContinued": True}
    payload = segment.step_payload(failed, reason)
    payload["processorRetryCount"] = segment.retries
    await segment.show(segment.chunk("step-finish", payload))


async def drop_request(segment: RunSegment, mark: int) -> None:
    """
    Input takes the place of this request: no step was made, nothing of it is kept, and whoever
    saw a reasoning begin sees its end (signals.md 10).
    """
    segment.record.interruptions += 1
    segment.iteration -= 1
    segment.step = None
    told = segment.messages.tagged_system_messages.get(FEEDBACK_TAG)
    if told:
        segment.feedback = str(told[0]["content"])
    _take_back(segment, mark)
    for block in list(segment.open_reasoning):
        await segment.show(segment.chunk("reasoning-end", {"id": block}))


def _take_back(segment: RunSegment, mark: int) -> None:
    segment.writer.roll_back(mark)
    segment.record.discard_step()
