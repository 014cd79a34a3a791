"""Check how much of our public interfaces has a type that every checker reads the same way.

``check_typed.py GOAL PACKAGE…``: pyright must find at least GOAL percent of each package's public
symbols completely typed. A plain ``logger = …`` counts against it, so the goal isn't 100.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

__all__ = ("main",)

SHOWN = 15


def completeness(package: str) -> dict[str, Any]:
    """What pyright says about the completeness of a package's types."""
    done = subprocess.run(
        ["pyright", "--ignoreexternal", "--outputjson", "--verifytypes", package],
        capture_output=True,
        text=True,
        check=False,
    )
    found: dict[str, Any] = json.loads(done.stdout)["typeCompleteness"]
    return found


def untyped_symbols(found: dict[str, Any]) -> Iterator[str]:
    """Exported symbols whose type is unknown, or could be inferred differently."""
    for symbol in found["symbols"]:
        if symbol["isExported"] and not symbol["isTypeKnown"]:
            reasons = {note["message"] for note in symbol["diagnostics"]}
            yield f"  {symbol['name']}: {'; '.join(sorted(reasons)) or 'ambiguous'}"


def main(goal: str, *packages: str) -> int:
    """Print the share of each package, and what is missing; 1 if one is below the goal."""
    below = False
    for package in packages:
        found = completeness(package)
        share = 100 * found["completenessScore"]
        print(f"{package}: {share:.1f} % of the public interface is completely typed")
        if share < float(goal):
            below = True
            print("\n".join(list(untyped_symbols(found))[:SHOWN]))
    return below


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
