"""Write the tables of adapters from the reports in docs/reference/reports; ``--check`` compares only.

``--take reports/*/*.json`` first copies reports there, without the single tests and without what
only says where they were made. A report on another Python is noted in the one that it repeats.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from page_writer import ROOT, finish, paragraphs, table

__all__ = ("pages",)

REPORTS = ROOT / "docs" / "reference" / "reports"
KEPT = ("schema", "suite", "core", "adapter", "server", "tiers", "levels", "counts", "capabilities")
#: What a run of several tiers, one of tier 4, and one of tier 5 leave: folder → end of the name.
KINDS = {"conformance": "", "faults": ".faults", "interop": ".interop"}
LEVELS = ("core", "full", "concurrent", "wire-1.71", "fault-tolerant", "interop")
START, END = "<!-- adapters: written by tools/gen_matrix.py -->", "<!-- end of adapters -->"
OTHER_PYTHON = re.compile(r"(?P<name>.+)-python(?P<version>3\.\d+)")
JSON_FILE = "[JSON file](../../examples/json_file_adapter/README.md)"
ADAPTERS_PAGE = """
# Adapters

What each adapter is worth, as the conformance suite has found it on real servers. This page is
written by `tools/gen_matrix.py` from the reports in `docs/reference/reports`;
[the guide](../how-to/run-the-conformance-suite.md) says how to make one.
[What each capability was tested with](conformance_matrix.md).
"""
MATRIX_PAGE = """
# Conformance matrix

One row per capability, one column per adapter and version of its server. This page is written by
`tools/gen_matrix.py` from the reports in `docs/reference/reports`. [Levels](adapters.md).
"""
LEVEL_TABLE = """
| Level | Given if |
|---|---|
| `core` | everything in the declared domains works that isn't optional, and the rest is refused |
| `full` | everything that is declared works, and the rest is refused |
| `concurrent` | the same with many tasks, many handles and several processes at once |
| `wire-1.71` | it stores what the TypeScript system stores, member by member |
| `fault-tolerant` | servers that die, stop and come back, networks that break, processes that are killed: nothing acknowledged is lost, nothing hangs |
| `interop` | the TypeScript packages on Node work on the same store at the same time |

