"""What was measured, as tables for people and as JSON for programs."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from itertools import groupby
from typing import Any

from harness import Result

__all__ = ("as_json", "environment", "tables")

_PACKAGES = (
    "mastra-core",
    "mastra-sql",
    "mastra-libsql",
    "mastra-postgres",
    "mastra-mongodb",
    "mastra-redis",
    "apsw",
    "psycopg",
    "pymongo",
    "redis",
    "hiredis",
    "sqlalchemy",
    "pydantic",
)
_HEAD = ("scenario", "callers", "ours", "floor", "ratio", "best", "goal", "met?")
_WORDS = {True: "yes", False: "MISSED", None: ""}


def tables(results: Sequence[Result]) -> str:
    """One table for each backend, unit and what it is compared with, in the order of measuring."""
    parts = []
    for (backend, against, unit), group in groupby(
        results, key=lambda one: (one.backend, one.against, one.unit)
    ):
        title = f"{backend}, against {against}, {unit}" if against else f"{backend}, {unit}"
        parts.append(f"{title}\n{_table(list(group))}")
    return "\n\n".join(parts)


def _table(results: Sequence[Result]) -> str:
    rows = [_row(result) for result in results if result.not_run is None]
    rows = [_HEAD, *rows] if rows else []
    widths = [max(len(row[place]) for row in rows) for place in range(len(_HEAD))] if rows else []
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    lines += [f"not run: {one.name}: {one.not_run}" for one in results if one.not_run is not None]
    return "\n".join(lines)


def _row(result: Result) -> tuple[str, ...]:
    return (
        result.name,
        str(result.tasks),
        f"{result.ours_us:.1f}",
        "–" if result.floor_us is None else f"{result.floor_us:.1f}",
        _ratio(result, result.ratio),
        _ratio(result, result.best_ratio),
        result.goal,
        _WORDS[result.met],
    )


def _ratio(result: Result, ratio: float | None) -> str:
    if ratio is None:
        return f"{1e6 / result.ours_us:.0f} /s" if result.goal.endswith("/s") else "–"
    if result.goal.startswith("≥"):
        return f"{1 / ratio:.2f} × faster"
    if result.goal.endswith("µs more"):
        return f"{result.ours_us * (1 - 1 / ratio):.0f} µs more"
    return f"{ratio:.2f} ×"


def environment(servers: Iterable[tuple[str, str]] = ()) -> dict[str, Any]:
    """What the figures were measured with."""
    return {
        "python": sys.version.split()[0],
        "system": platform.platform(),
        "cpus": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "load": [round(load, 2) for load in os.getloadavg()],
        "servers": dict(servers),
        "packages": {name: _version(name) for name in _PACKAGES},
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def as_json(results: Sequence[Result]) -> list[dict[str, Any]]:
    """The results as plain values."""
    return [asdict(result) for result in results]
