"""Tools and processors that a scene describes as lists of operations."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from mastra_conformance.wire.expressions import (
    UnknownVocabularyError,
    camel_to_snake,
    evaluate,
    json_schema,
)
from mastra_core.agent.tools import FunctionTool
from mastra_core.contracts.tool import ToolContext
from mastra_core.messages.signals import wire_form
from mastra_core.messages.state_lanes import lane_facts
from mastra_core.processors.arguments import ProcessorArgs, StepPatch
from mastra_core.testing.scripted_model import Gates
from mastra_core.wire.signals import Signal

__all__ = (
    "Journal",
    "Operations",
    "SceneProcessor",
    "tool_from_data",
    "wait_for_gate",
)

Operations = Sequence[Mapping[str, Any]]


@dataclass(slots=True)
class Journal:
    """What bodies and hooks were called with."""

    tool_executions: list[dict[str, Any]] = field(default_factory=list)
    hooks: list[dict[str, Any]] = field(default_factory=list)


def tool_from_data(
    name: str, data: Mapping[str, Any], *, gates: Gates, journal: Journal
) -> FunctionTool:
    """A tool that does what the scene says."""

    async def execute(args: Any, context: ToolContext) -> Any:
        call = {"tool": name, "input": args, "toolCallId": context.tool_call_id}
        if context.is_resumed:
            call["resumeData"] = context.resume_data
        journal.tool_executions.append(call)
        is_resumed = context.is_resumed and "onResume" in data
        operations: Operations = data["onResume"] if is_resumed else data["do"]
        return await _run(operations, args, context, gates)

    return FunctionTool(
        id=name,
        description=data.get("description", ""),
        input_schema=json_schema(data.get("input")),
        execute=None if data.get("client") else execute,
        require_approval=bool(data.get("requireApproval", False)),
        suspend_schema=json_schema(data.get("suspendSchema")),
        resume_schema=json_schema(data.get("resumeSchema")),
        background=data.get("background"),
    )


async def _run(operations: Operations, args: Any, context: ToolContext, gates: Gates) -> Any:
    scope = {
        "$input": args,
        "$resume": context.resume_data,
        "$suspendData": context.suspend_payload,
    }
    for operation in operations:
        (word, raw) = next(iter(operation.items()))
        value = evaluate(raw, scope)
        match word:
            case "write":
                await context.writer.write(value)
            case "custom":
                await context.writer.custom(value)
            case "gate":
                await gates.wait(value)
            case "sleep":
                await asyncio.sleep(value / 1000)
            case "suspend":
                await context.suspend(value)
                return None
            case "throw":
                raise RuntimeError(value)
            case "return":
                return value
            case _:
                raise UnknownVocabularyError("operation of a tool", word)
    return None


_HOOKS: Final = {
    "processInput": "process_input",
    "processInputStep": "process_input_step",
    "computeStateSignal": "compute_state_signal",
    "processLLMRequest": "process_llm_request",
    "processLLMResponse": "process_llm_response",
    "processOutputStream": "process_output_stream",
    "processOutputStep": "process_output_step",
    "processToolResult": "process_tool_result",
    "processOutputResult": "process_output_result",
    "processAPIError": "process_api_error",
}
#: Hooks whose view of the messages was written down.
_WITH_MESSAGES: Final = (
    *("processInput", "processInputStep", "processOutputStep", "processToolResult"),
    *("processOutputResult", "processAPIError"),
)
_WITH_STEP: Final = (
    *(
        "processInputStep",
        "computeStateSignal",
        "processLLMRequest",
        "processLLMResponse",
        "processOutputStep",
    ),
    *("processToolResult", "processAPIError"),
)


class SceneProcessor:
    """A processor whose hooks do what the scene says."""

    def __init__(self, data: Mapping[str, Any], journal: Journal) -> None:
        self.id = str(data["id"])
        self.process_data_parts = bool(data.get("processDataParts", False))
        self._journal = journal
        self._calls: dict[str, int] = {}
        for name, operations in data.items():
            if name in _HOOKS:
                setattr(self, _HOOKS[name], self._hook(name, operations))
            elif name not in ("id", "processDataParts"):
                raise UnknownVocabularyError("hook", name)

    def _hook(self, name: str, operations: Operations) -> Callable[[ProcessorArgs], Awaitable[Any]]:
        async def hook(args: ProcessorArgs) -> Any:
            number = self._calls.get(name, 0)
            self._calls[name] = number + 1
            self._journal.hooks.append(self._seen(name, args))
            result: Any = args.part
            for operation in operations:
                if not _holds(operation.get("when", {}), number, args):
                    continue
                word = next(key for key in operation if key not in ("when", "options"))
                value = operation[word]
                match word:
                    case "drop":
                        return None
                    case "return":
                        return _returned(name, value)
                    case "replace":
                        assert args.part is not None
                        result = _with_text(args.part, *value)
                    case _:
                        await self._act(name, word, value, operation.get("options", {}), args)
                        if word == "appendPrompt":
                            result = {"prompt": [*args.prompt, value]}
            return result

        return hook

    def _seen(self, name: str, args: ProcessorArgs) -> dict[str, Any]:
        seen: dict[str, Any] = {"processor": self.id, "hook": name}
        if name in _WITH_STEP:
            seen["stepNumber"] = args.step_number
            if args.retry_count:
                seen["retryCount"] = args.retry_count
        if name in _WITH_MESSAGES:
            seen["messages"] = [_brief(message) for message in args.messages]
        match name:
            case "computeStateSignal":
                seen["args"] = _lane_form(args)
            case "processOutputStream":
                assert args.part is not None
                seen["part"] = args.part["type"]
            case "processOutputStep":
                seen |= {"finishReason": args.finish_reason, "text": args.text}
                if args.tool_calls:
                    seen["toolCalls"] = [dict(call) for call in args.tool_calls]
            case "processToolResult":
                seen |= {"toolName": args.tool_name, "result": args.result}
            case "processOutputResult":
                seen["result"] = {key: args.result[key] for key in ("text", "finishReason")}
            case "processAPIError":
                seen["error"] = args.error
            case _:
                pass
        return seen

    async def _act(
        self,
        name: str,
        word: str,
        value: Any,
        options: Mapping[str, Any],
        args: ProcessorArgs,
    ) -> None:
        match word:
            case "sendSignal":
                assert args.send_signal is not None
                sent = await args.send_signal(value)
                self._journal.hooks.append(
                    {"processor": self.id, "hook": name, "sent": wire_form(sent)}
                )
            case "rewriteText":
                for message in args.messages:
                    for part in message.parts:
                        if part.get("type") == "text":
                            part["text"] = part["text"].replace(*value)
            case "abort":
                args.abort(value if isinstance(value, str) else None, **options)
            case "throw":
                raise RuntimeError(value)
            case "appendPrompt":
                pass
            case _:
                raise UnknownVocabularyError("operation of a hook", word)


def _lane_form(args: ProcessorArgs) -> dict[str, Any]:
    """What a processor was told about its lane."""
    assert args.context_window is not None
    form: dict[str, Any] = {"contextWindow": {"hasSnapshot": args.context_window.has_snapshot}}
    if args.last_snapshot is not None:
        form["lastSnapshot"] = _state_form(args.last_snapshot)
    form["deltas"] = [_state_form(signal) for signal in args.deltas_since_snapshot]
    form["active"] = [_state_form(signal) for signal in args.active_state_signals]
    if args.tracking is not None:
        form["tracking"] = dict(args.tracking)
    return form


def _state_form(signal: Signal) -> dict[str, Any]:
    facts = lane_facts(signal) or {}
    return {
        "id": signal.id,
        **{name: facts[name] for name in ("mode", "cacheKey", "version")},
        "contents": signal.contents,
    }


def _holds(when: Mapping[str, Any], number: int, args: ProcessorArgs) -> bool:
    """Whether an operation is meant for this call of the hook."""
    part = args.part or {}
    text = args.text or str((part.get("payload") or {}).get("text", ""))
    for name, wanted in when.items():
        match name:
            case "call":
                found = number == wanted
            case "step":
                found = args.step_number == wanted
            case "part":
                found = part.get("type") == wanted
            case "text":
                found = wanted in text
            case _:
                raise UnknownVocabularyError("condition of a hook", name)
        if not found:
            return False
    return True


def _returned(name: str, value: Any) -> Any:
    if name == "processInputStep":
        return StepPatch(**{camel_to_snake(key): part for key, part in value.items()})
    return value


def _with_text(part: Mapping[str, Any], old: str, new: str) -> dict[str, Any]:
    payload = part.get("payload") or {}
    if part.get("type") != "text-delta":
        return dict(part)
    return {**part, "payload": {**payload, "text": payload["text"].replace(old, new)}}


def _brief(message: Any) -> str:
    return f"{message.role}:{'|'.join(map(_brief_part, message.parts))}"


def _brief_part(part: Mapping[str, Any]) -> str:
    if part.get("type") == "text":
        return str(part.get("text", ""))
    invocation = part.get("toolInvocation")
    if invocation is not None:
        return f"[{invocation['toolName']} {invocation['state']}]"
    return f"[{part.get('type')}]"


async def wait_for_gate(gates: Gates, name: str, *, seconds: float) -> None:
    """
    Wait until somebody stands at a gate.

    Raises:
        TimeoutError: Nobody came.
    """
    async with asyncio.timeout(seconds):
        await gates.reached(name)
