"""The skills of some folders, all told to the model at once."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, Literal
from xml.sax.saxutils import escape

from mastra_core import FunctionTool
from mastra_core.base.jsonjs import encode
from mastra_core.processors import ProcessorArgs, StepPatch
from mastra_processors.built_in import BuiltIn
from mastra_processors.meta_tool import meta_tool
from mastra_processors.options import Options
from mastra_processors.skill_folders import Skill, find_skills, read_instructions, read_skill_file

__all__ = ("Skills", "SkillsOptions", "read_tool", "skills_of_run")

_TAG: Final = "skills"


class SkillsOptions(Options):
    """Options of ``skills-processor``."""

    #: Folders of skills, or folders that hold such folders.
    paths: tuple[Path, ...]
    #: How the list is written.
    format: Literal["xml", "json", "markdown"] = "xml"


class Skills(BuiltIn[SkillsOptions]):
    """
    Lists the skills in a system message; the tool ``skill`` gives the instructions of one.

    The folders are read once per run. For many skills, see ``skill-search``.
    """

    id = "skills-processor"
    options_type: ClassVar[type[Options]] = SkillsOptions

    async def process_input_step(self, args: ProcessorArgs) -> StepPatch | None:
        """Hook 2: the list, and the tools that read."""
        skills = await skills_of_run(args, self.options.paths)
        args.message_list.clear_system_messages(_TAG)
        if not skills:
            return None
        words = (
            "You have skills. Before you do something that one of them is for, read it with the "
            "tool `skill`."
        )
        listed = _listed(list(skills.values()), self.options.format)
        args.message_list.add_system(f"{words}\n\n{listed}", tag=_TAG)
        tools = [_skill_tool(skills), read_tool(skills)]
        return StepPatch(tools={**args.tools, **{tool.id: tool for tool in tools}})


async def skills_of_run(args: ProcessorArgs, paths: Sequence[Path]) -> Mapping[str, Skill]:
    """The skills by name, read when the run asks for the first time."""
    if "skills" not in args.state:
        found = await asyncio.to_thread(find_skills, paths)
        args.state["skills"] = {skill.name: skill for skill in found}
    skills: Mapping[str, Skill] = args.state["skills"]
    return skills


def _listed(skills: Sequence[Skill], form: str) -> str:
    if form == "json":
        return encode(
            [{"name": s.name, "description": s.description, "location": s.location} for s in skills]
        )
    if form == "markdown":
        return "\n".join(f"- **{s.name}**: {s.description} (`{s.location}`)" for s in skills)
    lines = ["<available_skills>"]
    for skill in skills:
        lines += [
            "  <skill>",
            f"    <name>{escape(skill.name)}</name>",
            f"    <description>{escape(skill.description)}</description>",
            f"    <location>{escape(skill.location)}</location>",
            "  </skill>",
        ]
    return "\n".join([*lines, "</available_skills>"])


def _skill_tool(skills: Mapping[str, Skill]) -> FunctionTool:
    async def execute(given: Mapping[str, Any]) -> dict[str, Any]:
        skill = _named(skills, given["name"])
        if skill is None:
            return {"success": False, "message": _unknown(given["name"], skills)}
        return {"success": True, "instructions": await asyncio.to_thread(read_instructions, skill)}

    return meta_tool(
        "skill", "Read the instructions of a skill.", {"name": "name of the skill"}, execute
    )


def read_tool(skills: Mapping[str, Skill]) -> FunctionTool:
    """The tool ``skill_read``: further files of a skill, and none outside its folder."""

    async def execute(given: Mapping[str, Any]) -> dict[str, Any]:
        skill = _named(skills, given["name"])
        if skill is None:
            return {"success": False, "message": _unknown(given["name"], skills)}
        text = await asyncio.to_thread(read_skill_file, skill, str(given["path"]))
        if text is None:
            return {"success": False, "message": f"The skill has no file {given['path']!r}."}
        return {"success": True, "text": text}

    return meta_tool(
        "skill_read",
        "Read a file that belongs to a skill.",
        {"name": "name of the skill", "path": "path inside its folder"},
        execute,
    )


def _named(skills: Mapping[str, Skill], name: object) -> Skill | None:
    """By name, or by the place that the list gives."""
    return skills.get(str(name)) or next((s for s in skills.values() if s.location == name), None)


def _unknown(name: object, skills: Mapping[str, Skill]) -> str:
    return f"There is no skill {name!r}. Known: {', '.join(skills) or 'none'}."
