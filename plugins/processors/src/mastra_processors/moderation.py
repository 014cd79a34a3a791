"""Texts that hurt: judged by a model, in both directions."""

from __future__ import annotations

from typing import Any, ClassVar, Final, Literal

from pydantic import BaseModel, Field

from mastra_core.processors import ProcessorArgs
from mastra_processors.guard import Guard, GuardOptions
from mastra_processors.options import Options

__all__ = ("Moderation", "ModerationOptions")

_CATEGORIES: Final = (
    *("hate", "harassment", "violence", "self-harm", "sexual", "sexual/minors"),
    *("illicit", "weapons"),
)


class _Scores(BaseModel):
    """How sure the model is of each category."""

    scores: dict[str, float] = Field(description="category → 0 (not at all) to 1 (certainly)")
    reason: str | None = None


class ModerationOptions(GuardOptions):
    """Options of ``moderation``."""

    #: What is looked for.
    categories: tuple[str, ...] = _CATEGORIES
    #: From which score on a text counts as one.
    threshold: float = Field(default=0.5, ge=0, le=1)
    #: Stop the run, only report, or take the message or chunk out.
    strategy: Literal["block", "warn", "filter"] = "block"
    #: How many pieces before each piece of a streamed text are judged with it. Each piece is a
    #: request of its own.
    chunk_window: int = Field(default=0, ge=0)
    #: Say the scores in the tripwire and in reports.
    include_scores: bool = False


class Moderation(Guard[ModerationOptions]):
    """Has a model judge what users and agents say; in either list, or in both."""

    id = "moderation"
    options_type: ClassVar[type[Options]] = ModerationOptions

    async def process_input(self, args: ProcessorArgs) -> None:
        """Hook 1."""
        await self._check_messages(args)

    async def process_output_result(self, args: ProcessorArgs) -> None:
        """Hook 9."""
        await self._check_messages(args)

    async def process_output_stream(self, args: ProcessorArgs) -> dict[str, Any] | None:
        """Hook 6."""
        part = args.part
        if part is None or part["type"] != "text-delta":
            return part
        before: list[str] = args.state.setdefault("window", [])
        text = part["payload"]["text"]
        judged = "".join([*before, text])
        before.append(text)
        del before[: max(0, len(before) - self.options.chunk_window)]
        return None if await self._is_refused(args, judged) else part

    async def _check_messages(self, args: ProcessorArgs) -> None:
        for message, text in list(self.judged(args)):
            if await self._is_refused(args, text):
                args.message_list.remove_by_ids([message.id])

    async def _is_refused(self, args: ProcessorArgs, text: str) -> bool:
        """Whether the text is to be taken out."""
        options = self.options
        said = await self.ask(
            args,
            text,
            _Scores,
            "You moderate a conversation. Score the text in each of these categories: "
            f"{', '.join(options.categories)}.",
        )
        if said is None:
            return False
        flagged = {
            name: score
            for name, score in said.scores.items()
            if name in options.categories and score >= options.threshold
        }
        if not flagged:
            return False
        detail: dict[str, Any] = {"categories": sorted(flagged), "strategy": options.strategy}
        if options.include_scores:
            detail["scores"] = dict(said.scores)
        words = f"The text was refused: {', '.join(sorted(flagged))}."
        if options.strategy == "block":
            args.abort(words, metadata={"processorId": self.id, **detail})
        await self.warn(args, words, detail)
        return options.strategy == "filter"
