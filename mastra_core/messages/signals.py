"""Signals as values: creation, row form, echo, prompt turn (signals.md 2-5)."""

from __future__ import annotations

import base64
import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from pydantic import ValidationError

from mastra_core.base.clock import Clock
from mastra_core.base.ids import Ids, UuidIds
from mastra_core.base.isotime import epoch_ms, parse_iso, to_iso_ms
from mastra_core.base.jsonjs import sanitize_copy
from mastra_core.base.naming import is_id
from mastra_core.errors import InvalidSignalError, WireDecodeError, WireEncodeError, shown
from mastra_core.messages.legacy_contents import decode_stash
from mastra_core.messages.markup import (
    check_attributes,
    check_tag_name,
    has_attributes,
    render_tag,
)
from mastra_core.wire.messages import Message
from mastra_core.wire.signals import Signal, SignalContents

__all__ = (
    "create_signal",
    "echo_chunk",
    "is_hidden",
    "is_signal_chunk",
    "message_from_signal",
    "model_turn",
    "normalise_type",
    "prompt_parts",
    "public_contents",
    "signal_from_message",
    "signal_from_wire",
    "wire_form",
)

logger = logging.getLogger(__name__)

_TAGS: Final = {
    "user": "user",
    "state": "state",
    "reactive": "system-reminder",
    "notification": "notification",
}
_LEGACY: Final = {"user-message": "user", "system-reminder": "reactive"}
_SIGNAL_CHUNKS: Final = ("data-user-message", "data-signal")


def normalise_type(name: object) -> str:
    """
    The stored type of an input type; legacy names are accepted for ever.

    Raises:
        InvalidSignalError: It is none of the four types.
    """
    known = _LEGACY.get(name, name) if isinstance(name, str) else name
    if not isinstance(known, str) or known not in _TAGS:
        raise InvalidSignalError(
            f"Invalid signal type: {name}. Expected one of user, state, reactive, notification."
        )
    return known


def create_signal(
    value: Mapping[str, Any] | Signal,
    *,
    clock: Clock,
    ids: Ids,
    accepted_at: datetime | None = None,
) -> Signal:
    """
    Make a signal of what a sender gave; feeding a created signal back keeps its identity.

    Args:
        value: Members of signals.md 2.2, under wire or Python names.
        clock: Where ``created_at`` comes from when it isn't given.
        ids: Where the id comes from when it isn't given.
        accepted_at: When the send call was made; None keeps what ``value`` says.

    Raises:
        InvalidSignalError: A member is not allowed, or of a wrong kind.
    """
    given = value.to_wire() if isinstance(value, Signal) else dict(value)
    try:
        return _signal_of(given, clock=clock, ids=ids, accepted_at=accepted_at)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        where = ".".join(map(str, problem["loc"]))
        raise InvalidSignalError(f"Invalid signal: {where}: {problem['msg']}.") from error
    except (WireDecodeError, WireEncodeError) as error:
        raise InvalidSignalError(f"Invalid signal: {error.message}") from error


def signal_from_wire(value: Mapping[str, Any], *, clock: Clock) -> Signal:
    """
    A signal that was created elsewhere, as it came over the bus or out of storage.

    Raises:
        InvalidSignalError: It has no id, or something that no signal has.
    """
    signal_id = value.get("id")
    if not isinstance(signal_id, str) or not signal_id:
        raise InvalidSignalError("A signal from elsewhere needs its id.")
    return create_signal(value, clock=clock, ids=UuidIds())


def _signal_of(
    given: Mapping[str, Any], *, clock: Clock, ids: Ids, accepted_at: datetime | None
) -> Signal:
    def member(wire: str, python: str) -> Any:
        return given.get(wire, given.get(python))

    signal_type = normalise_type(given.get("type"))
    tag = member("tagName", "tag_name") or _TAGS[signal_type]
    check_tag_name(tag)
    attributes = given.get("attributes")
    check_attributes(attributes)
    if given.get("id") and isinstance(given["id"], str) and not is_id(given["id"]):
        raise InvalidSignalError(f"A signal can't have the id {shown(given['id'])}.")
    transient = given.get("transient")
    if signal_type == "state" and transient is not None:
        raise InvalidSignalError("state signals cannot be transient")
    if "contents" not in given:
        raise InvalidSignalError("A signal needs contents: text or a list of parts.")
    members: dict[str, Any] = {
        "id": given.get("id") or ids.new("message"),
        "type": signal_type,
        "tag_name": tag,
        "contents": _normalise_contents(given["contents"]),
        "created_at": _time(member("createdAt", "created_at")) or clock.now(),
    }
    accepted = accepted_at or _time(member("acceptedAt", "accepted_at"))
    if accepted is not None:
        members["accepted_at"] = accepted
    for wire, python in (
        ("attributes", "attributes"),
        ("metadata", "metadata"),
        ("providerOptions", "provider_options"),
    ):
        extra = member(wire, python)
        if extra is not None:
            members[python] = sanitize_copy(extra)
    if transient is not None:
        members["transient"] = bool(transient)
    return Signal(**members)


