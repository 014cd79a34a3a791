"""What processors have in common that let a model judge texts."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, ClassVar, Final, Literal, TypeVar

from pydantic import BaseModel, Field

from mastra_core.contracts.model import Model
from mastra_core.errors import MastraError
from mastra_core.messages.message_list import ListedMessage
from mastra_core.processors import ProcessorArgs
from mastra_processors.built_in import BuiltIn
from mastra_processors.judging import judgement
from mastra_processors.options import Options
from mastra_processors.texts import text_of

__all__ = ("Guard", "GuardOptions")

logger = logging.getLogger(__name__)

GuardOptionsT = TypeVar("GuardOptionsT", bound="GuardOptions")
T = TypeVar("T", bound=BaseModel)

_MAX_LENGTH: Final = 20_000


class GuardOptions(Options):
    """Options of every guard."""

    #: Who judges: a model, or its name in an application.
    model: Model | str
    #: Further words for the judging model.
    instructions: str | None = None
    #: What happens when it can't be asked: let the text pass with a warning, or stop the run.
    error_strategy: Literal["warn", "strict"] = "warn"
    #: Judge only the last message.
    last_message_only: bool = False
    #: Characters of a text that are judged; the rest isn't looked at.
    max_input_length: int = Field(default=_MAX_LENGTH, ge=1)


class Guard(BuiltIn[GuardOptionsT]):
    """A processor that asks a model about texts."""

    #: What can't be judged for another reason than the model doesn't get out.
    on_stream_error: ClassVar[str] = "closed"

    def judged(self, args: ProcessorArgs) -> Iterator[tuple[ListedMessage, str]]:
        """The messages that are to be judged, with their texts."""
        found = [
            (message, text)
            for message in args.messages
            if message.role in ("user", "assistant") and (text := text_of(message)).strip()
        ]
        yield from found[-1:] if self.options.last_message_only else found

    async def ask(
        self, args: ProcessorArgs, text: str, answer: type[T], instructions: str
    ) -> T | None:
        """What the model thinks; None if it can't be asked and the text is to pass."""
        more = self.options.instructions
        try:
            return await judgement(
                self._model(args),
                instructions=f"{instructions}\n\n{more}" if more else instructions,
                text=text[: self.options.max_input_length],
                answer=answer,
                abort=args.abort_signal,
            )
        except MastraError as exc:
            if self.options.error_strategy == "strict":
                args.abort(f"{self.id} couldn't judge: {exc}")
            logger.warning(
                "a text couldn't be judged, it passes",
                exc_info=True,
                extra={"processor": self.id, "run_id": args.run_id},
            )
            return None

    def _model(self, args: ProcessorArgs) -> Model:
        model: Any = self.options.model
        found: Model = args.agent.host.resolve_model(model) if isinstance(model, str) else model
        return found

    async def warn(self, args: ProcessorArgs, words: str, detail: dict[str, Any]) -> None:
        """Say that something was found, and go on."""
        logger.warning(
            "a guard found something", extra={"processor": self.id, "run_id": args.run_id}
        )
        await self.report(words, {"processorId": self.id, "phase": args.phase, **detail})
