"""What other processes may know of a session (signals.md 18.3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mastra_core.base.jsonjs import sanitize_copy
from mastra_core.errors import RunArgumentError, WireEncodeError, shown
from mastra_core.threads.claims import peer_id

__all__ = ("advertisement", "peer_members")

_CHANGEABLE: Final = ("label", "title", "metadata")


def peer_members(given: Mapping[str, Any]) -> dict[str, Any]:
    """
    Label, title and metadata, as they are told.

    Raises:
        RunArgumentError: A member is unknown, or of a wrong kind.
    """
    for name, value in given.items():
        wanted: type[Any] = Mapping if name == "metadata" else str
        if name not in _CHANGEABLE or not isinstance(value, wanted):
            raise _wrong(name, value)
    try:
        return {name: sanitize_copy(value) for name, value in given.items()}
    except WireEncodeError as exc:
        raise RunArgumentError(
            f"The metadata of a peer is JSON: {exc.message}", id="AGENT_INVALID_PEER"
        ) from exc


def advertisement(
    agent_id: str,
    resource_id: str,
    thread_id: str,
    *,
    given: Mapping[str, Any] | bool | None,
) -> dict[str, Any] | None:
    """
    What is told of a claim, under wire names; None if nothing.

    Raises:
        RunArgumentError: A member is unknown, or of a wrong kind.
    """
    if given is False:
        return None
    if not isinstance(given, Mapping | bool | None):
        raise RunArgumentError(
            f"peer is False or a mapping, not {shown(given)}.", id="AGENT_INVALID_PEER"
        )
    members = dict(given) if isinstance(given, Mapping) else {}
    named = {"id": peer_id(agent_id, resource_id, thread_id), "agent_id": agent_id}
    for name, default in tuple(named.items()):
        chosen = members.pop(name, None)
        if chosen is not None and (not isinstance(chosen, str) or not chosen):
            raise _wrong(name, chosen)
        named[name] = chosen or default
    return {
        "id": named["id"],
        "agentId": named["agent_id"],
        "resourceId": resource_id,
        "threadId": thread_id,
        **peer_members(members),
    }


def _wrong(name: str, value: object) -> RunArgumentError:
    return RunArgumentError(
        f"A peer can't have {shown(name)}: {shown(value)}. Known: id, agent_id, label, title "
        "(texts), metadata (a mapping).",
        id="AGENT_INVALID_PEER",
    )
