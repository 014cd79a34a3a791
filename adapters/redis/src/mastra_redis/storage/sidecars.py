"""Sidecars of notifications as JSON text (notifications.md 13)."""

from __future__ import annotations

from dataclasses import fields
from datetime import datetime
from typing import Any, Final

from mastra_core.base import jsonjs
from mastra_core.base.isotime import parse_iso, to_iso_ms
from mastra_core.rules.notification_claims import Sidecar
from mastra_redis.records import decoded

__all__ = ("NO_SIDECAR", "sidecar_from_text", "sidecar_to_text")

NO_SIDECAR: Final = Sidecar()
_NAMES: Final = tuple(field.name for field in fields(Sidecar))


def sidecar_to_text(sidecar: Sidecar) -> bytes | None:
    """The text of a sidecar; None if there is nothing to remember."""
    if sidecar.is_empty:
        return None
    value: dict[str, Any] = {}
    for name in _NAMES:
        member = getattr(sidecar, name)
        if member is not None:
            value[name] = to_iso_ms(member) if isinstance(member, datetime) else member
    return jsonjs.encode_bytes(value)


def sidecar_from_text(text: bytes | None) -> Sidecar:
    """The sidecar of a text; an empty one if there is none."""
    if text is None:
        return NO_SIDECAR
    value = decoded(text, what="a claim")
    given = {name: member for name, member in value.items() if name in _NAMES}
    for name, member in given.items():
        if name.endswith("_at") and member is not None:
            given[name] = parse_iso(member)
    return Sidecar(**given)
