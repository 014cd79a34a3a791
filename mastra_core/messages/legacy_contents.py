"""Contents of signals as older peers stashed them in metadata (signals.md 4.3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mastra_core.wire.signals import SignalContents

__all__ = ("decode_stash",)


def decode_stash(stash: Any) -> SignalContents | None:
    """
    The contents of ``metadata.signal.contents``; None if one entry can't be decoded.

    It is a text; a list of texts and parts; ``{role: "user", content}`` with either; or a list
    of such wrappers.
    """
    if isinstance(stash, str):
        return stash
    if isinstance(stash, Mapping):
        return _wrapped(stash)
    if not isinstance(stash, list) or not stash:
        return None
    parts: list[dict[str, Any]] = []
    for entry in stash:
        decoded = _entry(entry)
        if decoded is None:
            return None
        parts += decoded
    return parts


def _entry(entry: Any) -> list[dict[str, Any]] | None:
    if isinstance(entry, Mapping) and "role" in entry:
        contents = _wrapped(entry)
        return [_text(contents, None)] if isinstance(contents, str) else contents
    part = _part(entry)
    return None if part is None else [part]


def _wrapped(message: Mapping[str, Any]) -> SignalContents | None:
    content = message.get("content")
    if message.get("role") != "user":
        return None
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return None
    parts = [_part(part) for part in content]
    known = [part for part in parts if part is not None]
    return known if len(known) == len(parts) and known else None


def _part(part: Any) -> dict[str, Any] | None:
    if isinstance(part, str):
        return _text(part, None)
    if not isinstance(part, Mapping):
        return None
    options = part.get("providerOptions")
    match part.get("type"):
        case "text":
            text = part.get("text")
            return _text(text, options) if isinstance(text, str) else None
        case "file":
            return _file(part, part.get("data"), None, options)
        case "image":
            return _file(part, part.get("image", part.get("data")), "image/png", options)
        case _:
            return None


def _text(text: str, options: Any) -> dict[str, Any]:
    return _with_options({"type": "text", "text": text}, options)


def _file(
    part: Mapping[str, Any], data: Any, default_type: str | None, options: Any
) -> dict[str, Any] | None:
    media_type = part.get("mediaType", part.get("mimeType", default_type))
    if not isinstance(data, str) or not isinstance(media_type, str):
        return None
    found: dict[str, Any] = {"type": "file", "data": data, "mediaType": media_type}
    if isinstance(part.get("filename"), str):
        found["filename"] = part["filename"]
    return _with_options(found, options)


def _with_options(part: dict[str, Any], options: Any) -> dict[str, Any]:
    if isinstance(options, Mapping):
        part["providerOptions"] = dict(options)
    return part
