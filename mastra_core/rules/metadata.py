"""Filters on metadata: which keys may be named, and when a row matches (streaming.md 10.6)."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from mastra_core.errors import StorageArgumentError

__all__ = ("MAX_KEY_LENGTH", "check_metadata_filter", "metadata_matches", "same_scalar")

MAX_KEY_LENGTH = 128
"""Longest metadata key that a filter may name."""

_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: Keys that mean something else to JavaScript.
_FORBIDDEN = frozenset({"__proto__", "prototype", "constructor"})


def check_metadata_filter(wanted: Mapping[str, Any] | None) -> dict[str, Any]:
    """
    The filter as a plain dict; empty if there is none.

    Raises:
        StorageArgumentError: A key isn't a plain name, is too long or reserved, or a value
            is not a finite JSON scalar.
    """
    for key, value in (wanted or {}).items():
        if (
            not isinstance(key, str)
            or not _KEY.fullmatch(key)
            or len(key) > MAX_KEY_LENGTH
            or key in _FORBIDDEN
        ):
            raise StorageArgumentError(
                f"Metadata can't be filtered by the key {key!r}: keys are letters, digits and "
                f"underscores, at most {MAX_KEY_LENGTH}, and not reserved.",
                details={"key": str(key)},
            )
        if not _is_scalar(value):
            raise StorageArgumentError(
                f"Metadata {key!r} can be compared with a text, a number, a boolean or None, "
                f"not with {value!r}.",
                details={"key": key},
            )
    return dict(wanted or {})


def metadata_matches(stored: Mapping[str, Any] | None, wanted: Mapping[str, Any]) -> bool:
    """True if every wanted member is equal; None matches a missing key and a stored null."""
    members = stored or {}
    return all(same_scalar(members.get(key), value) for key, value in wanted.items())


def same_scalar(left: object, right: object) -> bool:
    """Equality of JSON scalars: ``1`` equals ``1.0``, but neither equals ``true`` or ``"1"``."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return left == right


def _is_scalar(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, str | int)
