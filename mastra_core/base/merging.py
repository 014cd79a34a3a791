"""Lay one tree of settings over another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ("laid_over",)


def laid_over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """
    Members of both; of two mappings under one name the members again, else the upper one.

    Example::

        laid_over({"a": {"x": 1}, "b": 1}, {"a": {"y": 2}, "b": 2})
        # {"a": {"x": 1, "y": 2}, "b": 2}
    """
    merged = {**below, **above}
    for name in set(below) & set(above):
        if isinstance(below[name], Mapping) and isinstance(above[name], Mapping):
            merged[name] = laid_over(below[name], above[name])
    return merged
