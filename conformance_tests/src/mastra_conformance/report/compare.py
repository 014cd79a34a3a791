"""What changed between two runs."""

from __future__ import annotations

from dataclasses import dataclass

from mastra_conformance.outcomes import Outcome
from mastra_conformance.report.model import Report

__all__ = ("Comparison", "compare_reports")

_GOOD = frozenset({Outcome.PASSED, Outcome.REFUSED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The differences from an older report to a newer one."""

    #: Was fine, isn't now.
    regressions: tuple[str, ...]
    #: Wasn't fine, is now.
    improvements: tuple[str, ...]
    added: tuple[str, ...]
    #: Tests that the newer report lacks.
    removed: tuple[str, ...]
    lost_levels: tuple[str, ...]
    won_levels: tuple[str, ...]
    lost_capabilities: tuple[str, ...]

    @property
    def is_worse(self) -> bool:
        """Whether something that worked doesn't any more."""
        return bool(self.regressions or self.lost_levels or self.lost_capabilities)

    def to_json(self) -> dict[str, object]:
        """All members, and whether it got worse."""
        return {
            "worse": self.is_worse,
            "regressions": list(self.regressions),
            "improvements": list(self.improvements),
            "added": list(self.added),
            "removed": list(self.removed),
            "lost_levels": list(self.lost_levels),
            "won_levels": list(self.won_levels),
            "lost_capabilities": list(self.lost_capabilities),
        }

    def lines(self) -> list[str]:
        """The same as text; one line says if nothing changed."""
        titles = {
            "regressions": "worse",
            "improvements": "better",
            "added": "new",
            "removed": "gone",
            "lost_levels": "level lost",
            "won_levels": "level won",
            "lost_capabilities": "no longer declared",
        }
        lines = [
            f"{title}: {name}" for member, title in titles.items() for name in getattr(self, member)
        ]
        return lines or ["nothing changed"]


def compare_reports(older: Report, newer: Report) -> Comparison:
    """Compare test by test; the same id is the same test."""
    before = {case.id: case.outcome for case in older.cases}
    after = {case.id: case.outcome for case in newer.cases}
    common = before.keys() & after.keys()
    return Comparison(
        regressions=_changes(before, after, common, better=False),
        improvements=_changes(before, after, common, better=True),
        added=tuple(sorted(after.keys() - before.keys())),
        removed=tuple(sorted(before.keys() - after.keys())),
        lost_levels=tuple(level for level in older.levels if level not in newer.levels),
        won_levels=tuple(level for level in newer.levels if level not in older.levels),
        lost_capabilities=tuple(sorted(older.declared - newer.declared)),
    )


def _changes(
    before: dict[str, Outcome], after: dict[str, Outcome], ids: set[str], *, better: bool
) -> tuple[str, ...]:
    return tuple(
        f"{case_id}: {before[case_id]} → {after[case_id]}"
        for case_id in sorted(ids)
        if (before[case_id] in _GOOD) != (after[case_id] in _GOOD)
        and (after[case_id] in _GOOD) is better
    )