A level needs every test of its kind: one that failed, or that couldn't run, takes it away. A
version in parentheses means that only that one was tested for the level.
"""
LEGEND = """
A number counts the tests that passed. "refused" means that the adapter doesn't promise it and says
so when asked. "–" means that it isn't promised, and that there is no call that could be refused.
"declared" is a promise that no test shows yet.
"""


@dataclass(frozen=True, slots=True)
class Row:
    """One adapter of the tables."""

    #: Names of its reports start with it; a server's version follows.
    name: str
    title: str
    url: str


ROWS = (
    Row("memory", "in memory", "`memory:`"),
    Row("libsql-file", "libSQL, a file", "`file:app.db`"),
    Row("libsql-http", "libSQL, a server", "`libsql+http://`"),
    Row("postgres", "PostgreSQL", "`postgresql://`"),
    Row("mongodb", "MongoDB, a replica set", "`mongodb://`"),
    Row("mongodb-standalone", "MongoDB, standalone", "`mongodb://`"),
    Row("redis", "Redis", "`redis://`"),
    Row("jsonfile", JSON_FILE, "`jsonfile:app.json`"),
)


@dataclass(frozen=True, slots=True)
class Tested:
    """One adapter on one version of its server, with everything that was run on it."""

    row: Row
    report: Mapping[str, Any]
    #: Runs of single tiers.
    more: tuple[Mapping[str, Any], ...]

    @property
    def version(self) -> str:
        """Of the server or engine; empty for none."""
        return str(self.report["server"].get("version", ""))

    @property
    def levels(self) -> list[str]:
        """Of all runs together."""
        found = {level for report in (self.report, *self.more) for level in report["levels"]}
        return [level for level in LEVELS if level in found]

    @property
    def pythons(self) -> list[str]:
        """Versions of Python on which the levels of the first run came out."""
        told: Mapping[str, list[str]] = self.report.get("pythons", {})
        same = (python for python, levels in told.items() if levels == self.report["levels"])
        return sorted(same, key=lambda python: [int(part) for part in python.split(".")])

    @property
    def passed(self) -> int:
        """Tests of all runs."""
        return sum(report["counts"]["passed"] for report in (self.report, *self.more))


# -- reports ----------------------------------------------------------------------------------------


def take(paths: Iterable[Path]) -> None:
    """Copy reports into the repository; those on other Pythons last, they add to the others."""
    REPORTS.mkdir(parents=True, exist_ok=True)
    for path in sorted(paths, key=lambda path: OTHER_PYTHON.fullmatch(path.stem) is not None):
        report = json.loads(path.read_text())
        if other := OTHER_PYTHON.fullmatch(path.stem):
            take_python(path, other["name"], other["version"], report["levels"])
            continue
        kept = {name: report[name] for name in KEPT}
        kept["adapter"] = {k: v for k, v in report["adapter"].items() if k != "url_redacted"}
        python = ".".join(report["environment"]["python"].split(".")[:2])
        kept["pythons"] = {python: report["levels"]}
        write(REPORTS / f"{path.stem}{KINDS[path.parent.name]}.json", kept)


def take_python(path: Path, name: str, python: str, levels: list[str]) -> None:
    """Note what came out on another Python."""
    target = REPORTS / f"{name}{KINDS[path.parent.name]}.json"
    report = json.loads(target.read_text())
    report["pythons"][python] = levels
    write(target, report)


def write(target: Path, report: Mapping[str, Any]) -> None:
    """Keep one report."""
    target.write_text(json.dumps(report, indent=1) + "\n")
    print(f"took {target.relative_to(ROOT)}")


def tested() -> Iterator[Tested]:
    """What the reports in the repository are about, in the order of ``ROWS``."""
    for row in ROWS:
        for path in sorted(REPORTS.glob(f"{row.name}*.json")):
            name = path.name.removesuffix(".json")
            if re.fullmatch(rf"{re.escape(row.name)}(-[\d.]*\d)?", name):
                more = (REPORTS / f"{name}{end}.json" for end in KINDS.values() if end)
                yield Tested(
                    row,
                    json.loads(path.read_text()),
                    tuple(json.loads(path.read_text()) for path in more if path.exists()),
                )


# -- pages ------------------------------------------------------------------------------------------


def summary(*, prefix: str) -> str:
    """One row per adapter, with what holds on all versions of its server."""
    everything = list(tested())
    rows = []
    for row in ROWS:
        found = [item for item in everything if item.row == row]
        if not found:
            continue
        product = found[0].report["server"].get("product")
        versions = ", ".join(item.version for item in found if item.version)
        rows.append(
            (
                row.title.replace("../../", prefix),
                f"{product} {versions}" if product else "–",
                row.url,
                ", ".join(found[0].report["adapter"]["roles"]),
                " · ".join(common_levels(found)) or "none",
            )
        )
    return table(("Adapter", "Tested on", "URL", "Roles", "Levels"), rows)


def common_levels(found: list[Tested]) -> Iterator[str]:
    """Levels that all versions have; one that was tested on some only names those."""
    for level in LEVELS:
        having = [item for item in found if level in item.levels]
        if len(having) == len(found):
            yield level
        elif having and level in {"fault-tolerant", "interop"}:
            yield f"{level} ({', '.join(item.version for item in having)})"


def by_version() -> str:
    """One row per adapter and version of its server."""
    rows = [
        (
            item.row.title,
            " ".join(filter(None, (item.report["server"].get("product"), item.version))) or "–",
            " · ".join(item.levels) or "none",
            ", ".join(item.pythons) or "–",
            str(item.passed),
        )
        for item in tested()
    ]
    return table(("Adapter", "Server", "Levels", "On Python", "Tests passed"), rows)


def cell(counts: Mapping[str, Any] | None) -> str:
    """What one adapter has to say to one capability."""
    if counts is None:
        return "–"
    if counts["failed"]:
        return f"{counts['failed']} failed"
    if not counts["declared"]:
        return "refused" if counts["refused"] else "–"
    return str(counts["passed"]) if counts["passed"] else "declared"


def matrix() -> str:
    """One row per capability, one column per adapter and version."""
    found = list(tested())
    several = {item.row.name for item in found} - {
        row.name for row in ROWS if sum(item.row == row for item in found) == 1
    }
    heads = [
        f"{item.row.title} {item.version}" if item.row.name in several else item.row.title
        for item in found
    ]
    names = sorted({name for item in found for name in item.report["capabilities"]})
    rows = [
        (f"`{name}`", *(cell(item.report["capabilities"].get(name)) for item in found))
        for name in names
    ]
    return table(("Capability", *heads), rows)


def pages() -> dict[str, str]:
    """Path → text."""
    readme = (ROOT / "README.md").read_text()
    before, _, rest = readme.partition(START)
    _, _, after = rest.partition(END)
    block = f"{START}\n\n{summary(prefix='')}\n\n{END}"
    return {
        "README.md": f"{before}{block}{after}" if rest else readme,
        "docs/reference/adapters.md": paragraphs(
            ADAPTERS_PAGE,
            summary(prefix="../../"),
            LEVEL_TABLE,
            "## By version of the server",
            by_version(),
        ),
        "docs/reference/conformance_matrix.md": paragraphs(MATRIX_PAGE, LEGEND, matrix()),
    }


if __name__ == "__main__":
    if sys.argv[1:2] == ["--take"]:
        take(map(Path, sys.argv[2:]))
    sys.exit(finish(pages()))
