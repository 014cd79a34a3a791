"""Background tasks of one application: hand over, run, observe, cancel, resume (streaming.md 8).

A task is a record in the domain ``background_tasks``. While it waits or runs in a process, that
process holds the lease ``background-task:{id}``; every change of its status is a compare-and-set,
and only who wins it tells. So a task ends once, whoever dies in between.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any, Final, Literal

from mastra_core.background.events import (
    DISPATCH_TOPIC,
    END_CHUNKS,
    RESULT_TOPIC,
    WORKER_GROUP,
    command,
    is_slim,
    lifecycle_event,
    running_chunk,
    slim,
    worker_topic,
)
from mastra_core.background.execute import (
    LAST_WRITES,
    Job,
    begin,
    check_resumable,
    quiet_call,
    run_job,
)
from mastra_core.background.places import Places
from mastra_core.background.recover import Recovery, clean_up
from mastra_core.background.results import ResultWriter
from mastra_core.background.settings import BackgroundTaskSettings
from mastra_core.background.watching import TaskScope, TaskStream
from mastra_core.base.clock import Clock
from mastra_core.base.ids import Ids
from mastra_core.base.tasks import TaskSupervisor, shielded
from mastra_core.base.telemetry import NoopTracer, Tracer
from mastra_core.bus.held_lease import HeldLease
from mastra_core.contracts.background import LiveRun, TaskExecutor, TaskPlan
from mastra_core.contracts.lease import LeaseProvider
from mastra_core.contracts.pubsub import PubSub
from mastra_core.contracts.storage import BackgroundTasksStorage
from mastra_core.contracts.storage.background_tasks import TaskFilter
from mastra_core.errors import (
    ClosedError,
    EventTooLargeError,
    MastraError,
    PubSubError,
    ResumeKindMismatchError,
    SchemaError,
    StorageError,
    TaskError,
    TaskLimitError,
    TaskNotFoundError,
)
from mastra_core.messages.task_results import INJECTED
from mastra_core.wire.chunks import Chunk
from mastra_core.wire.events import Event
from mastra_core.wire.tasks import TERMINAL_TASK_STATUSES, BackgroundTask, BackgroundTasks

__all__ = ("BackgroundTaskManager", "FindExecutor", "lease_key")

logger = logging.getLogger(__name__)

#: How often an event is published before it is given up; readers look at the records too.
_PUBLISHES: Final = 3
#: How often a lease that is about to be free is asked for, and the seconds in between.
_LEASE_TRIES: Final = 40
_LEASE_PAUSE: Final = 0.05
_OPEN: Final = ("pending", "running", "suspended")

FindExecutor = Callable[[str, str], TaskExecutor | None]


def lease_key(task_id: str) -> str:
    """What a process holds while a task is its own (streaming.md 8.9)."""
    return f"background-task:{task_id}"


class BackgroundTaskManager:
    """
    Runs tasks and tells what becomes of them; made by ``Mastra(background_tasks=...)``.

    Args:
        store: The records.
        bus: Where events go and come from.
        lease: Keeps processes from each other's tasks.
        results: Puts ends of tasks into stored messages; None without a memory.
        settings: How many, how long, how often.
        clock: Where time comes from.
        ids: Where ids come from.
        worker_id: This incarnation of the process.
        find_executor: The executor of an agent's tool, for a task that was handed over elsewhere
            or before a restart.
    """

    def __init__(
        self,
        store: BackgroundTasksStorage,
        bus: PubSub,
        lease: LeaseProvider,
        *,
        results: ResultWriter | None,
        settings: BackgroundTaskSettings,
        clock: Clock,
        ids: Ids,
        worker_id: str,
        find_executor: FindExecutor = lambda _agent_id, _tool_name: None,
        tracer: Tracer | None = None,
    ) -> None:
        self.tracer: Tracer = tracer or NoopTracer()
        self.store = store
        self.settings = settings
        self.clock = clock
        self.worker_id = worker_id
        self._bus = bus
        self._lease = lease
        self._results = results
        self._ids = ids
        self._find_executor = find_executor
        self._executors: dict[tuple[str | None, str], TaskExecutor] = {}
        #: Executors of tasks that were handed over here and wait for data.
        self._closures: dict[str, TaskExecutor] = {}
        self._places = Places(
            in_all=settings.global_concurrency, per_agent=settings.per_agent_concurrency
        )
        self._jobs: dict[str, Job] = {}
        self._queue: deque[Job] = deque()
        self._streams: set[TaskStream] = set()
        self._live: list[LiveRun] = []
        self._starting = asyncio.Lock()
        self._is_started = False
        self._is_closing = False
        self._work = TaskSupervisor("background tasks")
        self._services = TaskSupervisor("background services")
        self._recovery = Recovery(self)

    # -- start and stop -------------------------------------------------------------------

    async def start(self) -> None:
        """
        Listen, take over what a dead process left, clean up; harmless to repeat (R131).

        Raises:
            PubSubError: The bus can't be listened to.
            ClosedError: It was closed.
        """
        async with self._starting:
            if self._is_closing:
                raise ClosedError(what="background task manager")
            if self._is_started:
                return
            await self._bus.subscribe(RESULT_TOPIC, self._heard, start_from="latest")
            if self.executes:
                topic = worker_topic(self.worker_id)
                await self._bus.subscribe(topic, self._told, start_from="latest")
                await self._bus.subscribe(DISPATCH_TOPIC, self._told, group=WORKER_GROUP)
                if self.settings.recover_stale_tasks_on_start:
                    self._services.start(self._recovery.run(), name="background-recovery")
            self._services.start(clean_up(self), name="background-cleanup")
            self._is_started = True

    @property
    def executes(self) -> bool:
        """Do tasks run in this process?"""
        return self.settings.mode != "producer"

    async def aclose(self) -> None:
        """
        Take no more work, let tasks end for a while, abort the rest (streaming.md 8.5).

        What may be repeated stays for recovery; what waits for a place stays pending.
        """
        self._is_closing = True
        await self._services.close()
        for job in self._queue:
            await self._let_go(job)
        self._queue.clear()
        for job in self._jobs.values():
            job.is_shutting_down = True
        await self._work.close(grace=self.settings.shutdown_grace_ms / 1000)
        for stream in list(self._streams):
            stream.close()
        if self._is_started:
            self._is_started = False
            await self._bus.unsubscribe(RESULT_TOPIC, self._heard)
            if self.executes:
                await self._bus.unsubscribe(DISPATCH_TOPIC, self._told)
                await self._bus.unsubscribe(worker_topic(self.worker_id), self._told)
                await self._bus.clear_topic(worker_topic(self.worker_id))

    # -- executors ------------------------------------------------------------------------

    def register_executor(
        self, tool_name: str, executor: TaskExecutor, *, agent_id: str | None = None
    ) -> None:
        """Let this process run tasks of a tool, perhaps of one agent only."""
        self._executors[agent_id, tool_name] = executor

    def executor_for(self, task: BackgroundTask) -> TaskExecutor | None:
        """The one that was given with the task, of its agent's tool, or of the tool."""
        return (
            self._closures.get(task.id)
            or self._executors.get((task.agent_id, task.tool_name))
            or self._find_executor(task.agent_id, task.tool_name)
            or self._executors.get((None, task.tool_name))
        )

    # -- handing over ---------------------------------------------------------------------

    async def hand_over(
        self,
        plan: TaskPlan,
        *,
        tool_name: str,
        tool_call_id: str,
        args: Any,
        agent_id: str,
        run_id: str,
        thread_id: str | None = None,
        resource_id: str | None = None,
        executor: TaskExecutor | None = None,
        on_created: Callable[[BackgroundTask], Awaitable[None]] | None = None,
    ) -> BackgroundTask | None:
        """
        Make a task of a tool call; when this returns it is recorded and runs, or waits.

        Args:
            plan: How it runs.
            tool_name, tool_call_id, args: The call.
            agent_id, run_id, thread_id, resource_id: Whose call it is.
            executor: What runs; without one some process that knows the agent runs it.
            on_created: Called with the record before the task can end.

        Returns:
            The record; None if all places are taken and calls then run inline.

        Raises:
            TaskLimitError: All places are taken and calls are then refused.
            StorageError: It can't be recorded; nothing was started.
        """
        await self.start()
        runs_here = self.executes and executor is not None
        has_place = runs_here and self._places.take(agent_id)
        if runs_here and not has_place and self.settings.backpressure != "queue":
            if self.settings.backpressure == "fallback-sync":
                return None
            raise TaskLimitError(limit=self._places.limit_for(agent_id))
        task_id = self._ids.new("task")
        lease = self._new_lease(task_id)
        try:
            if runs_here and not await lease.acquire():
                raise TaskError(f"The lease of new background task {task_id!r} is taken.")
            task = await self.store.create_task(
                BackgroundTask(
                    id=task_id,
                    status="pending",
                    tool_name=tool_name,
                    tool_call_id=tool_call_id,
                    args=args,
                    agent_id=agent_id,
                    thread_id=thread_id,
                    resource_id=resource_id,
                    run_id=run_id,
                    max_retries=plan.max_retries,
                    timeout_ms=plan.timeout_ms,
                    created_at=self.clock.now(),
                )
            )
        except BaseException:
            if has_place:
                self._places.give_back(agent_id)
            await shielded(lease.release(), LAST_WRITES)
            raise
        if on_created is not None:
            try:
                await on_created(task)
            except BaseException:
                # Nobody will ever ask for it.
                await shielded(self._forget(task, lease, has_place=has_place), LAST_WRITES)
                raise
        if not runs_here or executor is None:
            await self._publish(DISPATCH_TOPIC, command("task.dispatch", task))
            return task
        job = Job(
            task=task,
            executor=executor,
            lease=lease,
            disposition=plan.disposition,
            policy=plan.policy,
            has_place=has_place,
        )
        if not has_place:
            self._jobs[task_id] = job
            self._queue.append(job)
            return task
        return await self._start_now(job)

    async def _forget(self, task: BackgroundTask, lease: HeldLease, *, has_place: bool) -> None:
        if has_place:
            self._places.give_back(task.agent_id)
        ending = {"status": "cancelled", "completed_at": self.clock.now()}
        await self.store.update_task(task.id, ending, expected_status="pending")
        await lease.release()

    def _new_lease(self, task_id: str) -> HeldLease:
        return HeldLease(
            self._lease,
            lease_key(task_id),
            # An owner each: two of one process keep each other out as well.
            f"{self.worker_id}:{self._ids.new('lease')}",
            self.settings.lease_ttl_ms,
            clock=self.clock,
        )

    async def _start_now(self, job: Job) -> BackgroundTask:
        """Begin before the caller goes on, so that what it sees is a running task."""
        self._jobs[job.task.id] = job
        is_begun = False
        try:
            is_begun = await begin(job, self)
        except StorageError:
            # It is recorded: the job tries again, and after that recovery does.
            logger.exception("task not begun at once", extra={"task_id": job.task.id})
        finally:
            self._start(job, is_begun=is_begun)
        return job.task

    def _start(self, job: Job, *, is_begun: bool) -> None:
        job.work = self._work.start(
            self._run(job, is_begun=is_begun), name=f"background-task:{job.task.id}"
        )

    async def _run(self, job: Job, *, is_begun: bool) -> None:
        try:
            await run_job(job, self, is_begun=is_begun)
        except asyncio.CancelledError:
            if job.is_shutting_down and not job.is_over:
                await shielded(self._give_up(job), LAST_WRITES)
            raise
        finally:
            if job.has_place:
                self._places.give_back(job.task.agent_id)
            try:
                await shielded(self._let_go(job), LAST_WRITES)
            except TimeoutError:  # it expires by itself
                logger.warning("lease of a task not released", extra={"task_id": job.task.id})
            finally:
                if self._jobs.get(job.task.id) is job:
                    del self._jobs[job.task.id]
                self._pump()

    async def _let_go(self, job: Job) -> None:
        try:
            await job.lease.release()
        except MastraError:  # it expires by itself
            logger.warning("lease of a task not released", extra={"task_id": job.task.id})

    def _pump(self) -> None:
        """Give free places to those that wait, first come first served per agent."""
        if self._is_closing:
            return
        waiting, self._queue = self._queue, deque()
        for job in waiting:
            if job.is_over:
                continue
            if self._places.take(job.task.agent_id):
                job.has_place = True
                self._start(job, is_begun=False)
            else:
                self._queue.append(job)

    async def _give_up(self, job: Job) -> None:
        """The application closes: one that may be repeated is left to recovery, others fail."""
        if job.task.retry_count < job.task.max_retries or job.task.status != "running":
            return
        await self.fail(job.task, "The application was closed while the task ran.")

    # -- ends -----------------------------------------------------------------------------

    async def fail(self, task: BackgroundTask, why: str) -> bool:
        """End a running task as failed; False if somebody else ended it."""
        ending = {
            "status": "failed",
            "error": {"message": why},
            "completed_at": self.clock.now(),
        }
        if not await self.store.update_task(task.id, ending, expected_status="running"):
            return False
        await self._finished(task.replace(**ending))
        return True

    async def ended(self, job: Job, task: BackgroundTask) -> None:
        """A job of ours has written the end of its task."""
        if task.status == "suspended":
            if self._known_elsewhere(task) is None:
                self._closures[task.id] = job.executor
            await self.tell("task.suspended", task)
            return
        await self._finished(task)
        policy = job.policy
        if policy is not None:
            is_done = task.status == "completed"
            await quiet_call(policy.on_complete if is_done else policy.on_failed, task)

    def _known_elsewhere(self, task: BackgroundTask) -> TaskExecutor | None:
        return self._find_executor(task.agent_id, task.tool_name)

    async def _finished(self, task: BackgroundTask) -> None:
        self._closures.pop(task.id, None)
        await self.deliver(task)
        if task.status == "completed":
            await self.tell("task.completed", task)
            await quiet_call(self.settings.on_task_complete, task)
        else:
            await self.tell("task.failed", task)
            await quiet_call(self.settings.on_task_failed, task)

    async def deliver(self, task: BackgroundTask) -> None:
        """
        Put the end of a task into the runs that hold its call, and into storage.

        What fails here is made good by the next run of the thread, or by recovery.
        """
        if task.status not in INJECTED:
            return
        is_stored = False
        try:
            for live in [run for run in self._live if run.thread_id == task.thread_id]:
                is_stored = await live.take(task) or is_stored
            if not is_stored and self._results is not None:
                await self._results.write(task)
        except StorageError:
            logger.exception("result of a task not stored", extra={"task_id": task.id})

    # -- live runs ------------------------------------------------------------------------

    def enter(self, live: LiveRun) -> None:
        """This run is at work: it learns of the ends of its tasks at once."""
        self._live.append(live)

    def leave(self, live: LiveRun) -> None:
        """It is over: ends go to stored messages from now on."""
        if live in self._live:
            self._live.remove(live)

    # -- events ---------------------------------------------------------------------------

    async def tell(self, kind: str, task: BackgroundTask, *, chunk: Chunk | None = None) -> None:
        """Publish what became of a task."""
        await self._publish(RESULT_TOPIC, lifecycle_event(kind, task, chunk=chunk))

    async def _publish(self, topic: str, event: Event, *, is_needed: bool = False) -> None:
        """
        Publish an event; one that nobody can make good for is needed.

        Raises:
            PubSubError: A needed one could not be published.
        """
        dedupe_id = self._ids.new("event")
        for attempt in range(_PUBLISHES):
            try:
                await self._bus.publish(topic, event, dedupe_id=dedupe_id)
                return
            except EventTooLargeError as exc:
                if not is_slim(event):
                    await self._publish(topic, slim(event), is_needed=is_needed)
                    return
                if is_needed:
                    raise
                self._unheard(event, exc)
                return
            except PubSubError as exc:
                # Records tell the same; whoever waits looks at them from time to time (R128).
                if not exc.retryable or attempt + 1 == _PUBLISHES:
                    if is_needed:
                        raise
                    self._unheard(event, exc)
                    return

    def _unheard(self, event: Event, error: PubSubError) -> None:
        logger.warning(
            "event of a task not published",
            exc_info=error,
            extra={"task_id": event.run_id, "type": event.type},
        )

    async def _whole(self, event: Event) -> Event:
        """The event, with what it was too large to carry."""
        if not is_slim(event):
            return event
        try:
            task = await self.store.get_task(event.run_id)
        except StorageError:
            logger.warning("record of a task not read", exc_info=True)
            return event
        chunk = event.data.get("chunk")
        return event if task is None else lifecycle_event(event.type, task, chunk=chunk)

    async def _heard(self, event: Event) -> None:
        """Something became of a task, perhaps of ours, in whichever process."""
        event = await self._whole(event)
        for stream in list(self._streams):
            stream.offer(event)
        job = self._jobs.get(event.run_id)
        if event.type == "task.cancelled" and job is not None:
            self._stop_job(job)
        if event.type in ("task.completed", "task.failed") and job is None and self._live:
            await self._deliver_heard(event)

    async def _deliver_heard(self, event: Event) -> None:
        """Another process ended a task whose call a run of ours still holds."""
        thread_id = event.data.get("threadId") if isinstance(event.data, dict) else None
        for live in [run for run in self._live if run.thread_id == thread_id]:
            task = await self.store.get_task(event.run_id)
            if task is not None:
                await live.take(task)

    def _stop_job(self, job: Job) -> None:
        job.cancel()
        if job.work is None:
            self._jobs.pop(job.task.id, None)
            self._queue = deque(one for one in self._queue if one is not job)
            if not self._work.is_closed:
                self._work.start(self._let_go(job), name=f"background-release:{job.task.id}")

    async def _told(self, event: Event) -> None:
        """A command: start, resume or cancel a task."""
        match event.type:
            case "task.dispatch" | "task.restart":
                await self.take_over(event.run_id)
            case "task.resume":
                data = event.data if isinstance(event.data, dict) else {}
                try:
                    await self.resume(event.run_id, data.get("resumeData"))
                except (TaskError, SchemaError, ResumeKindMismatchError) as exc:
                    logger.info("resume refused", extra={"task_id": event.run_id}, exc_info=exc)
            case "task.cancel":
                await self.cancel(event.run_id)
            case _:
                pass

    async def take_over(self, task_id: str) -> bool:
        """
        Run a task that waits and is nobody's; False if there is nothing to do for us.

        A message about a task that runs or has ended already is dropped (R125).
        """
        if self._is_closing or task_id in self._jobs:
            return False
        task = await self.store.get_task(task_id)
        if task is None or task.status != "pending":
            return False
        lease = self._new_lease(task_id)
        if not await lease.acquire():
            return False
        executor = self.executor_for(task)
        if executor is None:
            running = {"status": "running", "started_at": self.clock.now()}
            if await self.store.update_task(task_id, running, expected_status="pending"):
                await self.fail(
                    task.replace(**running),
                    f"No process here knows tool {task.tool_name!r} of agent {task.agent_id!r}.",
                )
            await shielded(lease.release(), LAST_WRITES)
            return False
        self._enqueue(Job(task=task, executor=executor, lease=lease))
        return True

    def _enqueue(self, job: Job) -> None:
        self._jobs[job.task.id] = job
        self._queue.append(job)
        self._pump()

    def adopt(self, task: BackgroundTask, lease: HeldLease, executor: TaskExecutor) -> None:
        """Run a pending task whose lease is held already (recovery)."""
        self._enqueue(Job(task=task, executor=executor, lease=lease))

    def is_ours(self, task_id: str) -> bool:
        """Does it wait or run in this process?"""
        return task_id in self._jobs

    def new_lease(self, task_id: str) -> HeldLease:
        """The lease of a task, not yet asked for."""
        return self._new_lease(task_id)

    # -- what applications do -------------------------------------------------------------

    async def get_task(self, task_id: str) -> BackgroundTask | None:
        """The record; None if there is none."""
        return await self.store.get_task(task_id)

    async def list_tasks(
        self,
        *,
        status: str | Sequence[str] | None = None,
        agent_id: str | None = None,
        thread_id: str | None = None,
        resource_id: str | None = None,
        tool_name: str | None = None,
        tool_call_id: str | None = None,
        run_id: str | None = None,
        from_date: datetime | None = None,
        to_date: datetime | None = None,
        date_filter_by: Literal["createdAt", "startedAt", "suspendedAt", "completedAt"] = (
            "createdAt"
        ),
        order_by: Literal["createdAt", "startedAt", "suspendedAt", "completedAt"] = "createdAt",
        order_direction: Literal["asc", "desc"] = "asc",
        page: int | None = None,
        per_page: int | None = None,
    ) -> BackgroundTasks:
        """Records that match, with their number before paging (streaming.md 8.10)."""
        return await self.store.list_tasks(
            TaskFilter(
                status=status,
                agent_id=agent_id,
                thread_id=thread_id,
                resource_id=resource_id,
                tool_name=tool_name,
                tool_call_id=tool_call_id,
                run_id=run_id,
                from_date=from_date,
                to_date=to_date,
                date_filter_by=date_filter_by,
                order_by=order_by,
                order_direction=order_direction,
                page=page,
                per_page=per_page,
            )
        )

    async def cancel(self, task_id: str) -> bool:
        """
        End a task without a result, wherever it runs; False if it had ended.

        Its body sees the abort signal and is cancelled.
        """
        for _ in range(len(_OPEN)):
            task = await self.store.get_task(task_id)
            if task is None or task.status in TERMINAL_TASK_STATUSES:
                return False
            ending = {"status": "cancelled", "completed_at": self.clock.now()}
            if await self.store.update_task(task_id, ending, expected_status=_OPEN):
                break
        else:
            return False
        self._closures.pop(task_id, None)
        cancelled = task.replace(**ending)
        job = self._jobs.get(task_id)
        if job is not None:
            self._stop_job(job)
        elif task.status == "running":
            # Peers that execute it may listen to commands only.
            await self._publish(DISPATCH_TOPIC, command("task.cancel", cancelled))
        await self.tell("task.cancelled", cancelled)
        await quiet_call(self.settings.on_task_cancelled, cancelled)
        return True

    async def resume(self, task_id: str, resume_data: Any = None) -> BackgroundTask:
        """
        Let a suspended task go on with data.

        Raises:
            TaskNotFoundError: There is none.
            TaskError: It isn't suspended (any more).
            TaskLimitError: All places are taken; try again later.
            SchemaError: The data don't fit; it waits on.
            ResumeKindMismatchError: It waits for a decision, and this is none.
            PubSubError: Another process has to run it, and can't be told the data.
        """
        task = await self.store.get_task(task_id)
        if task is None:
            raise TaskNotFoundError(task_id=task_id)
        check_resumable(task)
        await self.start()
        executor = self.executor_for(task) if self.executes else None
        check = getattr(executor, "check_resume", None)
        if check is not None:
            check(task, resume_data)
        if executor is None:
            event = command("task.resume", task, resumeData=resume_data)
            await self._publish(DISPATCH_TOPIC, event, is_needed=True)
            return task
        if not self._places.take(task.agent_id):
            raise TaskLimitError(limit=self._places.limit_for(task.agent_id))
        lease = self._new_lease(task_id)
        job = Job(
            task=task,
            executor=executor,
            lease=lease,
            resume_data=resume_data,
            is_resumed=True,
            has_place=True,
        )
        try:
            if not await self._acquire_suspended(lease, task) or not await begin(job, self):
                # Another answer was faster.
                check_resumable(await self.store.get_task(task_id) or task)
                raise TaskError(
                    f"Background task {task_id!r} is being resumed by somebody else.",
                    id="BACKGROUND_TASK_NOT_SUSPENDED",
                )
        except BaseException:
            self._places.give_back(task.agent_id)
            await shielded(lease.release(), LAST_WRITES)
            raise
        self._jobs[task_id] = job
        self._start(job, is_begun=True)
        return job.task

    async def _acquire_suspended(self, lease: HeldLease, task: BackgroundTask) -> bool:
        """
        The lease of a task that waits; who suspended it may be about to let it go.

        Raises:
            TaskError: It was resumed meanwhile.
        """
        for _ in range(_LEASE_TRIES):
            earlier = self._jobs.get(task.id)
            if earlier is not None and earlier.work is not None:
                await asyncio.wait([earlier.work])
            if await lease.acquire():
                return True
            check_resumable(await self.store.get_task(task.id) or task)
            await self.clock.sleep(_LEASE_PAUSE)
        return False

    def stream(
        self,
        *,
        agent_id: str | None = None,
        run_id: str | None = None,
        thread_id: str | None = None,
        resource_id: str | None = None,
        task_id: str | None = None,
        include_existing: bool = True,
    ) -> TaskStream:
        """
        Chunks of tasks from now on, first those that run already (streaming.md 8.8).

        What happens after this call is not missed, however late the first chunk is asked for.
        """
        scope = TaskScope(
            agent_id=agent_id,
            run_id=run_id,
            thread_id=thread_id,
            resource_id=resource_id,
            task_id=task_id,
        )
        stream = TaskStream(scope, self._streams.discard)
        self._streams.add(stream)
        if include_existing:
            self._services.start(self._show_running(stream, scope), name="background-snapshot")
        return stream

    async def _show_running(self, stream: TaskStream, scope: TaskScope) -> None:
        found = await self.store.list_tasks(
            TaskFilter(
                status="running",
                agent_id=scope.agent_id,
                run_id=scope.run_id,
                thread_id=scope.thread_id,
                resource_id=scope.resource_id,
            )
        )
        for task in found.tasks:
            if scope.task_id in (None, task.id):
                stream.put(running_chunk(task))

    async def wait_for_end(
        self,
        task_ids: Sequence[str],
        *,
        limit_ms: int,
        progress: Callable[[int], Awaitable[None]] | None = None,
    ) -> bool:
        """
        Wait until one of the tasks has ended; False if the time is over.

        Events wake it, and it looks at the records now and then, should one get lost.
        """
        if not task_ids:
            return True
        wanted = set(task_ids)
        stream = self.stream(include_existing=False)
        end = self.clock.monotonic() + limit_ms / 1000
        ticking = self.settings.progress_interval_ms / 1000
        hearing = asyncio.get_running_loop().create_task(
            _first_end(stream, wanted), name="background-wait"
        )
        try:
            started = self.clock.monotonic()
            while True:
                if hearing.done() or await self._any_ended(wanted):
                    return True
                left = end - self.clock.monotonic()
                if left <= 0:
                    return False
                timer = asyncio.get_running_loop().create_task(
                    self.clock.sleep(min(left, ticking)), name="background-wait-timer"
                )
                try:
                    await asyncio.wait([hearing, timer], return_when=asyncio.FIRST_COMPLETED)
                finally:
                    timer.cancel()
                if not hearing.done() and progress is not None:
                    await progress(round((self.clock.monotonic() - started) * 1000))
        finally:
            hearing.cancel()
            stream.close()

    async def _any_ended(self, task_ids: set[str]) -> bool:
        for task_id in task_ids:
            task = await self.store.get_task(task_id)
            if task is None or task.status not in ("pending", "running"):
                return True
        return False


async def _first_end(stream: TaskStream, task_ids: set[str]) -> None:
    async for chunk in stream:
        if chunk["type"] in END_CHUNKS and chunk["payload"].get("taskId") in task_ids:
            return
