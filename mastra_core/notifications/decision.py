"""What a delivery policy says about one record (notifications.md 4).

How a policy comes to it is another module, see ``notifications.policy``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, cast, get_args

from mastra_core.base.isotime import from_epoch_ms, parse_iso, to_iso_ms, truncate_ms
from mastra_core.contracts.signal_sink import ThreadActivity
from mastra_core.errors import ConfigError, MastraError
from mastra_core.wire.notifications import NotificationRecord

__all__ = (
    "DecisionLike",
    "DeliveryAction",
    "DeliveryDecision",
    "DeliveryInput",
    "check_has_time",
    "decision_from",
)

DeliveryAction = Literal["deliver", "queue", "defer", "summarize", "persist", "discard"]

_ACTIONS: Final = get_args(DeliveryAction)
_NAMES: Final[Mapping[str, str]] = {
    "action": "action",
    "deliverAt": "deliver_at",
    "deliver_at": "deliver_at",
    "summaryAt": "summary_at",
    "summary_at": "summary_at",
    "reason": "reason",
    "streamOptions": "stream_options",
    "stream_options": "stream_options",
    "hold": "hold",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryInput:
    """What a policy decides about."""

    record: NotificationRecord
    #: What this process knows about the thread.
    thread_state: ThreadActivity
    #: The time of the decision; a policy computes its times from it.
    now: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryDecision:
    """What happens to a record now, and when it is looked at again."""

    action: DeliveryAction
    #: The full text is due then.
    deliver_at: datetime | None = None
    #: A summary is due then.
    summary_at: datetime | None = None
    #: Stored with the record; for people.
    reason: str | None = None
    #: Options of the run that a delivery starts.
    stream_options: Mapping[str, Any] | None = None
    #: When the record is due: leave it to another process, without counting an attempt.
    hold: bool = False

    def to_wire(self) -> dict[str, Any]:
        """JSON form; absent members are left out."""
        wire: dict[str, Any] = {"action": self.action}
        if self.deliver_at is not None:
            wire["deliverAt"] = to_iso_ms(self.deliver_at)
        if self.summary_at is not None:
            wire["summaryAt"] = to_iso_ms(self.summary_at)
        if self.reason is not None:
            wire["reason"] = self.reason
        if self.stream_options is not None:
            wire["streamOptions"] = dict(self.stream_options)
        if self.hold:
            wire["hold"] = True
        return wire


#: How a decision may be written: an action, the members as a mapping, or the value.
DecisionLike = str | Mapping[str, Any] | DeliveryDecision


def decision_from(value: object) -> DeliveryDecision:
    """
    Read a decision as people write it; a bare action has no times.

    Raises:
        ConfigError: The action or a member is unknown, or a value is of a wrong kind.
    """
    if isinstance(value, DeliveryDecision):
        return value
    if isinstance(value, str):
        return DeliveryDecision(action=_action(value))
    if not isinstance(value, Mapping):
        raise ConfigError(f"A delivery decision is an action or a mapping, not {value!r}.")
    members: dict[str, Any] = {}
    for name, member in value.items():
        if name not in _NAMES:
            raise ConfigError(
                f"A delivery decision has no member {name!r}. "
                f"Known: {', '.join(sorted(set(_NAMES.values())))}."
            )
        if member is not None:
            members[_NAMES[name]] = member
    for name in ("deliver_at", "summary_at"):
        if name in members:
            members[name] = _time(name, members[name])
    if not isinstance(members.get("stream_options", {}), Mapping):
        raise ConfigError(
            f"stream_options of a delivery decision are a mapping, not {members['stream_options']!r}."
        )
    if not isinstance(members.get("reason", ""), str):
        raise ConfigError(f"reason of a delivery decision is a text, not {members['reason']!r}.")
    return DeliveryDecision(
        action=_action(members.pop("action", None)),
        **{**members, "hold": bool(members.get("hold", False))},
    )


def _action(value: object) -> DeliveryAction:
    if value not in _ACTIONS:
        raise ConfigError(
            f"Unknown delivery action {value!r}. Expected one of {', '.join(_ACTIONS)}."
        )
    # It is one of the literal's values.
    return cast("DeliveryAction", value)


def _time(name: str, value: object) -> datetime:
    try:
        if isinstance(value, datetime):
            return truncate_ms(parse_iso(to_iso_ms(value)))
        if isinstance(value, str):
            return parse_iso(value)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return from_epoch_ms(value)
    except MastraError as error:
        raise ConfigError(f"{name} of a delivery decision isn't a time: {error}") from error
    raise ConfigError(f"{name} of a delivery decision must be a time, not {value!r}.")


def check_has_time(decision: DeliveryDecision) -> None:
    """
    Refuse what would park a record for ever (notifications.md S20).

    Raises:
        ConfigError: ``defer`` or ``summarize`` without any time.
    """
    if decision.deliver_at is not None or decision.summary_at is not None:
        return
    missing = {"defer": "deliver_at", "summarize": "summary_at"}.get(decision.action)
    if missing is not None:
        raise ConfigError(
            f"The delivery decision {decision.action!r} needs a time: {missing} is missing.",
            hint="Without one the record would wait for ever. Use 'persist' for inbox only.",
            details={"action": decision.action, "missing": missing},
        )
