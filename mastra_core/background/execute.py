"""Run one task from its start to its end (streaming.md 8.5)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from mastra_core.background.settings import BackgroundTaskSettings
from mastra_core.base.clock import Clock
from mastra_core.base.jsonjs import sanitize_copy
from mastra_core.base.tasks import call_maybe_async, is_being_cancelled
from mastra_core.base.telemetry import Span, Tracer
from mastra_core.bus.held_lease import HeldLease
from mastra_core.contracts.background import (
    AdoptedWork,
    BackgroundPolicy,
    Disposition,
    TaskExecution,
    TaskExecutor,
)
from mastra_core.contracts.storage import BackgroundTasksStorage
from mastra_core.errors import (
    ForbiddenError,
    LeaseLostError,
    MastraError,
    StorageConnectionError,
    StorageError,
    StorageTimeoutError,
    TaskError,
    TaskTimeoutError,
    TripwireError,
    reason_of,
)
from mastra_core.wire.chunks import Chunk
from mastra_core.wire.tasks import BackgroundTask

__all__ = (
    "LAST_WRITES",
    "Job",
    "JobSurroundings",
    "begin",
    "check_resumable",
    "quiet_call",
    "run_job",
)

logger = logging.getLogger(__name__)

#: Seconds that the last writes of an aborted task may take.
LAST_WRITES: Final = 5.0
#: An end that the store refuses is written so often; in between are pauses of 0.1 s and more.
_WRITES: Final = 6
_LONGEST_PAUSE: Final = 2.0
#: Seconds that a body gets to end once it was cancelled.
_STUBBORN: Final = 5.0


class JobSurroundings(Protocol):
    """What a job needs from its manager."""

    store: BackgroundTasksStorage
    clock: Clock
    settings: BackgroundTaskSettings
    tracer: Tracer

    async def tell(self, kind: str, task: BackgroundTask, *, chunk: Chunk | None = None) -> None:
        """Publish what became of a task."""
        ...

    async def ended(self, job: Job, task: BackgroundTask) -> None:
        """The task has ended, and we are the one who wrote it: hand on its result, tell."""
        ...


@dataclass(slots=True, kw_only=True)
class Job:
    """One task in this process; it waits for a place, or runs."""

    task: BackgroundTask
    executor: TaskExecutor
    lease: HeldLease
    disposition: Disposition = "deferred"
    policy: BackgroundPolicy | None = None
    abort: asyncio.Event = field(default_factory=asyncio.Event)
    resume_data: Any = None
    is_resumed: bool = False
    #: The coroutine that works on it.
    work: asyncio.Task[None] | None = None
    #: Whether it holds one of the places.
    has_place: bool = False
    #: Somebody else ended it: nothing is written any more.
    is_over: bool = False
    #: The application closes.
    is_shutting_down: bool = False

    def cancel(self) -> None:
        """Stop working on it."""
        self.is_over = True
        self.abort.set()
        if self.work is not None:
            self.work.cancel()


async def begin(job: Job, around: JobSurroundings) -> bool:
    """Write down that it runs; False if it may not (any more) (field report R125)."""
    expected = "suspended" if job.is_resumed else "pending"
    now = around.clock.now()
    patch: dict[str, Any] = {"status": "running", "started_at": now}
    if not await around.store.update_task(job.task.id, patch, expected_status=expected):
        return False
    job.task = job.task.replace(**patch)
    await around.tell("task.resumed" if job.is_resumed else "task.running", job.task)
    return True


async def run_job(job: Job, around: JobSurroundings, *, is_begun: bool) -> None:
    """Attempt after attempt, until the task has ended or waits for data."""
    while is_begun or await begin(job, around):
        is_begun = False
        ending = await _measured_attempt(job, around)
        if job.is_over or ending is None:
            return
        if not isinstance(ending, _Retry):
            await _end(job, around, ending)
            return
        if not await _again(job, around):
            return
        await around.clock.sleep(
            around.settings.default_retries.delay_ms(job.task.retry_count) / 1000
        )


@dataclass(frozen=True, slots=True)
class _Retry:
    error: BaseException


async def _measured_attempt(job: Job, around: JobSurroundings) -> dict[str, Any] | _Retry | None:
    task = job.task
    facts = {
        "taskId": task.id,
        "toolCallId": task.tool_call_id,
        "agentId": task.agent_id,
        "runId": task.run_id,
        "threadId": task.thread_id,
        "attempt": task.retry_count + 1,
    }
    with around.tracer.span(f"background task: '{task.tool_name}'", facts) as span:
        ending = await _attempt(job, around, span)
        if isinstance(ending, dict):
            span.set_attribute("status", ending["status"])
        return ending


async def _attempt(job: Job, around: JobSurroundings, span: Span) -> dict[str, Any] | _Retry | None:
    """What is to be written about the end; None if nothing, since nobody asked for it any more."""
    suspended: list[Any] = []
    adopted: list[AdoptedWork] = []
    outputs = _Outputs(job, around)

    async def suspend(payload: Any = None) -> None:
        suspended.append(sanitize_copy(payload))

    execution = TaskExecution(
        task=job.task,
        abort=job.abort,
        emit=outputs.emit,
        suspend=suspend,
        adopt=adopted.append,
        disposition=job.disposition,
        resume_data=job.resume_data,
        is_resumed=job.is_resumed,
    )
    try:
        value = await _limited(job, around, _work(job, execution, suspended, adopted))
        await outputs.flush()
    except asyncio.CancelledError as exc:
        if is_being_cancelled() or job.is_over:
            raise
        span.record_error(exc)
        return _failure(job, around, exc)
    except Exception as exc:  # noqa: BLE001 - the door of the body: its task fails
        span.record_error(exc)
        return _failure(job, around, exc)
    if suspended:
        return {
            "status": "suspended",
            "suspend_payload": suspended[0],
            "suspended_at": around.clock.now(),
        }
    return {"status": "completed", "result": value, "completed_at": around.clock.now()}


async def _work(
    job: Job, execution: TaskExecution, suspended: list[Any], adopted: list[AdoptedWork]
) -> Any:
    """
    What the body returns.

    Raises:
        TaskError: It raised what is no exception of a program; here it ends its task alone.
        Exception: What it raises.
    """
    try:
        value = await job.executor(execution)
        if adopted and not suspended:
            value = await _adopted(adopted[-1])
    except (Exception, asyncio.CancelledError, KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as exc:
        raise TaskError(f"The task raised {type(exc).__name__}: {reason_of(exc)}") from exc
    # What can't be stored is a fault of the body, not the loss of its task.
    return sanitize_copy(value)


async def _adopted(work: AdoptedWork) -> Any:
    try:
        return await work.completion
    except asyncio.CancelledError:
        cancel = getattr(work, "cancel", None)
        if callable(cancel):
            await call_maybe_async(cancel)
        raise


async def _limited(job: Job, around: JobSurroundings, work: Any) -> Any:
    """
    Do it within the task's time.

    Raises:
        TaskTimeoutError: It took longer and was cancelled.
        LeaseLostError: The task belongs to another process by now.
    """
    loop = asyncio.get_running_loop()
    doing = loop.create_task(work, name=f"background-body:{job.task.id}")
    limit = job.task.timeout_ms
    timer = loop.create_task(around.clock.sleep(limit / 1000), name="background-limit")
    lost = loop.create_task(job.lease.lost(), name="background-lease")
    others = (timer, lost)
    try:
        await asyncio.wait([doing, *others], return_when=asyncio.FIRST_COMPLETED)
        if doing.done():
            return await doing
        job.abort.set()
        if lost.done():
            job.is_over = True
            raise LeaseLostError(job.lease.key, owner=job.lease.owner, current=None)
        raise TaskTimeoutError(task_id=job.task.id, limit_ms=limit)
    finally:
        for task in (doing, *others):
            task.cancel()
        _, left = await asyncio.wait([doing, *others], timeout=_STUBBORN)
        if left:
            logger.error("a task's body goes on after its end", extra={"task_id": job.task.id})
        elif not doing.cancelled():
            doing.exception()


def _failure(
    job: Job, around: JobSurroundings, error: BaseException
) -> dict[str, Any] | _Retry | None:
    if isinstance(error, LeaseLostError):
        return None
    is_late = isinstance(error, TaskTimeoutError)
    may_repeat = job.task.retry_count < job.task.max_retries and not job.is_shutting_down
    if may_repeat and not is_late and _is_worth_it(error, around.settings):
        return _Retry(error)
    return {
        "status": "timed_out" if is_late else "failed",
        "error": {"message": _text_of(error)},
        "completed_at": around.clock.now(),
    }


def _is_worth_it(error: BaseException, settings: BackgroundTaskSettings) -> bool:
    if isinstance(error, (ForbiddenError, TripwireError)):
        return False
    wanted = settings.default_retries.retryable_errors
    try:
        return wanted is None or bool(wanted(error))
    except Exception:
        logger.exception("retryable_errors failed")
        return False


def _text_of(error: BaseException) -> str:
    if isinstance(error, MastraError):
        return error.message
    return reason_of(error)


async def _again(job: Job, around: JobSurroundings) -> bool:
    """Back to ``pending``, so that whoever finds it after our death knows what is left."""
    patch = {"status": "pending", "retry_count": job.task.retry_count + 1}
    if not await around.store.update_task(job.task.id, patch, expected_status="running"):
        return False
    job.task = job.task.replace(**patch)
    job.is_resumed = False
    return True


async def _end(job: Job, around: JobSurroundings, ending: Mapping[str, Any]) -> None:
    """
    Write the end; of several writers one wins, and only that one tells (streaming.md 8.1).

    A store that can't be reached is asked again for as long as the task is ours: nobody else has
    the result.
    """
    attempt = 0
    while True:
        try:
            # Whoever lost the task must not write over its next attempt.
            job.lease.assert_owned()
            won = await around.store.update_task(job.task.id, ending, expected_status="running")
            break
        except LeaseLostError:
            logger.warning("task lost to another process", extra={"task_id": job.task.id})
            return
        except StorageError as exc:
            is_away = isinstance(exc, (StorageConnectionError, StorageTimeoutError))
            if not is_away and attempt + 1 >= _WRITES:
                if ending["status"] == "failed":
                    raise
                # What the store doesn't take is a fault of the body, as what has no JSON form.
                ending, attempt = _refused(exc, around), 0
                continue
            if attempt == 0:
                logger.warning("end of a task not written yet", extra={"task_id": job.task.id})
            await around.clock.sleep(min(0.1 * 2**attempt, _LONGEST_PAUSE))
            attempt += 1
    if won:
        job.task = job.task.replace(**ending)
        await around.ended(job, job.task)


def _refused(error: StorageError, around: JobSurroundings) -> dict[str, Any]:
    message = f"What the task came to can't be stored: {error.message}"
    return {
        "status": "failed",
        "error": {"message": message},
        "completed_at": around.clock.now(),
    }


class _Outputs:
    """What the body shows while it works, not more often than wanted."""

    def __init__(self, job: Job, around: JobSurroundings) -> None:
        self._job = job
        self._around = around
        self._shown_at: float | None = None
        self._kept: Chunk | None = None

    async def emit(self, chunk: Chunk) -> None:
        throttle, now = self._around.settings.progress_throttle_ms, self._around.clock.monotonic()
        is_early = (
            throttle is not None
            and self._shown_at is not None
            and (now - self._shown_at) * 1000 < throttle
        )
        if is_early:
            self._kept = chunk
            return
        self._shown_at, self._kept = now, None
        await self._around.tell("task.output", self._job.task, chunk=chunk)

    async def flush(self) -> None:
        """The newest one that came too early is shown after all."""
        if self._kept is not None:
            await self._around.tell("task.output", self._job.task, chunk=self._kept)


def check_resumable(task: BackgroundTask) -> None:
    """
    Refuse to resume what doesn't wait.

    Raises:
        TaskError: It isn't suspended.
    """
    if task.status != "suspended":
        raise TaskError(
            f"Background task {task.id!r} is {task.status}, not suspended.",
            id="BACKGROUND_TASK_NOT_SUSPENDED",
            details={"taskId": task.id, "status": task.status},
        )


def quiet_call(
    callback: Callable[[BackgroundTask], Awaitable[None] | None] | None, task: BackgroundTask
) -> Awaitable[None]:
    """Call a callback of the user; what it raises is logged and changes nothing."""

    async def call() -> None:
        if callback is None:
            return
        try:
            await call_maybe_async(callback, task)
        except Exception:
            logger.exception("callback failed", extra={"task_id": task.id})

    return call()
