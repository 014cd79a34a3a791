"""The settings of threads, and where they come from (signals.md 20, G23)."""

from __future__ import annotations

from typing import Any

import pytest

from mastra_core.errors import ConfigError
from mastra_core.threads.claims import ClaimTimes
from mastra_core.threads.settings import ThreadSettings, settings_from


def test_the_variables_of_the_other_language_count() -> None:
    """What the caller says counts more."""
    environment = {
        "MASTRA_AGENT_THREAD_LEASE_TTL_MS": "9000",
        "MASTRA_AGENT_THREAD_LEASE_RENEW_INTERVAL_MS": "1000",
        "MASTRA_AGENT_THREAD_OWNER_DISCOVERY_TIMEOUT_MS": "50",
        "MASTRA_AGENT_THREAD_WAKE_OWNER_DISCOVERY_DEADLINE_MS": "500",
        "MASTRA_SUSPENDED_RUN_TTL_MS": "-7",
    }

    found = settings_from({"owner_discovery_ms": 70}, environment=environment)

    assert (9000, 1000) == (found.lease_ttl_ms, found.lease_renew_ms)
    assert 1_800_000 == found.suspended_run_ttl_ms
    assert ClaimTimes(discovery=70, discovery_in_all=500) == found.claim_times


@pytest.mark.parametrize(
    "wrong",
    [
        {"lease_ttl_ms": 1},
        {"lease_ttl_ms": 1.5},
        {"lease_renew_ms": 0},
        {"lease_renew_ms": 15_001},
        {"hand_over_ms": 0},
        {"keep_parts_ms": True},
        {"owner_acceptance_ms": "5"},
        {"clock_grace_ms": None},
        {"max_waiting_signals": 0},
        {"lease_time": 1},
    ],
)
def test_what_can_be_none_is_refused(wrong: dict[str, Any]) -> None:
    """With the name of the setting."""
    with pytest.raises(ConfigError, match=r"lease|hand|keep|owner|clock|signals"):
        settings_from(wrong, environment={})


def test_unknown_settings_are_told_with_the_known() -> None:
    """So that a slip is found."""
    with pytest.raises(ConfigError, match=r"'lease_ttl'.*lease_ttl_ms"):
        settings_from({"lease_ttl": 5000}, environment={})


def test_the_defaults_are_those_of_both_languages() -> None:
    """Section 20."""
    found = ThreadSettings()

    assert ClaimTimes() == found.claim_times
    assert (15_000, None, 30_000) == (
        found.lease_ttl_ms,
        found.lease_renew_ms,
        found.keep_parts_ms,
    )
