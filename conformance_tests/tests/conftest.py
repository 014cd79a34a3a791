"""What the tests of the suite share."""

from __future__ import annotations

import pytest

__all__ = ("anyio_backend",)

pytest_plugins = ("pytester",)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """The only backend of this project."""
    return "asyncio"