def _time(value: object) -> datetime | None:
    if value is None or isinstance(value, str):
        return parse_iso(value) if value else None
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value
    raise InvalidSignalError(f"A signal's time must have a time zone, unlike {shown(value)}.")


def _normalise_contents(contents: object) -> SignalContents:
    if isinstance(contents, str):
        return contents
    if not isinstance(contents, Sequence):
        raise InvalidSignalError("Signal contents must be text or a list of parts.")
    return [_normalise_part(part) for part in contents]


def _normalise_part(part: object) -> dict[str, Any]:
    if isinstance(part, Mapping):
        options = part.get("providerOptions", part.get("provider_options"))
        extra = {"providerOptions": sanitize_copy(options)} if options is not None else {}
        if part.get("type") == "text" and isinstance(part.get("text"), str):
            return {"type": "text", "text": part["text"], **extra}
        media_type = part.get("mediaType", part.get("media_type"))
        if part.get("type") == "file" and "data" in part and isinstance(media_type, str):
            data = part["data"]
            if isinstance(data, bytes | bytearray | memoryview):
                data = base64.b64encode(bytes(data)).decode("ascii")
            filename = {"filename": part["filename"]} if part.get("filename") else {}
            return {
                "type": "file",
                "data": str(data),
                "mediaType": media_type,
                **filename,
                **extra,
            }
    raise InvalidSignalError(
        f"Invalid signal part: {part!r:.80}. Expected a text part {{type, text}} "
        "or a file part {type, data, mediaType}."
    )


def _parts(contents: SignalContents) -> list[dict[str, Any]]:
    if isinstance(contents, str):
        return [{"type": "text", "text": contents}]
    return contents


def message_from_signal(signal: Signal, *, thread_id: str, resource_id: str | None) -> Message:
    """The row of a signal (signals.md 4.1); parts carry no time stamp yet."""
    parts = []
    for part in _parts(signal.contents) or [{"type": "text", "text": ""}]:
        row: dict[str, Any] = {"type": part["type"]}
        if part["type"] == "text":
            row["text"] = part["text"]
        else:
            row["data"] = part["data"]
            row["mimeType"] = part["mediaType"]
            if part.get("filename"):
                row["filename"] = part["filename"]
        if part.get("providerOptions") is not None:
            row["providerMetadata"] = part["providerOptions"]
        parts.append(row)
    content: dict[str, Any] = {"format": 2, "parts": parts}
    if signal.provider_options is not None:
        content["providerMetadata"] = signal.provider_options
    content["metadata"] = {"signal": _identity(signal)}
    members: dict[str, Any] = {
        "id": signal.id,
        "role": "signal",
        "created_at": signal.created_at,
        "thread_id": thread_id,
        "type": signal.tag_name,
        "content": content,
    }
    if resource_id is not None:
        members["resource_id"] = resource_id
    return Message(**members)


def _identity(signal: Signal) -> dict[str, Any]:
    identity: dict[str, Any] = {
        "id": signal.id,
        "type": signal.type,
        "tagName": signal.tag_name,
        "createdAt": to_iso_ms(signal.created_at),
    }
    if signal.accepted_at is not None:
        identity["acceptedAt"] = to_iso_ms(signal.accepted_at)
    if signal.attributes is not None:
        identity["attributes"] = signal.attributes
    if signal.metadata is not None:
        identity["metadata"] = signal.metadata
    if signal.transient:
        identity["transient"] = True
    return identity


def signal_from_message(message: Message) -> Signal:
    """Read a signal row leniently, also one that an older peer wrote (signals.md 4.3)."""
    raw_metadata = message.content.get("metadata")
    metadata = raw_metadata.get("signal") if isinstance(raw_metadata, Mapping) else None
    stored: Mapping[str, Any] = metadata if isinstance(metadata, Mapping) else {}
    raw_type = stored.get("type") or message.type or "user-message"
    if not isinstance(raw_type, str):
        raw_type = "user-message"
    known = _LEGACY.get(raw_type, raw_type)
    members: dict[str, Any] = {
        "id": stored.get("id") or message.id,
        "type": known if known in _TAGS else "user",
        "tag_name": stored.get("tagName") or message.type or _TAGS.get(known, "user"),
        "contents": _contents_from_row(message, stored),
        "created_at": stored.get("createdAt") or message.created_at,
    }
    if isinstance(stored.get("acceptedAt"), str):
        members["accepted_at"] = stored["acceptedAt"]
    for wire in ("attributes", "metadata"):
        if isinstance(stored.get(wire), Mapping):
            members[wire] = dict(stored[wire])
    options = message.content.get("providerMetadata")
    if isinstance(options, Mapping):
        members["provider_options"] = dict(options)
    if stored.get("transient") is True:
        members["transient"] = True
    return Signal(**members)


