"""Equality of JSON values, for compare-and-set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from typing_extensions import TypeIs

__all__ = ("same_json",)


def same_json(left: object, right: object) -> bool:
    """
    Whether two JSON values are equal: key order doesn't matter, ``1`` equals ``1.0``, but
    neither equals ``true``.
    """
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(
            same_json(value, right[key]) for key, value in left.items()
        )
    if _is_array(left) and _is_array(right):
        return len(left) == len(right) and all(map(same_json, left, right))
    return left == right


def _is_array(value: object) -> TypeIs[Sequence[object]]:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)
