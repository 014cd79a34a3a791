"""How many connections a client has, and how many of them are in use."""

from __future__ import annotations

from pymongo import monitoring

from mastra_core.contracts.storage.health import PoolState

__all__ = ("ConnectionCounter",)


class ConnectionCounter(monitoring.ConnectionPoolListener):
    """Counts what the driver tells of its pools, those of all members together."""

    def __init__(self) -> None:
        self._open = 0
        self._in_use = 0
        self._waiting = 0

    def state(self, limit: int | None) -> PoolState:
        """The connections right now."""
        return PoolState(
            size=self._open, in_use=self._in_use, limit=limit, waiting=max(0, self._waiting)
        )

    def connection_created(self, event: monitoring.ConnectionCreatedEvent) -> None:
        self._open += 1

    def connection_closed(self, event: monitoring.ConnectionClosedEvent) -> None:
        self._open -= 1

    def connection_check_out_started(
        self, event: monitoring.ConnectionCheckOutStartedEvent
    ) -> None:
        self._waiting += 1

    def connection_check_out_failed(self, event: monitoring.ConnectionCheckOutFailedEvent) -> None:
        self._waiting -= 1

    def connection_checked_out(self, event: monitoring.ConnectionCheckedOutEvent) -> None:
        self._waiting -= 1
        self._in_use += 1

    def connection_checked_in(self, event: monitoring.ConnectionCheckedInEvent) -> None:
        self._in_use -= 1

    def connection_ready(self, event: monitoring.ConnectionReadyEvent) -> None:
        """Told by ``connection_created`` already."""

    def pool_created(self, event: monitoring.PoolCreatedEvent) -> None:
        """Connections are counted, not pools."""

    def pool_ready(self, event: monitoring.PoolReadyEvent) -> None:
        """Connections are counted, not pools."""

    def pool_cleared(self, event: monitoring.PoolClearedEvent) -> None:
        """Connections are counted, not pools."""

    def pool_closed(self, event: monitoring.PoolClosedEvent) -> None:
        """Connections are counted, not pools."""
