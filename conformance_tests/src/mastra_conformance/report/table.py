"""Reports as text for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from mastra_conformance.outcomes import Outcome
from mastra_conformance.report.model import Report, count_capabilities

__all__ = ("align", "level_line", "report_lines")

_COLUMNS = ("passed", "failed", "refused", "expected", "not_run")


def level_line(report: Report) -> str:
    """One line: what this adapter is worth."""
    expected = report.counts()[Outcome.EXPECTED_FAILURE]
    noun = "expected failure" if expected == 1 else "expected failures"
    note = f" ({expected} {noun})" if expected else ""
    if report.levels:
        return f"conformance: {' · '.join(report.levels)}{note}"
    why = "parts were left out by hand" if report.partial else "no level reached"
    return f"conformance: none ({why}){note}"


def report_lines(report: Report) -> list[str]:
    """The whole report: head, capabilities, what went wrong, what was not run, the level."""
    adapter = report.adapter
    server = " ".join(report.server.values())
    head = f"{adapter['url_redacted']} — {adapter['name']} {adapter.get('version') or ''}".rstrip()
    lines = [f"{head}{f', {server}' if server else ''}, seed {report.seed}", ""]
    rows = [("capability", "declared", *(column.replace("_", "-") for column in _COLUMNS))]
    for name, counts in count_capabilities(report.cases, report.declared).items():
        numbers = (str(getattr(counts, column) or "·") for column in _COLUMNS)
        rows.append((name, "yes" if counts.declared else "no", *numbers))
    lines.extend(align(rows))
    for outcome in (Outcome.FAILED, Outcome.DISHONEST, Outcome.NOT_RUN, Outcome.EXPECTED_FAILURE):
        cases = [case for case in report.cases if case.outcome is outcome]
        if cases:
            lines.extend(["", f"{outcome}:"])
            lines.extend(f"  {case.id}: {case.reason or 'no reason given'}" for case in cases)
    totals = ", ".join(f"{count} {name}" for name, count in report.counts().items() if count)
    lines.extend(["", totals or "no test was run", level_line(report)])
    return lines


def align(rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns under each other; the first to the left, all others to the right."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if place == 0 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
