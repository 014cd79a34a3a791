"""What one run hands over, between the loop and the manager of tasks (streaming.md 8)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from mastra_core.agent.answers import check_answer
from mastra_core.background import AgentBackground, BackgroundTaskManager, policy_from
from mastra_core.background.eligibility import eligible_policy, instruction_for, plan_for
from mastra_core.base.jsonjs import sanitize_copy
from mastra_core.contracts.background import (
    BackgroundContext,
    BackgroundPolicy,
    LiveRun,
    TaskExecution,
    TaskExecutor,
    TaskPlan,
    background_override,
)
from mastra_core.contracts.storage.background_tasks import TaskFilter
from mastra_core.contracts.tool import DelegatedCall, Tool, ToolContext
from mastra_core.contracts.tool_hooks import ToolHooks
from mastra_core.errors import ToolError, ToolInputError
from mastra_core.loop.delegating import delegated_call, delegated_record
from mastra_core.loop.model_step import StepCall
from mastra_core.loop.tool_body import invalid_input, run_body
from mastra_core.wire.chunks import RUN_CHUNKS, Chunk
from mastra_core.wire.tasks import TERMINAL_TASK_STATUSES, BackgroundTask

if TYPE_CHECKING:
    from mastra_core.agent.agent import Agent

__all__ = ("RunBackgroundTasks", "ToolExecutor", "executor_of_tool")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunBackgroundTasks:
    """What one run may hand over; implements ``contracts.background.RunBackground``."""

    manager: BackgroundTaskManager
    agent_id: str
    declared: AgentBackground
    tools: Mapping[str, Tool]
    run_id: str
    thread_id: str | None
    resource_id: str | None
    #: Whoever called waits for tasks by itself (streaming.md 9, rule 5).
    waits_elsewhere: bool = False
    #: See the calls of the run, wherever these run.
    hooks: ToolHooks = field(default_factory=ToolHooks)

    # -- eligibility ----------------------------------------------------------------------

    def _policy(self, tool_name: str) -> BackgroundPolicy | None:
        tool = self.tools.get(tool_name)
        if tool is None or tool.execute is None:
            return None
        own = policy_from(getattr(tool, "background", None), what=f"background of {tool_name!r}")
        return eligible_policy(tool_name, own, self.declared)

    def instruction(self, tool_names: Iterable[str]) -> str | None:
        """What the model is told about these tools; None if none of them is eligible."""
        policies = {name: self._policy(name) for name in tool_names}
        return instruction_for({k: policy for k, policy in policies.items() if policy is not None})

    def is_eligible(self, tool_name: str) -> bool:
        """May calls of this tool run in the background?"""
        return self._policy(tool_name) is not None

    def plan(self, tool_name: str, override: object) -> TaskPlan | None:
        """How a call is to run, given what the model said; None in the foreground."""
        policy = self._policy(tool_name)
        return None if policy is None else plan_for(policy, override, self.manager.settings)

    # -- handing over ---------------------------------------------------------------------

    async def hand_over(
        self,
        plan: TaskPlan,
        *,
        args: Any,
        parsed: Any,
        context: ToolContext,
        on_created: Callable[[BackgroundTask], Awaitable[None]],
    ) -> BackgroundTask | None:
        """Make the call a task; None if it is to run inline."""
        tool = self.tools[context.tool_name]
        # The transcript as it stands now: the run goes on without the task.
        transcript = context.messages
        given = replace(context, load_messages=lambda: transcript)

        return await self.manager.hand_over(
            plan,
            tool_name=context.tool_name,
            tool_call_id=context.tool_call_id,
            args=args,
            agent_id=self.agent_id,
            run_id=self.run_id,
            thread_id=self.thread_id,
            resource_id=self.resource_id,
            executor=ToolExecutor(tool, self.hooks, lambda _execution: (parsed, given)),
            on_created=on_created,
        )

    # -- waiting --------------------------------------------------------------------------

    async def unfinished(self) -> list[str]:
        """Ids of the tasks of this agent and thread that wait or run."""
        found = await self.manager.store.list_tasks(
            TaskFilter(
                status=("pending", "running"),
                agent_id=self.agent_id,
                thread_id=self.thread_id,
                resource_id=self.resource_id,
                # Without a thread only the run's own tasks are anybody's concern.
                run_id=None if self.thread_id is not None else self.run_id,
            )
        )
        return [task.id for task in found.tasks]

    def wait_limit_ms(self, *, is_first_step: bool) -> int | None:
        """How long the step that ends now waits for a task; None: not at all."""
        if self.waits_elsewhere or is_first_step:
            return None
        return self.declared.wait_timeout_ms or self.manager.settings.wait_timeout_ms

    def awaited_limit_ms(self, plan: TaskPlan) -> int | None:
        """How long a step waits for a task that was to be awaited."""
        if self.waits_elsewhere:
            return None
        waits = plan.wait_timeout_ms or self.manager.settings.wait_timeout_ms
        return waits or plan.timeout_ms

    async def wait_for_end(
        self,
        task_ids: list[str],
        *,
        limit_ms: int,
        progress: Callable[[Chunk], Awaitable[None]],
    ) -> bool:
        """Wait until one of them has ended; False if the time is over."""

        async def show(elapsed_ms: int) -> None:
            payload = {
                "taskIds": list(task_ids),
                "runningCount": len(task_ids),
                "elapsedMs": elapsed_ms,
            }
            await progress(
                {
                    "type": "background-task-progress",
                    "runId": self.run_id,
                    "from": "AGENT",
                    "payload": payload,
                }
            )

        return await self.manager.wait_for_end(task_ids, limit_ms=limit_ms, progress=show)

    async def ended_meanwhile(self, task_ids: Iterable[str]) -> list[BackgroundTask]:
        """Those of them that have ended."""
        found = [await self.manager.get_task(task_id) for task_id in task_ids]
        return [
            task for task in found if task is not None and task.status in TERMINAL_TASK_STATUSES
        ]

    def enter(self, live: LiveRun) -> None:
        """Let this run know when tasks of its thread end."""
        self.manager.enter(live)

    def leave(self, live: LiveRun) -> None:
        """The run is over."""
        self.manager.leave(live)


class _TaskWriter:
    """The ``writer`` of a body that runs as a task: what it writes goes to the task's readers."""

    def __init__(self, execution: TaskExecution) -> None:
        self._execution = execution

    async def write(self, value: Any) -> None:
        """One ``tool-output`` chunk; shown, not stored."""
        task = self._execution.task
        await self._execution.emit(
            {
                "type": "tool-output",
                "runId": task.run_id,
                "from": "USER",
                "payload": {
                    "output": sanitize_copy(value),
                    "toolCallId": task.tool_call_id,
                    "toolName": task.tool_name,
                },
            }
        )

    async def custom(self, chunk: Mapping[str, Any]) -> None:
        """
        A chunk as given; shown, not stored.

        Raises:
            ToolError: It has no ``type``, or one with which a run speaks of itself.
        """
        kind = chunk.get("type") if isinstance(chunk, Mapping) else None
        if not isinstance(kind, str) or kind in RUN_CHUNKS:
            raise ToolError(f"A task can't write a chunk of type {kind!r}.")
        await self._execution.emit(sanitize_copy(chunk))


