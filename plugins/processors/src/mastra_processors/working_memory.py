"""Notes about a user, or a thread, that the model reads in each run and may write anew."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, ClassVar, Final, Literal

from pydantic import Field

from mastra_core import FunctionTool, ToolContext
from mastra_core.base.jsonjs import encode
from mastra_core.contracts.storage import MemoryStorage
from mastra_core.messages.message_list import ListedMessage
from mastra_core.processors import ProcessorArgs, StepPatch
from mastra_processors.built_in import BuiltIn
from mastra_processors.options import Options

__all__ = ("WorkingMemory", "WorkingMemoryOptions", "WorkingMemoryTemplate")

logger = logging.getLogger(__name__)

#: The same name and key as the TypeScript system's, whose agents share the notes.
_TOOL: Final = "updateWorkingMemory"
_THREAD_KEY: Final = "workingMemory"
_TAG: Final = "working-memory"
_OPENS: Final = "<working_memory>"
_CLOSES: Final = "</working_memory>"
_DEFAULT: Final = """# User

- Name:
- Place:
- Wishes:
- Goals:
- Dates:
- Facts:"""


class WorkingMemoryTemplate(Options):
    """What the notes look like while they are empty."""

    #: What the model is to write.
    format: Literal["markdown", "json"] = "markdown"
    #: Text, or for ``json`` also an example as an object.
    content: str | dict[str, Any]


class WorkingMemoryOptions(Options):
    """Options of ``working-memory``."""

    #: Whose notes they are: those of the resource in all its threads, or of one thread.
    scope: Literal["resource", "thread"] = "resource"
    #: What the notes look like while they are empty.
    template: WorkingMemoryTemplate = Field(
        default_factory=lambda: WorkingMemoryTemplate(content=_DEFAULT)
    )
    #: The model reads the notes and can't change them.
    read_only: bool = False


class WorkingMemory(BuiltIn[WorkingMemoryOptions]):
    """
    Shows the notes to the model, and lets it replace them with a tool.

    Needs an agent with memory and a run with a thread; does nothing otherwise. As an output
    processor, too, it keeps the calls that change the notes out of the stored messages. Two runs
    that write at the same time: the notes of the later one stay.
    """

    id = "working-memory"
    options_type: ClassVar[type[Options]] = WorkingMemoryOptions

    async def process_input(self, args: ProcessorArgs) -> None:
        """Hook 1: tell the model what the notes say."""
        await self._tell(args)

    async def process_input_step(self, args: ProcessorArgs) -> StepPatch | None:
        """Hook 2: offer the tool, and tell again what it has changed."""
        if args.state.pop("changed", False):
            await self._tell(args)
        if self.options.read_only or _store(args) is None:
            return None
        return StepPatch(tools={**args.tools, _TOOL: self._tool(args)})

    def process_output_result(self, args: ProcessorArgs) -> None:
        """Hook 9: what is stored speaks of the conversation, not of the notes."""
        for message in args.messages:
            parts = [kept for part in message.parts if (kept := _without_notes(part)) is not None]
            if parts != message.parts:
                message.parts[:] = parts
                _forget_flat_copy(message)
                message.saved = False

    # -- the notes ------------------------------------------------------------------------

    async def _tell(self, args: ProcessorArgs) -> None:
        store = _store(args)
        if store is None:
            logger.debug("no thread, no notes", extra={"run_id": args.run_id})
            return
        notes = await self._read(store, args)
        args.message_list.clear_system_messages(_TAG)
        args.message_list.add_system(self._words(notes), tag=_TAG)

    async def _read(self, store: MemoryStorage, args: ProcessorArgs) -> str | None:
        assert args.thread_id is not None
        assert args.resource_id is not None
        if self.options.scope == "resource":
            resource = await store.get_resource_by_id(args.resource_id)
            return resource.working_memory if resource is not None else None
        thread = await store.get_thread_by_id(args.thread_id)
        notes = ((thread.metadata if thread is not None else None) or {}).get(_THREAD_KEY)
        return notes if isinstance(notes, str) else None

    async def _write(self, store: MemoryStorage, args: ProcessorArgs, notes: str) -> None:
        assert args.thread_id is not None
        assert args.resource_id is not None
        if self.options.scope == "resource":
            await store.update_resource(args.resource_id, working_memory=notes)
        else:
            await store.update_thread(args.thread_id, metadata={_THREAD_KEY: notes})
        args.state["changed"] = True

    def _words(self, notes: str | None) -> str:
        template = self.options.template
        empty = template.content if isinstance(template.content, str) else encode(template.content)
        shown = f"<working_memory_data>\n{notes or empty}\n</working_memory_data>"
        whose = "this user" if self.options.scope == "resource" else "this conversation"
        if self.options.read_only:
            return f"Notes about {whose}. You can read them, and can't change them.\n\n{shown}"
        form = (
            f"JSON of the form {empty}"
            if template.format == "json"
            else f"Markdown like\n{empty}\n"
        )
        return (
            f"Notes about {whose}, which stay when the conversation doesn't. When you learn "
            f"something that belongs there, call {_TOOL} with the complete new notes, {form}; what "
            f"you leave out is forgotten. Don't speak about the notes unless you are asked.\n\n"
            f"{shown}"
        )

    def _tool(self, args: ProcessorArgs) -> FunctionTool:
        is_json = self.options.template.format == "json"

        async def update(given: Mapping[str, Any], _: ToolContext) -> dict[str, bool]:
            store = _store(args)
            assert store is not None
            memory = given["memory"]
            await self._write(store, args, memory if isinstance(memory, str) else encode(memory))
            return {"success": True}

        return FunctionTool(
            id=_TOOL,
            description="Replace the notes by these; give all of them, not only what is new.",
            input_schema={
                "type": "object",
                "properties": {"memory": {"type": ["object", "string"] if is_json else "string"}},
                "required": ["memory"],
            },
            execute=update,
            idempotent=True,
        )


def _store(args: ProcessorArgs) -> MemoryStorage | None:
    """Where the notes are; None without a thread."""
    memory = getattr(args.agent, "memory", None)
    if memory is None or args.thread_id is None or args.resource_id is None:
        return None
    store: MemoryStorage = memory.store
    return store


def _without_notes(part: Mapping[str, Any]) -> dict[str, Any] | None:
    if part.get("type") == "tool-invocation" and part["toolInvocation"].get("toolName") == _TOOL:
        return None
    if part.get("type") == "text" and _OPENS in str(part.get("text")):
        return {**part, "text": _without_markup(part["text"])}
    return dict(part)


def _forget_flat_copy(message: ListedMessage) -> None:
    calls = message.content.get("toolInvocations")
    if isinstance(calls, list):
        message.content["toolInvocations"] = [c for c in calls if c.get("toolName") != _TOOL]
    text = message.content.get("content")
    if isinstance(text, str):
        message.content["content"] = _without_markup(text)


def _without_markup(text: str) -> str:
    """The text without what stands between the tags of notes."""
    kept: list[str] = []
    place = 0
    while (opened := text.find(_OPENS, place)) >= 0 and (closed := text.find(_CLOSES, opened)) >= 0:
        kept.append(text[place:opened])
        place = closed + len(_CLOSES)
    return "".join([*kept, text[place:]])
