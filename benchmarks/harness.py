"""Measuring two ways of doing one thing against each other, in turns, in one run.

Machines are shared and noisy, so a figure alone says little. A scenario runs ours and the
floor (the raw driver doing the same statements, or the TypeScript store) alternately for some
rounds; what counts is the median of the ratios.
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol

__all__ = (
    "NO_GOAL",
    "UNDISTURBED",
    "Call",
    "Goal",
    "Result",
    "Scenario",
    "Side",
    "Spans",
    "Timed",
    "measure",
)

Call = Callable[[], Awaitable[Any]]

UNDISTURBED: Final = 0.1
"""The share of a single caller's calls that may have been quicker than what counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """What a figure should be; ``times``: how often the floor fits into ours, or ours into it."""

    kind: Literal[
        "at most times",
        "at least times faster",
        "at most microseconds",
        "at most microseconds more",
        "at least per second",
        "any per second",
        "none",
    ]
    value: float = 0.0

    def __str__(self) -> str:
        match self.kind:
            case "at most times":
                return f"≤ {self.value:g} ×"
            case "at least times faster":
                return f"≥ {self.value:g} × faster"
            case "at most microseconds":
                return f"≤ {self.value:g} µs"
            case "at most microseconds more":
                return f"≤ {self.value:g} µs more"
            case "at least per second":
                return f"≥ {self.value:g} /s"
            case "any per second":
                return "– /s"
            case "none":
                return "–"

    def is_met(self, own_us: float, ratio: float | None) -> bool | None:
        """Whether it was reached; None where nothing was to be reached."""
        match self.kind:
            case "at most times":
                return None if ratio is None else ratio <= self.value
            case "at least times faster":
                return None if ratio is None else 1 / ratio >= self.value
            case "at most microseconds":
                return own_us <= self.value
            case "at most microseconds more":
                return None if ratio is None else own_us - own_us / ratio <= self.value
            case "at least per second":
                return 1e6 / own_us >= self.value
            case "any per second" | "none":
                return None


NO_GOAL = Goal(kind="none")


class Side(Protocol):
    """One of two that are compared."""

    async def __call__(self, calls: int, tasks: int) -> float:
        """Microseconds per call when so many calls are shared by so many tasks."""
        ...


class Timed:
    """
    A call of this process: of one caller a tenth of its calls is quicker, of many what each costs.

    Args:
        call: What is measured.
        units: How many things one call does, if not one.
        before: Done before each round, unmeasured.
        clock: Tells seconds; ``time.process_time`` for what waits for nothing but a processor, on
            a machine that has other things to do.
    """

    def __init__(
        self,
        call: Call,
        *,
        units: int = 1,
        before: Call | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._call = call
        self._units = units
        self._before = before
        self._clock = clock

    async def __call__(self, calls: int, tasks: int) -> float:
        if self._before is not None:
            await self._before()
        share = max(1, calls // tasks)
        if tasks == 1:
            # A checkpoint in between, or a moment without a processor, is no part of a call.
            durations = sorted([await self._duration() for _ in range(share)])
            return durations[int(share * UNDISTURBED)] * 1e6 / self._units

        async def run() -> None:
            for _ in range(share):
                await self._call()

        started = self._clock()
        await asyncio.gather(*(run() for _ in range(tasks)))
        return (self._clock() - started) / (share * tasks) * 1e6 / self._units

    async def _duration(self) -> float:
        """Seconds of one call."""
        started = self._clock()
        await self._call()
        return self._clock() - started


class Spans:
    """
    Calls that say themselves how many seconds of them count, one after the other.

    A tenth of them is quicker than the figure, as of a single caller's timed calls.
    """

    def __init__(self, call: Callable[[], Awaitable[float]]) -> None:
        self._call = call

    async def __call__(self, calls: int, tasks: int) -> float:
        del tasks
        durations = sorted([await self._call() for _ in range(calls)])
        return durations[int(calls * UNDISTURBED)] * 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One thing to measure; without a floor only its own time counts."""

    name: str
    backend: str
    ours: Side
    floor: Side | None = None
    #: What the floor is, for the table.
    against: str = ""
    goal: Goal = field(default_factory=lambda: NO_GOAL)
    calls: int = 100
    tasks: int = 1

    @property
    def label(self) -> str:
        """Backend, name and number of callers, as ``--only`` finds it."""
        callers = f" ({self.tasks} callers)" if self.tasks > 1 else ""
        return f"{self.backend}: {self.name}{callers}"


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
    #: Why there are no figures.
    not_run: str | None = None
    #: What the first two figures are, if no times.
    unit: str = "µs"


async def measure(scenario: Scenario, *, rounds: int) -> Result:
    """Run a scenario in turns with its floor."""
    # The inputs that lie ready are ours; the collector needn't look at them again and again.
    gc.collect()
    gc.freeze()
    ours: list[float] = []
    floors: list[float] = []
    sides: list[tuple[Side, list[float]]] = [(scenario.ours, ours)]
    if scenario.floor is not None:
        sides.append((scenario.floor, floors))
    for side, _ in sides:
        await side(max(1, scenario.calls // 5), scenario.tasks)
    for number in range(rounds):
        for side, figures in sides if number % 2 == 0 else reversed(sides):
            figures.append(await side(scenario.calls, scenario.tasks))
    ratio = _median_of_ratios(ours, floors)
    own = statistics.median(ours)
    return Result(
        name=scenario.name,
        backend=scenario.backend,
        against=scenario.against,
        tasks=scenario.tasks,
        ours_us=round(own, 1),
        floor_us=round(statistics.median(floors), 1) if floors else None,
        ratio=round(ratio, 6) if ratio is not None else None,
        goal=str(scenario.goal),
        met=scenario.goal.is_met(own, ratio),
        best_ratio=round(min(ours) / min(floors), 6) if floors else None,
    )


def _median_of_ratios(ours: Sequence[float], floors: Sequence[float]) -> float | None:
    if not floors:
        return None
    return statistics.median(own / floor for own, floor in zip(ours, floors, strict=True))
