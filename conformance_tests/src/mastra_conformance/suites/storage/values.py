"""Values that lose something in careless stores, and values that must be refused."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

import pytest

from mastra_core.errors import MastraError, StorageArgumentError, WireEncodeError

__all__ = ("KEPT", "ODD_TEXTS", "kept_or_refused", "kept_values", "refused_values")

ODD_TEXTS = {
    "nul": "before\x00after",
    "lone-surrogate": "cut \ud83d here",
    "line-separators": "a\u2028b\u2029c\x85d\x1ee",
    "emoji": "👩\u200d🚀",
    "quotes": 'it\'s "quoted" \\ and `ticked` $1 %s {x}',
    "escape-look-alike": "\\u0000 \\ud800 \\v",
}
"""Texts by what is odd about them."""

KEPT: dict[str, Any] = {
    **{f"text:{name}": text for name, text in ODD_TEXTS.items()},
    "large-integer": 2**60,
    "negative-integer": -(2**53) - 1,
    "fraction": 0.1,
    "huge-fraction": 1.7976931348623157e308,
    "booleans-and-numbers": [True, 1, False, 0],
    "null": {"a": None, "list": [None, {"b": None}]},
    "number-like-text": "5",
    "json-like-text": '{"q":1}',
    "date-like-text": "2026-01-01T00:00:00.000Z",
    "operators": {"$gt": 1, "$set": {"a": "$amount"}, "a.b": {"c.d": "$$ROOT"}},
    "odd-keys": {"": 1, "a b": 2, "é": 3, "__proto__": {"x": 1}, "constructor": 4, "quote'\"": 5},
    "odd-key-texts": {"nul\x00key": 1, "cut\ud83dkey": 2},
    "empty": {"object": {}, "array": [], "text": ""},
    "deep": [[[[[[[[[["bottom"]]]]]]]]]],
}
"""JSON values that every store gives back equal."""


def kept_values() -> pytest.MarkDecorator:
    """Parametrise over values that are given back as they are."""
    return pytest.mark.parametrize("value", list(KEPT.values()), ids=list(KEPT))


def _cycle() -> list[Any]:
    loop: list[Any] = []
    loop.append(loop)
    return loop


def _deep() -> Any:
    value: Any = "bottom"
    for _ in range(150):
        value = [value]
    return value


_REFUSED: dict[str, Callable[[], Any]] = {
    "nan": lambda: float("nan"),
    "infinity": lambda: float("-inf"),
    "cycle": _cycle,
    "object": object,
    "function": lambda: len,
    "naive-time": lambda: datetime(2026, 1, 1),  # noqa: DTZ001 – the fault that is tested
    "too-deep": _deep,
    "key-collision": lambda: {"1": "text", 1: "number"},
}


def refused_values() -> pytest.MarkDecorator:
    """Parametrise over values that have no JSON form; the parameter makes one."""
    return pytest.mark.parametrize("make", list(_REFUSED.values()), ids=list(_REFUSED))


async def kept_or_refused(write: Awaitable[object]) -> bool:
    """
    Whether a write of an odd text was accepted; a refusal must be a typed one.

    Text columns of some databases can't hold every text. What is not allowed is to lose
    something quietly, so after True the text must read back equal.
    """
    try:
        await write
    except (WireEncodeError, StorageArgumentError):
        return False
    except MastraError as error:
        raise AssertionError(f"Refused, but not as the caller's fault: {error!r}") from error
    return True
