"""Which server an opened store talks to, for the report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

__all__ = ("TellsServer", "server_of")


@runtime_checkable
class TellsServer(Protocol):
    """Optional on a store: what it is connected to."""

    async def server_info(self) -> Mapping[str, str]:
        """``product`` and ``version`` of the server or engine."""
        ...


async def server_of(opened: object) -> dict[str, str]:
    """Product and version; empty if the store doesn't tell."""
    if not isinstance(opened, TellsServer):
        return {}
    told = await opened.server_info()
    return {name: str(told[name]) for name in ("product", "version") if name in told}
