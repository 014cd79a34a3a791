"""Actions that only compute: how a signal is created, stored, shown and echoed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from mastra_conformance.wire.forms import error_form, plain
from mastra_conformance.wire.stage import RESOURCE, THREAD, Stage
from mastra_core.errors import MastraError
from mastra_core.messages.signals import (
    create_signal,
    echo_chunk,
    message_from_signal,
    model_turn,
    wire_form,
)
from mastra_core.wire.signals import Signal

__all__ = ("ACTS",)


async def _render(stage: Stage, action: Mapping[str, Any]) -> Any:
    return [_rendered(stage, _decode(signal)) for signal in action["signals"]]


def _rendered(stage: Stage, value: Mapping[str, Any]) -> dict[str, Any]:
    """Each form is made from a signal of its own, as in the recording."""

    def form(make: Callable[[Signal], Any]) -> Any:
        try:
            signal = create_signal(value, clock=stage.clock, ids=stage.mastra.ids)
            return plain(make(signal))
        except MastraError as exc:
            return error_form(exc)

    return {
        "created": form(wire_form),
        "model": form(model_turn),
        "row": form(lambda s: message_from_signal(s, thread_id=THREAD, resource_id=RESOURCE)),
        "chunk": form(echo_chunk),
    }


def _decode(value: Any) -> Any:
    """Bytes and addresses, which JSON can't hold."""
    if isinstance(value, list):
        return [_decode(item) for item in value]
    if not isinstance(value, Mapping):
        return value
    if "$bytes" in value:
        return bytes(value["$bytes"])
    if "$url" in value:
        return value["$url"]
    return {name: _decode(member) for name, member in value.items()}


ACTS: Final[Mapping[str, Callable[[Stage, Mapping[str, Any]], Awaitable[Any]]]] = MappingProxyType(
    {"render": _render}
)
