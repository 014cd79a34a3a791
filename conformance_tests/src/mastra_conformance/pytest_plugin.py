"""What pytest loads through the entry point ``mastra_conformance``.

Only options and marks; everything else is loaded when the run is configured, after
coverage has started to look. See ``session``.
"""

from __future__ import annotations

import pytest

from mastra_conformance.marks import DESCRIPTIONS
from mastra_conformance.options import add_options

__all__ = ()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options."""
    add_options(parser)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Declare the marks and load the rest of the suite."""
    from mastra_conformance import fixtures, session
    from mastra_conformance.faults import fixtures as fault_fixtures

    for name, description in DESCRIPTIONS.items():
        config.addinivalue_line("markers", f"{name}: {description}")
    config.pluginmanager.register(fixtures, "mastra_fixtures")
    config.pluginmanager.register(fault_fixtures, "mastra_fault_fixtures")
    config.pluginmanager.register(session, "mastra_session")
