"""Whether a control event comes from one of ours (signals.md 22, G17).

Whoever reaches the bus could otherwise abort runs and put words into threads. Events that only
show something, such as the parts of a run, aren't signed: they make nobody do anything.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

from mastra_core.base.jsonjs import encode
from mastra_core.wire.events import Event

__all__ = ("CONTROL_KINDS", "MIN_KEY_BYTES", "EventSigner")

logger = logging.getLogger(__name__)

#: A key shorter than this can be guessed.
MIN_KEY_BYTES: Final = 16
#: What makes a receiver do something, or a sender believe that something was done.
CONTROL_KINDS: Final = frozenset(
    {
        "signal-enqueued",
        "signal-admitted",
        "signal-refused",
        "signals-cancelled",
        "run-abort-requested",
        "run-abort-acknowledged",
        "idle-signal-enqueued",
        "idle-signal-accepted",
        "idle-signal-rejected",
        "thread-owner-request",
        "thread-owner-response",
        "thread-peer-request",
        "thread-peer-response",
    }
)


class EventSigner:
    """
    Signs control events, and knows those that were; without a key all are as good as signed.

    What is signed is the topic and everything that the event says, so that nobody can move it to
    another thread. An old one that comes again has no second effect: signals have ids, and
    aborts name one segment of a run.

    Args:
        keys: The first one signs, all of them are accepted, so that a key can be replaced
            while processes are running.
    """

    def __init__(self, keys: Sequence[bytes] = ()) -> None:
        self._keys = tuple(keys)
        #: How many control events without a good signature were ignored.
        self.refused = 0

    def signed(self, topic: str, event: Event, *, fence: int | None = None) -> Event:
        """
        The event with its signature; one that controls nothing stays as it is.

        Args:
            topic: Where it will be published.
            event: What is said.
            fence: Under which term of the thread's lease the sender says it; None without one.
        """
        data = event.data
        if not self._keys or not isinstance(data, Mapping) or not _controls(data):
            return event
        said = dict(data) if fence is None else {**data, "fence": fence}
        return event.copy(data={**said, "sig": _sign(self._keys[0], topic, said)})

    def is_genuine(self, topic: str, data: Mapping[str, Any]) -> bool:
        """May this be acted upon? What may not is counted."""
        if not self._keys or not _controls(data) or self._is_signed(topic, data):
            return True
        self.refused += 1
        if self.refused.bit_count() == 1:
            # The 1st, 2nd, 4th, … of them: whoever sends them may send many.
            logger.warning(
                "unsigned control event ignored",
                extra={"topic": topic, "event_type": data.get("type"), "refused": self.refused},
            )
        return False

    def _is_signed(self, topic: str, data: Mapping[str, Any]) -> bool:
        signature = data.get("sig")
        if not isinstance(signature, str) or not signature.isascii():
            return False
        said = {name: value for name, value in data.items() if name != "sig"}
        return any(hmac.compare_digest(signature, _sign(key, topic, said)) for key in self._keys)


def _controls(data: Mapping[str, Any]) -> bool:
    return data.get("type") in CONTROL_KINDS


def _sign(key: bytes, topic: str, said: Mapping[str, Any]) -> str:
    # A bus may keep the members of an object in an order of its own.
    text = encode(_ordered({"topic": topic, "data": said, "fence": said.get("fence")}))
    return hmac.new(key, text.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


def _ordered(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _ordered(value[name]) for name in sorted(value)}
    if isinstance(value, list | tuple):
        return [_ordered(one) for one in value]
    return value
