"""Storage, pubsub and leases in MongoDB."""

from __future__ import annotations

from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mastra_mongodb.lease import MongoLease
    from mastra_mongodb.pubsub import MongoPubSub
    from mastra_mongodb.settings import MongoSettings
    from mastra_mongodb.storage import MongoStorage

__all__ = (
    "MongoLease",
    "MongoPubSub",
    "MongoSettings",
    "MongoStorage",
    "__version__",
)

__version__ = "0.1.0"

_HOMES: Final = MappingProxyType(
    {
        "MongoLease": "lease",
        "MongoPubSub": "pubsub",
        "MongoSettings": "settings",
        "MongoStorage": "storage",
    }
)


def __getattr__(name: str) -> Any:
    # The driver is imported with the first use, not with the package.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
