"""Check the changelog fragments: names, contents, and that there is one to release."""

from __future__ import annotations

import re
import sys
from pathlib import Path

__all__ = ("main",)

FOLDER = Path(__file__).resolve().parent.parent / "changelog.d"
NAME = re.compile(r"\d+\.(added|changed|fixed|removed|security)(\.\d+)?\.md")
MAX_CHARACTERS = 600


def complaints() -> list[str]:
    """Everything that is wrong with the fragments, one sentence each."""
    paths = sorted(path for path in FOLDER.iterdir() if path.name != "README.md")
    wrong = [] if paths else ["changelog.d holds no fragment: say what changes for a user."]
    for path in paths:
        text = path.read_text().strip()
        if not NAME.fullmatch(path.name):
            wrong.append(f"{path.name} is not <issue>.<kind>.md, see changelog.d/README.md.")
        if not text:
            wrong.append(f"{path.name} is empty.")
        if len(text) > MAX_CHARACTERS:
            wrong.append(f"{path.name} is longer than {MAX_CHARACTERS} characters.")
    return wrong


def main() -> int:
    """Print what is wrong; 1 if anything."""
    wrong = complaints()
    print("\n".join(wrong) if wrong else "The changelog fragments are in order.")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
