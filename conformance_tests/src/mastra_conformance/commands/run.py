"""``mastra-conformance run URL``: what is this adapter worth?"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
from contextlib import ExitStack
from importlib.resources import as_file, files
from pathlib import Path
from tempfile import TemporaryDirectory

from mastra_conformance.commands.exits import CommandError, Exit, print_json, print_lines
from mastra_conformance.faults.own_server import product_for
from mastra_conformance.matrix import subjects_for
from mastra_conformance.naming import PACKAGE
from mastra_conformance.opening import probe
from mastra_conformance.options import DEFAULT_TIERS, ROLES, parse_tiers
from mastra_conformance.report.json_file import path_for, read_report
from mastra_conformance.report.model import Report
from mastra_conformance.report.table import level_line
from mastra_conformance.servers import Missing, start_server
from mastra_conformance.servers.find import find_server
from mastra_conformance.subject import Subject
from mastra_core.errors import MastraError, PluginError

__all__ = ("add_parser", "run")

_PYTEST_EXITS = {0: Exit.DONE, 4: Exit.USAGE, 5: Exit.USAGE}


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = commands.add_parser("run", help="test the adapters behind URLs")
    add = parser.add_argument
    add("urls", nargs="*", metavar="URL", help="such as memory: or file:/tmp/x.db")
    add("--tier", default=f"{DEFAULT_TIERS[0]}-{DEFAULT_TIERS[-1]}", help="such as 1 or 0-3")
    add("--role", default=",".join(ROLES), help="storage, pubsub, lease")
    add("--only", action="append", default=[], metavar="CAPABILITY", help="only its tests")
    add("--expect", metavar="FILE", help="file of known failures (TOML)")
    add("--report", metavar="PATH", help="write the report (JSON) here")
    add("--seed", type=int, metavar="N", help="repeat the order of an earlier run")
    add("--soak", type=float, metavar="SECONDS", help="repeat the concurrency tests")
    add(
        "--own-server",
        metavar="NAME[@VERSION]",
        help="server that fault tests (tier 4) start and break, such as postgres@18 or "
        "MODULE:PRODUCT; without URLs one is started for all tests",
    )
    add("--older", metavar="REVISION", help="earlier version that runs beside this one")
    add("--histories", metavar="FOLDER", help="where histories of failed tests are kept")
    add("--require", action="store_true", help="tests that can't run here are failures")
    add("--json", action="store_true", help="print the report instead of the tests")
    add("-k", dest="keyword", metavar="EXPRESSION", help="only tests whose name fits")
    add("-x", dest="stop_at_first", action="store_true", help="stop at the first failure")
    add("-v", dest="verbose", action="store_true", help="name every test")
    add("-n", dest="workers", metavar="N", help="spread over N processes (needs pytest-xdist)")
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace) -> Exit:
    """Check what can be checked before, run pytest, and say what came of it."""
    with TemporaryDirectory(prefix="mastra-conformance-") as folder, ExitStack() as servers:
        if not arguments.urls:
            arguments.urls = [_start_server(arguments.own_server, servers)]
        subjects = _subjects(arguments)
        path = Path(arguments.report) if arguments.report else Path(folder) / "report.json"
        code = _pytest(arguments, path)
        reports = _reports(path, subjects)
    if arguments.json and reports:
        documents = [report.to_json() for report in reports]
        print_json(documents[0] if len(subjects) == 1 else documents)
    elif reports:
        several = len(subjects) > 1
        print_lines(
            [
                f"{report.adapter['url_redacted']}: {level_line(report)}"
                if several
                else level_line(report)
                for report in reports
            ]
        )
    if code is Exit.USAGE and not reports:
        raise CommandError("No test was selected, or an option is wrong; see above.", Exit.USAGE)
    return code


def _start_server(name: str | None, servers: ExitStack) -> str:
    """The URL of a server of our own that runs as long as the tests."""
    if not name:
        raise CommandError("Give a URL, or --own-server NAME[@VERSION].", Exit.USAGE)
    try:
        product = product_for("", name)
    except LookupError as exc:
        raise CommandError(str(exc), Exit.USAGE) from exc
    assert product is not None, "a wanted product is found or an error"
    match find_server(product):
        case Missing(reason=reason, command=command):
            raise CommandError(f"{reason} Try: {command}", Exit.ENVIRONMENT)
        case found:
            return servers.enter_context(start_server(product, found)).url


def _subjects(arguments: argparse.Namespace) -> list[Subject]:
    """The adapters, after one look whether they can be reached at all."""
    try:
        parse_tiers(arguments.tier)
    except ValueError as exc:
        raise CommandError(str(exc), Exit.USAGE) from exc
    try:
        subjects = subjects_for(arguments.urls)
        for subject in subjects:
            asyncio.run(probe(subject))
    except PluginError as exc:
        # Not installed, broken or in conflict: nothing that another URL would mend.
        raise CommandError(str(exc), Exit.ENVIRONMENT) from exc
    except MastraError as exc:
        code = Exit.ENVIRONMENT if exc.retryable else Exit.USAGE
        hint = f" {exc.hint}" if exc.hint else ""
        raise CommandError(f"{exc}{hint}", code) from exc
    return subjects


def _pytest(arguments: argparse.Namespace, report: Path) -> Exit:
    with as_file(files(PACKAGE)) as package:
        command = [
            *(sys.executable, "-m", "pytest", "--pyargs", PACKAGE),
            *("-c", str(package / "data" / "pytest.ini"), f"--rootdir={package}"),
            f"--confcutdir={package}",
            *("-p", "no:hypothesispytest"),  # no suite uses it, and it imports itself at the end
            *(f"--mastra-adapter={url}" for url in arguments.urls),
            *(f"--mastra-only={name}" for name in arguments.only),
            f"--mastra-tier={arguments.tier}",
            f"--mastra-role={arguments.role}",
            f"--mastra-report={report.absolute()}",
            "-v" if arguments.verbose else "-q",
        ]
        if arguments.expect:
            command.append(f"--mastra-expect={Path(arguments.expect).absolute()}")
        if arguments.seed is not None:
            command.append(f"--mastra-seed={arguments.seed}")
        if arguments.soak is not None:
            command.append(f"--mastra-soak={arguments.soak}")
        if arguments.own_server:
            command.append(f"--mastra-own-server={arguments.own_server}")
        if arguments.older:
            command.append(f"--mastra-older={arguments.older}")
        if arguments.histories:
            command.append(f"--mastra-histories={Path(arguments.histories).absolute()}")
        if arguments.require:
            command.append("--mastra-require")
        if arguments.keyword:
            command.extend(("-k", arguments.keyword))
        if arguments.stop_at_first:
            command.append("-x")
        if arguments.workers:
            command.extend(("-n", arguments.workers))
        output = sys.stderr if arguments.json else None
        sys.stdout.flush()
        done = subprocess.run(command, stdout=output, check=False)
    return _PYTEST_EXITS.get(done.returncode, Exit.FAILED)


def _reports(path: Path, subjects: list[Subject]) -> list[Report]:
    several = len(subjects) > 1
    paths = [path_for(path, subject.label, several=several) for subject in subjects]
    return [read_report(found) for found in paths if found.exists()]
