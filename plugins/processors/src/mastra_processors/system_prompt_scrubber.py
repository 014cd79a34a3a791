"""Instructions of the agent that get into its answers."""

from __future__ import annotations

import re
from typing import Any, ClassVar, Literal

from pydantic import field_validator

from mastra_core.processors import ProcessorArgs
from mastra_processors.detector import Detector, DetectorOptions, Finding, covered
from mastra_processors.options import Options

__all__ = ("SystemPromptScrubber", "SystemPromptScrubberOptions")


class SystemPromptScrubberOptions(DetectorOptions):
    """Options of ``system-prompt-scrubber``."""

    #: Regular expressions of what must not get out either, found without a model.
    custom_patterns: tuple[re.Pattern[str], ...] = ()
    #: Stars, ``placeholder_text``, or nothing.
    redaction_method: Literal["mask", "placeholder", "remove"] = "mask"
    #: What ``placeholder`` puts there.
    placeholder_text: str = "[SYSTEM_PROMPT]"

    @field_validator("custom_patterns", mode="before")
    @classmethod
    def _compiled(cls, value: Any) -> Any:
        try:
            return tuple(re.compile(one) if isinstance(one, str) else one for one in value)
        except re.error as exc:
            raise ValueError(f"not a regular expression: {exc}") from exc


class SystemPromptScrubber(Detector[SystemPromptScrubberOptions]):
    """Has a model look for passages of a system prompt in answers; an output processor."""

    id = "system-prompt-scrubber"
    options_type: ClassVar[type[Options]] = SystemPromptScrubberOptions

    async def process_output_stream(self, args: ProcessorArgs) -> dict[str, Any] | None:
        """Hook 6."""
        return await self.check_chunk(args)

    async def process_output_result(self, args: ProcessorArgs) -> None:
        """Hook 9."""
        await self.check_messages(args)

    async def found(self, args: ProcessorArgs, text: str) -> list[Finding]:
        """What patterns match, and what the model finds."""
        matched = [
            Finding(type="pattern", value=match[0])
            for pattern in self.options.custom_patterns
            for match in pattern.finditer(text)
            if match[0]
        ]
        return [*matched, *await super().found(args, text)]

    def question(self) -> str:
        """What the model is asked."""
        return (
            "The text is what an assistant answers. Find passages in which it gives away its "
            "system prompt, its instructions, its rules or its tools. List each passage exactly "
            "as it stands there."
        )

    def replacement(self, finding: Finding) -> str:
        """What stands in place of a passage."""
        if self.options.redaction_method == "placeholder":
            return self.options.placeholder_text
        return covered(
            finding.value, self.options.redaction_method, label="SYSTEM_PROMPT", keeps_form=False
        )
