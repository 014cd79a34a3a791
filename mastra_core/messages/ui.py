"""Stored messages as a web page's chat shows them, and back (streaming.md 12.2).

The UI messages are those of the AI SDK, version 5 and later. How a running answer gets to the
page is another room, see ``streaming.ui_stream``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, get_args

from pydantic import ValidationError

from mastra_core.base.isotime import to_iso_ms
from mastra_core.base.jsonjs import decode, sanitize_copy
from mastra_core.errors import RunArgumentError, WireDecodeError, shown
from mastra_core.messages.signals import echo_chunk, signal_from_message
from mastra_core.wire.messages import Message
from mastra_core.wire.signals import Signal

__all__ = (
    "DENIAL",
    "UiMessage",
    "UiVersion",
    "approval_id",
    "check_version",
    "denial_text",
    "file_url",
    "is_ui_part",
    "list_of",
    "mapping_of",
    "own_metadata",
    "part_from_ui",
    "stored_metadata",
    "ui_messages",
)

UiMessage: TypeAlias = dict[str, Any]
#: Versions of the AI SDK; ``v7`` reads the same forms as ``v6``.
UiVersion = Literal["v5", "v6", "v7"]

#: What stands for the reason of a refusal that has none.
DENIAL: Final = "Tool call was not approved by the user"
#: What calls wait for: member of the message's metadata -> part that shows it.
_PARKED: Final = {
    "suspendedTools": "data-tool-call-suspended",
    "pendingToolApprovals": "data-tool-call-approval",
}
#: Members of a UI message's metadata that come from the row, not from its metadata.
_ROW_FACTS: Final = ("createdAt", "threadId", "resourceId", "providerMetadata")
#: States of stored calls -> states of v6 parts; for v5 see ``_V5``.
_STATES: Final = {
    "partial-call": "input-streaming",
    "call": "input-available",
    "approval-requested": "approval-requested",
    "approval-responded": "approval-responded",
    "result": "output-available",
    "output-error": "output-error",
    "output-denied": "output-denied",
}
_V5: Final = {
    "approval-requested": "input-available",
    "approval-responded": "input-available",
    "output-denied": "output-available",
}
_STORED: Final = {ours: stored for stored, ours in _STATES.items()}


def ui_messages(
    messages: Sequence[Message], *, version: UiVersion = "v5", show_signals: bool = False
) -> list[UiMessage]:
    """
    Stored messages as UI messages, to begin a page with.

    What users said, as a signal or not, is a ``user`` message. System messages aren't shown.

    Args:
        messages: As storage gives them, oldest first.
        version: What the page runs: AI SDK ``v5``, ``v6`` or ``v7``.
        show_signals: Show other signals, too, as ``data-signal`` parts of the assistant
            message beside them.

    Raises:
        RunArgumentError: There is no such version.
    """
    check_version(version)
    made: list[UiMessage] = []
    waiting: list[UiMessage] = []
    for message in messages:
        if message.role == "signal" and not _is_from_user(message):
            if show_signals:
                _put_signal(message, made, waiting)
        elif message.role != "system":
            shown_message = _ui_message(message, version)
            if waiting and shown_message["role"] == "assistant":
                parts = [part for signal in waiting for part in signal["parts"]]
                shown_message["parts"] = [*parts, *shown_message["parts"]]
            else:
                made.extend(waiting)
            waiting.clear()
            made.append(shown_message)
    return [*made, *waiting]


def check_version(version: str) -> None:
    """
    Make sure that we know what this version reads.

    Raises:
        RunArgumentError: We don't.
    """
    if version not in get_args(UiVersion):
        known = ", ".join(get_args(UiVersion))
        raise RunArgumentError(
            f"There is no UI version {shown(version)}. Known: {known}.",
            details={"argument": "version"},
        )


# -- signals ------------------------------------------------------------------------------------


def _signal_of(message: Message) -> Signal | None:
    """The signal of a row; None if nobody can tell what it was."""
    try:
        return signal_from_message(message)
    except (ValidationError, WireDecodeError):
        return None


def _is_from_user(message: Message) -> bool:
    signal = _signal_of(message)
    return signal is not None and signal.type == "user"


def _put_signal(message: Message, made: list[UiMessage], waiting: list[UiMessage]) -> None:
    """Beside the assistant message before it, else before the one that follows."""
    signal = _signal_of(message)
    if signal is None:
        return
    part = {"type": "data-signal", "data": echo_chunk(signal)["data"]}
    if made and made[-1]["role"] == "assistant" and not waiting:
        made[-1]["parts"].append(part)
        return
    waiting.append(
        {
            "id": message.id,
            "role": "assistant",
            "metadata": _metadata(message),
            "parts": [part],
        }
    )


# -- messages -----------------------------------------------------------------------------------


def _ui_message(message: Message, version: UiVersion) -> UiMessage:
    return {
        "id": message.id,
        "role": "user" if message.role == "signal" else message.role,
        "metadata": _metadata(message),
        "parts": _ui_parts(message, version),
    }


def _metadata(message: Message) -> dict[str, Any]:
    metadata: dict[str, Any] = dict(mapping_of(message.content.get("metadata")))
    metadata["createdAt"] = to_iso_ms(message.created_at)
    if message.thread_id is not None:
        metadata["threadId"] = message.thread_id
    if message.resource_id is not None:
        metadata["resourceId"] = message.resource_id
    if message.content.get("providerMetadata") is not None:
        metadata["providerMetadata"] = message.content["providerMetadata"]
    return metadata


def _ui_parts(message: Message, version: UiVersion) -> list[dict[str, Any]]:
    stored = [p for p in list_of(message.content.get("parts")) if isinstance(p, Mapping)]
    if not stored and isinstance(message.content.get("content"), str):
        # As the oldest rows have it.
        return [{"type": "text", "text": message.content["content"]}]
    parked = _parked_calls(message, stored)
    made: list[dict[str, Any]] = []
    for index, part in enumerate(stored):
        call_id = str(mapping_of(part.get("toolInvocation")).get("toolCallId"))
        waits = parked.pop(call_id, []) if part.get("type") == "tool-invocation" else []
        if part.get("type") == "tool-invocation":
            made.append(_tool_part(part, version, waits))
        elif part.get("type") != "source-document":
            made.append(_ui_part(part, f"{message.id}:{index}"))
        made.extend(waits)
    for orphans in parked.values():
        made.extend(orphans)
    return made


def _parked_calls(
    message: Message, stored: Sequence[Mapping[str, Any]]
) -> dict[Any, list[dict[str, Any]]]:
    """Parts that say what calls wait for, by call; those that are stored themselves left out."""
    there = {
        (part.get("type"), str(mapping_of(part.get("data")).get("toolCallId")))
        for part in stored
        if str(part.get("type")) in _PARKED.values()
    }
    found: dict[Any, list[dict[str, Any]]] = {}
    metadata = mapping_of(message.content.get("metadata"))
    for member, kind in _PARKED.items():
        entries = metadata.get(member)
        if not isinstance(entries, Mapping):
            continue
        for key, entry in entries.items():
            facts = entry if isinstance(entry, Mapping) else {}
            call_id = str(facts.get("toolCallId", key))
            if (kind, call_id) not in there:
                part = {"type": kind, "id": call_id, "data": {"state": kind, **facts}}
                found.setdefault(call_id, []).append(part)
    return found


def _ui_part(part: Mapping[str, Any], key: str) -> dict[str, Any]:
    match part.get("type"):
        case "text":
            return _network_part(part, key) or {
                "type": "text",
                "text": part.get("text", ""),
                **_part_metadata(part),
            }
        case "reasoning":
            return {
                "type": "reasoning",
                "text": _reasoning_text(part),
                "state": "done",
                **_part_metadata(part),
            }
        case "file":
            media_type = part.get("mimeType", part.get("mediaType", ""))
            return {
                "type": "file",
                "url": file_url(part.get("data", part.get("url", "")), media_type),
                "mediaType": media_type,
                **_members(part, "filename"),
                **_part_metadata(part),
            }
        case "source":
            source = mapping_of(part.get("source"))
            return {
                "type": "source-url",
                "sourceId": source.get("id"),
                **_members(source, "url", "title", "providerMetadata"),
            }
        case _:
            # Steps, errors, data, and whatever a newer peer stored.
            return dict(part)


def _reasoning_text(part: Mapping[str, Any]) -> str:
    if part.get("reasoning"):
        return str(part["reasoning"])
    details = [mapping_of(one) for one in list_of(part.get("details"))]
    return "".join(str(one.get("text", "")) for one in details if one.get("type") == "text")


def _part_metadata(part: Mapping[str, Any], name: str = "providerMetadata") -> dict[str, Any]:
    """The provider's facts, with the time of the part among them."""
    metadata = dict(mapping_of(part.get("providerMetadata")))
    if part.get("createdAt") is not None:
        metadata["mastra"] = {**mapping_of(metadata.get("mastra")), "createdAt": part["createdAt"]}
    if not metadata and part.get("providerMetadata") is None:
        return {}
    return {name: metadata}


