"""GitHub webhooks as notifications of threads."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mastra_github.mapping import Delivery, notification_from_delivery
    from mastra_github.provider import GitHubSignals
    from mastra_github.signature import sign, verify_signature

__all__ = (
    "Delivery",
    "GitHubSignals",
    "__version__",
    "notification_from_delivery",
    "sign",
    "verify_signature",
)

__version__ = "0.1.0"

_HOMES = {
    "Delivery": "mastra_github.mapping",
    "GitHubSignals": "mastra_github.provider",
    "notification_from_delivery": "mastra_github.mapping",
    "sign": "mastra_github.signature",
    "verify_signature": "mastra_github.signature",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
