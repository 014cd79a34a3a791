"""What the names of topics say about them."""

from __future__ import annotations

import pytest

from mastra_core.bus.topic_class import TopicClass, idle_ttl_ms, is_durable, topic_class

HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("topic", "kind"),
    [
        ("workflows", TopicClass.WORK),
        ("background-tasks", TopicClass.WORK),
        ("agent-schedules", TopicClass.WORK),
        ("background-tasks:worker-1", TopicClass.RUN),
        ("agent.stream.run-1", TopicClass.RUN),
        ("workflow.events.v2.run-1", TopicClass.RUN),
        ("agent.thread-stream.r%00t", TopicClass.LOG),
        ("agent.thread-stream.r%00t.idle-acceptance.1234", TopicClass.RUN),
        ("agent.thread-owner-discovery", TopicClass.LOG),
        ("agent.thread-owner-discovery.1234", TopicClass.RUN),
        ("workflows-finish", TopicClass.LOG),
        ("anything", TopicClass.LOG),
    ],
)
def test_a_topic_is_known_by_its_name(topic: str, kind: TopicClass) -> None:
    """Queues, topics of a run or a reply, and logs."""
    assert kind is topic_class(topic)


def test_what_must_survive_a_crash_of_the_store() -> None:
    """Queues and the results that somebody waits for."""
    assert is_durable("workflows")
    assert is_durable("workflows-finish")
    assert not is_durable("agent.stream.run-1")


def test_queues_are_kept_and_the_rest_for_its_time() -> None:
    """An hour for runs and replies, a week for logs."""
    assert idle_ttl_ms("workflows") is None
    assert idle_ttl_ms("agent.stream.run-1") == HOUR_MS
    assert idle_ttl_ms("agent.thread-stream.r%00t") == 7 * 24 * HOUR_MS
