"""How a command ends."""

from __future__ import annotations

import json
import sys
from enum import IntEnum

__all__ = ("CommandError", "Exit", "print_json", "print_lines")


class Exit(IntEnum):
    """Exit codes of all commands of the project (style guide, "Settings and command line")."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    ENVIRONMENT = 3


class CommandError(Exception):
    """A command can't go on; the text says why and what to try."""

    def __init__(self, message: str, code: Exit = Exit.FAILED) -> None:
        super().__init__(message)
        self.code = code


def print_json(value: object) -> None:
    """Results for programs."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def print_lines(lines: list[str]) -> None:
    """Results for people."""
    sys.stdout.write("\n".join(lines) + "\n")
