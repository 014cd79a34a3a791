"""The processor itself: one object per agent, shared by its runs."""

from __future__ import annotations

from typing import Any

from mastra_core.plugins import AdapterContext
from mastra_core.processors import ProcessorArgs
from mastra_redaction.secrets import MAX_LENGTH, find_secrets, masked
from mastra_redaction.settings import RedactionSettings

__all__ = ("Redaction", "make_redaction")


class Redaction:
    """
    Masks secrets in what comes in; stops an answer that contains one.

    Keeps nothing about a run on itself: what it must remember is in ``args.state``.
    """

    id = "redaction"

    def __init__(self, settings: RedactionSettings | None = None) -> None:
        self._settings = settings or RedactionSettings()

    def process_input(self, args: ProcessorArgs) -> None:
        """Change the input in place, before the model and the store see it."""
        for message in args.message_list.of_source("input"):
            for part in message.parts:
                if part.get("type") == "text":
                    part["text"] = self._masked(part["text"])
            if isinstance(message.content.get("content"), str):
                message.content["content"] = self._masked(message.content["content"])

    def process_output_stream(self, args: ProcessorArgs) -> dict[str, Any] | None:
        """Let chunks pass until their texts together contain a secret."""
        part = args.part
        if part is None or part["type"] != "text-delta":
            return part
        # A secret may come in pieces: look at the end of what came before, too.
        text = f"{args.state.get('tail', '')}{part['payload']['text']}"
        args.state["tail"] = text[-MAX_LENGTH:]
        for kind, _ in find_secrets(text, self._settings.kinds):
            args.abort(f"The answer contains a secret ({kind}).", metadata={"kind": kind})
        return part

    def _masked(self, text: str) -> str:
        return masked(text, self._settings.kinds, self._settings.mask)


def make_redaction(settings: RedactionSettings, context: AdapterContext) -> Redaction:
    """What the plugin's descriptor names; ``context`` has clock, ids and a logger."""
    context.logger.debug("redaction made", extra={"kinds": settings.kinds})
    return Redaction(settings)
