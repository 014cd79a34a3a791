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


def promised_output(example: Path) -> str:
    """The block of kind ``text`` in the example's docstring."""
    docstring = ast.get_docstring(ast.parse(example.read_text())) or ""
    (promise,) = (block for block in blocks_of(docstring) if block.language == "text")
    return promise.text


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_prints_what_it_promises(example: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(example)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (0, "") == (done.returncode, done.stderr)
    assert matches(promised_output(example), done.stdout), done.stdout


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_short(example: Path) -> None:
    assert len(example.read_text().splitlines()) <= MAX_LINES
