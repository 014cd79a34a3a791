"""Fixtures of the tests that run the suite."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

__all__ = ("run",)

HERE = str(Path(__file__).parent)


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    """Runs the packaged suite against a toy adapter."""
    monkeypatch.syspath_prepend(HERE)
    monkeypatch.setenv("PYTHONPATH", f"{HERE}/packages")
    from runs import Run

    yield Run(pytester)
    for name in [name for name in sys.modules if name == "toy" or name.startswith("toy.")]:
        del sys.modules[name]
