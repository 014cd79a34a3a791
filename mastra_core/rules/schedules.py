"""Timers: checks, changes, filters (workflows.md 12, notifications.md 14.5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mastra_core.errors import StorageArgumentError
from mastra_core.rules.arguments import check_text
from mastra_core.wire.schedules import Schedule, ScheduleTrigger

__all__ = (
    "apply_patch",
    "check_patch",
    "check_schedule",
    "check_trigger",
    "is_due",
    "matches",
)

_FIXED: Final = frozenset({"id", "created_at"})


def check_schedule(schedule: Schedule) -> None:
    """
    Refuse a timer that must not be stored.

    Raises:
        StorageArgumentError: Its id, cron or status is empty, or there are members that no
            store has a place for.
    """
    for name in ("id", "cron", "status"):
        check_text(getattr(schedule, name), name)
    _check_no_extra("schedule", schedule.model_extra)


def check_trigger(trigger: ScheduleTrigger) -> None:
    """
    Refuse a history row that must not be stored.

    Raises:
        StorageArgumentError: An id or the outcome is empty, or there are unknown members.
    """
    for name in ("id", "schedule_id", "outcome"):
        check_text(getattr(trigger, name), name)
    _check_no_extra("trigger", trigger.model_extra)


def _check_no_extra(what: str, extra: Mapping[str, Any] | None) -> None:
    if extra:
        raise StorageArgumentError(f"A {what} has no member {next(iter(extra))!r}.")


def check_patch(patch: Mapping[str, Any]) -> None:
    """
    Refuse a change to unknown or fixed columns.

    Raises:
        StorageArgumentError: A column doesn't exist or never changes.
    """
    for name in patch:
        if name not in Schedule.model_fields or name in _FIXED:
            raise StorageArgumentError(f"The column {name!r} of a schedule can't be changed.")


def apply_patch(schedule: Schedule, patch: Mapping[str, Any], *, now_ms: int) -> Schedule:
    """
    The timer with the columns of a checked patch and a new ``updated_at``.

    Raises:
        StorageArgumentError: A value is of a wrong kind.
    """
    changed = {**dict(schedule), "updated_at": now_ms, **patch}
    try:
        return Schedule.model_validate(changed)
    except ValueError as error:
        raise StorageArgumentError(f"The patch doesn't fit a schedule: {error}") from error


def is_due(schedule: Schedule, now_ms: int) -> bool:
    """Active, and its time has come."""
    return schedule.status == "active" and schedule.next_fire_at <= now_ms


def matches(
    schedule: Schedule,
    *,
    status: str | None = None,
    owner_type: str | None = None,
    owner_id: str | None = None,
    workflow_id: str | None = None,
) -> bool:
    """Whether the timer passes every filter that was given; empty ones don't filter."""
    found = (
        (status, schedule.status),
        (owner_type, schedule.owner_type),
        (owner_id, schedule.owner_id),
        (workflow_id, schedule.target.get("workflowId")),
    )
    return all(not wanted or wanted == value for wanted, value in found)
