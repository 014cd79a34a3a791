"""What ``doctor`` says about a server."""

from __future__ import annotations

from dataclasses import replace

from mastra_cli.health import health_checks
from mastra_core.contracts.storage.health import HealthWarning, PoolState, StoreHealth

WELL = StoreHealth(
    product="PostgreSQL",
    version="16.14 (Debian)",
    oldest_version="15",
    setup="primary",
    latency_ms=0.5,
    clock_skew_ms=-3.0,
    pool=PoolState(size=2, in_use=1, limit=10, waiting=0),
)


def lines_of(health: StoreHealth) -> dict[str, tuple[str, str]]:
    return {check.name: (check.status, check.summary) for check in health_checks(health)}


def test_a_server_that_is_well() -> None:
    assert {
        "server": ("ok", "PostgreSQL 16.14 (Debian), primary"),
        "latency": ("ok", "a round trip takes 0.50 ms"),
        "clock": ("ok", "the server's clock is 3 ms behind ours"),
        "pool": ("ok", "2 connections open, 1 in use, at most 10"),
        "node peers": ("ok", "no traces of the TypeScript system"),
    } == lines_of(WELL)


def test_what_an_engine_does_not_have_is_left_out() -> None:
    lines = lines_of(replace(WELL, clock_skew_ms=None, pool=None))

    assert {"server", "latency", "node peers"} == set(lines)


def test_a_server_that_is_too_old_is_a_failure() -> None:
    status, summary = lines_of(replace(WELL, version="14.2"))["server"]

    assert "failed" == status
    assert "older than 15" in summary


def test_trouble_is_a_warning_with_a_way_out() -> None:
    ill = replace(
        WELL,
        latency_ms=80,
        clock_skew_ms=4000,
        pool=PoolState(size=10, in_use=10, limit=None, waiting=3),
        node_peers=("2 connections of node-postgres",),
        warnings=(HealthWarning(summary="It evicts keys.", fix="Set noeviction."),),
    )

    checks = list(health_checks(ill))

    assert [
        ("server", "ok"),
        ("latency", "warning"),
        ("clock", "warning"),
        ("pool", "warning"),
        ("node peers", "ok"),
        ("server", "warning"),
    ] == [(check.name, check.status) for check in checks]
    assert "no limit, 3 callers wait" in checks[3].summary
    assert "2 connections of node-postgres" == checks[4].summary
    assert ("It evicts keys.", "Set noeviction.") == (checks[5].summary, checks[5].fix)
