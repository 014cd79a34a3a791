"""What kind of traffic a topic carries, told by its name (pubsub_and_lease.md 1, 3.9, 8.1).

The kind decides how safe a write must be and how long an idle topic is kept.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

__all__ = ("TopicClass", "idle_ttl_ms", "is_durable", "topic_class")

_HOUR_MS: Final = 3_600_000
_WEEK_MS: Final = 7 * 24 * _HOUR_MS

_WORK: Final = frozenset({"workflows", "background-tasks", "agent-schedules"})
#: Lost, they would leave somebody waiting.
_RESULTS: Final = frozenset({"workflows-finish"})
_RUN_PREFIXES: Final = (
    "agent.stream.",
    "agent.control.",
    "workflow.events.v2.",
    "background-tasks:",
    "agent.thread-owner-discovery.",
    "agent.thread-peer-discovery.",
)
_REPLY_MARK: Final = ".idle-acceptance."


class TopicClass(StrEnum):
    """What a topic is for."""

    #: A queue: nothing unread may go, and nothing may be lost.
    WORK = "work"
    #: Ends with a run or an answer.
    RUN = "run"
    #: Everything else: a log that goes on.
    LOG = "log"


def topic_class(topic: str) -> TopicClass:
    """The kind of a topic; names that the runtime doesn't know are logs."""
    if topic in _WORK:
        return TopicClass.WORK
    if topic.startswith(_RUN_PREFIXES) or _REPLY_MARK in topic:
        return TopicClass.RUN
    return TopicClass.LOG


def is_durable(topic: str) -> bool:
    """Whether an accepted event must survive a crash of the store itself."""
    return topic in _WORK or topic in _RESULTS


def idle_ttl_ms(topic: str) -> int | None:
    """How long a topic is kept after its last write; None for ever."""
    match topic_class(topic):
        case TopicClass.WORK:
            return None
        case TopicClass.RUN:
            return _HOUR_MS
        case TopicClass.LOG:
            return _WEEK_MS
