"""Every example is a complete program that ends well and prints what it says it prints."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from doc_blocks import blocks_of, matches

FOLDER = Path(__file__).resolve().parent
EXAMPLES = sorted(FOLDER.glob("[0-9][0-9]_*.py"))
MAX_LINES = 60


def part_of_docstring(example: Path, kind: str) -> str:
    """The block of this kind in the example's docstring; empty if there is none."""
    docstring = ast.get_docstring(ast.parse(example.read_text())) or ""
    found = [block.text for block in blocks_of(docstring) if block.language == kind]
    assert len(found) <= 1
    return "".join(found)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_prints_what_it_promises(example: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(example)],
        cwd=tmp_path,
        input=f"{part_of_docstring(example, 'stdin')}\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (0, "") == (done.returncode, done.stderr)
    promised = part_of_docstring(example, "text")
    assert promised
    assert matches(promised, done.stdout), done.stdout


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_short(example: Path) -> None:
    assert len(example.read_text().splitlines()) <= MAX_LINES
