"""Schedule rows and their history (workflows.md 12, notifications.md 14.5).

Columns are snake_case on the wire too; times are epoch milliseconds.
"""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import ConfigDict

from mastra_core.wire.base import WireModel

__all__ = ("Schedule", "ScheduleTrigger")


class Schedule(WireModel):
    """One timer (table ``mastra_schedules``)."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        alias_generator=None, populate_by_name=True, extra="allow", frozen=True
    )

    id: str
    target: dict[str, Any]
    cron: str
    timezone: str | None = None
    status: str = "active"
    next_fire_at: int
    last_fire_at: int | None = None
    last_run_id: str | None = None
    created_at: int
    updated_at: int
    metadata: dict[str, Any] | None = None
    owner_type: str | None = None
    owner_id: str | None = None


class ScheduleTrigger(WireModel):
    """One firing of a schedule (table ``mastra_schedule_triggers``)."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        alias_generator=None, populate_by_name=True, extra="allow", frozen=True
    )

    id: str
    schedule_id: str
    run_id: str | None = None
    scheduled_fire_at: int
    actual_fire_at: int
    #: ``published`` or ``failed``
    outcome: str
    error: str | None = None
    trigger_kind: str = "schedule-fire"
    parent_trigger_id: str | None = None
    metadata: dict[str, Any] | None = None
