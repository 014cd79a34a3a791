"""Where the agent works, told as a system message."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Final

from mastra_core.base.tasks import call_maybe_async
from mastra_core.processors import ProcessorArgs
from mastra_processors.built_in import BuiltIn
from mastra_processors.options import Options

__all__ = ("WorkspaceInstructions", "WorkspaceInstructionsOptions", "WorkspacePlace")

_TAG: Final = "workspace-instructions"


class WorkspacePlace(Options):
    """A folder that the agent can reach."""

    #: Where it is.
    path: Path
    #: How commands name it, if not by its path.
    mount: str | None = None
    #: Say that it can't be changed.
    read_only: bool = False
    #: What is in it.
    notes: str | None = None


class WorkspaceInstructionsOptions(Options):
    """Options of ``workspace-instructions-processor``."""

    #: The folders.
    places: tuple[WorkspacePlace, ...] = ()
    #: Further words, or a function of the request context that gives some.
    notes: str | Callable[[Mapping[str, Any]], str | Awaitable[str | None] | None] | None = None


class WorkspaceInstructions(BuiltIn[WorkspaceInstructionsOptions]):
    """Tells which folders there are, how they are called, and which can't be changed."""

    id = "workspace-instructions-processor"
    options_type: ClassVar[type[Options]] = WorkspaceInstructionsOptions

    async def process_input_step(self, args: ProcessorArgs) -> None:
        """Hook 2."""
        lines = [_line(place) for place in self.options.places]
        notes = self.options.notes
        said = await call_maybe_async(notes, args.request_context) if callable(notes) else notes
        args.message_list.clear_system_messages(_TAG)
        if said:
            lines.append(said)
        if lines:
            args.message_list.add_system("\n".join(lines), tag=_TAG)


def _line(place: WorkspacePlace) -> str:
    named = f" Commands see it as {place.mount}." if place.mount else ""
    fixed = " It can't be changed." if place.read_only else ""
    notes = f" {place.notes}" if place.notes else ""
    return f"Files are in {place.path}.{named}{fixed}{notes}"
