"""Many skills, of which the model reads those that it has looked for."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Final

from pydantic import Field

from mastra_core import FunctionTool
from mastra_core.processors import ProcessorArgs, StepPatch
from mastra_processors.built_in import BuiltIn
from mastra_processors.loaded_names import LoadedNames
from mastra_processors.meta_tool import meta_tool
from mastra_processors.options import Options
from mastra_processors.search_index import SearchIndex
from mastra_processors.skill_folders import Skill, read_instructions
from mastra_processors.skills import read_tool, skills_of_run

__all__ = ("SkillSearch", "SkillSearchLimits", "SkillSearchOptions")

_TAG: Final = "skill-search"


class SkillSearchLimits(Options):
    """How a search works."""

    #: Most results.
    top_k: int = Field(default=5, ge=1)
    #: Results that fit less are left out; 0 to 1.
    min_score: float = Field(default=0.0, ge=0, le=1)


class SkillSearchOptions(Options):
    """Options of ``skill-search``."""

    #: Folders of skills, or folders that hold such folders.
    paths: tuple[Path, ...]
    #: How a search works.
    search: SkillSearchLimits = SkillSearchLimits()
    #: Milliseconds after which a thread that nobody asks for loses its skills; 0 never.
    ttl: int = Field(default=3_600_000, ge=0)


class SkillSearch(BuiltIn[SkillSearchOptions]):
    """
    Gives the model ``search_skills`` and ``load_skill``.

    The instructions of a loaded skill are a system message in the later steps of its thread,
    for as long as this process remembers them.
    """

    id = "skill-search"
    options_type: ClassVar[type[Options]] = SkillSearchOptions
    provides_skill_discovery: ClassVar[str] = "on-demand"

    @cached_property
    def loaded(self) -> LoadedNames:
        """Which skills are loaded for which thread."""
        return LoadedNames(self.clock, ttl_ms=self.options.ttl)

    async def process_input_step(self, args: ProcessorArgs) -> StepPatch | None:
        """Hook 2: the tools, and what the loaded skills say."""
        skills = await skills_of_run(args, self.options.paths)
        messages = args.message_list
        messages.clear_system_messages(_TAG)
        if not skills:
            return None
        messages.add_system(
            "You have skills that you don't see. Before you do something special, look for one "
            "with search_skills and load it with load_skill.",
            tag=_TAG,
        )
        for name in self.loaded.of(args):
            if name in skills:
                text = await asyncio.to_thread(read_instructions, skills[name])
                messages.add_system(f"# Skill: {name}\n\n{text}", tag=_TAG)
        tools = [self._search_tool(skills), self._load_tool(args, skills), read_tool(skills)]
        return StepPatch(tools={**args.tools, **{tool.id: tool for tool in tools}})

    def _search_tool(self, skills: Mapping[str, Skill]) -> FunctionTool:
        limits = self.options.search

        async def execute(given: Mapping[str, Any]) -> dict[str, Any]:
            index = SearchIndex({name: skill.description for name, skill in skills.items()})
            found = index.find(str(given["query"]), limit=limits.top_k, min_score=limits.min_score)
            return {
                "results": [
                    {"name": name, "description": skills[name].description, "score": score}
                    for name, score in found
                ]
            }

        return meta_tool(
            "search_skills",
            "Look for skills by what they are for.",
            {"query": "what the skill should be for"},
            execute,
        )

    def _load_tool(self, args: ProcessorArgs, skills: Mapping[str, Skill]) -> FunctionTool:
        async def execute(given: Mapping[str, Any]) -> dict[str, Any]:
            name = str(given["skillName"])
            if name not in skills:
                return {"success": False, "message": f"There is no skill {name!r}."}
            self.loaded.add(args, [name])
            return {"success": True, "skillName": name}

        return meta_tool(
            "load_skill",
            "Have the instructions of a skill from the next step on.",
            {"skillName": "its name, as search_skills gave it"},
            execute,
        )
