"""A copy of an event's data as other transports would deliver it.

An in-process bus could hand out the publisher's own objects; then a program that works
in memory would break on a real transport. So data is copied as it is published, and
what has no form outside this process is refused here as there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import Enum
from types import NoneType
from typing import Any, Final

from pydantic import BaseModel

from mastra_core.base.jsonjs import encode_bytes
from mastra_core.base.unset import UNDEFINED
from mastra_core.errors import WireEncodeError, wire_from_error

__all__ = ("copy_payload",)

#: Deeper values are refused, and so is what contains itself.
_MAX_DEPTH: Final = 100
_PLAIN_SIZE: Final = 4
_PLAIN: Final = frozenset({NoneType, bool, int, float, type(UNDEFINED)})
#: Bytes that one character of a string can take in JSON.
_WIDEST: Final = 6


def copy_payload(value: Any, exact_above: int | None) -> tuple[Any, int]:
    """
    Copy plain data; immutable values are shared.

    Args:
        value: The data of an event.
        exact_above: Where the size decides about refusal: if the data might be larger
            than this, its JSON bytes are counted exactly. Smaller sizes are estimates.

    Returns:
        The copy and its size.

    Raises:
        WireEncodeError: Something in it has no form outside this process.
    """
    copy, size = _copy(value, 0)
    if exact_above is not None and size * _WIDEST > exact_above:
        size = len(encode_bytes(copy, lenient=True))
    return copy, size


def _copy(value: Any, depth: int) -> tuple[Any, int]:
    kind = type(value)
    if kind is str:
        return value, len(value) + 2
    if kind in _PLAIN:
        return value, _PLAIN_SIZE
    if depth > _MAX_DEPTH:
        raise WireEncodeError(reason="is nested too deeply or contains itself")
    if kind is dict:
        return _copy_members(value, depth)
    if kind is list or kind is tuple:
        return _copy_items(value, depth)
    return _copy_other(value, depth)


def _copy_members(value: Mapping[Any, Any], depth: int) -> tuple[dict[str, Any], int]:
    size = 2
    copied: dict[str, Any] = {}
    for key, member in value.items():
        if type(key) is not str:
            raise WireEncodeError(reason=f"has the key {key!r}, which is no text")
        kind = type(member)
        if kind is str:
            size += len(key) + len(member) + 6
        elif kind in _PLAIN:
            size += len(key) + 4 + _PLAIN_SIZE
        else:
            member, added = _copy(member, depth + 1)  # noqa: PLW2901 – the copy takes its place
            size += len(key) + 4 + added
        copied[key] = member
    return copied, size


def _copy_items(value: Sequence[Any], depth: int) -> tuple[list[Any], int]:
    size = len(value) + 2
    copied = []
    for item in value:
        copy, added = _copy(item, depth + 1)
        size += added
        copied.append(copy)
    return copied, size


def _copy_other(value: Any, depth: int) -> tuple[Any, int]:
    if isinstance(value, datetime):
        if value.utcoffset() is None:
            raise WireEncodeError(reason=f"is a naive time, {value.isoformat()}")
        return value, 26
    if isinstance(value, bytes | bytearray):
        return bytes(value), 2 * len(value)
    if isinstance(value, BaseModel):
        dumped = value.model_dump(mode="json", by_alias=True, exclude_unset=True)
        return _copy(dumped, depth + 1)
    if isinstance(value, BaseException):
        return _copy(wire_from_error(value), depth + 1)
    if isinstance(value, Enum):
        return _copy(value.value, depth + 1)
    for base in (str, int, float):
        if isinstance(value, base):
            return _copy(base(value), depth)
    if isinstance(value, Mapping):
        return _copy_members(value, depth)
    if isinstance(value, list | tuple):
        return _copy_items(value, depth)
    raise WireEncodeError(reason=f"is a {type(value).__name__}")
