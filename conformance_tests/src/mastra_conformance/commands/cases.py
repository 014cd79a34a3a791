"""``mastra-conformance cases``: which numbered cases does a test prove?"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from mastra_conformance.commands.exits import CommandError, Exit, print_json, print_lines
from mastra_conformance.coverage import coverage_json, coverage_lines, coverage_of
from mastra_conformance.scan import (
    ScanResult,
    TagError,
    collected_tags,
    find_checkout,
    scan,
    test_folders,
)

__all__ = ("add_parser", "cases")


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = commands.add_parser("cases", help="list the numbered cases: proven and open")
    add = parser.add_argument
    add("--json", action="store_true", help="print JSON")
    add("--spec", action="append", default=[], metavar="NAME", help="only this page; repeatable")
    add("--tests", action="store_true", help="also name the tests of each proven case")
    add("--collect", action="store_true", help="ask pytest, too, instead of reading sources only")
    parser.set_defaults(command=cases)


def cases(arguments: argparse.Namespace) -> Exit:
    """Scan the suites, and inside a checkout of the project all its tests."""
    checkout = find_checkout(Path.cwd())
    folders = test_folders(checkout)
    found = scan(folders)
    try:
        more = collected_tags(folders if arguments.collect else found.computed)
    except TagError as exc:
        raise CommandError(str(exc)) from exc
    found = replace(found, tags=tuple(sorted({*found.tags, *more})))
    for error in found.errors:
        sys.stderr.write(f"error: {error}\n")
    coverage = coverage_of(found)
    unknown = sorted(set(arguments.spec) - set(coverage))
    if unknown:
        known = ", ".join(coverage)
        raise CommandError(f"Unknown specification {unknown[0]!r}. Known: {known}.", Exit.USAGE)
    if arguments.spec:
        coverage = {spec: coverage[spec] for spec in arguments.spec}
    if arguments.json:
        print_json(coverage_json(coverage))
    else:
        print_lines(coverage_lines(coverage))
        if arguments.tests:
            print_lines(_test_lines(found, coverage.keys()))
    return Exit.FAILED if found.errors else Exit.DONE


def _test_lines(found: ScanResult, specs: Collection[str]) -> list[str]:
    return [f"{tag.spec} {tag.number}: {tag.test}" for tag in found.tags if tag.spec in specs]
