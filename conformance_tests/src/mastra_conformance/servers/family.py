"""A process and everything that it started: signalled together."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

__all__ = ("signal_family", "wait_until_gone")

_PROCESSES = Path("/proc")
_POLL_SECONDS = 0.005


def signal_family(pid: int, number: signal.Signals) -> list[int]:
    """
    Send a signal to a process, its group, and all its descendants; the ids of these.

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
    return family


def wait_until_gone(pids: Collection[int], *, seconds: float) -> bool:
    """
    Wait for killed processes that aren't our children; False if one is still there then.

    On a busy machine they live on for a moment, and hold what their server needs to start again.
    """
    deadline = time.monotonic() + seconds
    while any(_is_there(pid) for pid in pids):
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def _is_there(pid: int) -> bool:
    """Does it exist, and hold anything? One that nobody has waited for yet does not."""
    try:
        rest = (_PROCESSES / str(pid) / "stat").read_text("utf-8", "replace").rpartition(")")[2]
    except FileNotFoundError:
        if (_PROCESSES / "self" / "stat").exists():
            return False
    except ProcessLookupError:
        return False
    else:
        return rest.split()[0] not in {"Z", "X"}
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


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
