"""A classifier of yours, and what its answers mean for a run."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal, NoReturn

from pydantic import Field

from mastra_core.base.tasks import call_maybe_async
from mastra_core.errors import TripwireError
from mastra_core.processors import ProcessorArgs
from mastra_processors.built_in import BuiltIn
from mastra_processors.options import Options
from mastra_processors.texts import text_of

__all__ = ("ClassifierContext", "ClassifierProcessor", "ClassifierProcessorOptions", "Classify")

logger = logging.getLogger(__name__)

#: ``(text) -> answers``: a local model, a hosted one, or rules.
Classify = Callable[[str], Mapping[str, Any] | Awaitable[Mapping[str, Any]]]

_MAX_LENGTH: Final = 20_000


@dataclass(slots=True, kw_only=True)
class ClassifierContext:
    """What ``on_result`` may do."""

    #: Which hook has asked.
    phase: str
    #: The text that was classified.
    text: str
    #: Stops the run with the reason given.
    abort: Callable[[str], NoReturn]
    is_filtered: bool = False

    def filter(self) -> None:
        """Take the message, or the piece of a stream, out and go on."""
        self.is_filtered = True


class ClassifierProcessorOptions(Options):
    """Options of ``classifier``."""

    #: Gives answers about a text, such as ``{"unsafe": 0.9}``.
    classifier: Classify
    #: ``(answers, context)``: may call ``context.abort(reason)`` or ``context.filter()``.
    on_result: Callable[[Mapping[str, Any], ClassifierContext], Awaitable[None] | None]
    #: Classify only the last message.
    last_message_only: bool = False
    #: How many pieces of a streamed text are classified together, the new one included; 0 is the
    #: new one only. Each piece is a call of its own.
    chunk_window: int = Field(default=0, ge=0)
    #: Characters of a text that are classified.
    max_input_length: int = Field(default=_MAX_LENGTH, ge=1)
    #: What happens when the classifier fails: let the text pass with a warning, or stop the run.
    error_strategy: Literal["warn", "strict"] = "warn"


class ClassifierProcessor(BuiltIn[ClassifierProcessorOptions]):
    """
    Classifies what comes in and goes out; a function of yours decides.

    Give each one of a list its own ``id``.
    """

    id = "classifier"
    options_type: ClassVar[type[Options]] = ClassifierProcessorOptions
    on_stream_error: ClassVar[str] = "closed"

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
        pieces: list[str] = args.state.setdefault("pieces", [])
        pieces.append(part["payload"]["text"])
        del pieces[: -max(1, self.options.chunk_window)]
        return None if await self._is_filtered(args, "".join(pieces)) else part

    async def _check_messages(self, args: ProcessorArgs) -> None:
        messages = [message for message in args.messages if text_of(message).strip()]
        for message in messages[-1:] if self.options.last_message_only else messages:
            if await self._is_filtered(args, text_of(message)):
                args.message_list.remove_by_ids([message.id])

    async def _is_filtered(self, args: ProcessorArgs, text: str) -> bool:
        def abort(reason: str) -> NoReturn:
            args.abort(reason, metadata={"processorId": self.id})

        context = ClassifierContext(phase=args.phase, text=text, abort=abort)
        try:
            answers = await call_maybe_async(
                self.options.classifier, text[: self.options.max_input_length]
            )
        except TripwireError:
            raise
        except Exception as exc:
            if self.options.error_strategy == "strict":
                args.abort(f"{self.id} couldn't classify: {exc}")
            logger.warning(
                "a text couldn't be classified, it passes",
                exc_info=exc,
                extra={"processor": self.id, "run_id": args.run_id},
            )
            return False
        await call_maybe_async(self.options.on_result, answers, context)
        return context.is_filtered
