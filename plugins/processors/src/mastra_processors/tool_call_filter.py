"""Tool calls that the model needn't see again, left out of the prompt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field

from mastra_core.base.jsonjs import encode
from mastra_core.processors import ProcessorArgs
from mastra_processors.built_in import BuiltIn
from mastra_processors.options import Options

__all__ = ("ToolCallFilter", "ToolCallFilterOptions")


class ToolCallFilterOptions(Options):
    """Options of ``tool-call-filter``."""

    #: Names of the tools whose calls go; all if not given.
    exclude: tuple[str, ...] | None = None
    #: Also filter calls of the run that goes on, but for so many newest steps with calls. If not
    #: given, calls of this run stay.
    filter_after_tool_steps: int | None = Field(default=None, ge=0)
    #: Put the short output that a tool made for the model in place of the call.
    preserve_model_output: bool = False


class ToolCallFilter(BuiltIn[ToolCallFilterOptions]):
    """
    Takes calls and their results out of each request.

    What is stored, and what the user sees, stays complete.
    """

    id = "tool-call-filter"
    options_type: ClassVar[type[Options]] = ToolCallFilterOptions

    def process_llm_request(self, args: ProcessorArgs) -> dict[str, Any] | None:
        """Hook 4: the prompt without these calls; None if there are none."""
        prompt = list(args.prompt)
        kept = self._kept(args, prompt)
        texts: dict[tuple[int, str], str] = {}
        if self.options.preserve_model_output:
            texts = _model_outputs(prompt)
        filtered: list[dict[str, Any]] = []
        has_changed = False
        caller = -1
        for place, turn in enumerate(prompt):
            if turn["role"] == "assistant":
                caller = place
            if turn["role"] not in ("assistant", "tool") or kept.get(caller, False):
                filtered.append(dict(turn))
                continue
            content = [
                left
                for part in turn["content"]
                for left in self._left(part, texts.get((caller, str(part.get("toolCallId")))))
            ]
            has_changed = has_changed or content != turn["content"]
            if content:
                filtered.append({**turn, "content": content})
        return {"prompt": filtered} if has_changed else None

    def _kept(self, args: ProcessorArgs, prompt: list[Mapping[str, Any]]) -> dict[int, bool]:
        """Which turns with calls stay whole, by their place."""
        callers = [place for place, turn in enumerate(prompt) if _calls(turn)]
        limit = self.options.filter_after_tool_steps
        if limit is not None:
            return dict.fromkeys(callers[len(callers) - limit :] if limit else (), True)
        # Ids may repeat from run to run, so those of this run are counted from the end.
        own = Counter(
            str(part["toolInvocation"].get("toolCallId"))
            for message in args.message_list.of_source("response")
            for part in message.parts
            if part.get("type") == "tool-invocation"
        )
        kept: dict[int, bool] = {}
        for place in reversed(callers):
            ids = _calls(prompt[place])
            if any(own[call_id] > 0 for call_id in ids):
                own.subtract(ids)
                kept[place] = True
        return kept

    def _left(self, part: Mapping[str, Any], text: str | None) -> list[dict[str, Any]]:
        kind = part.get("type")
        if kind not in ("tool-call", "tool-result"):
            return [dict(part)]
        exclude = self.options.exclude
        if exclude is not None and part.get("toolName") not in exclude:
            return [dict(part)]
        if kind == "tool-call" and text is not None:
            return [{"type": "text", "text": text}]
        return []


def _calls(turn: Mapping[str, Any]) -> list[str]:
    if turn["role"] != "assistant":
        return []
    return [str(p.get("toolCallId")) for p in turn["content"] if p.get("type") == "tool-call"]


def _model_outputs(prompt: list[Mapping[str, Any]]) -> dict[tuple[int, str], str]:
    """Outputs that tools made for the model, by place of the caller and id of the call."""
    found: dict[tuple[int, str], str] = {}
    caller = -1
    for place, turn in enumerate(prompt):
        if turn["role"] == "assistant":
            caller = place
        if turn["role"] != "tool":
            continue
        for part in turn["content"]:
            mastra = (part.get("providerOptions") or {}).get("mastra") or {}
            text = _as_text(mastra.get("modelOutput"))
            if text:
                found[caller, str(part.get("toolCallId"))] = text
    return found


def _as_text(output: Any) -> str | None:
    match output:
        case str():
            return output
        case {"type": "json", "value": value}:
            return encode(value)
        case {"type": "content", "value": list() as items}:
            return "\n".join(str(i["text"]) for i in items if i.get("type") == "text") or None
        case {"value": str() as value}:
            return value
        case _:
            return None
