"""A copy of an event's data as other transports would deliver it.

An in-process bus could hand out the publisher's own objects; then a program that works
in memory would break on a real transport. So data is copied as it is published, and
what has no form outside this process is refused here as there.
"""

from __future__ import annotations

from collections.abc import Mapping
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
    copier = _Copier()
    copy = copier.copy(value, 0)
    size = copier.size
    if exact_above is not None and size * _WIDEST > exact_above:
        size = len(encode_bytes(copy, lenient=True))
    return copy, size


class _Copier:
    __slots__ = ("size",)

    def __init__(self) -> None:
        self.size = 0

    def copy(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if kind is str:
            self.size += len(value) + 2
            return value
        if kind in _PLAIN:
            self.size += 4
            return value
        if depth > _MAX_DEPTH:
            raise WireEncodeError(reason="is nested too deeply or contains itself")
        if kind is dict:
            size = 2
            copied = {}
            for key, member in value.items():
                if type(key) is not str and not isinstance(key, str):
                    raise WireEncodeError(reason=f"has the key {key!r}, which is no text")
                size += len(key) + 4
                copied[key] = self.copy(member, depth + 1)
            self.size += size
            return copied
        if kind is list or kind is tuple:
            self.size += len(value) + 2
            return [self.copy(item, depth + 1) for item in value]
        return self._copy_other(value, depth)

    def _copy_other(self, value: Any, depth: int) -> Any:
        if isinstance(value, datetime):
            if value.utcoffset() is None:
                raise WireEncodeError(reason=f"is a naive time, {value.isoformat()}")
            self.size += 26
            return value
        if isinstance(value, bytes | bytearray):
            self.size += 2 * len(value)
            return bytes(value)
        if isinstance(value, BaseModel):
            dumped = value.model_dump(mode="json", by_alias=True, exclude_unset=True)
            return self.copy(dumped, depth + 1)
        if isinstance(value, BaseException):
            return self.copy(wire_from_error(value), depth + 1)
        if isinstance(value, Enum):
            return self.copy(value.value, depth + 1)
        for base in (str, int, float):
            if isinstance(value, base):
                return self.copy(base(value), depth)
        if isinstance(value, Mapping):
            return self.copy(dict(value), depth)
        if isinstance(value, list | tuple):
            return self.copy(list(value), depth)
        raise WireEncodeError(reason=f"is a {type(value).__name__}")
