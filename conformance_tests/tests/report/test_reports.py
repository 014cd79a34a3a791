"""Reports in all their forms."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from mastra_conformance.outcomes import Outcome
from mastra_conformance.report.badge import badge_json, badge_svg
from mastra_conformance.report.compare import compare_reports
from mastra_conformance.report.json_file import path_for, read_report, write_report
from mastra_conformance.report.levels import levels_of
from mastra_conformance.report.markdown import matrix_markdown, report_markdown
from mastra_conformance.report.model import CaseResult, Report
from mastra_conformance.report.table import level_line, report_lines

__all__ = ()

P, F, R, D, N, X = (
    Outcome.PASSED,
    Outcome.FAILED,
    Outcome.REFUSED,
    Outcome.DISHONEST,
    Outcome.NOT_RUN,
    Outcome.EXPECTED_FAILURE,
)


def result(
    name: str, outcome: Outcome = P, *, tier: int = 1, capability: str | None = "memory"
) -> CaseResult:
    reason = None if outcome is P else "because"
    return CaseResult(
        id=name, tier=tier, role="storage", capability=capability, outcome=outcome, ms=1.5,
        reason=reason, proves=(("signals", 3),),
    )  # fmt: skip


STATIC = result("static", tier=0, capability=None)


def report(*cases: CaseResult, levels: tuple[str, ...] | None = None, **changes: Any) -> Report:
    members: dict[str, Any] = {
        "suite": {"version": "0.1.0"},
        "core": {"version": "0.1.0", "plugin_api": "1.0", "wire": "1.71"},
        "adapter": {
            "name": "acme",
            "distribution": "mastra-acme",
            "version": "1.2",
            "roles": ["storage"],
            "url_redacted": "acme://x",
        },
        "server": {"product": "AcmeDB", "version": "9"},
        "environment": {"python": "3.11.7"},
        "seed": 7,
        "started_at": "2026-01-01T00:00:00.000Z",
        "declared": frozenset({"memory", "memory.copy_thread"}),
        "cases": cases,
        "levels": levels_of(cases) if levels is None else levels,
        "tiers": (0, 1),
        **changes,
    }
    return Report(**members)


@pytest.mark.parametrize(
    ("cases", "levels"),
    [
        ((STATIC, result("a")), ("full",)),
        ((STATIC, result("a"), result("b", R, capability="memory.move_thread")), ("full",)),
        ((STATIC, result("a"), result("b", F, capability="memory.copy_thread")), ("core",)),
        ((STATIC, result("a"), result("b", N, capability="memory.copy_thread")), ("core",)),
        ((STATIC, result("a", D)), ()),
        ((STATIC, result("a"), result("b", X)), ("full",)),
        ((result("a"),), ()),
        ((STATIC, result("a"), result("c", tier=2)), ("full", "concurrent")),
        ((STATIC, result("a", F), result("c", tier=2)), ("concurrent",)),
        ((STATIC, result("a"), result("c", N, tier=3)), ("full",)),
        ((STATIC, result("a"), result("c", tier=3)), ("full", "wire-1.71")),
        ((STATIC, result("a"), result("c", tier=4)), ("full", "fault-tolerant")),
    ],
)
def test_a_level_needs_all_tests_of_its_tiers(
    cases: tuple[CaseResult, ...], levels: tuple[str, ...]
) -> None:
    """None of them failed, and none was left out."""
    assert levels == levels_of(cases)
    assert levels_of(cases, partial=True) == ()


def test_a_declared_domain_without_a_test_gives_no_level() -> None:
    """Nothing is promised for what nobody looked at."""
    assert levels_of((STATIC, result("a")), declared={"memory"}) == ("full",)
    assert levels_of((STATIC, result("a")), declared={"memory", "schedules"}) == ()


def test_fault_tolerance_is_excused_for_what_a_machine_lacks() -> None:
    """Two versions and full disks may be missing, other tests may not; memory survives nothing."""
    survived = result("faults.storage_outages.S.test_x", tier=4)
    versions = result("faults.versions.V.test_x", N, tier=4)
    other = result("faults.cancelling.C.test_x", N, tier=4)

    assert ("fault-tolerant",) == levels_of((survived, versions))
    assert () == levels_of((survived, other))
    assert () == levels_of((versions,))
    assert () == levels_of((survived,), volatile=True)


def test_a_report_survives_its_file(tmp_path: Path) -> None:
    """What is written is what is read, and nothing else stays in the folder."""
    written = report(STATIC, result("a"), result("b", F))
    path = tmp_path / "deep" / "report.json"

    write_report(written, path)

    assert written == read_report(path)
    assert [path] == list(path.parent.iterdir())
    document = json.loads(path.read_text("utf-8"))
    assert document["schema"] == "mastra-conformance/1"
    assert document["capabilities"]["memory"] == {
        "declared": True, "passed": 1, "failed": 1, "refused": 0, "expected": 0, "not_run": 0,
    }  # fmt: skip
    assert document["capabilities"]["memory.copy_thread"]["declared"] is True


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON"),
        ("[]", "is not a report"),
        ("{}", "Schema None is not"),
        ('{"schema": "mastra-conformance/1"}', "lacks or garbles a member"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, text: str, message: str) -> None:
    """With a sentence that says what is wrong."""
    path = tmp_path / "x.json"
    path.write_text(text, "utf-8")

    with pytest.raises(ValueError, match=message):
        read_report(path)


def test_several_adapters_get_a_file_each() -> None:
    """The label joins the name only where it is needed."""
    assert Path("r.json") == path_for(Path("r.json"), "memory", several=False)
    assert Path("r-memory.json") == path_for(Path("r.json"), "memory", several=True)


def test_the_text_form_shows_what_is_not_green() -> None:
    """Reasons stand below the table; the last line is the level."""
    lines = report_lines(report(STATIC, result("a"), result("b", N), result("c", D)))

    assert lines[0] == "acme://x — acme 1.2, AcmeDB 9, seed 7"
    assert "  b: because" in lines
    assert "  c: because" in lines
    assert lines[-1] == "conformance: none (no level reached)"


def test_the_level_line_counts_expected_failures() -> None:
    """A green level with known failures says so."""
    assert level_line(report(STATIC, result("a"))) == "conformance: full"
    assert (
        level_line(report(STATIC, result("a"), result("b", X)))
        == "conformance: full (1 expected failure)"
    )
    assert "left out by hand" in level_line(report(STATIC, levels=(), partial=True))


def test_markdown_has_a_row_per_capability() -> None:
    """One adapter or several beside each other."""
    one, two = report(STATIC, result("a")), report(STATIC, result("a", F), declared=frozenset())

    page, table = report_markdown(one), matrix_markdown([one, two])

    assert "**conformance: full**" in page
    assert "| `memory` | 1 passed | 1 failed |" in table
    assert "| **level** | full | none |" in table
    assert "| `memory.copy_thread` | 0 passed | – |" in table


def test_the_badge_says_the_levels() -> None:
    """As endpoint JSON and as a picture that is well-formed."""
    good, bad = report(STATIC, result("a")), report(STATIC, result("a", F))

    assert badge_json(good) == {
        "schemaVersion": 1, "label": "conformance", "message": "full", "color": "brightgreen",
    }  # fmt: skip
    assert badge_json(bad)["color"] == "red"
    assert "conformance: full" in str(ET.fromstring(badge_svg(good)).attrib["aria-label"])


def test_a_comparison_names_what_got_worse() -> None:
    """Tests, levels and declared capabilities."""
    older = report(STATIC, result("a"), result("b", F), result("gone"))
    newer = report(STATIC, result("a", F), result("b"), result("new"), declared=frozenset())

    comparison = compare_reports(older, newer)

    assert comparison.is_worse
    assert comparison.regressions == ("a: passed → failed",)
    assert comparison.improvements == ("b: failed → passed",)
    assert comparison.added == ("new",)
    assert comparison.removed == ("gone",)
    assert comparison.lost_capabilities == ("memory", "memory.copy_thread")
    assert compare_reports(older, older).lines() == ["nothing changed"]
