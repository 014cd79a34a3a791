"""The three turns of the demo's agent, told by what stands in the prompt."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from html import unescape
from typing import Any, Final

from mastra_cli.demo.triage import OVERVIEW_TOOL, PROPOSAL_TOOL
from mastra_core.contracts.model import ModelPart

__all__ = ("NO_USAGE", "Noted", "Turn", "due_turn", "overview_call", "proposed", "read_noted")

NO_USAGE: Final = {"inputTokens": 0, "outputTokens": 0, "totalTokens": 0}

#: A full notification as the model sees it (notifications.md 5.3).
_NOTIFICATION: Final = re.compile(
    r"<notification (?P<attributes>[^>]*)>(?P<text>[^<]*)</notification>"
)
_PRIORITY: Final = re.compile(r'priority="(\w+)"')


class Turn(Enum):
    """What the agent does next."""

    #: Count what is in the inbox.
    LOOK = auto()
    #: Say what needs attention, and propose one action.
    PROPOSE = auto()
    #: Say that it is done.
    CLOSE = auto()


@dataclass(frozen=True, slots=True)
class Noted:
    """One notification of the prompt."""

    priority: str
    text: str

    @property
    def is_serious(self) -> bool:
        """Whether somebody should act on it."""
        return self.priority in {"urgent", "high"}


def due_turn(prompt: Sequence[Mapping[str, Any]]) -> Turn:
    """The turn that is due: which tools have answered tells."""
    answered = {str(part.get("toolName")) for part in _tool_parts(prompt, "tool-result")}
    if PROPOSAL_TOOL in answered:
        return Turn.CLOSE
    return Turn.PROPOSE if OVERVIEW_TOOL in answered else Turn.LOOK


def proposed(prompt: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The arguments of the last proposal in the prompt; empty without one."""
    arguments: Mapping[str, Any] = {}
    for part in _tool_parts(prompt, "tool-call"):
        if part.get("toolName") == PROPOSAL_TOOL and isinstance(part.get("input"), Mapping):
            arguments = part["input"]
    return arguments


def _tool_parts(prompt: Sequence[Mapping[str, Any]], kind: str) -> Iterator[Mapping[str, Any]]:
    for turn in prompt:
        if isinstance(turn.get("content"), Sequence) and not isinstance(turn["content"], str):
            yield from (part for part in turn["content"] if part.get("type") == kind)


def read_noted(prompt: Sequence[Mapping[str, Any]]) -> list[Noted]:
    """The full notifications of the prompt, the serious ones first, then as they came."""
    found = [
        Noted(priority[1] if (priority := _PRIORITY.search(hit["attributes"])) else "", text)
        for hit in _NOTIFICATION.finditer("\n".join(_texts(prompt)))
        if (text := unescape(hit["text"]).strip())
    ]
    return sorted(found, key=lambda noted: not noted.is_serious)


def _texts(prompt: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for turn in prompt:
        content = turn.get("content")
        if isinstance(content, str):
            yield content
        else:
            yield from (str(part.get("text", "")) for part in content or () if "text" in part)


def overview_call(prompt: Sequence[Mapping[str, Any]]) -> list[ModelPart]:
    """A whole answer: the call of the overview, and nothing else."""
    call_id = f"overview_{len(prompt)}"
    return [
        {"type": "stream-start", "warnings": []},
        {"type": "tool-call", "toolCallId": call_id, "toolName": OVERVIEW_TOOL, "input": "{}"},
        {"type": "finish", "finishReason": "tool-calls", "usage": NO_USAGE},
    ]
