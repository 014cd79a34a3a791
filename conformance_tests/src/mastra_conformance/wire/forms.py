"""How results look in the recordings: sends, finished runs, errors."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from datetime import datetime
from typing import Any

from mastra_core.base.isotime import to_iso_ms
from mastra_core.contracts.signal_sink import Accepted, SendSignalResult
from mastra_core.errors import MastraError, wire_from_error
from mastra_core.messages.signals import wire_form
from mastra_core.streaming.output import ModelOutput
from mastra_core.wire.base import WireModel

__all__ = ("accepted_form", "error_form", "full_output_form", "output_form", "plain", "send_form")


def plain(value: Any) -> Any:
    """The value as JSON: models under their wire names, times as text."""
    if isinstance(value, datetime):
        return to_iso_ms(value)
    if isinstance(value, BaseException):
        return error_form(value)
    if isinstance(value, WireModel):
        return plain(value.to_wire())
    if isinstance(value, Mapping):
        return {name: plain(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def error_form(error: BaseException) -> dict[str, Any]:
    """The error as JavaScript would show it: its id under both names that peers use."""
    form = wire_from_error(error)
    return {**form, "id": form["code"]} if "code" in form else form


async def send_form(result: SendSignalResult) -> dict[str, Any]:
    """A send with everything settled that it promised."""
    form: dict[str, Any] = {
        "signal": plain(wire_form(result.signal)),
        "hasPersisted": result.persisted is not None,
        "accepted": await _settled(result.accepted),
    }
    if result.persisted is not None:
        form["persisted"] = await _settled(result.persisted)
    return form


async def _settled(promise: Awaitable[Any]) -> Any:
    try:
        value = await promise
    except MastraError as exc:
        return {"$rejected": error_form(exc)}
    return accepted_form(value) if isinstance(value, Accepted) else "resolved"


def accepted_form(accepted: Accepted) -> dict[str, Any]:
    """How a signal was taken."""
    form: dict[str, Any] = {"action": accepted.action}
    if accepted.reason is not None:
        form["reason"] = accepted.reason
    if accepted.run_id is not None:
        form["runId"] = accepted.run_id
    if accepted.output is not None:
        form["output"] = "<ModelOutput>"
    return form


async def output_form(output: ModelOutput) -> dict[str, Any]:
    """A run that is over, property by property; nothing that is absent is written."""
    form: dict[str, Any] = {
        "text": await _property(output.text),
        "finishReason": await output.finish_reason,
        "usage": await _property(output.usage),
        "totalUsage": await _property(output.total_usage),
        "toolCalls": await _payloads(output.tool_calls),
        "toolResults": await _payloads(output.tool_results),
        "object": await _property(output.object),
        "error": await output.error,
        "tripwire": await output.tripwire,
        "suspendPayload": await output.suspend_payload,
    }
    steps = await _property(output.steps)
    shown = {name: member for name, member in form.items() if member is not None}
    shown["steps"] = [_step_form(step) for step in steps] if isinstance(steps, list) else steps
    return {**plain(shown), "status": output.status, "runId": output.run_id}


async def _property(promise: Awaitable[Any]) -> Any:
    try:
        return await promise
    except MastraError as exc:
        return exc


async def _payloads(promise: Awaitable[Any]) -> Any:
    chunks = await _property(promise)
    return [chunk["payload"] for chunk in chunks] if isinstance(chunks, list) else chunks


def _step_form(step: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "stepType": step["stepType"],
        "text": step["text"],
        "finishReason": step["finishReason"],
        "usage": step["usage"],
        "toolCalls": len(step["toolCalls"]),
        "toolResults": len(step["toolResults"]),
        **({"tripwire": step["tripwire"]} if "tripwire" in step else {}),
    }


def full_output_form(output: Mapping[str, Any]) -> dict[str, Any]:
    """What ``generate`` returned: a few members, and the names of all."""
    shown = {
        name: output[name] for name in ("text", "finishReason", "usage", "totalUsage", "runId")
    }
    return {**plain(shown), "steps": len(output["steps"]), "keys": sorted(output)}
