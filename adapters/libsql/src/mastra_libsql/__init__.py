"""Storage, pubsub and leases in a libSQL file or on a libSQL server."""

from __future__ import annotations

from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mastra_libsql.lease import LibSQLLease
    from mastra_libsql.pubsub import LibSQLPubSub
    from mastra_libsql.settings import LibSQLLeaseSettings, LibSQLPubSubSettings, LibSQLSettings
    from mastra_libsql.storage import LibSQLStorage

__all__ = (
    "LibSQLLease",
    "LibSQLLeaseSettings",
    "LibSQLPubSub",
    "LibSQLPubSubSettings",
    "LibSQLSettings",
    "LibSQLStorage",
    "__version__",
)

__version__ = "0.1.0"

_HOMES: Final = MappingProxyType(
    {
        "LibSQLLease": "lease",
        "LibSQLLeaseSettings": "settings",
        "LibSQLPubSub": "pubsub",
        "LibSQLPubSubSettings": "settings",
        "LibSQLSettings": "settings",
        "LibSQLStorage": "storage",
    }
)


def __getattr__(name: str) -> Any:
    # The driver is imported with the first use, not with the package.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
