"""What a single test says about an adapter, carried in pytest's reports.

Everything travels in ``report.user_properties``, the only part of a report that
reaches the controller when tests are spread over processes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from mastra_conformance.cases import cases_of
from mastra_conformance.collection import capabilities_of, refusal_of, role_of, subject_of
from mastra_conformance.facts import facts_of
from mastra_conformance.naming import is_ours, test_id, tier_of
from mastra_conformance.options import options_of
from mastra_conformance.outcomes import DishonestError, NotRunError, Outcome
from mastra_core.errors import CapabilityNotSupportedError

__all__ = ("PROPERTY", "describe_phase", "outcome_of_phase", "phase_of_report")

PROPERTY = "mastra_conformance"
"""Name of our entry in ``user_properties``."""


def describe_phase(
    item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport
) -> None:
    """Attach to a report what the test proves and how this phase of it ended."""
    if not is_ours(item):
        return
    outcome, reason = outcome_of_phase(item, call, report)
    if outcome is Outcome.REFUSED and report.failed:
        # The opened server can do less than the descriptor says, and says so: no failure.
        report.outcome, report.longrepr = "passed", None
    if outcome is Outcome.NOT_RUN and options_of(item.config).require:
        report.outcome, report.longrepr = "failed", f"Not run, but required: {reason}"
    subject, refusal = subject_of(item), refusal_of(item)
    facts: dict[str, Any] = {
        "id": test_id(item),
        "tier": tier_of(item),
        "role": role_of(item),
        "capabilities": [refusal.capability] if refusal else list(capabilities_of(item)),
        "cases": [[spec, number] for spec, number in cases_of(item)],
        "adapter": subject.key if subject is not None else "",
        "server": facts_of(item).get("server", {}),
        "outcome": str(outcome),
        "reason": reason,
        "ms": round(report.duration * 1000, 3),
    }
    report.user_properties.append((PROPERTY, facts))


def outcome_of_phase(
    item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport
) -> tuple[Outcome, str | None]:
    """The outcome of setup, call or teardown, with the reason where there is one."""
    if hasattr(report, "wasxfail"):
        return Outcome.EXPECTED_FAILURE, str(report.wasxfail)
    error = call.excinfo.value if call.excinfo is not None else None
    match error:
        case None if report.failed:
            return Outcome.FAILED, f"Expected to fail, but it passed: {report.longrepr}"
        case None if report.when == "call" and refusal_of(item) is not None:
            return Outcome.REFUSED, None
        case None:
            return Outcome.PASSED, None
        case NotRunError():
            return Outcome.NOT_RUN, str(error)
        case pytest.skip.Exception():
            return Outcome.NOT_RUN, f"Skipped: {error}"
        case DishonestError():
            return Outcome.DISHONEST, str(error)
        case CapabilityNotSupportedError():
            return _refused_though_declared(item, error)
        case _:
            return Outcome.FAILED, f"{type(error).__name__}: {error}".splitlines()[0]


def phase_of_report(report: pytest.TestReport) -> Mapping[str, Any] | None:
    """Our facts in a report, wherever it was made; None for other tests."""
    for name, value in reversed(report.user_properties):
        if name == PROPERTY and isinstance(value, Mapping):
            return value
    return None


def _refused_though_declared(
    item: pytest.Item, error: CapabilityNotSupportedError
) -> tuple[Outcome, str]:
    if error.capability in facts_of(item).get("narrowed", ()):
        return Outcome.REFUSED, f"This server lacks it: {error}"
    return Outcome.DISHONEST, f"Declared, but refused: {error}"
