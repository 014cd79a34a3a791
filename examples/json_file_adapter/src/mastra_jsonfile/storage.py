"""``JsonFileStorage``: three domains in one file."""

from __future__ import annotations

from types import TracebackType
from typing import ClassVar, Self

from mastra_core.contracts.storage import (
    BackgroundTasksStorage,
    SchedulesStorage,
    ThreadStateStorage,
)
from mastra_core.plugins import AdapterContext
from mastra_jsonfile.capabilities import CAPABILITIES, refuse
from mastra_jsonfile.file import JsonFile
from mastra_jsonfile.memory import JsonFileMemory
from mastra_jsonfile.notifications import JsonFileNotifications
from mastra_jsonfile.settings import JsonFileSettings
from mastra_jsonfile.workflows import JsonFileWorkflows

__all__ = ("JsonFileStorage",)


class JsonFileStorage:
    """
    Storage in one JSON file.

    Args:
        settings: URL and options.
        context: Clock, ids, and a namespace.
    """

    name: ClassVar[str] = "jsonfile"

    def __init__(self, settings: JsonFileSettings, context: AdapterContext) -> None:
        self.capabilities: frozenset[str] = CAPABILITIES
        self.volatile = False
        self._file = JsonFile(
            settings.path(context.namespace), lock_timeout_ms=settings.lock_timeout_ms
        )
        self._memory = JsonFileMemory(self._file, context.clock)
        self._workflows = JsonFileWorkflows(
            self._file, context.clock, max_bytes=settings.max_snapshot_bytes
        )
        self._notifications = JsonFileNotifications(self._file, context.clock, context.ids)
        #: How many ``async with`` blocks are inside; the last one closes.
        self._entered = 0

    @property
    def memory(self) -> JsonFileMemory:
        """Threads and messages."""
        return self._memory

    @property
    def workflows(self) -> JsonFileWorkflows:
        """Snapshots of runs."""
        return self._workflows

    @property
    def notifications(self) -> JsonFileNotifications:
        """The inbox."""
        return self._notifications

    @property
    def thread_state(self) -> ThreadStateStorage:
        """Refused."""
        refuse("thread_state")

    @property
    def background_tasks(self) -> BackgroundTasksStorage:
        """Refused."""
        refuse("background_tasks")

    @property
    def schedules(self) -> SchedulesStorage:
        """Refused."""
        refuse("schedules")

    async def init(self) -> None:
        """Open the file, and see whether it is one of ours."""
        self._file.open()
        await self._file.read("init", lambda _: None)

    async def aclose(self) -> None:
        """Let the file go; idempotent."""
        await self._file.close()

    async def dangerously_clear_all(self) -> None:
        """Delete every row."""
        await self._memory.dangerously_clear_all()
        await self._workflows.dangerously_clear_all()
        await self._notifications.dangerously_clear_all()

    async def __aenter__(self) -> Self:
        await self.init()
        self._entered += 1
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._entered -= 1
        if self._entered == 0:
            await self.aclose()
