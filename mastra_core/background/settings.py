"""The numbers of background tasks, as settings (streaming.md 8.3)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal, get_args

from mastra_core.base.naming import to_snake
from mastra_core.errors import ConfigError, shown
from mastra_core.wire.tasks import BackgroundTask

__all__ = (
    "BackgroundTaskSettings",
    "Backpressure",
    "Cleanup",
    "Mode",
    "Retries",
    "TaskCallback",
    "settings_from",
)

Mode = Literal["full", "producer", "worker"]
Backpressure = Literal["queue", "reject", "fallback-sync"]
TaskCallback = Callable[[BackgroundTask], Awaitable[None] | None]

_LIMIT: Final = 30 * 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """When a task that failed runs again."""

    max_retries: int = 0
    retry_delay_ms: int = 1000
    backoff_multiplier: float = 2.0
    max_retry_delay_ms: int = 30_000
    #: Which failures are worth it; None: all but refusals and timeouts.
    retryable_errors: Callable[[BaseException], bool] | None = None

    def delay_ms(self, retry: int) -> int:
        """The pause before the n-th repeat, n from 1."""
        delay = self.retry_delay_ms * self.backoff_multiplier ** max(0, retry - 1)
        return int(min(delay, self.max_retry_delay_ms))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleanup:
    """When records of ended tasks are deleted."""

    completed_ttl_ms: int = 3_600_000
    failed_ttl_ms: int = 86_400_000
    cleanup_interval_ms: int = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class BackgroundTaskSettings:
    """How tasks run in one application."""

    enabled: bool = False
    #: ``producer`` only hands over, ``worker`` only executes.
    mode: Mode = "full"
    global_concurrency: int = 10
    per_agent_concurrency: int = 5
    #: What happens to a call when all places are taken.
    backpressure: Backpressure = "queue"
    default_timeout_ms: int = 300_000
    default_retries: Retries = field(default_factory=Retries)
    cleanup: Cleanup = field(default_factory=Cleanup)
    #: Take over tasks whose process died, at the start and from time to time.
    recover_stale_tasks_on_start: bool = True
    recovery_interval_ms: int = 30_000
    #: How long a task stays its process's without renewal.
    lease_ttl_ms: int = 30_000
    #: Show at most one output of a task in so many milliseconds; None shows all.
    progress_throttle_ms: int | None = None
    #: How long a step waits for tasks before the run goes on without; None: not at all.
    wait_timeout_ms: int | None = None
    #: How often a waiting step says so.
    progress_interval_ms: int = 3000
    #: How often whoever waits for a task looks at its record, should an event get lost.
    poll_ms: int = 5000
    #: How long closing waits for tasks before it aborts them.
    shutdown_grace_ms: int = 5000
    on_task_complete: TaskCallback | None = None
    on_task_failed: TaskCallback | None = None
    on_task_cancelled: TaskCallback | None = None

    def __post_init__(self) -> None:
        _check_choice("mode", self.mode, get_args(Mode))
        _check_choice("backpressure", self.backpressure, get_args(Backpressure))
        for name, least in (
            ("global_concurrency", 1),
            ("per_agent_concurrency", 1),
            ("default_timeout_ms", 1),
            ("recovery_interval_ms", 1),
            ("lease_ttl_ms", 50),
            ("progress_interval_ms", 1),
            ("poll_ms", 1),
            ("shutdown_grace_ms", 0),
        ):
            _check_number(name, getattr(self, name), least)
        for name in ("progress_throttle_ms", "wait_timeout_ms"):
            if getattr(self, name) is not None:
                _check_number(name, getattr(self, name), 1)
        _check_number("max_retries", self.default_retries.max_retries, 0)
        _check_number("cleanup_interval_ms", self.cleanup.cleanup_interval_ms, 1)


def _check_choice(name: str, value: object, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ConfigError(f"{name} is one of {', '.join(known)}, not {shown(value)}.")


def _check_number(name: str, value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= _LIMIT:
        raise ConfigError(f"{name} must be an integer in {least} … {_LIMIT}, not {shown(value)}.")


def settings_from(value: object) -> BackgroundTaskSettings:
    """
    Read ``Mastra(background_tasks=...)``: settings, a mapping, True, or None for off.

    Raises:
        ConfigError: A setting is unknown or out of range.
    """
    if isinstance(value, BackgroundTaskSettings):
        return value
    if value is None or isinstance(value, bool):
        return BackgroundTaskSettings(enabled=bool(value))
    members = _members(BackgroundTaskSettings, value, "background task setting")
    # Whoever says how tasks run wants them to.
    members.setdefault("enabled", True)
    for name, kind in (("default_retries", Retries), ("cleanup", Cleanup)):
        if name in members and not isinstance(members[name], kind):
            members[name] = kind(**_members(kind, members[name], f"member of {name}"))
    return BackgroundTaskSettings(**members)


def _members(kind: Any, value: object, what: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"A {what} is read from a mapping, not from {shown(value)}.")
    known = [one.name for one in fields(kind)]
    members: dict[str, Any] = {}
    for name, member in value.items():
        ours = to_snake(str(name))
        if ours not in known:
            raise ConfigError(f"Unknown {what} {name!r}. Known: {', '.join(known)}.")
        members[ours] = member
    return members
