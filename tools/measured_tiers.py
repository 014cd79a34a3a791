"""
Plugin of pytest: coverage looks at what runs an adapter in one process, tiers 0 and 1.

Tracing doubles what a test costs. Tiers 2 and 3 run the same lines again, in several processes,
and tests of the runtime run the core's, which those on a file cover: on a server they run untraced. ``-p measured_tiers`` with this folder on the path of
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
_UNMEASURED: Final = "test_runtime_"
#: Tells processes that a test starts to look at themselves.
_VARIABLE: Final = "COVERAGE_PROCESS_CONFIG"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Stop looking around a test that others cover."""
    measuring = coverage.Coverage.current()
    if measuring is None or _is_measured(item):
        return (yield)
    variable = os.environ.pop(_VARIABLE, None)
    measuring.stop()
    try:
        return (yield)
    finally:
        measuring.start()
        if variable is not None:
            os.environ[_VARIABLE] = variable


def _is_measured(item: pytest.Item) -> bool:
    return item.path.parent.name in _MEASURED and not item.path.name.startswith(_UNMEASURED)
