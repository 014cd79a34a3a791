"""Switches of the environment."""

from __future__ import annotations

from typing import Any

import pytest

from mastra_core.errors import ConfigError
from mastra_core.plugins.manager import PluginManager
from mastra_core.plugins.options import PluginOptions


def test_environment_overrides_what_was_configured() -> None:
    """All four variables."""
    base = PluginOptions(disable=frozenset({"a"}), strict=True)
    environ = {
        "MASTRA_PLUGINS": "x, y,",
        "MASTRA_PLUGINS_DISABLE": "b",
        "MASTRA_PLUGINS_STRICT": "0",
        "MASTRA_PLUGINS_TRACE": "yes",
    }

    options = PluginOptions.from_environ(environ, base)

    assert (frozenset({"x", "y"}), frozenset({"b"}), False, True) == (
        options.enable,
        options.disable,
        options.strict,
        options.trace,
    )


def test_empty_variables_count_as_unset() -> None:
    """Compose files pass them on like that."""
    names = ("", "_DISABLE", "_STRICT", "_TRACE")

    assert PluginOptions() == PluginOptions.from_environ(
        {f"MASTRA_PLUGINS{name}": "" for name in names}
    )


def test_a_switch_is_on_or_off() -> None:
    """Everything else is a mistake."""
    with pytest.raises(ConfigError, match="MASTRA_PLUGINS_STRICT is 'maybe'; write 1 or 0"):
        PluginOptions.from_environ({"MASTRA_PLUGINS_STRICT": "maybe"})


@pytest.mark.parametrize("name", ["start_deadline", "permit_deadline", "observer_failures"])
def test_limits_are_positive(name: str) -> None:
    """Zero would switch everything off without saying so."""
    with pytest.raises(ConfigError, match=f"'{name}' is 0, not > 0"):
        PluginOptions(**{name: 0})  # type: ignore[arg-type]  # names are those of the class


def test_a_manager_without_options_reads_the_environment(
    site: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that tools which make their own manager obey it, too."""
    site.add_good("mastra-one")
    monkeypatch.setenv("MASTRA_PLUGINS_DISABLE", "one")

    (row,) = PluginManager(scan=site.scan).status()

    assert ("one", "blocked") == (row.name, row.status)
    assert "switched off by MASTRA_PLUGINS_DISABLE" in row.reason
