"""Tools and processors that a scene describes as lists of operations."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mastra_conformance.wire.expressions import (
    UnknownVocabularyError,
    camel_to_snake,
    evaluate,
    json_schema,
)
from mastra_core.agent.tools import FunctionTool
from mastra_core.contracts.tool import ToolContext
from mastra_core.messages.signals import wire_form
from mastra_core.processors.arguments import ProcessorArgs
from mastra_core.testing.scripted_model import Gates

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


class SceneProcessor:
    """A processor whose hooks do what the scene says; made by ``with_hooks``."""

    def __init__(self, data: Mapping[str, Any], journal: Journal) -> None:
        self.id = str(data["id"])
        self._journal = journal
        self._calls: dict[str, int] = {}
        for name, operations in data.items():
            if name == "processInputStep":
                self._offer(name, self._input_step(operations))
            elif name != "id":
                raise UnknownVocabularyError("hook", name)

    def _offer(self, name: str, hook: Callable[[ProcessorArgs], Awaitable[Any]]) -> None:
        setattr(self, camel_to_snake(name), hook)

    def _input_step(self, operations: Operations) -> Callable[[ProcessorArgs], Awaitable[None]]:
        async def process_input_step(args: ProcessorArgs) -> None:
            self._journal.hooks.append(
                {
                    "processor": self.id,
                    "hook": "processInputStep",
                    "stepNumber": args.step_number,
                    "messages": [_brief(message) for message in args.message_list.messages],
                }
            )
            for operation in operations:
                if "sendSignal" not in operation:
                    raise UnknownVocabularyError("operation of a hook", list(operation))
                assert args.send_signal is not None
                sent = await args.send_signal(operation["sendSignal"])
                self._journal.hooks.append(
                    {"processor": self.id, "hook": "processInputStep", "sent": wire_form(sent)}
                )

        return process_input_step


def _brief(message: Any) -> str:
    texts = [part.get("text", "") for part in message.parts if part.get("type") == "text"]
    return f"{message.role}:{' '.join(texts)}"


async def wait_for_gate(gates: Gates, name: str, *, seconds: float) -> None:
    """
    Wait until somebody stands at a gate.

    Raises:
        TimeoutError: Nobody came.
    """
    async with asyncio.timeout(seconds):
        await gates.reached(name)
