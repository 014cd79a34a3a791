"""Reports as Markdown: one adapter, or several beside each other."""

from __future__ import annotations

from collections.abc import Sequence

from mastra_conformance.outcomes import Outcome
from mastra_conformance.report.model import CapabilityCounts, Report, count_capabilities
from mastra_conformance.report.table import level_line

__all__ = ("matrix_markdown", "report_markdown")


def report_markdown(report: Report) -> str:
    """A page about one adapter."""
    adapter = report.adapter
    lines = [
        f"# Conformance of {adapter['name']}",
        "",
        _origin(report),
        "",
        f"**{level_line(report)}**",
        "",
        *matrix_markdown([report]).splitlines(),
    ]
    for outcome in (Outcome.FAILED, Outcome.DISHONEST, Outcome.NOT_RUN, Outcome.EXPECTED_FAILURE):
        cases = [case for case in report.cases if case.outcome is outcome]
        if cases:
            lines.extend(["", f"## {str(outcome).capitalize()}", ""])
            lines.extend(f"* `{case.id}`: {_escape(case.reason or '')}" for case in cases)
    return "\n".join(lines) + "\n"


def _origin(report: Report) -> str:
    adapter = report.adapter
    release = f"{adapter.get('distribution') or 'no distribution'} {adapter.get('version') or ''}"
    parts = (
        f"`{adapter['url_redacted']}`",
        release.strip(),
        f"suite {report.suite['version']}",
        report.started_at,
        f"seed {report.seed}",
    )
    return " · ".join(parts)


def matrix_markdown(reports: Sequence[Report]) -> str:
    """One row per capability, one column per adapter and server version."""
    by_report = [count_capabilities(report.cases, report.declared) for report in reports]
    names = sorted({name for counts in by_report for name in counts})
    lines = [
        _row("Capability", *(_title(report) for report in reports)),
        _row("---", *("---" for _ in reports)),
        _row("**level**", *(" · ".join(report.levels) or "none" for report in reports)),
    ]
    lines.extend(
        _row(f"`{name}`", *(_cell(counts.get(name)) for counts in by_report)) for name in names
    )
    return "\n".join(lines) + "\n"


def _title(report: Report) -> str:
    server = " ".join(report.server.values())
    version = report.adapter.get("version") or ""
    return _escape(" ".join(filter(None, (report.adapter["name"], version, server))))


def _cell(counts: CapabilityCounts | None) -> str:
    match counts:
        case None:
            return "–"
        case CapabilityCounts(failed=failed) if failed:
            return f"{failed} failed"
        case CapabilityCounts(not_run=not_run) if not_run:
            return f"{not_run} not run"
        case CapabilityCounts(declared=False):
            return "refused" if counts.refused else "–"
        case CapabilityCounts(expected=expected) if expected:
            return f"{counts.passed} passed, {expected} expected failures"
        case _:
            return f"{counts.passed} passed"


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _escape(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
