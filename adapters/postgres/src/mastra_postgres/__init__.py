"""Storage, pubsub and leases in PostgreSQL."""

from __future__ import annotations

from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mastra_postgres.lease import PostgresLease
    from mastra_postgres.pubsub import PostgresPubSub
    from mastra_postgres.settings import (
        PostgresLeaseSettings,
        PostgresPubSubSettings,
        PostgresSettings,
    )
    from mastra_postgres.storage import PostgresStorage

__all__ = (
    "PostgresLease",
    "PostgresLeaseSettings",
    "PostgresPubSub",
    "PostgresPubSubSettings",
    "PostgresSettings",
    "PostgresStorage",
    "__version__",
)

__version__ = "0.1.0"

_HOMES: Final = MappingProxyType(
    {
        "PostgresLease": "lease",
        "PostgresLeaseSettings": "settings",
        "PostgresPubSub": "pubsub",
        "PostgresPubSubSettings": "settings",
        "PostgresSettings": "settings",
        "PostgresStorage": "storage",
    }
)


def __getattr__(name: str) -> Any:
    # The driver is imported with the first use, not with the package.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
