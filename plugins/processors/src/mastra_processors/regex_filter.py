"""Stop, mask or report what patterns match, in what comes in and what goes out."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator

from mastra_core.processors import ProcessorArgs
from mastra_processors.built_in import BuiltIn
from mastra_processors.held_text import HeldText, hold
from mastra_processors.off_loop import off_loop
from mastra_processors.options import Options
from mastra_processors.redaction import Match, Region, find_matches, redacted, regions_of
from mastra_processors.regex_presets import PRESETS, Preset, Rule
from mastra_processors.texts import change_texts, texts_of

__all__ = ("RegexFilter", "RegexFilterOptions", "RegexRule")

logger = logging.getLogger(__name__)

_Chunk = dict[str, Any]


class RegexRule(Options):
    """One rule of ``regex-filter``."""

    #: What reports call it.
    name: str
    #: A regular expression of Python's ``re``.
    pattern: re.Pattern[str]
    #: What stands in place of a match; ``\\1`` and ``\\g<name>`` stand for groups.
    replacement: str = "[REDACTED]"

    @field_validator("pattern", mode="before")
    @classmethod
    def _compiled(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        try:
            return re.compile(value)
        except re.error as exc:
            raise ValueError(f"not a regular expression: {exc}") from exc


class RegexFilterOptions(Options):
    """Options of ``regex-filter``."""

    #: What to look for.
    rules: tuple[RegexRule, ...] = ()
    #: Rules that come with the package: ``pii``, ``secrets``, ``urls``.
    presets: tuple[Preset, ...] = ()
    #: Stop the run, put the replacement in place of a match, or only report it.
    strategy: Literal["block", "redact", "warn"] = "block"
    #: Where to look.
    phase: Literal["input", "output", "all"] = "all"
    #: Also report the values that were replaced.
    include_redacted_values: bool = False
    #: Characters at the end of a streamed text that wait for what follows, so that nothing of a
    #: match that comes in pieces gets out. At least as long as the longest match that a rule
    #: can only see as a whole.
    stream_carryover_size: int = Field(default=128, ge=0)


class RegexFilter(BuiltIn[RegexFilterOptions]):
    """
    Looks for patterns in texts; an input processor, an output processor, or both.

    Texts are what people and models say: neither reasoning nor tool calls. ``on_violation`` learns of redactions and warnings, the tripwire's metadata of blocks.
    """

    id = "regex-filter"
    options_type: ClassVar[type[Options]] = RegexFilterOptions
    #: What can't be judged doesn't get out.
    on_stream_error: ClassVar[str] = "closed"

    @cached_property
    def rules(self) -> tuple[Rule, ...]:
        """The rules given, then those of the presets."""
        own = (
            Rule(name=rule.name, pattern=rule.pattern, replacement=rule.replacement)
            for rule in self.options.rules
        )
        preset = (rule for name in self.options.presets for rule in PRESETS[name])
        return (*own, *preset)

    # -- whole messages -------------------------------------------------------------------

    async def process_input(self, args: ProcessorArgs) -> None:
        """Hook 1: what the user says."""
        if self.options.phase != "output":
            await self._check_messages(args, "processInput")

    async def process_output_result(self, args: ProcessorArgs) -> None:
        """Hook 9: the whole answer; what was streamed has passed hook 6 before."""
        if self.options.phase != "input":
            await self._check_messages(args, "processOutputResult")

    async def _check_messages(self, args: ProcessorArgs, phase: str) -> None:
        if self.options.strategy != "redact":
            found = [
                match
                for message in args.messages
                for _, text in texts_of(message)
                for match in await off_loop(text, self._matches)
            ]
            await self._found(args, found, phase)
            return
        for message in args.messages:
            changed: dict[int, str] = {}
            for index, text in list(texts_of(message)):
                regions = regions_of(await off_loop(text, self._matches))
                if regions:
                    changed[index] = redacted(text, regions)
                    where = {"phase": phase, "messageId": message.id, "partIndex": index}
                    await self._redacted(text, regions, where)
            change_texts(message, changed)

    def _matches(self, text: str) -> list[Match]:
        return list(find_matches(text, self.rules))

    async def _redacted(
        self, text: str, regions: Sequence[Region], where: Mapping[str, Any]
    ) -> None:
        """Tell what was replaced; the values only if wanted."""
        told = [
            region.to_wire(
                with_value=text[region.start : region.end]
                if self.options.include_redacted_values
                else None
            )
            for region in regions
        ]
        await self.report(
            f"Redacted {len(told)} match{'es' if len(told) > 1 else ''}.",
            {"strategy": "redact", **where, "redactions": told},
        )

    async def _found(self, args: ProcessorArgs, matches: list[Match], phase: str) -> None:
        """Stop the run, or tell."""
        if not matches:
            return
        names = ", ".join(dict.fromkeys(match.rule.name for match in matches))
        detail = {
            "processorId": self.id,
            "matches": [match.to_wire() for match in matches],
            "strategy": self.options.strategy,
        }
        if self.options.strategy == "block":
            args.abort(f"Blocked by a rule: {names}", metadata=detail)
        logger.warning("patterns found", extra={"rules": names, "phase": phase})
        await self.report(f"Found: {names}", {**detail, "phase": phase})

    # -- the stream -----------------------------------------------------------------------

    async def process_output_stream(self, args: ProcessorArgs) -> _Chunk | None:
        """Hook 6: let a text go once no match can begin in it any more."""
        taken = None if self.options.phase == "input" else hold(args)
        if taken is None:
            return args.part
        held, is_end = taken
        return await self._let_go(args, held, is_end=is_end)

    async def _let_go(self, args: ProcessorArgs, held: HeldText, *, is_end: bool) -> _Chunk | None:
        size = self.options.stream_carryover_size
        if self.options.strategy == "warn":
            new = held.new_matches(find_matches(held.text, self.rules))
            await self._found(args, new, "processOutputStream")
            return held.let_go(len(held.text), keep=size)
        regions = regions_of(find_matches(held.text, self.rules, start=held.start))
        if self.options.strategy == "block":
            # There is no need to wait for the end of what is forbidden anyway.
            await self._found(args, [m for r in regions for m in r.matches], "processOutputStream")
        end = len(held.text) if is_end else held.safe_end(regions, waits=size)
        done = [region for region in regions if region.end <= end]
        if done:
            await self._redacted(held.text, done, {"phase": "processOutputStream"})
        return held.let_go(end, done)
