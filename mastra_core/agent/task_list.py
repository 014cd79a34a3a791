"""The task list of a thread: what may stand in it, and how it is told (signals.md 15)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

__all__ = (
    "NewTask",
    "Task",
    "TaskStatus",
    "applied",
    "changes",
    "described",
    "numbered",
    "read_tasks",
    "rendered",
    "rendered_changes",
    "summary",
    "with_one_in_progress",
)

TaskStatus = Literal["pending", "in_progress", "completed"]

_MARKS: Final[Mapping[str, str]] = {"pending": "○", "in_progress": "▸", "completed": "✓"}
#: Letters of a task that its generated id shows.
_SLUG_LENGTH: Final = 48


class NewTask(BaseModel):
    """A task as a model writes it."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)

    id: str | None = Field(default=None, min_length=1, description="The id it has had so far.")
    content: str = Field(min_length=1, description="What is to be done, such as 'Fix the login'.")
    status: TaskStatus = "pending"
    active_form: str = Field(
        min_length=1, description="What is going on meanwhile, such as 'Fixing the login'."
    )


class Task(NewTask):
    """A task of the list, as both languages store it."""

    id: str = Field(min_length=1)

    def to_wire(self) -> dict[str, Any]:
        """As it is stored."""
        return self.model_dump(by_alias=True)


def read_tasks(stored: object) -> list[Task]:
    """The list as it was stored; what isn't a task is left out."""
    found = []
    for one in stored if isinstance(stored, list) else ():
        try:
            found.append(Task.model_validate(one))
        except ValueError:
            continue
    return found


def numbered(tasks: Sequence[NewTask], before: Sequence[Task]) -> list[Task]:
    """
    The tasks with an id each.

    An id that was given counts for the first task that has it. A task without one keeps the id
    of the only one before that said the same, or gets one made of what it says.
    """
    given = {task.id for task in tasks if task.id}
    unnamed = Counter(task.content for task in tasks if not task.id)
    earlier: dict[str, list[str]] = {}
    for old in before:
        if old.id not in given:
            earlier.setdefault(old.content, []).append(old.id)
    kept = {
        content: ids[0]
        for content, ids in earlier.items()
        if len(ids) == 1 and unnamed[content] == 1
    }
    reserved = given | set(kept.values())
    used: set[str] = set()
    found = []
    for task in tasks:
        wanted = task.id or kept.get(task.content)
        if wanted is None or wanted in used:
            wanted = _free_id(task.content, used | reserved)
        used.add(wanted)
        found.append(Task(**{**task.model_dump(), "id": wanted}))
    return found


def _free_id(content: str, taken: set[str]) -> str:
    slug = re.sub(r"[^a-z0-9]+", "_", content.lower()).strip("_")[:_SLUG_LENGTH].strip("_")
    name = f"task_{slug or 'item'}"
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}_{number}"
    return free


def with_one_in_progress(tasks: Sequence[Task], task_id: str) -> list[Task]:
    """At most one task goes on; if it is this one, the others wait again."""
    going_on = [task.id for task in tasks if task.status == "in_progress"]
    if len(going_on) <= 1:
        return list(tasks)
    kept = task_id if task_id in going_on else going_on[-1]
    return [
        task.model_copy(update={"status": "pending"})
        if task.status == "in_progress" and task.id != kept
        else task
        for task in tasks
    ]


# -- telling the model ------------------------------------------------------------------------


def rendered(tasks: Sequence[Task]) -> str:
    """The whole list, a line per task."""
    return _lines(f"{_MARKS[task.status]} {_line(task)}" for task in tasks)


def rendered_changes(ops: Sequence[Mapping[str, Any]]) -> str:
    """What changed, a line per task."""
    lines = []
    for op in ops:
        if op["op"] == "remove":
            lines.append(f"− {{id: {op['id']}}} is no longer in the list")
            continue
        task = Task.model_validate(op["task"])
        lines.append(f"{'+' if op['op'] == 'add' else _MARKS[task.status]} {_line(task)}")
    return _lines(lines)


def _line(task: Task) -> str:
    return f"[{task.status}] {{id: {task.id}}} {task.content}"


def _lines(lines: Any) -> str:
    text = "\n".join(f"  {line}" for line in lines)
    return f"\n{text}\n" if text else ""


def changes(before: Sequence[Task], now: Sequence[Task]) -> list[dict[str, Any]]:
    """What has to be done to come from one list to the other."""
    known = {task.id: task for task in before}
    left = {task.id for task in now}
    ops: list[dict[str, Any]] = [
        {"op": "update" if task.id in known else "add", "task": task.to_wire()}
        for task in now
        if known.get(task.id) != task
    ]
    return ops + [{"op": "remove", "id": task.id} for task in before if task.id not in left]


def applied(before: Sequence[Task], ops: object) -> list[Task]:
    """A list after these changes; what can't be read changes nothing."""
    tasks = {task.id: task for task in before}
    for op in ops if isinstance(ops, list) else ():
        if not isinstance(op, Mapping):
            continue
        if op.get("op") == "remove":
            tasks.pop(str(op.get("id")), None)
        for task in read_tasks([op.get("task")]):
            tasks[task.id] = task
    return list(tasks.values())


# -- answering a tool -------------------------------------------------------------------------


def summary(tasks: Sequence[Task]) -> dict[str, Any]:
    """The numbers of the list."""
    counts = Counter(task.status for task in tasks)
    open_ones = counts["pending"] + counts["in_progress"]
    return {
        "total": len(tasks),
        "completed": counts["completed"],
        "inProgress": counts["in_progress"],
        "pending": counts["pending"],
        "incomplete": open_ones,
        "hasTasks": bool(tasks),
        "allCompleted": bool(tasks) and not open_ones,
    }


def described(tasks: Sequence[Task]) -> str:
    """The list in words."""
    if not tasks:
        return "The task list is empty."
    numbers = summary(tasks)
    return f"{numbers['completed']} of {numbers['total']} tasks are completed.{rendered(tasks)}"
