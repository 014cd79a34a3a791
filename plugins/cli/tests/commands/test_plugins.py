"""``mastra-py plugins``."""

from __future__ import annotations

from typing import Any


def test_plugins_are_listed(run: Any) -> None:
    found = {item["name"]: item for item in run("plugins", "--json").json}

    assert {"inmemory", "libsql", "models", "cli"} <= set(found)
    assert "active" == found["libsql"]["status"]
    assert "mastra-libsql" == found["libsql"]["distribution"]
    assert "file" in found["libsql"]["schemes"]


def test_one_plugin_with_details(run: Any) -> None:
    ran = run("plugins", "mastra-models")

    assert "mastra_model_providers" in ran.out


def test_a_blocked_plugin_is_shown(run: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("MASTRA_PLUGINS_DISABLE", "models")

    assert "blocked" == run("plugins", "models", "--json").json["status"]


def test_people_see_a_table(run: Any) -> None:
    ran = run("plugins")

    assert ran.out.startswith("NAME")
    assert "inmemory" in ran.out
