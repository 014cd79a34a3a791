"""Add up JUnit reports: ``sum_reports.py FOLDER`` ends with one line of totals."""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree as ET

__all__ = ("main",)


def counts_of(path: Path) -> tuple[int, int, int]:
    """Passed, failed and skipped tests of one report."""
    suites = list(ET.parse(path).getroot().iter("testsuite"))  # noqa: S314 - our own file
    total = sum(int(suite.get("tests", 0)) for suite in suites)
    failed = sum(int(suite.get(key, 0)) for suite in suites for key in ("failures", "errors"))
    skipped = sum(int(suite.get("skipped", 0)) for suite in suites)
    return total - failed - skipped, failed, skipped


def main(folder: str) -> int:
    """Print a line per report and the totals; 1 if a test failed or none ran."""
    found = {path.stem: counts_of(path) for path in sorted(Path(folder).glob("*.xml"))}
    for name, (passed, failed, skipped) in found.items():
        print(f"{name:32} {passed:6} passed {failed:4} failed {skipped:4} skipped")
    passed, failed, skipped = (sum(counts[i] for counts in found.values()) for i in range(3))
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return bool(failed) or not passed


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
