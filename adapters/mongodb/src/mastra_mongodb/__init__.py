"""Storage, pubsub and leases in MongoDB."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mastra_mongodb.lease import MongoLease
    from mastra_mongodb.pubsub import MongoPubSub
    from mastra_mongodb.settings import MongoSettings
    from mastra_mongodb.storage import MongoStorage

__all__ = ("MongoLease", "MongoPubSub", "MongoSettings", "MongoStorage", "__version__")

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    # The driver is imported with the first use, not with the package.
    if name == "MongoStorage":
        from mastra_mongodb.storage import MongoStorage

        return MongoStorage
    if name == "MongoPubSub":
        from mastra_mongodb.pubsub import MongoPubSub

        return MongoPubSub
    if name == "MongoLease":
        from mastra_mongodb.lease import MongoLease

        return MongoLease
    if name == "MongoSettings":
        from mastra_mongodb.settings import MongoSettings

        return MongoSettings
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
