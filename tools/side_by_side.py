"""Run nox sessions side by side: ``side_by_side.py LANES SESSION…``, the longest first.

A session's output is printed in one piece when it ends; a table of durations comes last. Ends
with 1 if a session failed; the others run all the same.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ("NOX", "Ran", "main", "run_all")

#: What runs a session; its name is added.
NOX = (sys.executable, "-m", "nox", "--non-interactive", "-s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """One session that ended."""

    name: str
    seconds: float
    code: int


async def run_all(
    sessions: Sequence[str], *, lanes: int, command: Sequence[str] = NOX
) -> list[Ran]:
    """Run each session once, at most ``lanes`` at a time."""
    waiting = list(reversed(sessions))
    done: list[Ran] = []

    async def lane() -> None:
        while waiting:
            done.append(await run(waiting.pop(), command))

    async with asyncio.TaskGroup() as group:
        for _ in range(lanes):
            group.create_task(lane())
    return done


async def run(name: str, command: Sequence[str]) -> Ran:
    """Run one session and print what it printed."""
    begun = time.monotonic()
    print(f"… {name}", flush=True)
    process = await asyncio.create_subprocess_exec(
        *(*command, name),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, "FORCE_COLOR": "0"},
    )
    output, _ = await process.communicate()
    code = process.returncode or 0
    seconds = time.monotonic() - begun
    print(output.decode(errors="replace").rstrip())
    print(f"{'✓' if code == 0 else '✗'} {name}: {seconds:.0f} s", flush=True)
    return Ran(name=name, seconds=seconds, code=code)


def main(lanes: str, *sessions: str) -> int:
    """Run them, and print what each took."""
    begun = time.monotonic()
    done = asyncio.run(run_all(sessions, lanes=int(lanes)))
    print(durations(done))
    print(f"{len(done)} sessions in {time.monotonic() - begun:.0f} s, {lanes} at a time")
    return int(any(ran.code for ran in done))


def durations(done: Sequence[Ran]) -> str:
    """A table, the longest first."""
    width = max(len(ran.name) for ran in done)
    return "\n".join(
        f"{ran.name:{width}} {ran.seconds:6.0f} s  {'ok' if ran.code == 0 else 'failed'}"
        for ran in sorted(done, key=lambda ran: -ran.seconds)
    )


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
