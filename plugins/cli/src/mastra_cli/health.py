"""What ``doctor`` says about the server behind a store."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mastra_cli.check import Check
from mastra_core.contracts.storage.health import PoolState, StoreHealth

__all__ = ("SKEW_MS", "SLOW_MS", "health_checks")

SLOW_MS: Final = 20.0
"""A round trip that takes longer slows down every step of an agent."""

SKEW_MS: Final = 1000.0
"""Beyond this, times in lists and logs of different machines mislead people."""


def health_checks(health: StoreHealth) -> Iterator[Check]:
    """One line each for server, latency, clock, pool and peers; one per warning."""
    yield _server(health)
    yield _latency(health.latency_ms)
    if health.clock_skew_ms is not None:
        yield _clock(health.clock_skew_ms)
    if health.pool is not None:
        yield _pool(health.pool)
    peers = "; ".join(health.node_peers) or "no traces of the TypeScript system"
    yield Check(name="node peers", status="ok", summary=peers)
    for warning in health.warnings:
        yield Check(name="server", status="warning", summary=warning.summary, fix=warning.fix)


def _server(health: StoreHealth) -> Check:
    told = f"{health.product} {health.version}"
    oldest = health.oldest_version
    if oldest is not None and _numbers(health.version) < _numbers(oldest):
        return Check(
            name="server",
            status="failed",
            summary=f"{told} is older than {oldest}, the oldest version that works",
            fix=f"Upgrade to {health.product} {oldest} or newer.",
        )
    return Check(name="server", status="ok", summary=", ".join(filter(None, (told, health.setup))))


def _latency(ms: float) -> Check:
    summary = f"a round trip takes {ms:.2f} ms"
    if ms <= SLOW_MS:
        return Check(name="latency", status="ok", summary=summary)
    return Check(
        name="latency",
        status="warning",
        summary=f"{summary}; every step of an agent makes several",
        fix="Run the application nearer to its server.",
    )


def _clock(skew_ms: float) -> Check:
    side = "ahead of" if skew_ms > 0 else "behind"
    apart = f"is {abs(skew_ms):.0f} ms {side}" if round(skew_ms) else "agrees with"
    summary = f"the server's clock {apart} ours"
    if abs(skew_ms) <= SKEW_MS:
        return Check(name="clock", status="ok", summary=summary)
    return Check(
        name="clock",
        status="warning",
        summary=f"{summary}; leases go by the server's, times of messages by ours",
        fix="Let a time service set both clocks.",
    )


def _pool(pool: PoolState) -> Check:
    most = "no limit" if pool.limit is None else f"at most {pool.limit}"
    waiting = f", {pool.waiting} callers wait" if pool.waiting else ""
    return Check(
        name="pool",
        status="warning" if pool.waiting else "ok",
        summary=f"{pool.size} connections open, {pool.in_use} in use, {most}{waiting}",
    )


def _numbers(version: str) -> tuple[int, ...]:
    """``16.14 (Debian)`` → ``(16, 14)``; what isn't a number ends it."""
    numbers: list[int] = []
    for part in version.split(" ", maxsplit=1)[0].split("."):
        if not part.isdecimal():
            break
        numbers.append(int(part))
    return tuple(numbers)
