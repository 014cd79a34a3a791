"""
Plugin of pytest: coverage looks at tiers 0 and 1 of the conformance suite only.

Tracing doubles what a test costs, and tiers 2 and 3 run the same lines again, in several
processes: on a server they run untraced. ``-p measured_tiers`` with this folder on the path of
Python, in a run that coverage has started.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from typing import Final

import coverage
import pytest

__all__ = ("pytest_runtest_protocol",)

_MEASURED: Final = ("cases_t0", "cases_t1")
#: Tells processes that a test starts to look at themselves.
_VARIABLE: Final = "COVERAGE_PROCESS_CONFIG"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Stop looking around a test of another tier."""
    measuring = coverage.Coverage.current()
    if measuring is None or item.path.parent.name in _MEASURED:
        return (yield)
    variable = os.environ.pop(_VARIABLE, None)
    measuring.stop()
    try:
        return (yield)
    finally:
        measuring.start()
        if variable is not None:
            os.environ[_VARIABLE] = variable
