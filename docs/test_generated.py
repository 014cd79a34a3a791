"""Pages that tools write are as the tools would write them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
#: Not gen_commands_page: that page is commands and their output, so its own run compares it.
TOOLS = ("gen_hooks_page", "gen_reference_pages", "gen_matrix")


@pytest.mark.parametrize("tool", TOOLS)
def test_generated_pages_are_current(tool: str) -> None:
    """Run the tool that the message names, and look at what it changed."""
    done = subprocess.run(
        [sys.executable, f"tools/{tool}.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert (0, "") == (done.returncode, done.stdout), done.stderr
