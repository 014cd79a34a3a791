"""Write docs/reference/commands.md from the help of the commands; ``--check`` compares only.

The help stands in the page as commands with their output, so the documentation's own run compares
it, too.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from page_writer import finish, paragraphs

__all__ = ("page",)

PROGRAMS = ("mastra-py", "mastra-conformance")
INTRODUCTION = """
# Commands

`mastra-py` comes with `mastra-cli`, `mastra-conformance` with `mastra-conformance`. This page is
written by `tools/gen_commands_page.py`; what the commands are good for is in
[a how-to guide](../how-to/use-the-command-line.md).

Results go to stdout, words for people to stderr. `--json` prints stable JSON under wire names.

| Exit code | Means |
|---|---|
| 0 | done |
| 1 | failed |
| 2 | wrong usage |
| 3 | something is missing in the environment |
"""
#: Where a list of commands starts in a help text, and how its lines look: typer's, argparse's.
LISTS = {
    "\nCommands:\n": re.compile(r"^  ([a-z][a-z-]*)  "),
    "\npositional arguments:\n": re.compile(r"^    ([a-z][a-z-]*) "),
}


def help_of(*command: str) -> str:
    """What ``command --help`` prints."""
    return subprocess.run(
        [str(Path(sys.executable).with_name(command[0])), *command[1:], "--help"],
        env={**os.environ, "NO_COLOR": "1", "COLUMNS": "100"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def subcommands(text: str) -> Iterator[str]:
    """The names in the list of commands of a help text."""
    for start, line_form in LISTS.items():
        listed = text.partition(start)[2].partition("\n\n")[0]
        for line in listed.splitlines():
            if found := line_form.match(line):
                yield found[1]


def sections(*command: str) -> Iterator[str]:
    """A command, and then those below it."""
    text = help_of(*command)
    name = " ".join(command)
    yield f"{'#' * (len(command) + 1)} {name}"
    yield f"```console\n$ {name} --help\n{text.strip()}\n```"
    for child in subcommands(text):
        yield from sections(*command, child)


def page() -> str:
    """The whole page."""
    return paragraphs(INTRODUCTION, *(part for name in PROGRAMS for part in sections(name)))


if __name__ == "__main__":
    sys.exit(finish({"docs/reference/commands.md": page()}))
