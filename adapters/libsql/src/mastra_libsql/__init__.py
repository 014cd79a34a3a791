"""Storage in a libSQL file or on a libSQL server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mastra_libsql.settings import LibSQLSettings
    from mastra_libsql.storage import LibSQLStorage

__all__ = ("LibSQLSettings", "LibSQLStorage", "__version__")

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    # The driver is imported with the first use, not with the package.
    if name == "LibSQLStorage":
        from mastra_libsql.storage import LibSQLStorage

        return LibSQLStorage
    if name == "LibSQLSettings":
        from mastra_libsql.settings import LibSQLSettings

        return LibSQLSettings
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
