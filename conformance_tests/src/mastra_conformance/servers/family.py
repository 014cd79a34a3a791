"""A process and everything that it started: signalled together."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

__all__ = ("signal_family",)

_PROCESSES = Path("/proc")


def signal_family(pid: int, number: signal.Signals) -> None:
    """
    Send a signal to a process, its group, and all its descendants.

    Children that made a session of their own (those of PostgreSQL do) aren't in the group.
    The eldest is stopped before its children are looked for, so that none is missed.
    """
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)
    family = [*_descendants(pid)]
    with suppress(ProcessLookupError):
        os.killpg(pid, number)
    for child in family:
        with suppress(ProcessLookupError):
            os.kill(child, number)
    if number not in {signal.SIGSTOP, signal.SIGKILL}:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def _descendants(pid: int) -> Iterator[int]:
    parents = dict(_parents())
    children = [pid]
    while children:
        children = [child for child, parent in parents.items() if parent in children]
        yield from children


def _parents() -> Iterator[tuple[int, int]]:
    """Process id → id of its parent, of all processes."""
    if not (_PROCESSES / "self" / "stat").exists():
        told = subprocess.run(
            ["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True
        )
        for line in told.stdout.splitlines():
            child, parent = line.split()
            yield int(child), int(parent)
        return
    for entry in _PROCESSES.iterdir():
        if entry.name.isdigit():
            # It may end while we look.
            with suppress(OSError):
                # The name in parentheses may hold anything, also blanks and parentheses.
                rest = (entry / "stat").read_text("utf-8", "replace").rpartition(")")[2]
                yield int(entry.name), int(rest.split()[1])
