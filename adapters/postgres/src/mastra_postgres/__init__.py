"""Storage, pubsub and leases in PostgreSQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mastra_postgres.settings import PostgresSettings
    from mastra_postgres.storage import PostgresStorage

__all__ = ("PostgresSettings", "PostgresStorage", "__version__")

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    # The driver is imported with the first use, not with the package.
    if name == "PostgresStorage":
        from mastra_postgres.storage import PostgresStorage

        return PostgresStorage
    if name == "PostgresSettings":
        from mastra_postgres.settings import PostgresSettings

        return PostgresSettings
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
