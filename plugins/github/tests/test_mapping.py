"""GitHub deliveries as notifications."""

from __future__ import annotations

from collections import Counter
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mastra_core.wire.notifications import PRIORITIES, SendNotification
from mastra_github.mapping import (
    MAX_SUMMARY,
    Delivery,
    notification_from_delivery,
)
from mastra_github.samples import packaged_deliveries

ALL = packaged_deliveries()


def first(event: str, **wanted: Any) -> Delivery:
    """The first packaged delivery of an event with these members."""
    for delivery in ALL:
        if delivery.event == event and wanted.items() <= delivery.payload.items():
            return deepcopy(delivery)
    raise AssertionError(event)


def failing_suite(suite_id: int = 1) -> Delivery:
    delivery = first("check_suite", action="completed")
    delivery.payload["check_suite"] |= {"id": suite_id, "conclusion": "failure"}
    return delivery


def test_there_are_sixty_four_real_deliveries() -> None:
    assert 64 == len(ALL)
    assert 14 == len({delivery.event for delivery in ALL})


@pytest.mark.parametrize("delivery", ALL, ids=lambda d: d.event)
def test_every_delivery_is_a_valid_notification(delivery: Delivery) -> None:
    event = notification_from_delivery(delivery)

    checked = SendNotification.model_validate(event)
    assert "github" == checked.source
    assert checked.priority in PRIORITIES
    assert 10 < len(checked.summary) <= MAX_SUMMARY
    assert "None" not in checked.summary
    assert delivery.payload == checked.payload


def test_the_packaged_ones_come_to_thirty_three_records() -> None:
    events = [notification_from_delivery(delivery) for delivery in ALL]
    latest = {(event["kind"], event["coalesce_key"]): event for event in events}

    assert {"high": 3, "medium": 6, "low": 24} == Counter(
        event["priority"] for event in latest.values()
    )


def test_a_check_suite_that_fails_twice_is_one_record() -> None:
    once, again = failing_suite(), failing_suite()
    again.payload["check_suite"]["updated_at"] = "2030-01-01T00:00:00Z"

    one, two = notification_from_delivery(once), notification_from_delivery(again)

    assert (one["kind"], one["coalesce_key"]) == (two["kind"], two["coalesce_key"])
    assert one["dedupe_key"] != two["dedupe_key"]
    assert "high" == one["priority"]


def test_a_later_success_does_not_hide_a_failure() -> None:
    failed, passed = failing_suite(), failing_suite()
    passed.payload["check_suite"]["conclusion"] = "success"

    keys = {notification_from_delivery(item)["coalesce_key"] for item in (failed, passed)}

    assert 2 == len(keys)


def test_other_suites_and_other_repositories_are_other_records() -> None:
    here, there = failing_suite(1), failing_suite(1)
    there.payload["repository"]["full_name"] = "other/repo"

    keys = {
        notification_from_delivery(item)["coalesce_key"] for item in (here, there, failing_suite(2))
    }

    assert 3 == len(keys)


@pytest.mark.parametrize("member", [None, 7, [], {}, {"number": None}])
@pytest.mark.parametrize("event", sorted({delivery.event for delivery in ALL}))
def test_a_delivery_that_lacks_what_it_is_about_is_told_all_the_same(
    event: str, member: Any
) -> None:
    """Cut short by somebody, or of a form that nobody has seen."""
    whole = first(event).payload
    cut = {name: member for name in whole if name not in {"repository", "sender"}}

    for payload in ({"repository": whole.get("repository")}, {**whole, **cut}):
        notification = notification_from_delivery(Delivery(event=event, payload=payload))

        assert SendNotification.model_validate(notification).summary


def test_a_delivery_that_is_sent_again_has_the_same_key() -> None:
    one, again = first("push"), first("push")

    assert notification_from_delivery(one) == notification_from_delivery(again)


@pytest.mark.parametrize(
    ("severity", "priority"),
    [("critical", "urgent"), ("high", "urgent"), ("medium", "high"), ("low", "high")],
)
def test_an_open_security_alert_is_serious(severity: str, priority: str) -> None:
    alert = first("dependabot_alert", action="created")
    alert.payload["alert"]["security_advisory"]["severity"] = severity

    assert priority == notification_from_delivery(alert)["priority"]


def test_a_failed_deployment_to_production_is_urgent() -> None:
    deployment = first("deployment_status", action="created")
    deployment.payload["deployment_status"]["state"] = "failure"

    assert "urgent" == notification_from_delivery(deployment)["priority"]


def test_an_unknown_event_is_told_in_general_terms() -> None:
    event = notification_from_delivery(Delivery("star", {"action": "created"}))

    assert ("star.created", "low") == (event["kind"], event["priority"])
    assert "unknown" == event["attributes"]["repository"]


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(["action", "repository", "sender", "organization", "x"]),
        st.one_of(st.none(), st.text(max_size=20), st.dictionaries(st.text(), st.text())),
    )
)
def test_whatever_an_unknown_event_holds_it_becomes_a_notification(payload: dict[str, Any]) -> None:
    SendNotification.model_validate(notification_from_delivery(Delivery("odd", payload)))
