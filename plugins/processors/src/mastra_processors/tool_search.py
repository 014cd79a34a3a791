"""Many tools, of which the model sees those that it has looked for."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Final, Literal

from pydantic import Field, field_validator

from mastra_core import FunctionTool
from mastra_core.agent.tools import tools_by_name
from mastra_core.base.tasks import call_maybe_async
from mastra_core.contracts.tool import Tool
from mastra_core.messages.message_list import MessageList
from mastra_core.processors import ProcessorArgs, StepPatch
from mastra_processors.built_in import BuiltIn
from mastra_processors.loaded_names import LoadedNames
from mastra_processors.meta_tool import meta_tool
from mastra_processors.options import Options
from mastra_processors.search_index import SearchIndex

__all__ = ("SearchOptions", "ToolSearch", "ToolSearchFilter", "ToolSearchOptions")

logger = logging.getLogger(__name__)

_SEARCH: Final = "search_tools"
_LOAD: Final = "load_tool"
_TAG: Final = "tool-search"


class SearchOptions(Options):
    """How a search works."""

    #: Most results.
    top_k: int = Field(default=5, ge=1)
    #: Results that fit less are left out; 0 to 1.
    min_score: float = Field(default=0.0, ge=0, le=1)
    #: Results are loaded at once; there is no ``load_tool`` then.
    auto_load: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSearchFilter:
    """What is asked about a tool before it is shown, loaded or offered."""

    tool_name: str
    tool: Tool
    request_context: Mapping[str, Any]
    phase: Literal["search", "load", "active"]


class ToolSearchOptions(Options):
    """Options of ``tool-search``."""

    #: The tools that can be found, as a list or by name.
    tools: Mapping[str, Any] = Field(default_factory=dict)
    #: How a search works.
    search: SearchOptions = SearchOptions()
    #: Where it stands what is loaded: in this process per thread, or in the conversation, which
    #: outlives the process; a tool is then loaded as long as the answer that loaded it is there.
    storage: Literal["in-memory", "context"] = "in-memory"
    #: Milliseconds after which this process forgets a thread that nobody asks for; 0 never.
    ttl: int = Field(default=3_600_000, ge=0)
    #: ``(ToolSearchFilter) -> bool``; one that raises says no.
    filter: Callable[[ToolSearchFilter], bool | Awaitable[bool]] | None = None
    #: The tools of the agent must be found, too.
    include_resolved_tools: bool = False

    @field_validator("tools", mode="before")
    @classmethod
    def _by_name(cls, value: Any) -> Mapping[str, Tool]:
        return tools_by_name(value)


class ToolSearch(BuiltIn[ToolSearchOptions]):
    """Gives the model ``search_tools`` and ``load_tool``; what it loads, it has from the next step."""

    id = "tool-search"
    options_type: ClassVar[type[Options]] = ToolSearchOptions

    @cached_property
    def _own(self) -> dict[str, Tool]:
        return dict(self.options.tools)

    @cached_property
    def _own_index(self) -> SearchIndex:
        return _index(self._own)

    @cached_property
    def loaded(self) -> LoadedNames:
        """What is loaded for which thread, with ``storage="in-memory"``."""
        return LoadedNames(self.clock, ttl_ms=self.options.ttl)

    async def process_input_step(self, args: ProcessorArgs) -> StepPatch:
        """Hook 2: the two tools, and those that are loaded."""
        shelf = dict(self._own)
        always = dict(args.tools)
        if self.options.include_resolved_tools:
            shelf, always = {**shelf, **always}, {}
        names = [name for name in self._loaded_names(args) if name in shelf]
        loaded = {
            name: shelf[name] for name in names if await self._allows(args, shelf[name], "active")
        }
        meta = [self._search_tool(args, shelf)]
        if not self.options.search.auto_load:
            meta.append(self._load_tool(args, shelf))
        messages = args.message_list
        messages.clear_system_messages(_TAG)
        messages.add_system(self._words(), tag=_TAG)
        return StepPatch(tools={**always, **{tool.id: tool for tool in meta}, **loaded})

    def _words(self) -> str:
        then = "it is loaded" if self.options.search.auto_load else f"load it with {_LOAD}"
        return (
            f"There are more tools than you see. If you need one, look for it with {_SEARCH}; "
            f"{then}, and you can call it in your next step."
        )

    # -- what is loaded -------------------------------------------------------------------

    def _loaded_names(self, args: ProcessorArgs) -> list[str]:
        if self.options.storage == "context":
            return list(dict.fromkeys(_told(args.message_list)))
        return self.loaded.of(args)

    def _load(self, args: ProcessorArgs, names: Sequence[str]) -> None:
        # In the conversation, the answer of the tool says it.
        if self.options.storage == "in-memory":
            self.loaded.add(args, names)

    async def _allows(
        self, args: ProcessorArgs, tool: Tool, phase: Literal["search", "load", "active"]
    ) -> bool:
        if self.options.filter is None:
            return True
        asked = ToolSearchFilter(
            tool_name=tool.id, tool=tool, request_context=args.request_context, phase=phase
        )
        try:
            return bool(await call_maybe_async(self.options.filter, asked))
        except Exception:
            logger.exception("filter of tools failed", extra={"tool": tool.id, "phase": phase})
            return False

    # -- the tools ------------------------------------------------------------------------

    def _search_tool(self, args: ProcessorArgs, shelf: Mapping[str, Tool]) -> FunctionTool:
        search = self.options.search

        async def execute(given: Mapping[str, Any]) -> dict[str, Any]:
            index = self._own_index if len(shelf) == len(self._own) else _index(shelf)
            found = index.find(str(given["query"]), limit=len(shelf), min_score=search.min_score)
            results: list[dict[str, Any]] = []
            for name, score in found:
                if len(results) == search.top_k:
                    break
                if await self._allows(args, shelf[name], "search"):
                    description = shelf[name].description
                    results.append({"name": name, "description": description, "score": score})
            names = [result["name"] for result in results]
            answer: dict[str, Any] = {"results": results}
            if search.auto_load:
                names = [n for n in names if await self._allows(args, shelf[n], "load")]
                self._load(args, names)
                answer["loaded"] = names
            if not results:
                answer["message"] = "Nothing fits. Try other words."
            return answer

        return meta_tool(
            _SEARCH,
            "Look for tools by what they do.",
            {"query": "words that say what the tool should do"},
            execute,
        )

    def _load_tool(self, args: ProcessorArgs, shelf: Mapping[str, Tool]) -> FunctionTool:
        async def execute(given: Mapping[str, Any]) -> dict[str, Any]:
            name = str(given["toolName"])
            tool = shelf.get(name)
            if tool is None or not await self._allows(args, tool, "load"):
                near = [found for found, _ in _index(shelf).find(name, limit=3)]
                hint = f" Perhaps: {', '.join(near)}." if tool is None and near else ""
                return {"success": False, "message": f"There is no tool {name!r}.{hint}"}
            self._load(args, [name])
            return {"success": True, "toolName": name, "loaded": [name]}

        return meta_tool(
            _LOAD,
            f"Make a tool that {_SEARCH} has found available in the next step.",
            {"toolName": f"its name, as {_SEARCH} gave it"},
            execute,
        )


def _index(tools: Mapping[str, Tool]) -> SearchIndex:
    return SearchIndex({name: tool.description for name, tool in tools.items()})


def _told(messages: MessageList) -> Iterator[str]:
    """Names that answers in the conversation have loaded."""
    for message in messages.messages:
        for part in message.parts:
            if part.get("type") != "tool-invocation":
                continue
            call = part["toolInvocation"]
            if call.get("toolName") not in (_SEARCH, _LOAD) or call.get("state") != "result":
                continue
            result = call.get("result")
            loaded = result.get("loaded") if isinstance(result, Mapping) else None
            yield from (name for name in loaded or () if isinstance(name, str))
