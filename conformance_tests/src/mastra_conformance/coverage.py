"""How much of the specifications is proven, and why the rest isn't yet."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from mastra_conformance.cases import case_index
from mastra_conformance.report.table import align
from mastra_conformance.scan import ScanResult

__all__ = ("SpecCoverage", "coverage_json", "coverage_lines", "coverage_of", "open_reasons")


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecCoverage:
    """One specification."""

    cases: int
    proven: tuple[int, ...]
    open: tuple[int, ...]
    #: Why an open case is open, for those where it is deliberate.
    reasons: Mapping[int, str]


def coverage_of(found: ScanResult) -> dict[str, SpecCoverage]:
    """Every specification, in the order of the index."""
    reasons = open_reasons()
    proven = found.proven()
    result: dict[str, SpecCoverage] = {}
    for spec, texts in case_index().texts.items():
        missing = tuple(number for number in texts if number not in set(proven[spec]))
        result[spec] = SpecCoverage(
            cases=len(texts),
            proven=tuple(proven[spec]),
            open=missing,
            reasons={n: reasons[spec, n] for n in missing if (spec, n) in reasons},
        )
    return result


def open_reasons() -> dict[tuple[str, int], str]:
    """
    Why cases are deliberately open, from ``data/open_reasons.toml``.

    Raises:
        ValueError: An entry is incomplete, or names a case twice.
        UnknownCaseError: An entry names a case that doesn't exist.
    """
    text = files("mastra_conformance").joinpath("data/open_reasons.toml").read_text("utf-8")
    reasons: dict[tuple[str, int], str] = {}
    for entry in tomllib.loads(text).get("open", []):
        if set(entry) != {"spec", "cases", "reason"} or not entry["reason"]:
            raise ValueError(f"An open case needs spec, cases and reason: {entry!r}.")
        for number in case_index().check(entry["spec"], tuple(entry["cases"])):
            if (entry["spec"], number) in reasons:
                raise ValueError(f"Case {number} of {entry['spec']!r} has two reasons.")
            reasons[entry["spec"], number] = entry["reason"]
    return reasons


def coverage_json(coverage: Mapping[str, SpecCoverage]) -> dict[str, Any]:
    """The document of ``mastra-conformance cases --json``."""
    return {
        spec: {
            "cases": entry.cases,
            "proven": list(entry.proven),
            "open": list(entry.open),
            "reasons": {str(number): reason for number, reason in entry.reasons.items()},
        }
        for spec, entry in coverage.items()
    }


def coverage_lines(coverage: Mapping[str, SpecCoverage]) -> list[str]:
    """A table, then the deliberately open cases with their reasons."""
    rows: list[tuple[str, ...]] = [
        ("specification", "cases", "proven", "open", "of these explained")
    ]
    rows.extend(
        (spec, *map(str, (entry.cases, len(entry.proven), len(entry.open), len(entry.reasons))))
        for spec, entry in coverage.items()
    )
    totals = [sum(int(row[column]) for row in rows[1:]) for column in range(1, 5)]
    rows.append(("all", *map(str, totals)))
    lines = align(rows)
    for spec, entry in coverage.items():
        by_reason: dict[str, list[int]] = {}
        for number, reason in entry.reasons.items():
            by_reason.setdefault(reason, []).append(number)
        lines.extend(
            f"{spec} {_ranges(numbers)}: {reason}" for reason, numbers in by_reason.items()
        )
        unexplained = [number for number in entry.open if number not in entry.reasons]
        if unexplained:
            lines.append(f"{spec} {_ranges(unexplained)}: open")
    return lines


def _ranges(numbers: list[int]) -> str:
    """``1-3, 7`` for 1, 2, 3, 7."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and parts[-1][-1] == number - 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ", ".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)
