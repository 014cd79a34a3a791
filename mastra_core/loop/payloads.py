"""What of tool payloads clients see and storage keeps (streaming.md 6.7).

Tools and the rest of the run work with the real values; here the values are changed on their way
out. A transform that fails shows nothing of them.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from mastra_core.base.jsonjs import sanitize_copy
from mastra_core.base.tasks import call_maybe_async
from mastra_core.contracts.tool import Tool
from mastra_core.contracts.tool_hooks import (
    PayloadPhase,
    PayloadTarget,
    PayloadTransform,
    ToolPayload,
)
from mastra_core.loop.model_step import StepCall
from mastra_core.loop.setup import RunSetup
from mastra_core.messages.from_output import ResponseWriter
from mastra_core.wire.chunks import Chunk
from mastra_core.workflows.agent_snapshot import CallOutcome

__all__ = ("PayloadTransforms",)

logger = logging.getLogger(__name__)

#: What stands in the place of a value whose transform failed.
_HIDDEN: Final = "[hidden: the payload could not be transformed]"
#: Phases under the names that peers give them.
_WIRE_PHASES: Final[Mapping[PayloadPhase, str]] = {
    "input": "input-available",
    "input_delta": "input-delta",
    "output": "output-available",
    "error": "error",
    "approval": "approval",
    "suspend": "suspend",
    "resume": "resume",
}
#: Chunk -> which member of its payload is of which phase.
_SHOWN: Final[Mapping[str, Mapping[str, PayloadPhase]]] = {
    "tool-call": {"args": "input"},
    "tool-call-delta": {"argsTextDelta": "input_delta"},
    "tool-result": {"args": "input", "result": "output"},
    "tool-error": {"args": "input", "error": "error"},
    "tool-output-denied": {"args": "input"},
    "tool-call-approval": {"args": "approval"},
    "tool-call-suspended": {"args": "input", "suspendPayload": "suspend"},
}


class PayloadTransforms:
    """The transforms of one run: those of the call, then those of the tools."""

    def __init__(self, setup: RunSetup) -> None:
        self._policy = setup.payload_transform
        self._context = setup.request_context
        self._own: dict[str, Mapping[str, Mapping[str, PayloadTransform]]] = {}
        self.add_tools(setup.tools)

    def add_tools(self, tools: Mapping[str, Tool]) -> None:
        """Tools that a step offers, too."""
        for name, tool in tools.items():
            if transform := getattr(tool, "transform", None):
                self._own[name] = transform

    def __bool__(self) -> bool:
        return self._policy is not None or bool(self._own)

    def _chain(self, tool_name: str, target: PayloadTarget, phase: PayloadPhase) -> list[Any]:
        own = self._own.get(tool_name, {}).get(target, {})
        chain = [self._policy] if self._policy is not None else []
        if phase in own:
            chain.append(own[phase])
        elif phase == "approval" and "input" in own:
            # What is asked about is what was called with.
            chain.append(own["input"])
        elif phase == "input_delta" and "input" in own:
            # The text of the arguments would show what their transform hides.
            chain.append(lambda _: "")
        return chain

    async def _changed(
        self,
        target: PayloadTarget,
        phase: PayloadPhase,
        tool_name: str,
        tool_call_id: str,
        value: Any,
    ) -> dict[str, Any] | None:
        """``{transformed?, suppress?, failed?}``; None if the value stays as it is."""
        made = value
        for transform in self._chain(tool_name, target, phase):
            payload = ToolPayload(
                target=target,
                phase=phase,
                tool_name=tool_name,
                tool_call_id=tool_call_id,
                value=made,
                request_context=self._context,
            )
            try:
                made = sanitize_copy(await call_maybe_async(transform, payload))
            except Exception:
                logger.exception("payload transform failed", extra={"tool": tool_name})
                if phase == "input_delta":
                    return {"suppress": True, "failed": True}
                return {"transformed": _HIDDEN, "failed": True}
        if made == value:
            return None
        if phase == "input_delta" and not made:
            return {"suppress": True}
        return {"transformed": made}

    # -- clients ------------------------------------------------------------------------------

    async def shown(self, chunk: Chunk) -> Chunk:
        """The chunk as readers get it."""
        members = _SHOWN.get(chunk["type"])
        if members is None:
            return await self._with_shown_calls(chunk)
        payload = dict(chunk["payload"])
        states: dict[str, Any] = {}
        named = (str(payload.get("toolName")), str(payload.get("toolCallId")))
        for member, phase in members.items():
            if member not in payload:
                continue
            state = await self._changed("display", phase, *named, payload[member])
            if state is not None:
                payload[member] = state.get("transformed", "")
                states[_WIRE_PHASES[phase]] = state
        if not states:
            return chunk
        if _WIRE_PHASES["output"] in states:
            _drop_model_output(payload)
        metadata = dict(chunk.get("metadata") or {})
        mastra = {**metadata.get("mastra", {}), "toolPayloadTransform": {"display": states}}
        return {**chunk, "payload": payload, "metadata": {**metadata, "mastra": mastra}}

    async def _with_shown_calls(self, chunk: Chunk) -> Chunk:
        """Ends of steps and runs repeat the calls, that of a run the whole transcript."""
        payload = chunk.get("payload") or {}
        output = payload.get("output")
        if chunk["type"] not in ("step-finish", "finish") or not isinstance(output, Mapping):
            return chunk
        calls = []
        for call in output.get("toolCalls") or ():
            state = await self._changed(
                "display", "input", call["toolName"], call["toolCallId"], call["args"]
            )
            calls.append(call if state is None else {**call, "args": state["transformed"]})
        shown = {**payload, "output": {**output, "toolCalls": calls}}
        if "messages" in payload:
            shown["messages"] = {
                origin: [await self._shown_turn(turn) for turn in turns]
                for origin, turns in payload["messages"].items()
            }
        return {**chunk, "payload": shown}

    async def _shown_turn(self, turn: Mapping[str, Any]) -> dict[str, Any]:
        return {**turn, "content": [await self._shown_part(part) for part in turn["content"]]}

    async def _shown_part(self, part: Mapping[str, Any]) -> dict[str, Any]:
        made = dict(part)
        if part["type"] not in ("tool-call", "tool-result"):
            return made
        name, call_id = part["toolName"], part["toolCallId"]
        made["input"] = await self._shown_value("input", name, call_id, part["input"])
        # What the provider is told beside it may say the same.
        made.pop("providerOptions", None)
        if part["type"] == "tool-result":
            output = part["output"]
            phase: PayloadPhase = "error" if output["type"] == "error-text" else "output"
            value = await self._shown_value(phase, name, call_id, output["value"])
            if value is not output["value"]:
                made["output"] = {"type": "json", "value": value}
        return made

    async def _shown_value(
        self, phase: PayloadPhase, tool_name: str, tool_call_id: str, value: Any
    ) -> Any:
        state = await self._changed("display", phase, tool_name, tool_call_id, value)
        return value if state is None else state.get("transformed")

    # -- storage ------------------------------------------------------------------------------

    async def keep_inputs(self, writer: ResponseWriter, calls: list[StepCall]) -> None:
        """Change the arguments that the transcript has."""
        for call in calls:
            state = await self._stored("input", call, call.args)
            if state is not None:
                metadata = _stored_metadata("input", state)
                writer.settle_call(
                    call.tool_call_id, args=state["transformed"], part_metadata=metadata
                )

    async def keep_outcome(
        self, writer: ResponseWriter, call: StepCall, outcome: CallOutcome
    ) -> None:
        """Change the result that the transcript has."""
        output = outcome.output
        if "error" in output:
            error = output["error"]
            text = error.get("message") if isinstance(error, Mapping) else str(error)
            state = await self._stored("error", call, text)
            if state is not None:
                metadata = _stored_metadata("error", state)
                writer.settle_call(
                    call.tool_call_id,
                    errorText=str(state["transformed"]),
                    part_metadata=metadata,
                )
        elif "result" in output:
            state = await self._stored("output", call, output["result"])
            if state is not None:
                metadata = _stored_metadata("output", state)
                if "modelOutput" in (output.get("providerMetadata") or {}).get("mastra", {}):
                    # It says of the result what isn't to be kept.
                    metadata["mastra"]["modelOutput"] = None
                writer.settle_call(
                    call.tool_call_id, result=state["transformed"], part_metadata=metadata
                )

    async def keep_mark(self, call: StepCall, entry: dict[str, Any]) -> None:
        """Change what a message says of a call that waits."""
        phase: PayloadPhase = "approval" if entry["type"] == "approval" else "input"
        members: tuple[tuple[str, PayloadPhase], ...] = (
            ("args", phase),
            ("suspendPayload", "suspend"),
        )
        for member, of_phase in members:
            if member in entry:
                state = await self._stored(of_phase, call, entry[member])
                if state is not None:
                    entry[member] = state["transformed"]

    async def _stored(
        self, phase: PayloadPhase, call: StepCall, value: Any
    ) -> dict[str, Any] | None:
        return await self._changed("transcript", phase, call.tool_name, call.tool_call_id, value)


def _stored_metadata(phase: PayloadPhase, state: Mapping[str, Any]) -> dict[str, Any]:
    return {"mastra": {"toolPayloadTransform": {"transcript": {_WIRE_PHASES[phase]: dict(state)}}}}


def _drop_model_output(payload: dict[str, Any]) -> None:
    metadata = payload.get("providerMetadata") or {}
    mastra = {k: v for k, v in metadata.get("mastra", {}).items() if k != "modelOutput"}
    if "mastra" in metadata:
        payload["providerMetadata"] = {**metadata, "mastra": mastra}
