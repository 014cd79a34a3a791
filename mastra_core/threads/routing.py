"""Where a signal goes, decided without waiting (signals.md 7)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mastra_core.contracts.signal_sink import SignalTarget
from mastra_core.threads.record import Holder

__all__ = (
    "Route",
    "RouteKind",
    "decide_route",
)

RouteKind = Literal[
    "pending", "pre_run", "queue", "blocked", "persist_active", "persist_idle", "discard", "wake"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One row of the decision table, and the branch whose attributes apply."""

    kind: RouteKind
    run_id: str | None = None
    is_active: bool = False


def decide_route(
    holder: Holder | None, *, agent_id: str, target: SignalTarget, is_transient: bool
) -> Route:
    """
    Apply the table of signals.md 7.2 as far as one process goes.

    For another agent's run the idle behaviours apply (rows 7-10).
    """
    if holder is not None and holder.agent_id == agent_id:
        queue: Literal["pending", "pre_run"] = (
            "pre_run" if holder.state == "reserved" else "pending"
        )
        return _for_own_run(holder.run_id, queue, target, is_transient=is_transient)
    if holder is not None and holder.state != "reserved" and holder.run_id == target.run_id:
        # Meant for this run, which is another agent's (row 4).
        return Route(kind="blocked", run_id=holder.run_id)
    if target.if_idle.behavior == "persist":
        return Route(kind="discard" if is_transient else "persist_idle")
    if target.if_idle.behavior == "discard":
        return Route(kind="discard")
    if holder is None:
        return Route(kind="wake")
    if holder.state == "suspended":
        return Route(kind="blocked", run_id=holder.run_id)
    return Route(kind="queue")


def _for_own_run(
    run_id: str,
    queue: Literal["pending", "pre_run"],
    target: SignalTarget,
    *,
    is_transient: bool,
) -> Route:
    if target.if_active.behavior == "persist":
        kind: RouteKind = "discard" if is_transient else "persist_active"
        return Route(kind=kind, run_id=run_id, is_active=True)
    if target.if_active.behavior == "discard":
        return Route(kind="discard", run_id=run_id, is_active=True)
    return Route(kind=queue, run_id=run_id, is_active=True)
