"""Background tasks: checks, changes, filters, order (streaming.md 8.1, 8.10)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from mastra_core.base.isotime import epoch_ms
from mastra_core.contracts.storage.background_tasks import TaskFilter
from mastra_core.errors import StorageArgumentError
from mastra_core.rules.arguments import check_choice, check_text, choices, moment
from mastra_core.wire.tasks import TASK_STATUSES, BackgroundTask

__all__ = (
    "EARLIEST",
    "TIME_FIELDS",
    "apply_patch",
    "check_filter",
    "check_patch",
    "check_task",
    "filters_nothing",
    "is_expected",
    "matches",
    "order_key",
)

TIME_FIELDS: Final[Mapping[str, str]] = {
    "createdAt": "created_at",
    "startedAt": "started_at",
    "suspendedAt": "suspended_at",
    "completedAt": "completed_at",
}
"""Fields that a list may be ordered and bounded by, with their Python names."""

EARLIEST: Final = -(2**62)
"""Where a task without the time sorts: before every other."""

_EQUAL: Final = (
    "agent_id",
    "thread_id",
    "resource_id",
    "tool_name",
    "tool_call_id",
    "run_id",
)
_REQUIRED: Final = ("id", "tool_name", "tool_call_id", "agent_id", "run_id")
_FIXED: Final = frozenset({"id", "created_at"})


def check_task(task: BackgroundTask) -> None:
    """
    Refuse a task that must not be stored.

    Raises:
        StorageArgumentError: An id or name is empty, the status unknown, or there are
            members that no store has a place for.
    """
    for name in _REQUIRED:
        check_text(getattr(task, name), name)
    check_choice(task.status, "status", TASK_STATUSES)
    if task.model_extra:
        raise StorageArgumentError(f"A task has no member {next(iter(task.model_extra))!r}.")


def check_patch(patch: Mapping[str, Any]) -> None:
    """
    Refuse a change to unknown or fixed members.

    Raises:
        StorageArgumentError: A member doesn't exist or never changes, or the status is unknown.
    """
    for name in patch:
        if name not in BackgroundTask.model_fields or name in _FIXED:
            raise StorageArgumentError(f"The member {name!r} of a task can't be changed.")
    if "status" in patch:
        check_choice(patch["status"], "status", TASK_STATUSES)


def apply_patch(task: BackgroundTask, patch: Mapping[str, Any]) -> BackgroundTask:
    """
    The task with the members of a checked patch.

    Raises:
        StorageArgumentError: A value is of a wrong kind.
    """
    try:
        return BackgroundTask.model_validate({**dict(task), **patch})
    except ValueError as error:
        raise StorageArgumentError(f"The patch doesn't fit a task: {error}") from error


def is_expected(status: str, expected: Any) -> bool:
    """Whether a compare-and-set may write over this status."""
    wanted = choices(expected)
    return wanted is None or status in wanted


def check_filter(task_filter: TaskFilter) -> None:
    """
    Refuse an order or bound by something else than the four times.

    Raises:
        StorageArgumentError: The field, direction or a time can't be used.
    """
    check_choice(task_filter.order_by, "order_by", TIME_FIELDS)
    check_choice(task_filter.date_filter_by, "date_filter_by", TIME_FIELDS)
    check_choice(task_filter.order_direction, "order_direction", ("asc", "desc"))
    for name in ("from_date", "to_date"):
        bound = getattr(task_filter, name)
        if bound is not None:
            moment(bound, name)


def filters_nothing(task_filter: TaskFilter) -> bool:
    """True if the filter would match every task; deleting by it does nothing."""
    bounds = (task_filter.status, task_filter.from_date, task_filter.to_date)
    return all(value in (None, "") for value in bounds) and not any(
        getattr(task_filter, name) for name in _EQUAL
    )


def matches(task: BackgroundTask, task_filter: TaskFilter) -> bool:
    """Whether the task passes every member of the filter; absent and empty ones don't filter."""
    statuses = choices(task_filter.status)
    if statuses is not None and task.status not in statuses:
        return False
    for name in _EQUAL:
        wanted = getattr(task_filter, name)
        if wanted and getattr(task, name) != wanted:
            return False
    return _is_within(getattr(task, TIME_FIELDS[task_filter.date_filter_by]), task_filter)


def _is_within(at: datetime | None, task_filter: TaskFilter) -> bool:
    if task_filter.from_date is None and task_filter.to_date is None:
        return True
    if at is None:
        return False
    is_early = task_filter.from_date is not None and at < task_filter.from_date
    is_late = task_filter.to_date is not None and at >= task_filter.to_date
    return not (is_early or is_late)


def order_key(task: BackgroundTask, order_by: str) -> tuple[int, str]:
    """Sort key (time, id); a task without the time sorts before all others."""
    at = getattr(task, TIME_FIELDS[order_by])
    return (EARLIEST if at is None else epoch_ms(at), task.id)
