"""The goals of every backend, by what is measured."""

from __future__ import annotations

from harness import NO_GOAL, Goal

__all__ = ("goal_of",)


def _at_most(value: float) -> Goal:
    return Goal(kind="at most times", value=value)


def _faster(value: float) -> Goal:
    return Goal(kind="at least times faster", value=value)


def _per_second(value: float) -> Goal:
    return Goal(kind="at least per second", value=value)


def _more_ms(value: float) -> Goal:
    return Goal(kind="at most microseconds more", value=value * 1000)


_BACKENDS = ("libsql file", "postgres", "mongodb", "redis")

_GOALS: dict[str, tuple[Goal, ...]] = {
    "one caller": (_at_most(1.3), _at_most(1.3), _at_most(1.2), _at_most(1.3)),
    "32 callers": (_faster(2), _faster(1.6), _faster(0.9), _faster(3.5)),
    "merge": (_at_most(2), _at_most(2), _at_most(2), _at_most(1.5)),
    "claim": (_at_most(1.3), _at_most(1.3), _at_most(1.5), _at_most(1.3)),
    "partial updates": (_faster(1.5), _faster(2.5), _faster(1), _faster(6)),
    "lease acquire": (_at_most(1.5), _at_most(1.5), _at_most(1.5), _at_most(1.3)),
    "publish and deliver": (
        Goal(kind="at most microseconds", value=500),
        _at_most(2),
        _at_most(1.5),
        _at_most(1.5),
    ),
    "grouped consume": (_per_second(2000), _per_second(2500), _per_second(800), _per_second(15000)),
    "acceptance": (_at_most(2), _at_most(2), _at_most(2), _at_most(1.5)),
    "wake across processes": (_more_ms(3), _more_ms(3), _more_ms(3), _more_ms(2)),
    "received": (_at_most(1.2),) * 4,
    "growth": (_at_most(1.5),) * 4,
    "suspended runs against TypeScript": (_faster(500), _faster(6), _faster(10), _faster(2000)),
    "against TypeScript": (_faster(1),) * 4,
    "lz4 persist": (NO_GOAL, _faster(2), NO_GOAL, NO_GOAL),
    "lz4 step": (NO_GOAL, _faster(3), NO_GOAL, NO_GOAL),
}


def goal_of(what: str, backend: str) -> Goal:
    """The goal of a backend for something that is measured."""
    return _GOALS[what][_BACKENDS.index(backend)]
