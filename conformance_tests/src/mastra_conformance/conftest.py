"""Runs the packaged suites on asyncio, also for fixtures that live for a session."""

from __future__ import annotations

import pytest

__all__ = ("anyio_backend",)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """The only backend of this project."""
    return "asyncio"
