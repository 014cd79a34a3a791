"""Titles of threads, made by a model of what was said first (streaming.md 5.5)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mastra_core.base.tasks import TaskSupervisor
from mastra_core.contracts.model import Model, ModelRequest
from mastra_core.contracts.storage import MemoryStorage
from mastra_core.errors import ModelError

__all__ = ("RunTitle", "TitleOptions")

logger = logging.getLogger(__name__)

_INSTRUCTIONS: Final = (
    "Write a title for a conversation that begins with the message below: at most eight words, "
    "in its language, without quotes and without a full stop. Write nothing else."
)
#: Characters of a title, and of what it is made of.
_LONGEST: Final = 80
_MOST_READ: Final = 4000


@dataclass(frozen=True, slots=True, kw_only=True)
class TitleOptions:
    """How titles of threads are made."""

    #: The run's own if not given.
    model: Model | str | None = None
    instructions: str | None = None
    #: Make the title before the run ends, and tell the readers of its stream.
    emit_event: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTitle:
    """The title that the thread of one run is to get, if it has none."""

    options: TitleOptions
    model: Model
    store: MemoryStorage
    thread_id: str
    tasks: TaskSupervisor

    @property
    def is_told(self) -> bool:
        """Does the end of the run wait for it?"""
        return self.options.emit_event

    def start(self, said: Callable[[], Sequence[str]]) -> None:
        """Make it while the run ends; nobody waits."""
        self.tasks.start(self.make(said), name=f"title:{self.thread_id}")

    async def make(self, said: Callable[[], Sequence[str]]) -> str | None:
        """
        The title that was stored.

        None if the thread has one already, got one meanwhile, or none could be made.
        """
        try:
            return await self._make(said)
        except Exception:
            # The run is good without a title.
            logger.exception("no title was made", extra={"thread_id": self.thread_id})
            return None

    async def _make(self, said: Callable[[], Sequence[str]]) -> str | None:
        thread = await self.store.get_thread_by_id(self.thread_id)
        if thread is None or thread.title:
            return None
        title = await self._ask("\n\n".join(said())[:_MOST_READ])
        if not title:
            return None
        stored = await self.store.update_thread(self.thread_id, title=title, expected_title="")
        return title if stored.title == title else None

    async def _ask(self, text: str) -> str:
        system = self.options.instructions or _INSTRUCTIONS
        request = ModelRequest(
            prompt=[
                {"role": "system", "content": system},
                {"role": "user", "content": [{"type": "text", "text": text}]},
            ]
        )
        words: list[str] = []
        async for part in self.model.stream(request):
            if part["type"] == "text-delta":
                words.append(str(part["delta"]))
            elif part["type"] == "error":
                raise ModelError(f"The title's model failed: {part.get('error')}")
        first_line: list[Any] = "".join(words).strip().splitlines()[:1]
        return str(first_line[0]).strip(" \"'.")[:_LONGEST] if first_line else ""
