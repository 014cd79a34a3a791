"""Ids, injected: random ones, and those that follow from what they name."""

from __future__ import annotations

import os
import uuid
from typing import Any, Final, Protocol, runtime_checkable

from mastra_core.base.jsonjs import encode

__all__ = ("NAMESPACE", "Ids", "UuidIds", "uuid5")

#: The namespace of all ids that follow from facts; changing it changes every such id.
NAMESPACE: Final = uuid.UUID("6f4a7c1e-3b0d-5f52-9c55-0d9e6d1a4b27")


@runtime_checkable
class Ids(Protocol):
    """Makes new ids; tests count instead."""

    def new(self, kind: str = "message", **facts: Any) -> str:
        """An id that nobody has yet, for a thing of this kind; facts may help to choose it."""
        ...


class UuidIds:
    """Random ids (UUID version 4), whatever the kind."""

    __slots__ = ()

    def new(self, kind: str = "message", **facts: Any) -> str:
        # As str(uuid.uuid4()), without the object in between.
        digits = os.urandom(16).hex()
        variant = "89ab"[int(digits[16], 16) & 3]
        return (
            f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"
        )


def uuid5(*parts: Any) -> str:
    """
    The same id for the same parts, in every process and language.

    The name is the parts' JSON array, so ``("a", "b")`` and ``("ab",)`` differ.
    """
    return str(uuid.uuid5(NAMESPACE, encode(list(parts))))
