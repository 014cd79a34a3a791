"""Write the index of numbered cases from a folder of specification pages.

Usage: ``python tools/gen_cases.py FOLDER [OUTPUT]``. Only the last section of a
page, "Conformance cases", is read; everything else on the page may change freely.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

__all__ = ("cases_of_page", "index_of_folder", "main")

DEFAULT_OUTPUT = (
    Path(__file__).parent.parent / "conformance_tests/src/mastra_conformance/data/cases.json"
)
#: Longer sentences are cut; the page itself is the reference.
MAX_TEXT = 160

_SECTION = re.compile(r"^## .*conformance cases", re.IGNORECASE)
_CASE = re.compile(r"^(\d+)\. (.*)$")


def cases_of_page(text: str) -> list[dict[str, object]]:
    """The numbered cases of one page in their order."""
    found: list[dict[str, object]] = []
    inside = False
    for line in text.splitlines():
        if line.startswith("## "):
            inside = bool(_SECTION.match(line))
        match = _CASE.match(line) if inside else None
        if match:
            found.append({"n": int(match[1]), "text": _short(match[2])})
    return found


def index_of_folder(folder: Path) -> dict[str, list[dict[str, object]]]:
    """Page name to cases, for every page of the folder that has any."""
    pages = ((path.stem, cases_of_page(path.read_text("utf-8"))) for path in folder.glob("*.md"))
    return {name: cases for name, cases in sorted(pages) if cases}


def main(arguments: list[str]) -> int:
    """Run the script; 2 for wrong usage."""
    if not 1 <= len(arguments) <= 2 or not Path(arguments[0]).is_dir():
        sys.stderr.write("usage: gen_cases.py FOLDER [OUTPUT]\n")
        return 2
    output = Path(arguments[1]) if len(arguments) == 2 else DEFAULT_OUTPUT
    index = index_of_folder(Path(arguments[0]))
    output.write_text(json.dumps(index, indent=1, ensure_ascii=False) + "\n", "utf-8")
    sys.stderr.write(f"{sum(map(len, index.values()))} cases of {len(index)} pages\n")
    return 0


def _short(text: str) -> str:
    text = text.strip()
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1].rstrip() + "…"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
