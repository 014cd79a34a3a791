"""What the tests of the inbox share."""

from __future__ import annotations

import pytest

from mastra_core.testing.fake_clock import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    """A clock that stands still until a test moves it."""
    return FakeClock()
