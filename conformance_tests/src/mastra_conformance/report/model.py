"""What a run says about one adapter; schema ``mastra-conformance/1``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mastra_conformance.outcomes import Outcome

__all__ = ("COUNTED", "SCHEMA", "CapabilityCounts", "CaseResult", "Report", "count_capabilities")

SCHEMA = "mastra-conformance/1"

COUNTED: Mapping[Outcome, str] = {
    Outcome.PASSED: "passed",
    Outcome.FAILED: "failed",
    Outcome.DISHONEST: "failed",
    Outcome.REFUSED: "refused",
    Outcome.EXPECTED_FAILURE: "expected",
    Outcome.NOT_RUN: "not_run",
}
"""Which member of the counts an outcome goes to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """How one test ended."""

    id: str
    tier: int
    role: str
    #: The most special capability that the test needs; None for a static one.
    capability: str | None
    outcome: Outcome
    ms: float
    reason: str | None = None
    #: Cases of the specifications that the test proves.
    proves: tuple[tuple[str, int], ...] = ()

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> CaseResult:
        """Read one member of ``cases``."""
        return cls(
            id=value["id"],
            tier=value["tier"],
            role=value.get("role", "storage"),
            capability=value.get("capability"),
            outcome=Outcome(value["outcome"]),
            ms=value.get("ms", 0.0),
            reason=value.get("reason"),
            proves=tuple((spec, number) for spec, number in value.get("proves", ())),
        )

    def to_json(self) -> dict[str, Any]:
        """One member of ``cases``."""
        return {
            "id": self.id,
            "tier": self.tier,
            "role": self.role,
            "capability": self.capability,
            "outcome": str(self.outcome),
            "ms": self.ms,
            "reason": self.reason,
            "proves": [list(case) for case in self.proves],
        }


@dataclass(slots=True, kw_only=True)
class CapabilityCounts:
    """How the tests of one capability ended."""

    declared: bool
    passed: int = 0
    failed: int = 0
    refused: int = 0
    expected: int = 0
    not_run: int = 0

    def to_json(self) -> dict[str, Any]:
        """One value of ``capabilities``."""
        return {
            "declared": self.declared,
            "passed": self.passed,
            "failed": self.failed,
            "refused": self.refused,
            "expected": self.expected,
            "not_run": self.not_run,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One run against one adapter."""

    suite: Mapping[str, str]
    core: Mapping[str, str]
    #: name, distribution, version, roles, url_redacted
    adapter: Mapping[str, Any]
    server: Mapping[str, str]
    environment: Mapping[str, str]
    seed: int
    started_at: str
    declared: frozenset[str]
    cases: tuple[CaseResult, ...]
    levels: tuple[str, ...]
    #: True when parts were left out by hand; such a run gives no level.
    partial: bool = False
    tiers: tuple[int, ...] = field(default=())

    def counts(self) -> dict[str, int]:
        """How many tests ended in which way; every outcome is a member."""
        totals = {str(outcome): 0 for outcome in Outcome}
        for case in self.cases:
            totals[case.outcome] += 1
        return totals

    def problems(self) -> list[CaseResult]:
        """What went wrong, in the order of the report."""
        return [case for case in self.cases if case.outcome.is_failure]

    def to_json(self) -> dict[str, Any]:
        """The document of the schema."""
        capabilities = count_capabilities(self.cases, self.declared)
        return {
            "schema": SCHEMA,
            "suite": dict(self.suite),
            "core": dict(self.core),
            "adapter": dict(self.adapter),
            "server": dict(self.server),
            "environment": dict(self.environment),
            "seed": self.seed,
            "started_at": self.started_at,
            "tiers": list(self.tiers),
            "partial": self.partial,
            "capabilities": {name: counts.to_json() for name, counts in capabilities.items()},
            "counts": self.counts(),
            "cases": [case.to_json() for case in self.cases],
            "levels": list(self.levels),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Report:
        """
        Read a document of the schema.

        Raises:
            ValueError: It is another schema, or a member is missing.
        """
        if value.get("schema") != SCHEMA:
            raise ValueError(f"Schema {value.get('schema')!r} is not {SCHEMA!r}.")
        try:
            return cls(
                suite=value["suite"],
                core=value["core"],
                adapter=value["adapter"],
                server=value.get("server", {}),
                environment=value.get("environment", {}),
                seed=value["seed"],
                started_at=value["started_at"],
                declared=frozenset(
                    name for name, counts in value["capabilities"].items() if counts["declared"]
                ),
                cases=tuple(CaseResult.from_json(case) for case in value["cases"]),
                levels=tuple(value["levels"]),
                partial=value.get("partial", False),
                tiers=tuple(value.get("tiers", ())),
            )
        except (KeyError, TypeError) as exc:
            raise ValueError(f"The report lacks or garbles a member: {exc}.") from exc


def count_capabilities(
    cases: Iterable[CaseResult], declared: Iterable[str]
) -> dict[str, CapabilityCounts]:
    """Counts by capability name; declared ones without any test are there, too."""
    counts = {name: CapabilityCounts(declared=True) for name in declared}
    for case in cases:
        if case.capability is None:
            continue
        entry = counts.setdefault(case.capability, CapabilityCounts(declared=False))
        member = COUNTED[case.outcome]
        setattr(entry, member, getattr(entry, member) + 1)
    return dict(sorted(counts.items()))
