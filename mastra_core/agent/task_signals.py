"""A task list that an agent keeps in its thread, and is told of when it changes (signals.md 15)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from pydantic import Field

from mastra_core.agent.task_list import (
    NewTask,
    Task,
    TaskStatus,
    applied,
    changes,
    described,
    numbered,
    read_tasks,
    rendered,
    rendered_changes,
    summary,
    with_one_in_progress,
)
from mastra_core.agent.tools import FunctionTool, tool
from mastra_core.base.jsonjs import encode
from mastra_core.contracts.storage import ThreadStateStorage
from mastra_core.contracts.tool import ToolContext
from mastra_core.errors import StorageConflictError
from mastra_core.processors.arguments import ProcessorArgs
from mastra_core.threads.providers import SignalProvider

if TYPE_CHECKING:
    from mastra_core.contracts.processor import Processor
    from mastra_core.contracts.tool import Tool
    from mastra_core.wire.signals import Signal

__all__ = ("TASK_LANE", "TASK_STATE", "TaskListProcessor", "TaskSignals")

#: The state lane, and the type of thread state, under which both languages keep the list.
TASK_LANE: Final = "tasks"
TASK_STATE: Final = "task"
#: After so many changes the whole list is told again.
_CHANGES_IN_A_ROW: Final = 10
_ATTEMPTS: Final = 32

_HINT: Final = (
    "Your task list is shown as <current-task-list>, and what changes in it as "
    "<task-list-update>. They come from your own task tools, not from the user: take them as "
    "the present state of your work, and go on with what the user asked for."
)

_Change = Callable[[list[Task]], "list[Task] | str"]


class TaskSignals(SignalProvider):
    """
    Gives an agent a task list: the tools ``task_write``, ``task_update``, ``task_complete`` and
    ``task_check``, and the lane that tells the model what stands in it.

    The list is kept with the thread, so it outlives the run and the process, and a Node process
    reads the same one. Without a thread, or a store with thread state, the tools say so.
    """

    default_id: ClassVar[str] = "task-signals"

    def get_tools(self) -> Mapping[str, Tool] | Sequence[Tool]:
        """The four tools; of two with one name the agent's own wins."""
        return _tools(self)

    def get_input_processors(self) -> Sequence[Processor]:
        """Tells the model of the list."""
        return (TaskListProcessor(self.tasks),)

    async def tasks(self, thread_id: str) -> list[Task] | None:
        """
        The list of a thread; None if nobody keeps one.

        Raises:
            StorageError: It can't be read.
        """
        states = self._states
        return None if states is None else read_tasks(await states.get_state(thread_id, TASK_STATE))

    async def change(self, context: ToolContext, change: _Change) -> dict[str, Any]:
        """
        Change the list of the thread, whoever else does; what the tool answers.

        Args:
            context: The call.
            change: The new list, or why there is none.

        Raises:
            StorageError: It can't be stored.
        """
        states, thread_id = self._states, context.thread_id
        if states is None or thread_id is None:
            return _no_list()
        return await _changed(states, thread_id, change)


async def _changed(states: ThreadStateStorage, thread_id: str, change: _Change) -> dict[str, Any]:
    for _ in range(_ATTEMPTS):
        stored = await states.get_state(thread_id, TASK_STATE)
        before = read_tasks(stored)
        now = change(before)
        if isinstance(now, str):
            return _answer(now, before, is_error=True)
        value = [task.to_wire() for task in now]
        # Calls of one step run at the same time.
        if await states.compare_and_set(thread_id, TASK_STATE, expected=stored, value=value):
            return _answer(described(now), now)
    raise StorageConflictError(
        f"The task list of thread {thread_id!r} changes too often to be written.",
        details={"threadId": thread_id},
    )


def _answer(content: str, tasks: Sequence[Task], *, is_error: bool = False) -> dict[str, Any]:
    return {
        "content": content,
        "tasks": [task.to_wire() for task in tasks],
        "isError": is_error,
    }


def _no_list() -> dict[str, Any]:
    return _answer(
        "There is no task list here: it needs a thread, and an agent with memory.",
        [],
        is_error=True,
    )


