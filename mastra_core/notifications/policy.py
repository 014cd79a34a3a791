"""Which decision is taken for a record: configured, or built in (notifications.md 4)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, cast

from mastra_core.base.tasks import call_maybe_async
from mastra_core.contracts.signal_sink import ThreadActivity
from mastra_core.errors import ConfigError
from mastra_core.notifications.decision import (
    DecisionLike,
    DeliveryDecision,
    DeliveryInput,
    check_has_time,
    decision_from,
)
from mastra_core.wire.notifications import PRIORITIES, NotificationRecord

__all__ = (
    "Decide",
    "DeliveryPolicy",
    "choose_decision",
    "default_notification_delivery_decision",
    "delivery_policy_from",
    "resolve_notification_delivery_decision",
)

Decide = Callable[[DeliveryInput], DecisionLike | Awaitable[DecisionLike | None] | None]

_MEMBERS: Final = ("default", "priorities", "sources", "decide")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryPolicy:
    """
    The configured part of a policy; what it doesn't answer is answered by the built-in one.

    First hit wins: ``decide``, ``sources``, ``priorities``, ``default``. ``decide`` may be
    async, may return None, and must have no side effects: it is asked again when a record
    is due.
    """

    default: DeliveryDecision | None = None
    priorities: Mapping[str, DeliveryDecision] = field(default_factory=dict)
    sources: Mapping[str, DeliveryDecision] = field(default_factory=dict)
    decide: Decide | None = None


def delivery_policy_from(value: object) -> DeliveryPolicy:
    """
    Read a policy as people write it; None is the built-in one.

    Raises:
        ConfigError: A member, priority or decision is unknown.
    """
    if value is None:
        return DeliveryPolicy()
    if isinstance(value, DeliveryPolicy):
        return value
    if not isinstance(value, Mapping):
        raise ConfigError(f"A delivery policy is a mapping, not {value!r}.")
    unknown = sorted(set(value) - set(_MEMBERS))
    if unknown:
        raise ConfigError(
            f"A delivery policy has no member {unknown[0]!r}. Known: {', '.join(_MEMBERS)}."
        )
    decide = value.get("decide")
    if decide is not None and not callable(decide):
        raise ConfigError(f"decide of a delivery policy must be callable, not {decide!r}.")
    default = value.get("default")
    priorities = _decisions("priorities", value.get("priorities"))
    strange = sorted(set(priorities) - set(PRIORITIES))
    if strange:
        raise ConfigError(
            f"Unknown priority {strange[0]!r} in a delivery policy. "
            f"Expected one of {', '.join(PRIORITIES)}."
        )
    return DeliveryPolicy(
        default=None if default is None else decision_from(default),
        priorities=priorities,
        sources=_decisions("sources", value.get("sources")),
        # Whatever it returns is read by ``decision_from``.
        decide=cast("Decide | None", decide),
    )


def _decisions(name: str, value: object) -> dict[str, DeliveryDecision]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ConfigError(f"{name} of a delivery policy must be a mapping, not {value!r}.")
    return {key: decision_from(decision) for key, decision in value.items()}


async def resolve_notification_delivery_decision(
    policy: DeliveryPolicy | Mapping[str, Any] | None,
    *,
    record: NotificationRecord,
    thread_state: ThreadActivity,
    now: datetime,
) -> DeliveryDecision:
    """
    The decision about a new event.

    Raises:
        ConfigError: The decision is malformed, or would park the record for ever (S20).
        Exception: Whatever ``decide`` raises.
    """
    subject = DeliveryInput(record=record, thread_state=thread_state, now=now)
    decision = await choose_decision(delivery_policy_from(policy), subject)
    check_has_time(decision)
    return decision


async def choose_decision(policy: DeliveryPolicy, subject: DeliveryInput) -> DeliveryDecision:
    """
    The same, without looking at times: for a record that is due already only
    ``stream_options`` and ``hold`` count.
    """
    if policy.decide is not None:
        decided = await call_maybe_async(policy.decide, subject)
        if decided:
            return decision_from(decided)
    record = subject.record
    configured = (
        policy.sources.get(record.source)
        or policy.priorities.get(record.priority)
        or policy.default
    )
    return configured or default_notification_delivery_decision(subject)


def default_notification_delivery_decision(subject: DeliveryInput) -> DeliveryDecision:
    """The built-in policy: the table of notifications.md 4."""
    priority, now = subject.record.priority, subject.now
    if priority == "urgent":
        return DeliveryDecision(action="deliver", reason="urgent")
    if subject.thread_state == "idle":
        if priority == "low":
            return DeliveryDecision(action="summarize", summary_at=now, reason="idle-low-summary")
        return DeliveryDecision(action="deliver", reason=f"idle-{priority}")
    if priority == "high":
        return DeliveryDecision(
            action="summarize",
            summary_at=now,
            deliver_at=now,
            reason="active-high-summary-then-full",
        )
    return DeliveryDecision(action="summarize", summary_at=now, reason="active-batch-summary")
