"""The conformance suite: what a backend is worth, shown by tests.

Names are looked up when they are used, so that pytest, which imports this package at
its start, pays only for what a run needs.
"""

from __future__ import annotations

from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mastra_conformance.cases import case
    from mastra_conformance.outcomes import not_run
    from mastra_conformance.suite import (
        Suite,
        needs_file,
        needs_server,
        requires,
        several_processes,
        tier,
    )

__all__ = (
    "Suite",
    "__version__",
    "case",
    "needs_file",
    "needs_server",
    "not_run",
    "requires",
    "several_processes",
    "tier",
)

__version__ = "0.1.0"

_HOME: Final = MappingProxyType(
    {
        "case": "cases",
        "not_run": "outcomes",
        "Suite": "suite",
        "needs_file": "suite",
        "needs_server": "suite",
        "requires": "suite",
        "several_processes": "suite",
        "tier": "suite",
    }
)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
