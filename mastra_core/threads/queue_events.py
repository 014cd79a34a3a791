"""Tell listeners how many turns wait on a thread (signals.md 8.3)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mastra_core.threads.queues import ThreadQueues

__all__ = ("QueueListener", "QueueWatchers")

logger = logging.getLogger(__name__)

#: Gets ``{"type": "queue-count-changed", "count": n}``.
QueueListener = Callable[[Mapping[str, Any]], object]


@dataclass(slots=True, eq=False)
class _Watcher:
    agent_id: str
    owner_id: str | None
    listener: QueueListener
    told: int | None = None


class QueueWatchers:
    """The listeners of one thread; what they raise is logged and concerns nobody else."""

    def __init__(self) -> None:
        self._watchers: list[_Watcher] = []

    def __bool__(self) -> bool:
        return bool(self._watchers)

    def watch(
        self, queues: ThreadQueues, listener: QueueListener, *, agent_id: str, owner_id: str | None
    ) -> Callable[[], None]:
        """Tell this listener the count now and whenever it changes; returns what ends it."""
        watcher = _Watcher(agent_id, owner_id, listener)
        self._watchers.append(watcher)
        self._tell(watcher, queues)

        def stop() -> None:
            if watcher in self._watchers:
                self._watchers.remove(watcher)

        return stop

    def tell(self, queues: ThreadQueues) -> None:
        """Something was queued, taken or cancelled."""
        for watcher in list(self._watchers):
            self._tell(watcher, queues)

    def _tell(self, watcher: _Watcher, queues: ThreadQueues) -> None:
        count = queues.count(watcher.agent_id, watcher.owner_id)
        if count == watcher.told:
            return
        watcher.told = count
        try:
            watcher.listener({"type": "queue-count-changed", "count": count})
        except Exception:
            logger.exception("listener for queue counts failed")
