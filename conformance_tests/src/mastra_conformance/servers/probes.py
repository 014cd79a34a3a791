"""One question to a loopback port and the first bytes of the answer, without a driver."""

from __future__ import annotations

import socket

__all__ = ("PROBE_SECONDS", "exchange")

PROBE_SECONDS = 2.0
"""How long one question may take; the next one follows."""

_ENOUGH = 1 << 16


def exchange(port: int, question: bytes) -> bytes:
    """What comes back first; empty if nobody listens or answers."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=PROBE_SECONDS) as connection:
            connection.sendall(question)
            return connection.recv(_ENOUGH)
    except OSError:
        return b""
