"""Write the tables of adapters from the reports in docs/reference/reports; ``--check`` compares only.

``--take reports/conformance/*.json`` first copies reports there, without the single tests and
without what only says where they were made.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from page_writer import ROOT, finish, paragraphs, table

__all__ = ("pages",)

REPORTS = ROOT / "docs" / "reference" / "reports"
KEPT = ("schema", "suite", "core", "adapter", "server", "tiers", "levels", "counts", "capabilities")
#: File name → what it stands for, in this order.
SUBJECTS = {
    "memory": ("in memory", "`memory:`"),
    "libsql-file": ("libSQL, a file", "`file:app.db`"),
    "libsql-http": ("libSQL, a server", "`libsql+http://`"),
    "jsonfile": ("[JSON file](../../examples/json_file_adapter/README.md)", "`jsonfile:app.json`"),
}
START, END = "<!-- adapters: written by tools/gen_matrix.py -->", "<!-- end of adapters -->"
INTRODUCTION = """
# Adapters

What each adapter is worth, as the conformance suite has found it. This page is written by
`tools/gen_matrix.py` from the reports in `docs/reference/reports`;
[the guide](../how-to/run-the-conformance-suite.md) says how to make one.
"""
LEVELS = """
| Level | Given if |
|---|---|
| `core` | everything in the declared domains works that isn't optional, and the rest is refused |
| `full` | everything that is declared works, and the rest is refused |
| `concurrent` | the same with many tasks, many handles and several processes at once |
| `wire-1.71` | it stores what the TypeScript system stores, member by member |

A level needs every test of its kind: one that failed, or that couldn't run, takes it away.
"""
LEGEND = """
A number counts the tests that passed. "refused" means that the adapter doesn't promise it and says
so when asked. "–" means that it isn't promised, and that there is no call that could be refused.
"declared" is a promise that no test shows yet.
"""


def take(paths: Iterable[Path]) -> None:
    """Copy reports into the repository."""
    REPORTS.mkdir(parents=True, exist_ok=True)
    for path in paths:
        report = json.loads(path.read_text())
        kept = {name: report[name] for name in KEPT}
        kept["adapter"] = {k: v for k, v in report["adapter"].items() if k != "url_redacted"}
        target = REPORTS / path.name
        target.write_text(json.dumps(kept, indent=1) + "\n")
        print(f"took {target.relative_to(ROOT)}")


def reports() -> dict[str, Any]:
    """The reports in the repository by name, in the order of ``SUBJECTS``."""
    return {
        name: json.loads(path.read_text())
        for name in SUBJECTS
        if (path := REPORTS / f"{name}.json").exists()
    }


def summary(*, prefix: str) -> str:
    """One row per adapter."""
    rows = []
    for name, report in reports().items():
        title, url = SUBJECTS[name]
        server = report["server"].get("product")
        version = f", {server} {report['server'].get('version', '')}".rstrip() if server else ""
        rows.append(
            (
                f"{title.replace('../../', prefix)}{version}",
                url,
                ", ".join(report["adapter"]["roles"]),
                " · ".join(report["levels"]) or "none",
                str(report["counts"]["passed"]),
            )
        )
    return table(("Adapter", "URL", "Roles", "Levels", "Tests passed"), rows)


def cell(counts: dict[str, Any] | None) -> str:
    """What one adapter has to say to one capability."""
    if counts is None:
        return "–"
    if counts["failed"]:
        return f"{counts['failed']} failed"
    if not counts["declared"]:
        return "refused" if counts["refused"] else "–"
    return str(counts["passed"]) if counts["passed"] else "declared"


def matrix() -> str:
    """One row per capability, one column per adapter."""
    found = reports()
    names = sorted({name for report in found.values() for name in report["capabilities"]})
    rows = []
    for name in names:
        cells = [cell(report["capabilities"].get(name)) for report in found.values()]
        rows.append((f"`{name}`", *cells))
    return table(("Capability", *(SUBJECTS[name][0] for name in found)), rows)


def pages() -> dict[str, str]:
    """Path → text."""
    readme = (ROOT / "README.md").read_text()
    before, _, rest = readme.partition(START)
    _, _, after = rest.partition(END)
    block = f"{START}\n\n{summary(prefix='')}\n\n{END}"
    return {
        "README.md": f"{before}{block}{after}" if rest else readme,
        "docs/reference/adapters.md": paragraphs(
            INTRODUCTION, summary(prefix="../../"), LEVELS, "## By capability", LEGEND, matrix()
        ),
    }


if __name__ == "__main__":
    if sys.argv[1:2] == ["--take"]:
        take(map(Path, sys.argv[2:]))
    sys.exit(finish(pages()))
