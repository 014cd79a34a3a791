"""Sums up the phases of all tests into one report per adapter.

Lives in the process that prints the results; with xdist that isn't the one that
runs the tests, so nothing here looks at a test, only at reports.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import pytest

from mastra_conformance.options import Options
from mastra_conformance.outcomes import Outcome
from mastra_conformance.report.json_file import path_for, write_report
from mastra_conformance.report.levels import levels_of
from mastra_conformance.report.model import CaseResult, Report
from mastra_conformance.report.table import level_line, report_lines
from mastra_conformance.results import phase_of_report
from mastra_conformance.subject import Subject
from mastra_core.base.isotime import to_iso_ms
from mastra_core.plugins import API
from mastra_core.wire.baseline import WIRE

__all__ = ("Recorder",)

_ORDER = list(Outcome)
_BASE = {"storage": "storage", "pubsub": "pubsub", "lease": "lease"}


class Recorder:
    """A pytest plugin with the state of one run."""

    def __init__(
        self, options: Options, subjects: Sequence[Subject], *, narrowed: bool, now: datetime
    ) -> None:
        self._options = options
        self._subjects = {subject.key: subject for subject in subjects}
        self._narrowed = narrowed
        self._started_at = now
        #: Test → our facts about it, the worst phase winning.
        self._facts: dict[str, dict[str, Any]] = {}
        self._servers: dict[str, Mapping[str, str]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take in one phase of one test."""
        phase = phase_of_report(report)
        if phase is None:
            return
        known = self._facts.setdefault(report.nodeid, {**phase, "ms": 0.0})
        known["ms"] += phase["ms"]
        if _rank(phase) < _rank(known) or (_rank(phase) == _rank(known) and phase["reason"]):
            known["outcome"], known["reason"] = phase["outcome"], phase["reason"]
        if phase.get("server"):
            self._servers[phase["adapter"]] = phase["server"]

    def pytest_sessionfinish(self) -> None:
        """Write the report files."""
        if self._options.report is None:
            return
        reports = self.reports()
        for label, report in reports.items():
            write_report(report, path_for(self._options.report, label, several=len(reports) > 1))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print one table per adapter."""
        for report in self.reports().values():
            terminalreporter.section(level_line(report), sep="=")
            for line in report_lines(report)[:-1]:
                terminalreporter.write_line(line)

    def reports(self) -> dict[str, Report]:
        """One report per adapter that any test was run for, by the adapter's label."""
        by_adapter: dict[str, list[dict[str, Any]]] = {}
        for facts in self._facts.values():
            by_adapter.setdefault(facts["adapter"], []).append(facts)
        # What needs no adapter speaks about all of them.
        common = by_adapter.pop("", [])
        return {
            subject.label: self._report(subject, [*common, *by_adapter.get(key, [])])
            for key, subject in self._subjects.items()
            if common or key in by_adapter
        }

    def _roles(self, subject: Subject) -> list[str]:
        """The roles of the adapter that this run looked at."""
        return [role for role in subject.roles if role in self._options.roles]

    def _declared(self, subject: Subject) -> frozenset[str]:
        """What the adapter declares in these roles, and the roles themselves."""
        roles = self._roles(subject)
        names = (name for name in subject.capabilities if _role_of(name) in roles)
        return frozenset({*roles, *names})

    def _report(self, subject: Subject, facts: Sequence[Mapping[str, Any]]) -> Report:
        cases = tuple(sorted(map(_case, facts), key=lambda case: (case.tier, case.id)))
        partial = self._narrowed or self._options.narrows()
        declared = self._declared(subject)
        return Report(
            suite={"version": version("mastra-conformance")},
            core={
                "version": version("mastra-core"),
                "plugin_api": ".".join(map(str, API)),
                "wire": WIRE,
            },
            adapter={
                "name": subject.name,
                "distribution": subject.distribution,
                "version": subject.version,
                "roles": self._roles(subject),
                "url_redacted": subject.key,
            },
            server=self._servers.get(subject.key, {}),
            environment={
                "python": platform.python_version(),
                "os": f"{platform.system()} {platform.release()}",
                "cpu": f"{platform.machine()} × {os.cpu_count()}",
            },
            seed=self._options.seed,
            started_at=to_iso_ms(self._started_at.astimezone(UTC)),
            declared=declared,
            cases=cases,
            levels=levels_of(
                cases, declared=declared, partial=partial, volatile=subject.is_volatile
            ),
            partial=partial,
            tiers=self._options.tiers,
        )


def _rank(facts: Mapping[str, Any]) -> int:
    return _ORDER.index(Outcome(facts["outcome"]))


def _role_of(capability: str) -> str:
    prefix = capability.partition(".")[0]
    return prefix if prefix in {"pubsub", "lease"} else "storage"


def _case(facts: Mapping[str, Any]) -> CaseResult:
    capabilities = facts["capabilities"]
    return CaseResult(
        id=facts["id"],
        tier=facts["tier"],
        role=facts["role"],
        capability=capabilities[-1] if capabilities else _BASE.get(facts["role"]),
        outcome=Outcome(facts["outcome"]),
        ms=round(facts["ms"], 3),
        reason=facts["reason"],
        proves=tuple((spec, number) for spec, number in facts["cases"]),
    )
