"""The numbers of the inbox, as settings (notifications.md 11, 13)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from mastra_core.base.naming import to_snake
from mastra_core.errors import ConfigError

__all__ = ("DEFAULT_BATCH_SIZE", "DEFAULT_CRON", "NotificationSettings", "settings_from")

DEFAULT_CRON: Final = "*/1 * * * *"
DEFAULT_BATCH_SIZE: Final = 100

_LIMIT: Final = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationSettings:
    """How the inbox waits, repeats and shares work with other processes."""

    #: False: no dispatch here, and no schedule row for others.
    enabled: bool = True
    #: When peers that only know the schedule row dispatch.
    cron: str = DEFAULT_CRON
    #: Records that one dispatch handles at most.
    batch_size: int = DEFAULT_BATCH_SIZE
    #: How often our own loop looks without being told to.
    poll_ms: int = 10_000
    #: After this an event whose ingress never decided is decided again (S6).
    ingress_guard_ms: int = 60_000
    #: How soon a record that waits for an idle or unblocked thread is tried again (S9, S20).
    idle_recheck_ms: int = 30_000
    #: How long a claim keeps others away without renewal (S10).
    visibility_ms: int = 120_000
    #: How long a dispatch waits for one signal to be taken; then it counts as failed.
    send_timeout_ms: int = 900_000
    #: After this an accepted signal without a message row is sent again (S21).
    confirm_after_ms: int = 120_000
    #: Older deliveries are repeated once more and then taken as done.
    confirm_give_up_ms: int = 86_400_000
    #: The pause after the first failure; it doubles with each one (S20).
    retry_first_ms: int = 30_000
    retry_max_ms: int = 900_000
    #: The share of a pause that is left to chance, above and below.
    retry_jitter: float = 0.1
    #: Also take the ticks of the shared schedule row. Off: a tick that we take is one that a
    #: Node process, which may know other agents, doesn't get; our loop needs no ticks.
    claims_ticks: bool = False

    def __post_init__(self) -> None:
        for name in (field.name for field in fields(self) if field.type == "int"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _LIMIT:
                raise ConfigError(f"{name} must be an integer in 1 … {_LIMIT}, not {value!r}.")
        if not 0 <= self.retry_jitter < 1:
            raise ConfigError(f"retry_jitter must be in 0 … 1, not {self.retry_jitter!r}.")


def settings_from(value: object) -> NotificationSettings:
    """
    Read ``Mastra(notifications={"dispatch": {...}})``, or the inner mapping itself.

    Raises:
        ConfigError: A setting is unknown or out of range.
    """
    if isinstance(value, NotificationSettings):
        return value
    given = {} if value is None else value
    if not isinstance(given, Mapping):
        raise ConfigError(f"Notification settings are a mapping, not {value!r}.")
    if set(given) == {"dispatch"}:
        return settings_from(given["dispatch"])
    known = [field.name for field in fields(NotificationSettings)]
    members: dict[str, Any] = {}
    for name, member in given.items():
        if (ours := to_snake(name)) not in known:
            raise ConfigError(f"Unknown notification setting {name!r}. Known: {', '.join(known)}.")
        members[ours] = member
    return NotificationSettings(**members)
