"""What all tests of the core share."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """The core is asyncio only; session-wide, so that session fixtures may be async."""
    return "asyncio"