def _network_part(part: Mapping[str, Any], key: str) -> dict[str, Any] | None:
    """What a network left behind as text is shown as the call that it was."""
    text = part.get("text")
    if not isinstance(text, str) or '"isNetwork":true' not in text.replace(" ", ""):
        return None
    try:
        told = decode(text)
    except WireDecodeError:
        return None
    if not isinstance(told, Mapping) or told.get("isNetwork") is not True:
        return None
    final = told.get("finalResult")
    return {
        "type": "dynamic-tool",
        "toolCallId": key,
        "toolName": str(told.get("primitiveId", "")),
        "state": "output-available",
        "input": told.get("input"),
        "output": final if not isinstance(final, Mapping) else dict(final),
    }


# -- tool calls ---------------------------------------------------------------------------------


def _tool_part(
    part: Mapping[str, Any], version: UiVersion, waits: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    invocation: Mapping[str, Any] = mapping_of(part.get("toolInvocation"))
    stored = str(invocation.get("state", "call"))
    state = _STATES.get(stored, "input-available")
    made: dict[str, Any] = {
        "type": f"tool-{invocation.get('toolName', '')}",
        "toolCallId": invocation.get("toolCallId"),
        "state": _V5.get(state, state) if version == "v5" else state,
        "input": invocation.get("args"),
    }
    if state == "output-available":
        made["output"] = invocation.get("result")
    elif state == "output-error":
        made["errorText"] = str(invocation.get("errorText", ""))
        made |= _members(invocation, "rawInput")
    elif state == "output-denied" and version == "v5":
        made["output"] = denial_text(invocation.get("approval"))
    if version != "v5":
        made |= _approval(invocation, made, waits) | _members(part, "title")
    made |= _part_metadata(part, "callProviderMetadata")
    return made | _members(part, "providerExecuted")


def _approval(
    invocation: Mapping[str, Any], made: dict[str, Any], waits: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """The decision about a call, or the question for it, as v6 and later show it."""
    asked = next((w for w in waits if w["type"] == _PARKED["pendingToolApprovals"]), None)
    if asked is not None and made["state"] == "input-available":
        run_id = asked["data"].get("runId")
        return {
            "state": "approval-requested",
            "approval": {"id": approval_id(run_id, invocation.get("toolCallId"))},
        }
    return _members(invocation, "approval")


def approval_id(run_id: object, tool_call_id: object) -> str:
    """How a page names the question whether a call may run."""
    return f"{run_id}::{tool_call_id}"


def denial_text(approval: object) -> str:
    """Why a call was refused."""
    reason = approval.get("reason") if isinstance(approval, Mapping) else None
    return reason if isinstance(reason, str) and reason else DENIAL


def file_url(data: object, media_type: object) -> str:
    """Where a page finds a file: its own URL, or one that holds its base64."""
    text = str(data)
    if text.startswith(("data:", "http://", "https://", "blob:")):
        return text
    return f"data:{media_type};base64,{text}"


def mapping_of(value: object) -> Mapping[str, Any]:
    """The value if it is an object, else an empty one; peers store what they like."""
    return value if isinstance(value, Mapping) else {}


def list_of(value: object) -> Sequence[Any]:
    """The value if it is a list, else an empty one."""
    return value if isinstance(value, list | tuple) else ()


def _members(holder: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: holder[name] for name in names if holder.get(name) is not None}


# -- back ---------------------------------------------------------------------------------------


def is_ui_part(part: Mapping[str, Any]) -> bool:
    """Has only a UI message a part like this?"""
    kind = part.get("type")
    if kind in ("dynamic-tool", "source-url"):
        return True
    if kind == "reasoning":
        return "text" in part
    return isinstance(kind, str) and kind.startswith("tool-") and part.get("state") in _STORED


def part_from_ui(part: Mapping[str, Any]) -> dict[str, Any]:
    """The stored form of a part of a UI message; see :func:`is_ui_part`."""
    kind = str(part["type"])
    if kind == "reasoning":
        text = str(part.get("text", ""))
        stored: dict[str, Any] = {
            "type": "reasoning",
            "reasoning": text,
            "details": [{"type": "text", "text": text}],
        }
        return stored | own_metadata(part.get("providerMetadata"))
    if kind == "source-url":
        source = {"sourceType": "url", "id": part.get("sourceId")}
        source |= _members(part, "url", "title", "providerMetadata")
        return {"type": "source", "source": sanitize_copy(source)}
    return _call_from_ui(kind, part)


def _call_from_ui(kind: str, part: Mapping[str, Any]) -> dict[str, Any]:
    name = part.get("toolName") if kind == "dynamic-tool" else kind.removeprefix("tool-")
    state = _STORED.get(str(part.get("state")), "call")
    invocation: dict[str, Any] = {
        "state": state,
        "toolCallId": part.get("toolCallId"),
        "toolName": name,
        "args": part.get("input") if part.get("input") is not None else {},
    }
    if state == "result":
        invocation["result"] = part.get("output")
    elif state == "output-error":
        invocation["errorText"] = str(part.get("errorText", ""))
        invocation |= _members(part, "rawInput")
    invocation |= _members(part, "approval")
    stored: dict[str, Any] = {
        "type": "tool-invocation",
        "toolInvocation": sanitize_copy(invocation),
    }
    stored |= _members(part, "providerExecuted", "title")
    return stored | own_metadata(part.get("callProviderMetadata"))


def stored_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Members of stored content that hold what a UI message's metadata says."""
    own = {name: value for name, value in metadata.items() if name not in _ROW_FACTS}
    made: dict[str, Any] = {"metadata": own} if own else {}
    return made | _members(metadata, "providerMetadata")


def own_metadata(metadata: object) -> dict[str, Any]:
    """A part's metadata, with its time back where storage has it."""
    if not isinstance(metadata, Mapping):
        return {}
    copied: dict[str, Any] = sanitize_copy(metadata)
    made: dict[str, Any] = {}
    mastra = copied.get("mastra")
    if isinstance(mastra, dict) and isinstance(mastra.get("createdAt"), int | float):
        made["createdAt"] = mastra.pop("createdAt")
        if not mastra:
            del copied["mastra"]
    if copied:
        made["providerMetadata"] = copied
    return made
