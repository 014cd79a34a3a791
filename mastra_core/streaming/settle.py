"""What a run's chunks add up to: text, calls, usage, steps (streaming.md 5).

:class:`RunRecord` is fed every chunk once and never waits. A suspended run carries it on in
the ``__streamState`` of its snapshot (streaming.md 5.6).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mastra_core.base.jsonjs import sanitize_copy
from mastra_core.wire.chunks import Chunk

__all__ = ("TOKEN_COUNTS", "RunRecord", "add_usage")

#: Of a stored step: the ids of its messages, which stand in the message list.
_MESSAGE_IDS = "__responseMessageIds"
#: Members of ``usage`` that are counted.
TOKEN_COUNTS: Final = (
    "inputTokens",
    "outputTokens",
    "totalTokens",
    "reasoningTokens",
    "cachedInputTokens",
    "cacheCreationInputTokens",
)


def add_usage(total: dict[str, Any], usage: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers are summed, ``raw`` keeps the latest (streaming.md 3.2)."""
    added = dict(total)
    for name in TOKEN_COUNTS:
        if usage.get(name) is not None:
            added[name] = (added.get(name) or 0) + usage[name]
    if "raw" in usage:
        added["raw"] = usage["raw"]
    return added


class RunRecord:
    """The sum of a run, kept up to date chunk by chunk."""

    def __init__(self) -> None:
        self.steps: list[dict[str, Any]] = []
        #: Per step the messages that the run had answered by then; None if the step says it.
        self.step_messages: list[list[str] | None] = []
        self.usage: dict[str, Any] = {}
        self.tool_calls: list[Chunk] = []
        self.tool_results: list[Chunk] = []
        self.sources: list[Chunk] = []
        self.files: list[Chunk] = []
        self.warnings: list[Any] = []
        self.finish_reason: str | None = None
        self.response: dict[str, Any] = {}
        self.provider_metadata: dict[str, Any] | None = None
        self.request: dict[str, Any] = {}
        self.suspend_payload: Any = None
        #: A person has to decide about one of the parked calls.
        self.waits_for_approval = False
        self.resume_schema: Any = None
        self.object: Any = None
        self.tripwire: dict[str, Any] | None = None
        #: How many requests input took the place of (signals.md G20).
        self.interruptions = 0
        #: Input that guardrails have dropped in mid-run (signals.md G19).
        self.rejected_signals: list[dict[str, Any]] = []
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._is_text_rejected = False
        #: Where the step that is running starts in the lists above.
        self._call_mark = 0
        self._result_mark = 0
        self._source_mark = 0
        self._file_mark = 0

    # -- feeding --------------------------------------------------------------------------

    def add(self, chunk: Chunk) -> None:
        """Take one chunk into account."""
        match chunk.get("type"):
            case "text-delta":
                self._text.append(chunk["payload"]["text"])
            case "reasoning-delta":
                self._reasoning.append(chunk["payload"]["text"])
            case "tool-call":
                self.tool_calls.append(chunk)
            case "tool-result":
                self.tool_results.append(chunk)
            case "source":
                self.sources.append(chunk)
            case "file":
                self.files.append(chunk)
            case "step-start":
                self.warnings = list(chunk["payload"].get("warnings") or ())
                self.request = chunk["payload"].get("request") or {}
            case "step-finish":
                self._finish_step(chunk["payload"])
            case "tool-call-approval" | "tool-call-suspended" as kind:
                self.waits_for_approval |= kind == "tool-call-approval"
                self.suspend_payload = chunk["payload"]
                self.resume_schema = chunk["payload"].get("resumeSchema")
            case "object-result":
                self.object = chunk.get("object")
            case "tripwire":
                self.tripwire = chunk["payload"]
            case _:
                pass

    def _finish_step(self, payload: Mapping[str, Any]) -> None:
        output = payload.get("output") or {}
        usage = output.get("usage") or {}
        metadata = payload.get("metadata") or {}
        result = payload.get("stepResult") or {}
        if result.get("reason") == "retry":
            self.discard_step()
        # A restored step (resume) brings its calls along; they stand before the marks too.
        calls = self.tool_calls[self._call_mark :]
        results = self.tool_results[self._result_mark :]
        text = "".join(self._text)
        step: dict[str, Any] = {
            "stepType": "tool-result" if self.steps else "initial",
            "text": text,
            "reasoning": [{"type": "reasoning", "text": "".join(self._reasoning)}]
            if self._reasoning
            else [],
            "sources": self.sources[self._source_mark :],
            "files": self.files[self._file_mark :],
            "toolCalls": calls,
            "toolResults": results,
            "finishReason": result.get("reason"),
            "usage": usage,
            "warnings": list(self.warnings),
            "request": self.request,
            "response": {
                name: metadata[name]
                for name in ("id", "timestamp", "modelId", "headers")
                if name in metadata
            },
            "isContinued": bool(result.get("isContinued")),
        }
        if self._reasoning:
            step["reasoningText"] = "".join(self._reasoning)
        if "rawReason" in result:
            step["rawFinishReason"] = result["rawReason"]
        if metadata.get("providerMetadata") is not None:
            step["providerMetadata"] = metadata["providerMetadata"]
        if "retryReason" in result:
            step["tripwire"] = {
                "reason": result["retryReason"],
                "retry": True,
                **({"metadata": result["retryMetadata"]} if "retryMetadata" in result else {}),
                "processorId": result.get("retryProcessorId"),
            }
        self.steps.append(step)
        self.step_messages.append([])
        self.usage = add_usage(self.usage, usage)
        self.response = step["response"]
        self.provider_metadata = metadata.get("providerMetadata")
        self.finish_reason = step["finishReason"]
        self.begin_step()

    def begin_step(self) -> None:
        """What comes now belongs to the next step."""
        self._text.clear()
        self._reasoning.clear()
        self._call_mark = len(self.tool_calls)
        self._result_mark = len(self.tool_results)
        self._source_mark = len(self.sources)
        self._file_mark = len(self.files)

    def discard_step(self) -> None:
        """Forget the running step: its attempt was rejected."""
        self._text.clear()
        self._reasoning.clear()
        del self.tool_calls[self._call_mark :]
        del self.tool_results[self._result_mark :]
        del self.sources[self._source_mark :]
        del self.files[self._file_mark :]

    def forget_text(self) -> None:
        """The answer was rejected as a whole; the steps still say what was rejected."""
        self.discard_step()
        self._is_text_rejected = True

    # -- reading --------------------------------------------------------------------------

    @property
    def step_text(self) -> str:
        """Text of the step that is running."""
        return "".join(self._text)

    @property
    def step_calls(self) -> list[Chunk]:
        """Calls of the step that is running."""
        return self.tool_calls[self._call_mark :]

    @property
    def all_text(self) -> str:
        """Text of all steps, the unfinished one included."""
        return "".join([*(step["text"] for step in self.steps), *self._text])

    def text(self, *, is_suspended: bool) -> str:
        """The ``text`` property: rule of streaming.md 5.3."""
        if self._is_text_rejected:
            return ""
        if self.tool_calls and not is_suspended and self.steps:
            return "".join(self._text) or str(self.steps[-1]["text"])
        return self.all_text

    @property
    def reasoning_text(self) -> str:
        """Reasoning of all steps."""
        return "".join(
            [*(str(step.get("reasoningText", "")) for step in self.steps), *self._reasoning]
        )

    @property
    def total_usage(self) -> dict[str, Any]:
        """Usage with its total always there."""
        usage = dict(self.usage)
        if not usage and self.tripwire is not None:
            return usage  # stopped before anything was used
        parts = (usage.get("inputTokens") or 0) + (usage.get("outputTokens") or 0)
        usage.setdefault("totalTokens", parts)
        return usage

    # -- state of a suspended run -----------------------------------------------------------

    def serialize(self, message_list: dict[str, Any]) -> dict[str, Any]:
        """The ``__streamState`` of a suspended run (streaming.md 5.6)."""
        state = {
            "status": "suspended",
            "bufferedSteps": self._compact_steps(),
            "bufferedReasoningDetails": {},
            "bufferedByStepReasoningDetails": {},
            "bufferedByStep": {
                "text": self.step_text,
                "reasoning": [],
                "sources": self.sources[self._source_mark :],
                "files": self.files[self._file_mark :],
                "toolCalls": self.step_calls,
                "toolResults": self.tool_results[self._result_mark :],
                "dynamicToolCalls": [],
                "dynamicToolResults": [],
                "staticToolCalls": [],
                "staticToolResults": [],
                "content": [],
                "usage": {},
                "warnings": self.warnings,
                "request": self.request,
                "response": self.response,
                "reasoningText": "".join(self._reasoning),
            },
            "bufferedText": [*(step["text"] for step in self.steps if step["text"]), *self._text],
            "bufferedTextChunks": {},
            "bufferedSources": self.sources,
            "bufferedReasoning": [],
            "bufferedFiles": self.files,
            "toolCallArgsDeltas": {},
            "toolCallDeltaIdNameMap": {},
            "toolCallStreamingMeta": {},
            "toolCalls": self.tool_calls,
            "toolResults": self.tool_results,
            "warnings": self.warnings,
            "request": self.request,
            "usageCount": self.usage,
            "wasSuspended": True,
            "messageList": message_list,
        }
        copied = sanitize_copy(state)
        assert isinstance(copied, dict)
        return copied

    def _compact_steps(self) -> list[dict[str, Any]]:
        """The steps with the ids of their messages (streaming.md 5.6, rule 1)."""
        return [
            step if ids is None else {**step, "response": {**step["response"], _MESSAGE_IDS: ids}}
            for step, ids in zip(self.steps, self.step_messages, strict=True)
        ]

    @classmethod
    def deserialize(cls, state: Mapping[str, Any]) -> RunRecord:
        """Read what :meth:`serialize`, or a Node process, wrote."""
        record = cls()
        requests = state.get("bufferedStepRequests") or []
        for stored in state.get("bufferedSteps") or ():
            step, ids = _expand_step(dict(stored), requests)
            record.steps.append(step)
            record.step_messages.append(ids)
        record.usage = dict(state.get("usageCount") or {})
        record.tool_calls = list(state.get("toolCalls") or ())
        record.tool_results = list(state.get("toolResults") or ())
        record.sources = list(state.get("bufferedSources") or ())
        record.files = list(state.get("bufferedFiles") or ())
        record.warnings = list(state.get("warnings") or ())
        current = state.get("bufferedByStep") or {}
        record._text = [str(current["text"])] if current.get("text") else []
        record._reasoning = [current["reasoningText"]] if current.get("reasoningText") else []
        record._call_mark = len(record.tool_calls) - len(current.get("toolCalls") or ())
        record._result_mark = len(record.tool_results) - len(current.get("toolResults") or ())
        record._call_mark = max(record._call_mark, 0)
        record._result_mark = max(record._result_mark, 0)
        record._source_mark = len(record.sources) - len(current.get("sources") or ())
        record._file_mark = len(record.files) - len(current.get("files") or ())
        return record


def _expand_step(
    step: dict[str, Any], requests: list[Any]
) -> tuple[dict[str, Any], list[str] | None]:
    """Undo the compaction of streaming.md 5.6: the step, and the ids of its messages."""
    request = step.get("request")
    if isinstance(request, Mapping) and "__requestRef" in request:
        position = request["__requestRef"]
        known = isinstance(position, int) and 0 <= position < len(requests)
        step["request"] = requests[position] if known else {}
    response = step.get("response")
    if not isinstance(response, Mapping) or _MESSAGE_IDS not in response:
        return step, None
    ids = [str(message_id) for message_id in response[_MESSAGE_IDS] or ()]
    step["response"] = {k: v for k, v in response.items() if k != _MESSAGE_IDS}
    return step, ids
