"""A small model led by the hand: the order of steps is fixed, the words are its own.

A large model follows the agent's instructions by itself. A model of 135 million parameters
doesn't, so each turn is put together here, and it gets a short version of the prompt: the
few notifications that matter, and one question.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from mastra_cli.demo.triage import PROPOSAL_TOOL
from mastra_cli.demo.turns import (
    NO_USAGE,
    Noted,
    Turn,
    due_turn,
    overview_call,
    proposed,
    read_noted,
)
from mastra_core.contracts.model import Model, ModelPart, ModelRequest

__all__ = (
    "CLOSING_TOKENS",
    "MAX_NOTED",
    "TEXT_TOKENS",
    "GuidedModel",
)

#: How many notifications a small model can keep apart.
MAX_NOTED: Final = 6
#: Tokens for the text of a turn: a few sentences.
TEXT_TOKENS: Final = 90
CLOSING_TOKENS: Final = 30

_ROLE: Final = {"role": "system", "content": "You are a release engineer."}


class GuidedModel:
    """
    Asks another model piece by piece.

    Args:
        model: Writes text, and arguments when a call is forced.
        is_settled: Set when all events are in the inbox; the first turn waits for it, so that
            the second one sees them all.
    """

    def __init__(self, model: Model, is_settled: asyncio.Event) -> None:
        self._model = model
        self._is_settled = is_settled
        self.provider = model.provider
        self.model_id = model.model_id

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelPart]:
        """The turn that is due."""
        match due_turn(request.prompt):
            case Turn.LOOK:
                await self._is_settled.wait()
                for part in overview_call(request.prompt):
                    yield part
            case Turn.PROPOSE:
                noted = _chosen(read_noted(request.prompt))
                async for part in self._propose(request, noted):
                    yield part
            case Turn.CLOSE:
                question = _closing_question(proposed(request.prompt))
                async for part in self._text(request, question, CLOSING_TOKENS):
                    yield part

    def _text(
        self, request: ModelRequest, question: str, max_tokens: int
    ) -> AsyncIterator[ModelPart]:
        return self._model.stream(
            replace(
                request,
                prompt=_asked(question),
                tools=(),
                tool_choice="auto",
                settings={"maxOutputTokens": max_tokens, **request.settings},
            )
        )

    async def _propose(
        self, request: ModelRequest, noted: Sequence[Noted]
    ) -> AsyncIterator[ModelPart]:
        """Text and a forced call, as one answer."""
        usage: Mapping[str, int] = NO_USAGE
        question = f"Summarize what happened in two sentences:\n{_listed(noted)}"
        async for part in self._text(request, question, TEXT_TOKENS):
            if part["type"] == "finish":
                usage = part["usage"]
            else:
                yield part
        forced = replace(
            request,
            prompt=_asked(
                f"Problems:\n{_listed(noted)}\nWhich problem should be solved first, and how?"
            ),
            tools=[tool for tool in request.tools if tool.name == PROPOSAL_TOOL],
            tool_choice={"type": "tool", "toolName": PROPOSAL_TOOL},
        )
        async for part in self._model.stream(forced):
            if part["type"] == "finish":
                yield {**part, "usage": _sum(usage, part["usage"])}
            elif part["type"] not in {"stream-start", "response-metadata"}:
                yield part


def _chosen(noted: Sequence[Noted]) -> list[Noted]:
    """What is serious, or else whatever there is; few enough for a small model."""
    serious = [item for item in noted if item.is_serious]
    return (serious or list(noted))[:MAX_NOTED]


def _asked(question: str) -> list[dict[str, Any]]:
    return [_ROLE, {"role": "user", "content": [{"type": "text", "text": question}]}]


def _listed(noted: Sequence[Noted]) -> str:
    return "\n".join(f"- {item.text}" for item in noted) or "- nothing"


def _closing_question(arguments: Mapping[str, Any]) -> str:
    action = str(arguments.get("action", "the action")).replace("_", " ")
    return (
        f"Tell the team in one short sentence that this was approved and done: "
        f"{action}, because of: {arguments.get('subject', 'the inbox')}."
    )


def _sum(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in {**one, **other}}
