"""Control events that nobody of ours has signed (signals.md G17)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mastra_core import Mastra
from mastra_core.base.jsonjs import decode, encode
from mastra_core.errors import ConfigError
from mastra_core.threads import events
from mastra_core.threads.settings import settings_from
from mastra_core.threads.signing import CONTROL_KINDS, EventSigner
from mastra_core.wire.events import Event

KEY, OTHER = b"0123456789abcdef", b"fedcba9876543210"
TOPIC = "agent.thread-stream.r%00t"
ABORT = events.abort_requested(
    "run", stream_id="s", source_id="p", clear_pending_signals=True, request_id="1"
)


def test_what_was_signed_is_genuine_after_its_way() -> None:
    """Whatever order a bus gives the members, and however it writes numbers."""
    data = {
        "type": "signal-enqueued",
        "runId": "r",
        "signal": {"contents": "é 🎉", "attributes": {"b": 1.0, "a": 1e21, "c": None}},
        "sourceId": "p",
    }
    signed = EventSigner([KEY]).signed(TOPIC, Event(type="x", run_id="r", data=data), fence=7)

    turned = json.loads(json.dumps(decode(encode(signed.data)), sort_keys=True))

    assert EventSigner([KEY]).is_genuine(TOPIC, turned)
    assert 7 == turned["fence"]
    assert data == {k: v for k, v in signed.data.items() if k not in ("sig", "fence")}


@pytest.mark.parametrize(
    ("topic", "change"),
    [
        (TOPIC, {"runId": "another"}),
        (TOPIC, {"clearPendingSignals": False}),
        (TOPIC, {"fence": 8}),
        (TOPIC, {"more": 1}),
        (TOPIC, {"sig": "0" * 64}),
        (TOPIC, {"sig": "ä"}),
        (TOPIC, {"sig": 7}),
        (TOPIC, {"sig": None}),
        ("agent.thread-stream.r%00other", {}),
    ],
)
def test_what_was_changed_or_moved_is_refused(topic: str, change: dict[str, Any]) -> None:
    """It is counted; the others aren't."""
    signer = EventSigner([KEY])
    data = signer.signed(TOPIC, ABORT, fence=7).data

    assert signer.is_genuine(TOPIC, data)
    assert not signer.is_genuine(topic, {**data, **change})
    assert 1 == signer.refused


def test_a_key_can_be_replaced_while_processes_run() -> None:
    """First all know both, then the new one signs, then the old one goes."""
    old, both, new = EventSigner([KEY]), EventSigner([OTHER, KEY]), EventSigner([OTHER])

    by_old, by_both = old.signed(TOPIC, ABORT).data, both.signed(TOPIC, ABORT).data

    assert both.is_genuine(TOPIC, by_old)
    assert new.is_genuine(TOPIC, by_both)
    assert not new.is_genuine(TOPIC, by_old)
    assert not old.is_genuine(TOPIC, by_both)


def test_without_a_key_everything_is_as_it_was() -> None:
    """Events carry nothing more, and peers of the other language are heard."""
    signer = EventSigner()

    assert ABORT is signer.signed(TOPIC, ABORT)
    assert signer.is_genuine(TOPIC, ABORT.data)


def test_events_that_only_show_something_are_not_signed() -> None:
    """A process of version 1.71 can be watched although it has no key."""
    signer = EventSigner([KEY])
    completed = events.run_ended(
        "r", stream_id="s", source_id="p", status="success", persisted=True, parts=1
    )

    assert completed is signer.signed(TOPIC, completed)
    assert signer.is_genuine(TOPIC, completed.data)
    assert "stream-part" not in CONTROL_KINDS


@pytest.mark.parametrize("keys", ["short", ["0123456789abcdef", "short"], [b"0123456789abcdef"]])
def test_a_key_that_could_be_guessed_is_refused(keys: Any) -> None:
    """The message doesn't say it."""
    with pytest.raises(ConfigError, match="16 bytes") as refusal:
        settings_from({"control_keys": keys})

    assert "short" not in str(refusal.value)


def test_keys_come_from_the_environment_and_are_not_shown() -> None:
    """The first one signs."""
    found = settings_from(
        None,
        environment={"MASTRA_AGENT_THREAD_CONTROL_KEYS": f"{OTHER.decode()}, {KEY.decode()}"},
    )

    data = found.signer.signed(TOPIC, ABORT).data
    assert EventSigner([OTHER]).is_genuine(TOPIC, data)
    assert OTHER.decode() not in repr(found)
    assert KEY.decode() not in repr(Mastra(threads=found))