def _contents_from_row(message: Message, stored: Mapping[str, Any]) -> SignalContents:
    legacy = decode_stash(stored.get("contents"))
    if legacy is not None:
        return public_contents(legacy)
    parts: list[dict[str, Any]] = []
    for part in message.content.get("parts") or ():
        if not isinstance(part, Mapping):
            continue
        options = part.get("providerMetadata")
        extra = {"providerOptions": options} if options is not None else {}
        if part.get("type") == "text":
            parts.append({"type": "text", "text": str(part.get("text", "")), **extra})
        elif part.get("type") == "file":
            filename = {"filename": part["filename"]} if part.get("filename") else {}
            parts.append(
                {
                    "type": "file",
                    "data": part.get("data", ""),
                    "mediaType": part.get("mimeType", part.get("mediaType", "")),
                    **filename,
                    **extra,
                }
            )
    if len(parts) == 1 and parts[0]["type"] == "text" and "providerOptions" not in parts[0]:
        return str(parts[0]["text"])
    return parts


def public_contents(contents: SignalContents) -> SignalContents:
    """The collapsed form that echoes carry: a single plain text part is a string."""
    if (
        not isinstance(contents, str)
        and len(contents) == 1
        and contents[0]["type"] == "text"
        and "providerOptions" not in contents[0]
    ):
        return str(contents[0]["text"])
    return contents


def echo_chunk(signal: Signal) -> dict[str, Any]:
    """What the stream shows when a signal enters the transcript (signals.md 5)."""
    identity = _identity(signal)
    data: dict[str, Any] = {
        "id": identity.pop("id"),
        "type": identity.pop("type"),
        "tagName": identity.pop("tagName"),
        "contents": public_contents(signal.contents),
        **identity,
    }
    if signal.provider_options is not None:
        data["providerOptions"] = signal.provider_options
    kind = "data-user-message" if signal.type == "user" else "data-signal"
    return {"type": kind, "data": data, "transient": True, "messageId": signal.id}


def is_signal_chunk(chunk: Mapping[str, Any]) -> bool:
    """Is this chunk the echo of a signal?"""
    return chunk.get("type") in _SIGNAL_CHUNKS


def is_hidden(chunk: Mapping[str, Any], *, hide: bool | Sequence[str] | None) -> bool:
    """Does ``hide_signals`` keep this chunk from its caller? (signals.md 5)"""
    if not hide or not is_signal_chunk(chunk):
        return False
    if hide is True:
        return True
    hidden = {_LEGACY.get(name, name) for name in hide}
    return chunk["data"].get("type") in hidden


def prompt_parts(signal: Signal, *, stamp: datetime | None) -> list[dict[str, Any]]:
    """
    The content of the one user turn that a signal becomes (signals.md 3.1).

    Args:
        signal: What to show.
        stamp: Time given to text parts as ``providerOptions.mastra.createdAt``.
    """
    parts = _parts(signal.contents)
    if signal.type == "user" and not has_attributes(signal.attributes):
        return [_prompt_part(part, stamp) for part in parts]
    plain = all(part["type"] == "text" and "providerOptions" not in part for part in parts)
    if plain:
        text = "\n".join(str(part["text"]) for part in parts)
        wrapped = render_tag(signal.tag_name, signal.attributes, text)
        return [_prompt_part({"type": "text", "text": wrapped}, stamp)]
    shown: list[dict[str, Any]] = []
    wrapped_once = False
    for part in parts:
        if part["type"] == "text" and not wrapped_once:
            wrapped_once = True
            wrapped = render_tag(signal.tag_name, signal.attributes, str(part["text"]))
            shown.append(_prompt_part({**part, "text": wrapped}, stamp))
        else:
            shown.append(_prompt_part(part, stamp))
    if not wrapped_once:
        empty = render_tag(signal.tag_name, signal.attributes, "")
        shown.insert(0, _prompt_part({"type": "text", "text": empty}, stamp))
    return shown


def _prompt_part(part: Mapping[str, Any], stamp: datetime | None) -> dict[str, Any]:
    shown = dict(part)
    if stamp is not None and shown["type"] == "text":
        options = dict(shown.get("providerOptions") or {})
        options["mastra"] = {**options.get("mastra", {}), "createdAt": epoch_ms(stamp)}
        shown["providerOptions"] = options
    return shown


def model_turn(signal: Signal) -> dict[str, Any]:
    """The turn by itself: a single plain text collapses to a string (signals.md 3.1)."""
    content: SignalContents = public_contents(prompt_parts(signal, stamp=None))
    turn: dict[str, Any] = {"role": "user", "content": content}
    if signal.provider_options is not None:
        turn["providerOptions"] = signal.provider_options
    return turn


def wire_form(signal: Signal) -> dict[str, Any]:
    """How a created signal travels: its members and the marker of signals.md 2.2."""
    return {**signal.to_wire(), "__isCreatedSignal": True}
