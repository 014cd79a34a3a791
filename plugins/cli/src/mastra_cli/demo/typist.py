"""A model that needs nothing and takes its time: it repeats what it was asked, word by word."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from mastra_core.contracts.model import ModelPart, ModelRequest

__all__ = ("Typist",)


class Typist:
    """
    Answers everything that was asked since its last answer, slowly enough to be interrupted.

    Args:
        name: Who answers.
        pause: Seconds between two words.
    """

    provider = "scripted"
    model_id = "typist"

    def __init__(self, name: str, *, pause: float) -> None:
        self._name = name
        self._pause = pause

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelPart]:
        """One answer, a word at a time."""
        asked = _asked(request.prompt)
        words = f"{self._name} has taken care of: {'; '.join(asked)}.".split()
        yield {"type": "stream-start", "warnings": []}
        yield {"type": "text-start", "id": "0"}
        for word in words:
            await asyncio.sleep(self._pause)
            yield {"type": "text-delta", "id": "0", "delta": f"{word} "}
        yield {"type": "text-end", "id": "0"}
        usage = {"inputTokens": 0, "outputTokens": len(words), "totalTokens": len(words)}
        yield {"type": "finish", "finishReason": "stop", "usage": usage}


def _asked(prompt: Sequence[Mapping[str, Any]]) -> list[str]:
    """What users said after the last answer."""
    asked: list[str] = []
    for turn in prompt:
        if turn.get("role") == "assistant":
            asked.clear()
        elif turn.get("role") == "user":
            asked.append(_text(turn.get("content")))
    return [text for text in asked if text]


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return " ".join(str(part.get("text", "")) for part in parts if isinstance(part, Mapping))
