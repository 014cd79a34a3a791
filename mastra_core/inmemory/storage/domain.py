"""Data of a domain that can be taken away: a closed store refuses every call."""

from __future__ import annotations

from typing import Any, Generic, TypeVar, cast

from mastra_core.errors import StorageConnectionError
from mastra_core.rules.text_arguments import check_text_arguments

__all__ = ("Domain", "Tables")


class Tables:
    """Base of the data of one domain."""


T = TypeVar("T", bound=Tables)


class Domain(Generic[T]):
    """Base of a domain; its methods reach the data through ``_tables`` only."""

    _tables: T

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        check_text_arguments(cls)

    def attach(self, tables: T | None) -> None:
        """Work on these tables; None for a store that is closed."""
        self._tables = cast("T", _NoTables()) if tables is None else tables


class _NoTables(Tables):
    """Refuses whatever it is asked for."""

    def __getattr__(self, name: str) -> Any:
        raise StorageConnectionError(
            "The in-memory store is closed, or was not opened yet.",
            hint="Use it inside `async with`.",
        )
