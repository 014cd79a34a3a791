"""What the tests of the in-memory adapters share."""

from __future__ import annotations

import pytest

from mastra_core.testing.fake_clock import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    """Time by hand."""
    return FakeClock()
