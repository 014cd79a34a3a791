"""The entry of ``mastra-conformance``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from mastra_conformance import __version__
from mastra_conformance.commands import cases, report, run, servers
from mastra_conformance.commands.exits import CommandError

__all__ = ("main",)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line: 0 done, 1 failed, 2 wrong usage, 3 environment missing."""
    parser = argparse.ArgumentParser(
        prog="mastra-conformance", description="What is a backend of mastra-core worth?"
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(metavar="run|cases|report|matrix|servers", required=True)
    for module in (run, cases, report, servers):
        module.add_parser(commands)
    arguments = parser.parse_args(argv)
    try:
        return int(arguments.command(arguments))
    except CommandError as exc:
        sys.stderr.write(f"mastra-conformance: {exc}\n")
        return int(exc.code)