class ToolExecutor:
    """
    Runs calls of a tool as tasks, as the loop runs them.

    Args:
        tool: The tool.
        hooks: See the calls, and may keep them from running.
        begin: Arguments and surroundings of the call that a task stands for.
    """

    def __init__(
        self,
        tool: Tool,
        hooks: ToolHooks,
        begin: Callable[[TaskExecution], tuple[Any, ToolContext]],
    ) -> None:
        self._tool = tool
        self._hooks = hooks
        self._begin = begin

    async def __call__(self, execution: TaskExecution) -> Any:
        """One attempt; what it returns is the result of the task."""
        task = execution.task
        args, given = self._begin(execution)
        parked: list[Any] = []
        context = _context_of_task(given, execution, self._tool, parked)
        call = StepCall(tool_call_id=task.tool_call_id, tool_name=task.tool_name, args=task.args)
        try:
            return await run_body(
                self._tool, call, args, context, self._hooks, has_parked=parked.__len__
            )
        except ToolInputError as exc:
            return invalid_input(exc)

    def check_resume(self, task: BackgroundTask, data: Any) -> None:
        """
        Refuse data that a suspended task won't take.

        Raises:
            SchemaError: They don't fit.
            ResumeKindMismatchError: A sub-agent waits for a decision, and this is none.
        """
        check_answer(self._tool, task.suspend_payload, data)


def _context_of_task(
    context: ToolContext, execution: TaskExecution, tool: Tool, parked: list[Any]
) -> ToolContext:
    task = execution.task

    async def suspend(
        payload: Any = None, *, delegated: DelegatedCall | None = None, **_options: Any
    ) -> None:
        own = sanitize_copy(payload)
        if delegated is not None:
            own = delegated_record({"toolCallSuspended": own}, task.tool_call_id, delegated)
        elif (check := getattr(tool, "check_suspend", None)) is not None:
            check(own)
        parked.append(own)
        await execution.suspend(own)

    earlier = task.suspend_payload if execution.is_resumed else None
    inner = delegated_call(earlier) if isinstance(earlier, Mapping) else None
    data = execution.resume_data
    if execution.is_resumed and inner is None:
        # What was refused before may come from a peer all the same; the tool gets it as it is.
        with suppress(ToolInputError):
            data = tool.parse_resume(data)
    return replace(
        context,
        writer=_TaskWriter(execution),
        suspend=suspend,
        resume_data=data,
        is_resumed=execution.is_resumed,
        suspend_payload=_own_payload(earlier) if inner is not None else earlier,
        delegated=inner,
        abort=execution.abort,
        background=BackgroundContext(
            task_id=task.id, disposition=execution.disposition, adopt=execution.adopt
        ),
    )


def _own_payload(payload: Any) -> Any:
    """Of a task that waits for a call of another run: what that one suspended with."""
    return payload.get("toolCallSuspended") if isinstance(payload, Mapping) else None


def executor_of_tool(agent: Agent, tool_name: str) -> TaskExecutor | None:
    """
    What runs a task of this tool that another process handed over, or this one before it was
    started anew; None if the agent has no such tool. Its body sees neither the transcript nor
    the request context of the run.
    """
    tool = agent.tools.get(tool_name)
    if tool is None or tool.execute is None:
        return None
    known = tool

    def begin(execution: TaskExecution) -> tuple[Any, ToolContext]:
        task = execution.task
        args, _ = background_override(task.args)
        context = ToolContext(
            agent_id=task.agent_id,
            run_id=task.run_id,
            tool_call_id=task.tool_call_id,
            tool_name=task.tool_name,
            writer=_TaskWriter(execution),
            suspend=execution.suspend,
            thread_id=task.thread_id,
            resource_id=task.resource_id,
            idempotency_key=f"{task.run_id}:{task.tool_call_id}",
            mastra=getattr(agent.host, "application", None),
        )
        return known.parse_input(sanitize_copy(args)), context

    return ToolExecutor(known, agent.tool_hooks, begin)
