"""``mastra-conformance report`` and ``matrix``: read what runs have written."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from mastra_conformance.commands.exits import CommandError, Exit, print_json, print_lines
from mastra_conformance.report.badge import badge_json, badge_svg
from mastra_conformance.report.compare import compare_reports
from mastra_conformance.report.json_file import read_report
from mastra_conformance.report.markdown import matrix_markdown, report_markdown
from mastra_conformance.report.model import Report
from mastra_conformance.report.table import report_lines

__all__ = ("add_parser", "badge", "compare", "markdown", "matrix", "show")


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare both commands."""
    report = commands.add_parser("report", help="read report files")
    kinds = report.add_subparsers(metavar="show|compare|badge|markdown", required=True)
    for name, function, text in (
        ("show", show, "print a report"),
        ("markdown", markdown, "print a report as a page"),
        ("badge", badge, "print the badge of a report"),
    ):
        parser = kinds.add_parser(name, help=text)
        parser.add_argument("path", type=Path)
        parser.add_argument("--json", action="store_true", help="print JSON")
        if name == "badge":
            parser.add_argument("--svg", action="store_true", help="a picture instead of JSON")
        parser.set_defaults(command=function)
    parser = kinds.add_parser("compare", help="what changed; 1 if something got worse")
    parser.add_argument("older", type=Path)
    parser.add_argument("newer", type=Path)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(command=compare)

    parser = commands.add_parser("matrix", help="several reports beside each other (Markdown)")
    parser.add_argument("paths", type=Path, nargs="+", metavar="REPORT")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(command=matrix)


def show(arguments: argparse.Namespace) -> Exit:
    """Print one report."""
    report = _read(arguments.path)
    if arguments.json:
        print_json(report.to_json())
    else:
        print_lines(report_lines(report))
    return Exit.DONE


def markdown(arguments: argparse.Namespace) -> Exit:
    """Print one report as Markdown."""
    text = report_markdown(_read(arguments.path))
    sys.stdout.write(json.dumps({"markdown": text}) + "\n" if arguments.json else text)
    return Exit.DONE


def badge(arguments: argparse.Namespace) -> Exit:
    """Print the badge; JSON unless a picture is wanted."""
    report = _read(arguments.path)
    if arguments.svg:
        sys.stdout.write(badge_svg(report))
    else:
        print_json(badge_json(report))
    return Exit.DONE


def compare(arguments: argparse.Namespace) -> Exit:
    """Print the differences."""
    comparison = compare_reports(_read(arguments.older), _read(arguments.newer))
    if arguments.json:
        print_json(comparison.to_json())
    else:
        print_lines(comparison.lines())
    return Exit.FAILED if comparison.is_worse else Exit.DONE


def matrix(arguments: argparse.Namespace) -> Exit:
    """Print the table of several adapters."""
    reports = [_read(path) for path in arguments.paths]
    if arguments.json:
        print_json([_head(report) for report in reports])
    else:
        sys.stdout.write(matrix_markdown(reports))
    return Exit.DONE


def _head(report: Report) -> dict[str, object]:
    document = report.to_json()
    return {name: document[name] for name in ("adapter", "server", "capabilities", "levels")}


def _read(path: Path) -> Report:
    try:
        return read_report(path)
    except ValueError as exc:
        raise CommandError(str(exc), Exit.USAGE) from exc
