"""What pytest loads through the entry point ``mastra_conformance``.

Only wiring: each hook hands over to the room that knows the answer.
"""

from __future__ import annotations

import pytest

from mastra_conformance.cases import MARK
from mastra_conformance.options import add_options
from mastra_conformance.suite import REQUIRES, TIER

__all__ = ()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options."""
    add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marks."""
    config.addinivalue_line("markers", f"{MARK}(spec, *numbers): proves cases of a specification")
    config.addinivalue_line("markers", f"{REQUIRES}(*names): needs these capabilities")
    config.addinivalue_line("markers", f"{TIER}(number): belongs to this tier")
