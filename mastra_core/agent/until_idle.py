"""Start a run, and the turns that its background tasks cause (streaming.md 9)."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from mastra_core.agent.run import RunBuilder
from mastra_core.streaming.output import ModelOutput
from mastra_core.streaming.until_idle import EndedTask, UntilIdle, UntilIdleRules

if TYPE_CHECKING:
    from mastra_core.agent.agent import Agent
    from mastra_core.agent.options import RunOptions
    from mastra_core.background import BackgroundTaskManager

__all__ = ("started",)

#: Ends of tasks in the words of their chunks.
_HOW: Final = {
    "completed": "completed",
    "failed": "failed",
    "timed_out": "failed",
    "cancelled": "cancelled",
    "suspended": "suspended",
}


async def started(
    builder: RunBuilder,
    starting: Coroutine[Any, Any, ModelOutput],
    *,
    thread_id: str | None,
    resource_id: str | None,
) -> ModelOutput:
    """
    The output of the run, going on until its thread is idle if its options say so.

    Without background tasks or a thread in memory it is the run's own, and nothing else
    (rule 2).
    """
    agent, options = builder.agent, builder.options
    manager = agent.host.background_tasks
    if (
        not options.until_idle
        or manager is None
        or agent.memory is None
        or thread_id is None
        or resource_id is None
    ):
        return await starting
    builder.waits_elsewhere = True
    # Before the run, or a task that ends at once would be missed (rule 6).
    tasks = manager.stream(
        agent_id=agent.id, thread_id=thread_id, resource_id=resource_id, include_existing=False
    )
    try:
        output = await starting
    except BaseException:
        tasks.close()
        raise
    scope = (thread_id, resource_id)
    span = UntilIdle(
        tasks=tasks,
        go_on=lambda directive: _next_turn(agent, options, scope, directive),
        ended=lambda task_ids: _ended(manager, task_ids),
        rules=_rules(options, manager),
        clock=agent.host.clock,
        abort_signal=options.abort_signal,
    )
    earlier = agent.spans.get(scope)
    if earlier is not None:
        earlier.close()
    agent.spans[scope] = span
    output.go_on_as(span.outer)

    async def work() -> None:
        try:
            await span.run(output)
        finally:
            if agent.spans.get(scope) is span:
                del agent.spans[scope]

    agent.host.runs.start(work(), name=f"until-idle:{output.run_id}")
    return output


def _rules(options: RunOptions, manager: BackgroundTaskManager) -> UntilIdleRules:
    given = options.until_idle if not isinstance(options.until_idle, bool) else None
    return UntilIdleRules(poll_ms=manager.settings.poll_ms, **(given or {}))


async def _next_turn(
    agent: Agent, options: RunOptions, scope: tuple[str, str], directive: str
) -> ModelOutput:
    """The same run once more, without what was meant for the first turn only (rule 10)."""
    thread_id, resource_id = scope
    builder = RunBuilder(
        agent,
        replace(
            options,
            run_id=None,
            thread_id=thread_id,
            resource_id=resource_id,
            context=[{"role": "system", "content": directive}],
            # Forced once more it would start the same work for ever.
            tool_choice="none" if options.tool_choice == "none" else "auto",
            on_finish=None,
            until_idle=None,
        ),
    )
    builder.waits_elsewhere = True
    return await builder.start([])


async def _ended(manager: BackgroundTaskManager, task_ids: Sequence[str]) -> list[EndedTask]:
    """Those that run no more, as their records say."""
    ended = []
    for task_id in task_ids:
        task = await manager.get_task(task_id)
        if task is not None and task.status in _HOW:
            ended.append(
                EndedTask(
                    task_id=task_id,
                    tool_call_id=task.tool_call_id,
                    tool_name=task.tool_name,
                    how=_HOW[task.status],
                )
            )
    return ended
