"""Two ways of not having a value that are not ``None``.

``UNSET`` says that a caller gave no argument, where ``None`` would mean
something. ``UNDEFINED`` is the value that JavaScript writes nowhere.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, Literal, TypeAlias

__all__ = ("UNDEFINED", "UNSET", "Undefined", "UndefinedType", "Unset", "UnsetType")


class UnsetType(Enum):
    """The type of ``UNSET``; it has one member, so type checkers narrow it."""

    UNSET = "UNSET"

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "UNSET"


class UndefinedType(Enum):
    """The type of ``UNDEFINED``; it has one member, so type checkers narrow it."""

    UNDEFINED = "UNDEFINED"

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "UNDEFINED"


#: No argument was given.
UNSET: Final = UnsetType.UNSET
#: For annotations: ``title: str | None | Unset = UNSET``.
Unset: TypeAlias = Literal[UnsetType.UNSET]

#: Dropped as a member of an object, ``null`` inside an array (pubsub_and_lease.md 2.2).
UNDEFINED: Final = UndefinedType.UNDEFINED
#: For annotations, as ``Unset``.
Undefined: TypeAlias = Literal[UndefinedType.UNDEFINED]
