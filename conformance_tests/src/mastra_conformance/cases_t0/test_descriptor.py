"""What an adapter says about itself: descriptor, plugin module, package."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import files
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from mastra_conformance.imports import measure_plugin
from mastra_conformance.opening import Opener
from mastra_conformance.subject import Subject, plugin_manager
from mastra_core.contracts.capabilities import inconsistencies
from mastra_core.errors import UnknownSettingError

__all__ = ("IMPORT_BUDGET_SECONDS",)

IMPORT_BUDGET_SECONDS = 0.1
"""What the import of a plugin module may take beside that of the core."""


def test_the_plugin_is_active(subject: Subject) -> None:
    """The entry point loads, nothing put it aside, and no other plugin claims its schemes."""
    manager = plugin_manager(subject.plugins)

    states = {item.name: (item.status, item.reason) for item in manager.status()}

    assert states[subject.plugin_name][0] == "active", states[subject.plugin_name][1]


def test_capabilities_are_known_and_consistent(subject: Subject) -> None:
    """Every declared name exists, and what it implies is declared, too."""
    assert inconsistencies(subject.capabilities) == ()


def test_descriptors_say_what_they_are(subject: Subject) -> None:
    """A summary for ``plugins`` and ``doctor``, and one name for all roles."""
    specs = [subject.spec(role) for role in subject.roles]

    assert all(spec.summary for spec in specs)
    assert {subject.name} == {spec.name for spec in specs}


def test_factories_and_settings_are_there(subject: Subject) -> None:
    """What a descriptor names by import string can be imported; factories don't wait."""
    for role in subject.roles:
        spec = subject.spec(role)
        factory = _import(spec.factory) if isinstance(spec.factory, str) else spec.factory
        assert callable(factory)
        assert not iscoroutinefunction(factory)
        if spec.settings is not None:
            assert issubclass(_import(spec.settings), BaseModel)


@pytest.mark.anyio
async def test_an_unknown_option_is_refused(opener: Opener) -> None:
    """A misspelt ``mastra_…`` parameter is an error that lists the known ones, not silence."""
    url = opener.place.url
    other = opener.with_url(f"{url}{'&' if '?' in url else '?'}mastra_no_such_option=1")
    openers = {"storage": other.storage, "pubsub": other.pubsub, "lease": other.lease}

    for role in opener.subject.roles:
        with pytest.raises(UnknownSettingError, match="no_such_option"):
            async with openers[role]():
                pass


def test_the_package_is_typed(subject: Subject) -> None:
    """The distribution ships ``py.typed``."""
    shipped = files(subject.distribution) if subject.distribution else None
    package = import_module(subject.plugin_module.partition(".")[0])

    found = any(Path(folder, "py.typed").is_file() for folder in getattr(package, "__path__", ()))

    assert found or any(path.name == "py.typed" for path in shipped or ())


def test_loading_the_plugin_imports_no_driver(subject: Subject) -> None:
    """Asking what an adapter offers imports nothing but its own package."""
    own = subject.plugin_module.partition(".")[0]

    cost = measure_plugin(subject.plugin_module, rounds=1)

    assert cost.packages <= {own}


def test_loading_the_plugin_is_quick(subject: Subject) -> None:
    """The best of several rounds stays inside the budget."""
    cost = measure_plugin(subject.plugin_module, rounds=3)

    assert cost.seconds <= IMPORT_BUDGET_SECONDS


def _import(name: str) -> Any:
    module, _, attribute = name.partition(":")
    found: Any = import_module(module)
    for part in attribute.split("."):
        found = getattr(found, part)
    return found
