"""Facts about a running test that its report shall carry."""

from __future__ import annotations

from typing import Any

import pytest

__all__ = ("add_facts", "facts_of")

_KEY: pytest.StashKey[dict[str, Any]] = pytest.StashKey()


def add_facts(item: pytest.Item, **facts: object) -> None:
    """Remember JSON values; they replace what the report would say by itself."""
    item.stash.setdefault(_KEY, {}).update(facts)


def facts_of(item: pytest.Item) -> dict[str, Any]:
    """What was remembered so far."""
    return item.stash.get(_KEY, {})
