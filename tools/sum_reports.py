"""Add up JUnit reports: ``sum_reports.py FOLDER`` names what failed, then the totals."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

__all__ = ("main",)

#: Characters of a message that still help.
_LONGEST = 400


def counts_of(path: Path) -> tuple[int, int, int]:
    """Passed, failed and skipped tests of one report."""
    suites = list(ET.parse(path).getroot().iter("testsuite"))  # noqa: S314 - our own file
    total = sum(int(suite.get("tests", 0)) for suite in suites)
    failed = sum(int(suite.get(key, 0)) for suite in suites for key in ("failures", "errors"))
    skipped = sum(int(suite.get("skipped", 0)) for suite in suites)
    return total - failed - skipped, failed, skipped


def failures_of(path: Path) -> Iterator[str]:
    """A line per failed test of one report: its name and the first line of what it raised."""
    for test in ET.parse(path).getroot().iter("testcase"):  # noqa: S314 - our own file
        for outcome in (*test.iter("failure"), *test.iter("error")):
            message = (outcome.get("message") or outcome.text or "").strip().splitlines()
            yield f"{test.get('classname')}.{test.get('name')}: {''.join(message[:1])[:_LONGEST]}"


def main(folder: str) -> int:
    """Print failures, a line per report, and the totals; 1 if a test failed or none ran."""
    for path in sorted(Path(folder).glob("*.xml")):
        for line in failures_of(path):
            print(f"{path.stem}: {line}")
    found = {path.stem: counts_of(path) for path in sorted(Path(folder).glob("*.xml"))}
    for name, (passed, failed, skipped) in found.items():
        print(f"{name:32} {passed:6} passed {failed:4} failed {skipped:4} skipped")
    passed, failed, skipped = (sum(counts[i] for counts in found.values()) for i in range(3))
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return bool(failed) or not passed


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