def _tools(provider: TaskSignals) -> dict[str, FunctionTool]:
    @tool
    async def task_write(tasks: list[NewTask], context: ToolContext) -> dict[str, Any]:
        """
        Write the whole list of tasks anew, in place of the one before.

        For work of three steps or more, and when its plan changes. Give every task that is to
        stay, with its id. At most one task may be in_progress; task_update and task_complete
        change a single one.
        """

        def write(before: list[Task]) -> list[Task] | str:
            now = numbered(tasks, before)
            if sum(task.status == "in_progress" for task in now) > 1:
                return "Nothing was changed: at most one task may be in_progress."
            return now

        return await provider.change(context, write)

    @tool
    async def task_update(
        id: str,
        context: ToolContext,
        content: str | None = None,
        status: TaskStatus | None = None,
        active_form: str | None = Field(default=None, alias="activeForm"),
    ) -> dict[str, Any]:
        """
        Change one task of the list; what isn't given stays.

        A task that becomes in_progress takes the place of the one that was.
        """
        given = {"content": content, "status": status, "active_form": active_form}
        members = {name: value for name, value in given.items() if value is not None}

        def update(before: list[Task]) -> list[Task] | str:
            if not members:
                return "Nothing was changed: say what is to be another."
            return _with(before, id, members)

        return await provider.change(context, update)

    @tool
    async def task_complete(id: str, context: ToolContext) -> dict[str, Any]:
        """Mark one task of the list as completed, as soon as it is."""
        return await provider.change(
            context, lambda before: _with(before, id, {"status": "completed"})
        )

    @tool
    async def task_check(context: ToolContext) -> dict[str, Any]:
        """Look at the list before the work ends: allCompleted says whether anything is left."""
        tasks = None if context.thread_id is None else await provider.tasks(context.thread_id)
        found = tasks or []
        answer = _no_list() if tasks is None else _answer(described(found), found)
        left = [task.to_wire() for task in found if task.status != "completed"]
        return {**answer, "summary": summary(found), "incompleteTasks": left}

    return {one.id: one for one in (task_write, task_update, task_complete, task_check)}


def _with(before: list[Task], task_id: str, members: Mapping[str, Any]) -> list[Task] | str:
    if all(task.id != task_id for task in before):
        known = ", ".join(task.id for task in before) or "none"
        return f"Nothing was changed: there is no task {task_id!r}. Known: {known}."
    changed = [
        Task(**{**task.model_dump(), **members}) if task.id == task_id else task for task in before
    ]
    return with_one_in_progress(changed, task_id)


class TaskListProcessor:
    """Tells the model what stands in the task list: all of it, or what has changed since."""

    id = "task-state"
    state_id = TASK_LANE

    def __init__(self, read: Callable[[str], Any]) -> None:
        self._read = read

    def process_input(self, args: ProcessorArgs) -> None:
        """Say what the lane is."""
        args.message_list.add_system(_HINT)

    async def compute_state_signal(self, args: ProcessorArgs) -> dict[str, Any] | None:
        """The list, if the thread doesn't know it."""
        told = _told(args.last_snapshot, args.deltas_since_snapshot)
        stored = None if args.thread_id is None else await self._read(args.thread_id)
        now = told if stored is None else stored
        has_base = bool(args.context_window and args.context_window.has_snapshot)
        has_base = has_base and args.last_snapshot is not None
        ops = changes(told, now)
        if not (now or told) or (has_base and not ops):
            return None
        value = {"tasks": [task.to_wire() for task in now]}
        state = {"cache_key": f"tasks:{encode(value['tasks'])}", "value": value}
        if not has_base or len(args.deltas_since_snapshot) >= _CHANGES_IN_A_ROW:
            return state | {
                "mode": "snapshot",
                "tag_name": "current-task-list",
                "contents": rendered(now),
                "attributes": {"count": len(now)},
            }
        return state | {
            "mode": "delta",
            "tag_name": "task-list-update",
            "contents": rendered_changes(ops),
            "delta": {"ops": ops},
            "attributes": {"changes": len(ops)},
        }


def _told(snapshot: Signal | None, deltas: Sequence[Signal]) -> list[Task]:
    """What the thread was told so far."""
    tasks = read_tasks(_member(snapshot, "value", "tasks"))
    for delta in deltas:
        tasks = applied(tasks, _member(delta, "delta", "ops"))
    return tasks


def _member(signal: Signal | None, kind: str, name: str) -> object:
    metadata = signal.metadata if signal is not None else None
    value = metadata.get(kind) if metadata is not None else None
    return value.get(name) if isinstance(value, Mapping) else None
