"""The entry of ``mastra-conformance``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from mastra_conformance import __version__

__all__ = ("main",)


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="mastra-conformance", description=__doc__)
    parser.add_argument("--version", action="version", version=__version__)
    parser.parse_args(argv)
    parser.print_help()
