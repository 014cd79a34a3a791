"""The composite store: six domains that share one database."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol, Self, runtime_checkable

from mastra_core.contracts.storage.background_tasks import BackgroundTasksStorage
from mastra_core.contracts.storage.memory import MemoryStorage
from mastra_core.contracts.storage.notifications import NotificationsStorage
from mastra_core.contracts.storage.schedules import SchedulesStorage
from mastra_core.contracts.storage.thread_state import ThreadStateStorage
from mastra_core.contracts.storage.workflows import WorkflowsStorage

__all__ = ("Storage",)


@runtime_checkable
class Storage(Protocol):
    """An opened store.

    ``async with`` opens and closes it: opening twice is harmless, closing during an
    operation ends that operation with a typed error. A domain that the adapter doesn't
    declare raises ``CapabilityNotSupportedError`` when it is asked for.
    """

    #: Short name for messages and error ids, e.g. ``libsql``.
    name: str
    #: Declared capabilities, narrowed to what this server really offers.
    capabilities: frozenset[str]
    #: True if nothing survives the process (a warning is due when work is parked there).
    volatile: bool

    @property
    def memory(self) -> MemoryStorage: ...
    @property
    def workflows(self) -> WorkflowsStorage: ...
    @property
    def notifications(self) -> NotificationsStorage: ...
    @property
    def thread_state(self) -> ThreadStateStorage: ...
    @property
    def background_tasks(self) -> BackgroundTasksStorage: ...
    @property
    def schedules(self) -> SchedulesStorage: ...

    async def init(self) -> None:
        """Create or migrate what is missing, unless told not to; safe to call twice."""
        ...

    async def aclose(self) -> None:
        """Close what this object opened; idempotent."""
        ...

    async def dangerously_clear_all(self) -> None:
        """Delete every row of the six domains and of our own tables."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...
