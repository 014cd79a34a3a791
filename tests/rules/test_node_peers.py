"""Traces of the TypeScript system."""

from __future__ import annotations

import pytest

from mastra_core.rules.node_peers import traces_in_tables

__all__ = ()


@pytest.mark.parametrize("prefix", ["", "app_"])
def test_tables_that_we_never_make_tell_of_a_peer(prefix: str) -> None:
    """One sentence with their number and the first of them; shared and own ones don't count."""
    names = ["mastra_threads", "mastra_py_schema", "mastra_scorers", "mastra_agents", "users"]

    found = traces_in_tables([f"{prefix}{name}" for name in names], prefix=prefix)

    assert found == ["tables that only the TypeScript system makes: mastra_agents and 1 more"]


def test_shared_tables_alone_tell_nothing() -> None:
    """Both sides make them; and the bus is ours alone."""
    ours = ["mastra_py_schema", "mastra_pubsub_events", "mastra_leases", "mastra_fences"]

    assert traces_in_tables(["mastra_threads", *ours, "other"]) == []
