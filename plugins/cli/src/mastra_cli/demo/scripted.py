"""The demo without a model: the sentences follow from the notifications in the prompt."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final

from mastra_cli.demo.triage import PROPOSAL_TOOL
from mastra_cli.demo.turns import (
    Noted,
    Turn,
    due_turn,
    overview_call,
    proposed,
    read_noted,
)
from mastra_core.contracts.model import ModelPart, ModelRequest, ToolSchema

__all__ = ("ScriptedTriage",)

#: Words of a subject → the action that fits it, and why.
_REMEDIES: Final = (
    ("alert", "fix_the_dependency", "it is a security risk"),
    ("action_required", "approve_the_workflow", "somebody waits for it"),
    ("failure", "run_again", "it blocks the release"),
    ("", "ask_the_author", "somebody waits for it"),
)


class ScriptedTriage:
    """
    Says what a careful reader would say, by rule.

    Args:
        is_settled: Set when all events are in the inbox; the first turn waits for it.
    """

    provider = "scripted"
    model_id = "triage"

    def __init__(self, is_settled: asyncio.Event) -> None:
        self._is_settled = is_settled

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelPart]:
        """The turn that is due, in one go."""
        prompt = request.prompt
        match due_turn(prompt):
            case Turn.LOOK:
                await self._is_settled.wait()
                parts = overview_call(prompt)
            case Turn.PROPOSE:
                noted = read_noted(prompt)
                call = _proposal_call(request.tools, noted, f"proposal_{len(prompt)}")
                parts = _answer(_attention(noted), [call])
            case Turn.CLOSE:
                action = str(proposed(prompt).get("action", "the action")).replace("_", " ")
                parts = _answer(f"Done as approved: {action}. Nothing else is urgent.", [])
        for part in parts:
            yield part


def _answer(text: str, calls: Sequence[ModelPart]) -> list[ModelPart]:
    words = re.findall(r"\S+\s*", text)
    usage = {"inputTokens": 0, "outputTokens": len(words), "totalTokens": len(words)}
    return [
        {"type": "stream-start", "warnings": []},
        {"type": "text-start", "id": "0"},
        *({"type": "text-delta", "id": "0", "delta": word} for word in words),
        {"type": "text-end", "id": "0"},
        *calls,
        {"type": "finish", "finishReason": "tool-calls" if calls else "stop", "usage": usage},
    ]


def _attention(noted: Sequence[Noted]) -> str:
    serious = [item.text for item in noted if item.is_serious]
    others = len(noted) - len(serious)
    if not serious:
        return f"Nothing is broken; {others} notifications can be read at leisure."
    things = "thing needs" if len(serious) == 1 else "things need"
    return f"{len(serious)} {things} attention: {'; '.join(serious)}. The other {others} can wait."


def _proposal_call(tools: Sequence[ToolSchema], noted: Sequence[Noted], call_id: str) -> ModelPart:
    known = _subjects(tools)
    serious = [item.text for item in noted if item.text in known]
    subject = (serious or known or ["the inbox"])[0]
    action, reason = next((does, why) for word, does, why in _REMEDIES if word in subject)
    arguments = {"subject": subject, "action": action, "reason": reason}
    return {
        "type": "tool-call",
        "toolCallId": call_id,
        "toolName": PROPOSAL_TOOL,
        "input": json.dumps(arguments),
    }


def _subjects(tools: Sequence[ToolSchema]) -> list[str]:
    for tool in tools:
        if tool.name == PROPOSAL_TOOL:
            subject: Mapping[str, Any] = tool.input_schema["properties"]["subject"]
            return list(subject.get("enum") or ())
    return []
