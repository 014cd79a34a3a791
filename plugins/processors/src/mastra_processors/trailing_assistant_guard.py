"""A user turn at the end of prompts for models that insist on one."""

from __future__ import annotations

import re
from typing import Any, ClassVar, Final, Literal

from mastra_core.messages.message_list import MessageList
from mastra_core.processors import ProcessorArgs
from mastra_processors.built_in import BuiltIn
from mastra_processors.options import Options

__all__ = ("TrailingAssistantGuard", "TrailingAssistantGuardOptions", "wants_user_turn")

_GEMINI: Final = re.compile(r"gemini-(\d+)")
#: Gemini refuses since this version.
_STRICT_GEMINI: Final = 3


class TrailingAssistantGuardOptions(Options):
    """Options of ``trailing-assistant-guard``."""

    #: For models that are known to refuse, or for all.
    when: Literal["needed", "always"] = "needed"
    #: What the turn says.
    text: str = "Continue."


class TrailingAssistantGuard(BuiltIn[TrailingAssistantGuardOptions]):
    """
    Adds a short user turn if the prompt would end with the assistant's words.

    The turn is for the model only; it is never stored. Anthropic's models refuse such a prompt
    for structured output (elsewhere they take it as the beginning of their answer), Gemini's
    from version 3 on always do.
    """

    id = "trailing-assistant-guard"
    options_type: ClassVar[type[Options]] = TrailingAssistantGuardOptions

    def process_input_step(self, args: ProcessorArgs) -> None:
        """Hook 2."""
        wanted = self.options.when == "always" or wants_user_turn(
            args.model, is_structured=args.structured_output is not None
        )
        if not wanted or not _ends_with_assistant(args.message_list):
            return
        content = {"format": 2, "parts": [{"type": "text", "text": self.options.text}]}
        for entry in args.message_list.add_input([{"role": "user", "content": content}]):
            entry.source = "context"


def wants_user_turn(model: Any, *, is_structured: bool) -> bool:
    """Whether this model is known to refuse a prompt that ends with the assistant."""
    name = f"{getattr(model, 'provider', '')}/{getattr(model, 'model_id', '')}".lower()
    if "anthropic" in name or "claude" in name:
        return is_structured
    version = _GEMINI.search(name)
    return version is not None and int(version[1]) >= _STRICT_GEMINI


def _ends_with_assistant(messages: MessageList) -> bool:
    for message in reversed(messages.messages):
        if message.role != "assistant":
            return False
        for part in reversed(message.parts):
            if part.get("type") == "tool-invocation":
                # An open call isn't in the prompt; after an answered one stands its result.
                if part["toolInvocation"].get("state") not in ("call", "partial-call"):
                    return False
            elif part.get("type") in ("text", "reasoning", "file"):
                return True
    return False
