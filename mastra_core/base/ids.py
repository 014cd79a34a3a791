"""Ids, injected: random ones, and those that follow from what they name."""

from __future__ import annotations

import hashlib
import os
import uuid
from typing import Any, Final, Protocol, runtime_checkable

from mastra_core.base.jsonjs import encode_bytes

__all__ = ("NAMESPACE", "Ids", "UuidIds", "uuid5")

#: The namespace of all ids that follow from facts; changing it changes every such id.
NAMESPACE: Final = uuid.UUID("6f4a7c1e-3b0d-5f52-9c55-0d9e6d1a4b27")

#: For how many ids the system is asked at once.
_IDS_AT_ONCE: Final = 64


@runtime_checkable
class Ids(Protocol):
    """Makes new ids; tests count instead."""

    def new(self, kind: str = "message", **facts: Any) -> str:
        """An id that nobody has yet, for a thing of this kind; facts may help to choose it."""
        ...


class UuidIds:
    """Random ids (UUID version 4), whatever the kind."""

    __slots__ = ("_digits", "_process")

    def __init__(self) -> None:
        #: Random hexadecimal digits of ids to come.
        self._digits: list[str] = []
        self._process = os.getpid()

    def new(self, kind: str = "message", **facts: Any) -> str:
        # Asking the system for each of them costs a switch of threads wherever others work.
        try:
            if self._process != os.getpid():
                raise IndexError
            digits = self._digits.pop()
        except IndexError:
            digits = self._refill()
        variant = "89ab"[int(digits[16], 16) & 3]
        return (
            f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"
        )

    def _refill(self) -> str:
        """Digits of one id; those of many more are put aside."""
        random = os.urandom(16 * (_IDS_AT_ONCE + 1)).hex()
        first, *more = (random[start : start + 32] for start in range(0, len(random), 32))
        # A forked process must not go on with the digits of its parent.
        self._process, self._digits = os.getpid(), more
        return first


def uuid5(*parts: Any) -> str:
    """
    The same id for the same parts, in every process and language.

    The name is the parts' JSON array, so ``("a", "b")`` and ``("ab",)`` differ.
    """
    # As str(uuid.uuid5(…)), without the object in between.
    name = NAMESPACE.bytes + encode_bytes(list(parts))
    digits = hashlib.sha1(name, usedforsecurity=False).hexdigest()
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-5{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:32]}"
