"""Measuring two ways of doing one thing against each other, in one process, in turns.

Machines are shared and noisy, so a figure alone says little. A scenario runs ours and the
floor (the raw driver doing the same statements) alternately for some rounds; what counts is
the median of the ratios.
"""

from __future__ import annotations

import asyncio
import gc
import platform
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Literal

__all__ = ("Call", "Goal", "Result", "Scenario", "environment", "measure", "table")

Call = Callable[[], Awaitable[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """What a figure should be; ``times``: how often the floor fits into ours, or ours into it."""

    kind: Literal["at most times", "at least times faster", "at most microseconds", "none"]
    value: float = 0.0

    def __str__(self) -> str:
        match self.kind:
            case "at most times":
                return f"≤ {self.value:g} ×"
            case "at least times faster":
                return f"≥ {self.value:g} × faster"
            case "at most microseconds":
                return f"≤ {self.value:g} µs"
            case "none":
                return "–"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One thing to measure; without a floor only its own time counts."""

    name: str
    backend: str
    ours: Call
    floor: Call | None = None
    #: What the floor is, for the table.
    against: str = ""
    goal: Goal = field(default_factory=lambda: Goal(kind="none"))
    calls: int = 100
    tasks: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The figures of one scenario; times are microseconds per call."""

    name: str
    backend: str
    against: str
    tasks: int
    ours_us: float
    floor_us: float | None
    #: Ours over floor, median of the rounds.
    ratio: float | None
    goal: str
    met: bool | None
    #: Our best round over the floor's best: what is left of the ratio without disturbances.
    best_ratio: float | None = None


async def measure(scenario: Scenario, *, rounds: int) -> Result:
    """Run a scenario in turns with its floor."""
    # The inputs that lie ready are ours; the collector needn't look at them again and again.
    gc.collect()
    gc.freeze()
    await _timed(scenario.ours, scenario, warm_up=True)
    if scenario.floor is not None:
        await _timed(scenario.floor, scenario, warm_up=True)
    ours: list[float] = []
    floors: list[float] = []
    ratios: list[float] = []
    for number in range(rounds):
        first_ours = number % 2 == 0
        if first_ours:
            ours.append(await _timed(scenario.ours, scenario))
        if scenario.floor is not None:
            floors.append(await _timed(scenario.floor, scenario))
        if not first_ours:
            ours.append(await _timed(scenario.ours, scenario))
        if scenario.floor is not None:
            ratios.append(ours[-1] / floors[-1])
    ratio = statistics.median(ratios) if ratios else None
    own = statistics.median(ours)
    return Result(
        name=scenario.name,
        backend=scenario.backend,
        against=scenario.against,
        tasks=scenario.tasks,
        ours_us=round(own, 1),
        floor_us=round(statistics.median(floors), 1) if floors else None,
        ratio=round(ratio, 3) if ratio is not None else None,
        goal=str(scenario.goal),
        met=_met(scenario.goal, own, ratio),
        best_ratio=round(min(ours) / min(floors), 3) if floors else None,
    )


async def _timed(call: Call, scenario: Scenario, *, warm_up: bool = False) -> float:
    """Microseconds per call: of one caller the median, of many callers what each costs."""
    share = max(1, scenario.calls // scenario.tasks)
    if warm_up:
        share = max(1, share // 5)
    if scenario.tasks == 1:
        # A checkpoint in between, or a moment without a processor, is no part of a call.
        return statistics.median([await _duration(call) for _ in range(share)]) * 1e6

    async def run() -> None:
        for _ in range(share):
            await call()

    started = time.perf_counter()
    await asyncio.gather(*(run() for _ in range(scenario.tasks)))
    return (time.perf_counter() - started) / (share * scenario.tasks) * 1e6


async def _duration(call: Call) -> float:
    """Seconds of one call."""
    started = time.perf_counter()
    await call()
    return time.perf_counter() - started


def _met(goal: Goal, own: float, ratio: float | None) -> bool | None:
    match goal.kind:
        case "at most times":
            return None if ratio is None else ratio <= goal.value
        case "at least times faster":
            return None if ratio is None else 1 / ratio >= goal.value
        case "at most microseconds":
            return own <= goal.value
        case "none":
            return None


def table(results: list[Result]) -> str:
    """The results as text, one line each."""
    head = ("scenario", "backend", "tasks", "ours µs", "floor µs", "ratio", "best", "goal", "")
    rows = [
        (
            result.name,
            result.backend,
            str(result.tasks),
            f"{result.ours_us:.1f}",
            "–" if result.floor_us is None else f"{result.floor_us:.1f}",
            _ratio(result, result.ratio),
            _ratio(result, result.best_ratio),
            result.goal,
            {True: "ok", False: "MISSED", None: ""}[result.met],
        )
        for result in results
    ]
    widths = [max(len(row[place]) for row in (head, *rows)) for place in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
             for row in (head, *rows)]  # fmt: skip
    return "\n".join(lines)


def _ratio(result: Result, ratio: float | None) -> str:
    if ratio is None:
        return "–"
    if result.goal.startswith("≥"):
        return f"{1 / ratio:.2f} × faster"
    return f"{ratio:.2f} ×"


def environment() -> dict[str, Any]:
    """What the figures were measured with."""
    names = ("mastra-core", "mastra-sql", "mastra-libsql", "apsw", "sqlalchemy", "pydantic")
    return {
        "python": sys.version.split()[0],
        "system": platform.platform(),
        "cpus": len(_usable_cpus()),
        "packages": {name: _version(name) for name in names},
    }


def _usable_cpus() -> set[int]:
    import os

    return os.sched_getaffinity(0)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def as_json(results: list[Result]) -> list[dict[str, Any]]:
    """The results as plain values."""
    return [asdict(result) for result in results]
