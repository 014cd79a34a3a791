"""Which decision is taken for a record."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from mastra_conformance import case
from mastra_core.contracts.signal_sink import ThreadActivity
from mastra_core.errors import ConfigError
from mastra_core.notifications import (
    DeliveryDecision,
    DeliveryInput,
    DeliveryPolicy,
    delivery_policy_from,
    resolve_notification_delivery_decision,
)
from mastra_core.notifications.decision import decision_from
from mastra_core.wire.notifications import NotificationRecord

pytestmark = pytest.mark.anyio

NOW = datetime(2026, 3, 1, 8, 0, tzinfo=UTC)


def record(**members: Any) -> NotificationRecord:
    given = {
        "id": "n1",
        "thread_id": "t1",
        "source": "github",
        "kind": "ci",
        "priority": "medium",
        "status": "pending",
        "summary": "CI failed",
        "created_at": NOW,
        "updated_at": NOW,
        **members,
    }
    return NotificationRecord(**given)


async def resolve(
    policy: DeliveryPolicy | Mapping[str, Any] | None = None,
    *,
    thread_state: ThreadActivity = "idle",
    **members: Any,
) -> DeliveryDecision:
    return await resolve_notification_delivery_decision(
        policy, record=record(**members), thread_state=thread_state, now=NOW
    )


_AT = "2026-03-01T08:00:00.000Z"


@case("notifications", 37)
@pytest.mark.parametrize(
    ("priority", "thread_state", "expected"),
    [
        ("urgent", "active", {"action": "deliver", "reason": "urgent"}),
        ("urgent", "idle", {"action": "deliver", "reason": "urgent"}),
        (
            "high",
            "active",
            {
                "action": "summarize",
                "deliverAt": _AT,
                "summaryAt": _AT,
                "reason": "active-high-summary-then-full",
            },
        ),
        ("high", "idle", {"action": "deliver", "reason": "idle-high"}),
        (
            "medium",
            "active",
            {"action": "summarize", "summaryAt": _AT, "reason": "active-batch-summary"},
        ),
        ("medium", "idle", {"action": "deliver", "reason": "idle-medium"}),
        (
            "low",
            "active",
            {"action": "summarize", "summaryAt": _AT, "reason": "active-batch-summary"},
        ),
        (
            "low",
            "idle",
            {"action": "summarize", "summaryAt": _AT, "reason": "idle-low-summary"},
        ),
    ],
)
async def test_the_built_in_policy_is_the_table(
    priority: str, thread_state: ThreadActivity, expected: dict[str, Any]
) -> None:
    """Priority and state give action, times and reason."""
    decision = await resolve(priority=priority, thread_state=thread_state)

    assert expected == decision.to_wire()


@case("notifications", 38)
@pytest.mark.parametrize(
    ("missing", "expected"),
    [
        ((), "decided"),
        (("decide",), "by source"),
        (("decide", "sources"), "by priority"),
        (("decide", "sources", "priorities"), "by default"),
        (("decide", "sources", "priorities", "default"), "idle-medium"),
    ],
)
async def test_the_first_configured_answer_wins(missing: tuple[str, ...], expected: str) -> None:
    """decide, then sources, then priorities, then default, then the built-in policy."""

    def deliver(reason: str) -> dict[str, str]:
        return {"action": "deliver", "reason": reason}

    policy: dict[str, Any] = {
        "decide": lambda _: deliver("decided"),
        "sources": {"github": deliver("by source")},
        "priorities": {"medium": deliver("by priority")},
        "default": deliver("by default"),
    }
    for name in missing:
        del policy[name]

    decision = await resolve(policy)

    assert expected == decision.reason


@case("notifications", 38)
async def test_a_decide_that_says_nothing_leaves_it_to_the_others() -> None:
    """None from decide is no answer."""
    decision = await resolve({"decide": lambda _: None, "sources": {"github": "discard"}})

    assert decision.action == "discard"


@case("notifications", 39)
@pytest.mark.parametrize("source", ["__proto__", "constructor", "keys", "get"])
async def test_names_of_the_language_are_ordinary_sources(source: str) -> None:
    """Nothing inherited is found under them."""
    decision = await resolve({"sources": {}, "default": "discard"}, source=source)

    assert decision.action == "discard"


@case("notifications", 40)
async def test_an_async_decide_is_awaited_and_a_bare_string_has_no_times() -> None:
    """The string becomes the action and nothing else."""
    seen: list[DeliveryInput] = []

    async def decide(subject: DeliveryInput) -> str:
        seen.append(subject)
        return "persist"

    decision = await resolve({"decide": decide}, thread_state="active")

    assert DeliveryDecision(action="persist") == decision
    assert [("n1", "active", NOW)] == [(s.record.id, s.thread_state, s.now) for s in seen]


@case("notifications", 43)
@pytest.mark.parametrize(
    ("decision", "missing"),
    [
        ("defer", "deliver_at"),
        ({"action": "defer", "reason": "later"}, "deliver_at"),
        ("summarize", "summary_at"),
    ],
)
async def test_a_decision_that_parks_a_record_for_ever_is_refused(
    decision: Any, missing: str
) -> None:
    """The error names the time that is missing."""
    with pytest.raises(ConfigError, match=missing):
        await resolve({"default": decision})


async def test_either_time_is_enough() -> None:
    """A summary that only has the time of the full delivery isn't parked."""
    decision = await resolve({"default": {"action": "summarize", "deliverAt": _AT}})

    assert (NOW, None) == (decision.deliver_at, decision.summary_at)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("shout", "Unknown delivery action 'shout'"),
        ({"action": "deliver", "when": 1}, "no member 'when'"),
        ({"action": "defer", "deliver_at": "soon"}, "deliver_at"),
        ({"action": "defer", "deliver_at": datetime(2026, 1, 1)}, "deliver_at"),  # noqa: DTZ001
        ({"action": "defer", "deliver_at": True}, "deliver_at"),
        (7, "an action or a mapping"),
    ],
)
def test_a_malformed_decision_says_what_is_wrong(value: object, text: str) -> None:
    """A decision is checked where it is read."""
    with pytest.raises(ConfigError, match=text):
        decision_from(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"defaults": "deliver"}, "no member 'defaults'"),
        ({"priorities": {"hi": "deliver"}}, "Unknown priority 'hi'"),
        ({"decide": "deliver"}, "decide"),
        ({"sources": "deliver"}, "sources"),
        ("deliver", "is a mapping"),
    ],
)
def test_a_malformed_policy_says_what_is_wrong(value: object, text: str) -> None:
    """A policy is checked when an agent is made."""
    with pytest.raises(ConfigError, match=text):
        delivery_policy_from(value)


def test_a_decision_reads_times_in_any_form_and_writes_them_in_one() -> None:
    """ISO text, milliseconds and datetimes are one time."""
    forms = (_AT, 1_772_352_000_000, NOW)

    decisions = [
        decision_from({"action": "defer", "deliverAt": form, "streamOptions": {"a": 1}, "hold": 1})
        for form in forms
    ]

    expected = {"action": "defer", "deliverAt": _AT, "streamOptions": {"a": 1}, "hold": True}
    assert [expected] * 3 == [decision.to_wire() for decision in decisions]


def test_a_reason_is_a_text() -> None:
    """It is refused where it is read, not by the record that it was meant for."""
    with pytest.raises(ConfigError, match="reason"):
        decision_from({"action": "deliver", "reason": 5})
