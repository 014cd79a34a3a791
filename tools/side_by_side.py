"""Run nox sessions side by side: ``side_by_side.py LANES [--again N] SESSION…``, the longest first.

A session's output is printed in one piece when it ends; a table of durations comes last. Ends
with 1 if a session failed; the others run all the same.

With ``--again``, up to N sessions that failed run once more, each alone: what fails only beside
others was short of time. The table says so, and both outputs stay; the fault is to be looked for
all the same. If more than N failed, none is repeated.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

__all__ = ("NOX", "Ran", "main", "run_all")

#: What runs a session; its name is added.
NOX = (sys.executable, "-m", "nox", "--non-interactive", "-s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """One session that ended."""

    name: str
    seconds: float
    code: int
    is_second: bool = False

    @property
    def outcome(self) -> str:
        """A word for the table."""
        if self.code:
            return "failed"
        return "ok alone, failed beside others" if self.is_second else "ok"


async def run_all(
    sessions: Sequence[str], *, lanes: int, again: int = 0, command: Sequence[str] = NOX
) -> list[Ran]:
    """
    Run each session, at most ``lanes`` at a time; the last run of each is what counts.

    :param again: So many may fail to be repeated alone.
    """
    waiting = list(reversed(sessions))
    done: list[Ran] = []

    async def lane() -> None:
        while waiting:
            done.append(await run(waiting.pop(), command))

    async with asyncio.TaskGroup() as group:
        for _ in range(lanes):
            group.create_task(lane())
    failed = [ran for ran in done if ran.code]
    if len(failed) > again:
        return done
    repeated = [replace(await run(ran.name, command), is_second=True) for ran in failed]
    return [ran for ran in done if not ran.code] + repeated


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


def main(*arguments: str) -> int:
    """Run them, and print what each took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lanes", type=int)
    parser.add_argument("--again", type=int, default=0, metavar="N")
    parser.add_argument("sessions", nargs="+")
    given = parser.parse_args(arguments)
    begun = time.monotonic()
    done = asyncio.run(run_all(given.sessions, lanes=given.lanes, again=given.again))
    print(durations(done))
    print(f"{len(done)} sessions in {time.monotonic() - begun:.0f} s, {given.lanes} at a time")
    return int(any(ran.code for ran in done))


def durations(done: Sequence[Ran]) -> str:
    """A table, the longest first."""
    width = max(len(ran.name) for ran in done)
    return "\n".join(
        f"{ran.name:{width}} {ran.seconds:6.0f} s  {ran.outcome}"
        for ran in sorted(done, key=lambda ran: -ran.seconds)
    )


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
