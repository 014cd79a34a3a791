"""The numbers of threads, as settings (signals.md 20)."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final

from mastra_core.contracts.lease import MAX_TTL_MS, MIN_TTL_MS
from mastra_core.errors import ConfigError, shown
from mastra_core.threads.claims import ClaimTimes
from mastra_core.threads.queues import (
    MAX_PROCESS_SIGNALS,
    MAX_PROCESS_SIZE,
    MAX_SIGNALS,
    MAX_SIZE,
    QueueLimits,
)
from mastra_core.threads.signing import MIN_KEY_BYTES, EventSigner

__all__ = ("ThreadSettings", "settings_from")

_TIMES: Final = (
    "suspended_run_ttl_ms",
    "hand_over_ms",
    "keep_parts_ms",
    "owner_discovery_ms",
    "owner_discovery_in_all_ms",
    "owner_acceptance_ms",
    "clock_grace_ms",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadSettings:
    """How long processes keep threads, and how much waits there; equal in all processes."""

    #: Milliseconds until a thread of a dead process is free.
    lease_ttl_ms: int = 15_000
    #: How often a process says that it is alive; three times in that time if not given.
    lease_renew_ms: int | None = None
    #: Milliseconds for which a parked run keeps its thread; later it is resumed from storage.
    suspended_run_ttl_ms: int = 1_800_000
    #: How long a signal is offered to other processes while the thread changes hands.
    hand_over_ms: int = 5_000
    #: How long the parts of a run stay on the bus after its end, for readers that are behind.
    keep_parts_ms: int = 30_000
    #: How long the first look for the session that claims a thread takes, and all looks together.
    owner_discovery_ms: int = 100
    owner_discovery_in_all_ms: int = 1_000
    #: How long such a session has to take a signal.
    owner_acceptance_ms: int = 5_000
    #: How far the clocks of two processes may be apart when they ask each other.
    clock_grace_ms: int = 5_000
    #: Waiting signals of one thread, and their bytes; more are refused when they are sent.
    max_waiting_signals: int = MAX_SIGNALS
    max_waiting_bytes: int = MAX_SIZE
    #: The same of all threads of one application together.
    max_waiting_signals_in_all: int = MAX_PROCESS_SIGNALS
    max_waiting_bytes_in_all: int = MAX_PROCESS_SIZE
    #: Secrets of 16 bytes or more that all processes know; the first signs control events, and
    #: those that none of them signed are ignored. Without one everybody on the bus is trusted.
    control_keys: Sequence[str] = field(default=(), repr=False)

    @property
    def signer(self) -> EventSigner:
        """
        What knows control events of ours.

        Raises:
            ConfigError: A key isn't one.
        """
        given = self.control_keys
        keys = [given] if isinstance(given, str) else list(given)
        for key in keys:
            if not isinstance(key, str) or len(key.encode()) < MIN_KEY_BYTES:
                raise ConfigError(f"A control key is a text of {MIN_KEY_BYTES} bytes or more.")
        return EventSigner([key.encode() for key in keys])

    @property
    def claim_times(self) -> ClaimTimes:
        """How long is waited for sessions that claim a thread."""
        return ClaimTimes(
            discovery=self.owner_discovery_ms,
            discovery_in_all=self.owner_discovery_in_all_ms,
            acceptance=self.owner_acceptance_ms,
            grace=self.clock_grace_ms,
        )

    @property
    def limits(self) -> QueueLimits:
        """
        How much may wait.

        Raises:
            ConfigError: A limit isn't a positive number.
        """
        return QueueLimits(
            signals=self.max_waiting_signals,
            size=self.max_waiting_bytes,
            process_signals=self.max_waiting_signals_in_all,
            process_size=self.max_waiting_bytes_in_all,
        )

    def __post_init__(self) -> None:
        self.limits  # noqa: B018 - it refuses what can't be one
        self.signer  # noqa: B018 - as above
        for name, lowest, highest in (
            ("lease_ttl_ms", MIN_TTL_MS, MAX_TTL_MS),
            ("lease_renew_ms", 1, self.lease_ttl_ms),
            *((name, 1, 10 * 365 * MAX_TTL_MS) for name in _TIMES),
        ):
            value = getattr(self, name)
            if value is None and name == "lease_renew_ms":
                continue
            if type(value) is not int or not lowest <= value <= highest:
                raise ConfigError(
                    f"{name} must be a whole number of milliseconds between {lowest} and "
                    f"{highest}, not {shown(value)}."
                )


#: Setting → environment variable, as in the other language.
_VARIABLES: Final[Mapping[str, str]] = {
    "lease_ttl_ms": "MASTRA_AGENT_THREAD_LEASE_TTL_MS",
    "lease_renew_ms": "MASTRA_AGENT_THREAD_LEASE_RENEW_INTERVAL_MS",
    "suspended_run_ttl_ms": "MASTRA_SUSPENDED_RUN_TTL_MS",
    "owner_discovery_ms": "MASTRA_AGENT_THREAD_OWNER_DISCOVERY_TIMEOUT_MS",
    "owner_discovery_in_all_ms": "MASTRA_AGENT_THREAD_WAKE_OWNER_DISCOVERY_DEADLINE_MS",
}
#: Ours alone: one key, or several with commas between.
_KEYS_VARIABLE: Final = "MASTRA_AGENT_THREAD_CONTROL_KEYS"


def settings_from(
    given: ThreadSettings | Mapping[str, Any] | None,
    *,
    environment: Mapping[str, str] = os.environ,
) -> ThreadSettings:
    """
    Read what a caller says; what it doesn't say comes from the environment.

    Raises:
        ConfigError: A setting is unknown or out of range.
    """
    if isinstance(given, ThreadSettings):
        return given
    if not isinstance(given, Mapping | None):
        raise ConfigError(f"threads must be a mapping of settings, not {shown(given)}.")
    known = [one.name for one in fields(ThreadSettings)]
    chosen = dict(given or {})
    for name in chosen:
        if name not in known:
            raise ConfigError(f"Unknown setting {name!r} of threads. Known: {', '.join(known)}.")
    for name, variable in _VARIABLES.items():
        text = environment.get(variable, "").strip()
        # As in the other language, anything but a positive number is ignored.
        if name not in chosen and text.isdecimal() and int(text) > 0:
            chosen[name] = int(text)
    keys = [key.strip() for key in environment.get(_KEYS_VARIABLE, "").split(",")]
    if "control_keys" not in chosen and any(keys):
        chosen["control_keys"] = [key for key in keys if key]
    return ThreadSettings(**chosen)
