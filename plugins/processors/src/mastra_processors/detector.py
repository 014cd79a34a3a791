"""Guards that take pieces out of texts: found by a model, wherever they stand."""

from __future__ import annotations

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, Literal, TypeVar

from pydantic import BaseModel, Field

from mastra_core.messages.message_list import ListedMessage
from mastra_core.processors import ProcessorArgs
from mastra_processors.guard import Guard, GuardOptions
from mastra_processors.held_text import HeldText, hold
from mastra_processors.redaction import Match, redacted, regions_of
from mastra_processors.regex_presets import Rule
from mastra_processors.texts import change_texts, text_of, texts_of

__all__ = ("Detector", "DetectorOptions", "Finding", "RedactionMethod", "covered")

DetectorOptionsT = TypeVar("DetectorOptionsT", bound="DetectorOptions")

RedactionMethod = Literal["mask", "hash", "remove", "placeholder"]

#: Letters and digits at the end that a mask in the form of the value leaves readable.
_SHOWN: Final = 4


class Finding(BaseModel):
    """One piece that the model found."""

    type: str
    value: str = Field(min_length=1, description="exactly as it stands in the text")
    confidence: float = Field(default=1.0, ge=0, le=1)


class _Findings(BaseModel):
    findings: list[Finding]


class DetectorOptions(GuardOptions):
    """Options of guards that take pieces out."""

    #: How sure the model must be of a piece.
    threshold: float = Field(default=0.6, ge=0, le=1)
    #: Stop the run, only report, take the whole message or chunk out, or only the piece.
    strategy: Literal["block", "warn", "filter", "redact"] = "redact"
    #: Characters of a streamed text that are judged together; nothing goes out before.
    buffer_size: int = Field(default=200, ge=1)


class Detector(Guard[DetectorOptionsT], ABC):
    """Looks for pieces of texts, in messages and in streams."""

    @abstractmethod
    def question(self) -> str:
        """What the model is asked."""

    @abstractmethod
    def replacement(self, finding: Finding) -> str:
        """What stands in place of a piece."""

    async def found(self, args: ProcessorArgs, text: str) -> list[Finding]:
        """The pieces of a text."""
        said = await self.ask(args, text, _Findings, self.question())
        if said is None:
            return []
        return [f for f in said.findings if f.confidence >= self.options.threshold]

    # -- messages -------------------------------------------------------------------------

    async def check_messages(self, args: ProcessorArgs) -> None:
        """Look through the messages of the hook."""
        for message, text in list(self.judged(args)):
            found = await self.found(args, text)
            if not found:
                continue
            await self._tell(args, found)
            if self.options.strategy == "filter":
                args.message_list.remove_by_ids([message.id])
            elif self.options.strategy == "redact":
                change_texts(message, self._redacted(message, found))

    def _redacted(self, message: ListedMessage, found: Sequence[Finding]) -> dict[int, str]:
        """The new texts by the place of their part."""
        parts = dict(texts_of(message))
        new = {
            index: redacted(text, regions_of(self._matches(text, found)))
            for index, text in parts.items()
        }
        if any(all(one.value not in text for text in parts.values()) for one in found):
            # What stands astride two parts is found in all of them together only.
            whole = text_of(message)
            first, *others = parts
            whole = redacted(whole, regions_of(self._matches(whole, found)))
            new = {first: whole, **dict.fromkeys(others, "")}
        return new

    async def _tell(self, args: ProcessorArgs, found: Sequence[Finding]) -> None:
        """Stop the run, or report."""
        types = sorted({finding.type for finding in found})
        words = f"Found: {', '.join(types)}."
        detail = {"types": types, "strategy": self.options.strategy}
        if self.options.strategy == "block":
            args.abort(words, metadata={"processorId": self.id, **detail})
        await self.warn(args, words, detail)

    def _matches(self, text: str, found: Iterable[Finding]) -> Iterator[Match]:
        for finding in found:
            pattern = re.compile(re.escape(finding.value))
            rule = Rule(name=finding.type, pattern=pattern, replacement=self.replacement(finding))
            for match in pattern.finditer(text):
                yield Match(rule=rule, start=match.start(), end=match.end(), text=match[0])

    # -- the stream -----------------------------------------------------------------------

    async def check_chunk(self, args: ProcessorArgs) -> dict[str, Any] | None:
        """Hold text until there is enough to judge."""
        taken = hold(args)
        if taken is None:
            return args.part
        held, is_end = taken
        if not is_end and len(held.text) - held.start < self.options.buffer_size:
            return None
        return await self._let_go(args, held, is_end=is_end)

    async def _let_go(
        self, args: ProcessorArgs, held: HeldText, *, is_end: bool
    ) -> dict[str, Any] | None:
        waiting = held.text[held.start :]
        found = await self.found(args, waiting) if waiting.strip() else []
        if found and self.options.strategy in ("block", "filter"):
            await self._tell(args, found)
            held.drop()
            return None
        matches = (m for m in self._matches(held.text, found) if m.start >= held.start)
        regions = regions_of(matches)
        # A piece may stand astride the end of what is judged now.
        waits = self.options.buffer_size // 2
        end = len(held.text) if is_end else held.safe_end(regions, waits=waits)
        done = [region for region in regions if region.end <= end]
        if done:
            gone = {match.text for region in done for match in region.matches}
            await self._tell(args, [finding for finding in found if finding.value in gone])
        return held.let_go(end, done if self.options.strategy == "redact" else ())


def covered(value: str, method: RedactionMethod, *, label: str, keeps_form: bool) -> str:
    """What stands in place of a value."""
    covers: dict[RedactionMethod, Callable[[], str]] = {
        "mask": lambda: _masked(value) if keeps_form else "*" * len(value),
        "hash": lambda: f"[{label}:{hashlib.sha256(value.encode()).hexdigest()[:8]}]",
        "remove": lambda: "",
        "placeholder": lambda: f"[{label}]",
    }
    return covers[method]()


def _masked(value: str) -> str:
    """Stars for all letters and digits but the last ones; what stands between them stays."""
    hidden = max(sum(character.isalnum() for character in value) - _SHOWN, _SHOWN)
    out: list[str] = []
    for character in value:
        if character.isalnum() and hidden > 0:
            hidden -= 1
            out.append("*")
        else:
            out.append(character)
    return "".join(out)
