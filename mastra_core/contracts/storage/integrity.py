"""Whether a database is whole, seen from outside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

__all__ = ("CheckableStorage",)


@runtime_checkable
class CheckableStorage(Protocol):
    """What a store offers beside its domains if it can look for damage."""

    async def check_integrity(self) -> Sequence[str] | None:
        """
        Look at the whole database; changes nothing, and needs no open store.

        Returns:
            What is wrong, in the words of the database; nothing if it is whole. None if it
            can't be looked at from here, as with a server that keeps its own files.

        Raises:
            StorageError: The database can't be read at all.
        """
        ...
