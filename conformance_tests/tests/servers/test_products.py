"""The real products: they start, stop, crash and come back; and where their binaries are."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from mastra_conformance.outcomes import not_run
from mastra_conformance.servers import (
    Found,
    Missing,
    RunningServer,
    find_server,
    product_named,
    start_server,
)
from mastra_conformance.servers.account import SAME_ACCOUNT, account_for, reachable_binary
from mastra_conformance.servers.bson import read_document, write_document
from mastra_conformance.servers.postgres import POSTGRES
from mastra_conformance.servers.probes import exchange
from mastra_conformance.servers.product import Product, fits
from mastra_conformance.servers.redis import REDIS

__all__ = ()

LABELS = [
    *("postgres@15", "postgres@16", "postgres@18"),
    *("mongodb", "mongodb-standalone", "redis@6.2", "redis@7.0", "sqld"),
]


def found(label: str) -> tuple[Product, Found]:
    product = product_named(label)
    place = find_server(product)
    if isinstance(place, Missing):
        not_run(place.reason, command=place.command)
    return product, place


@pytest.fixture(params=LABELS)
def server(request: pytest.FixtureRequest) -> Iterator[RunningServer]:
    """Each product and version that this machine has."""
    with start_server(*found(request.param)) as running:
        if not running.is_ours:
            not_run(f"{running.url} belongs to somebody else.", command="unset its variable")
        yield running


def answers(server: RunningServer) -> bool:
    assert server.port is not None
    ready = server.product.ready
    return bool(exchange(server.port, b"\n\n")) if ready is None else ready(server.port)


@pytest.mark.timeout(300)
def test_a_server_survives_everything_on_its_port_and_data(server: RunningServer) -> None:
    """Stopped, killed, restarted both ways: the same URL and folder answer again."""
    url, data = server.url, server.data
    marks = {path.name for path in data.iterdir()}

    for end in (server.stop, server.kill):
        end()
        assert not server.is_running
        server.start()
    server.restart()
    server.restart(immediate=True)

    assert server.is_running
    assert (url, data) == (server.url, server.data)
    assert marks & {path.name for path in data.iterdir()}


@pytest.mark.parametrize("label", ["postgres", "redis"])
def test_a_paused_server_keeps_still_until_it_is_resumed(label: str) -> None:
    """Nobody answers in between, its children neither."""
    with start_server(*found(label)) as server:
        assert answers(server)

        server.pause()
        assert not answers(server)

        server.resume()
        assert answers(server)


def test_what_redis_acknowledged_survives_a_crash() -> None:
    """The log is written before the answer."""
    with start_server(*found("redis")) as server:
        assert server.port is not None
        assert exchange(server.port, b"SET key kept\r\n") == b"+OK\r\n"

        server.restart(immediate=True)

        assert exchange(server.port, b"GET key\r\n") == b"$4\r\nkept\r\n"


def test_more_arguments_reach_the_binary() -> None:
    """After those of the product, so that they win."""
    with start_server(*found("redis"), arguments=("--maxmemory", "64mb")) as server:
        assert server.port is not None
        told = exchange(server.port, b"CONFIG GET maxmemory\r\n")

    assert b"67108864" in told


def test_a_version_can_be_chosen(tmp_path: Path) -> None:
    """Binaries of other versions are passed over, and told."""
    binary = tmp_path / "redis-server"
    binary.write_text("#!/bin/sh\necho 'Redis server v=5.0.1 sha=0'\n", "utf-8")
    binary.chmod(0o755)
    environ = {"PATH": str(tmp_path)}

    old = find_server(product_named("redis@5"), environ=environ, start=tmp_path)
    new = find_server(product_named("redis", version="9.9"), environ=environ, start=tmp_path)

    assert isinstance(old, Found)
    assert (binary, "5.0.1") == (old.binary, old.version)
    assert isinstance(new, Missing)
    assert "5.0.1 (PATH)" in new.reason
    assert new.command == "export MASTRA_TEST_REDIS_9_9_URL=<URL of a running server>"


def test_a_chosen_version_has_a_variable_of_its_own() -> None:
    """A URL doesn't tell its version, so the general one doesn't count."""
    environ = {"PATH": "", "MASTRA_TEST_REDIS_URL": "redis://a", "MASTRA_TEST_REDIS_7_0_URL": "b"}

    assert find_server(REDIS, environ=environ) == Found(
        url="redis://a", source="MASTRA_TEST_REDIS_URL"
    )
    assert find_server(REDIS.of_version("7.0"), environ=environ) == Found(
        url="b", source="MASTRA_TEST_REDIS_7_0_URL"
    )


@pytest.mark.parametrize(
    ("version", "wanted", "expected"),
    [
        ("16.14", "16", True),
        ("16.14", "1", False),
        ("6.2.14", "6.2", True),
        ("", "", True),
        ("7", "7", True),
    ],
)
def test_versions_fit_by_whole_numbers(version: str, wanted: str, expected: bool) -> None:
    assert expected == fits(version, wanted)


def test_postgres_gets_another_account_and_a_copy_that_it_can_read(tmp_path: Path) -> None:
    """Root may keep its packages closed to everybody else."""
    if os.geteuid() != 0:
        not_run("Only root has to change accounts.", command="run as root")
    account = account_for(POSTGRES)
    home = tmp_path / "closed" / "package"
    (home / "bin").mkdir(parents=True)
    (tmp_path / "closed").chmod(0o700)
    binary = home / "bin" / "postgres"
    binary.touch(mode=0o755)
    place = Found(binary=binary, home=home)

    assert account.entry is not None
    assert account.entry.pw_uid != 0
    assert not account.can_run(binary)
    assert reachable_binary(place, account, tmp_path) == tmp_path / "program/bin/postgres"
    assert reachable_binary(place, SAME_ACCOUNT, tmp_path) == binary


def test_documents_are_written_and_read() -> None:
    """What a command needs, and what the answer to ``hello`` holds."""
    document = {
        "text": "ü",
        "number": -3,
        "yes": True,
        "inner": {"list": [1, {"a": "b"}]},
    }

    assert read_document(write_document(document)) == {
        **document,
        "inner": {"list": {"0": 1, "1": {"a": "b"}}},
    }
    with pytest.raises(TypeError, match="float isn't needed"):
        write_document({"x": 1.5})


def test_kinds_of_values_that_nobody_asked_for_are_stepped_over() -> None:
    """Doubles, dates, ids, binaries, null; an unknown kind ends the reading."""
    members = [
        (b"\x01ok\0", b"\0\0\0\0\0\0\xf0?"),
        (b"\x07id\0", bytes(12)),
        (b"\x05hash\0", b"\x02\0\0\0\0ab"),
        (b"\x0anothing\0", b""),
        (b"\x09date\0", (5).to_bytes(8, "little")),
        (b"\x0bpattern\0", b"a\0\0"),
        (b"\x10never\0", bytes(4)),
    ]
    body = b"".join(name + data for name, data in members) + b"\0"

    found = read_document((len(body) + 4).to_bytes(4, "little") + body)

    assert found == {"ok": 1.0, "date": 5}


def test_nobody_answers_on_a_closed_port() -> None:
    """An empty answer, no error: the next question follows."""
    product, place = found("redis")
    with start_server(product, place) as server:
        port = server.port
        assert port is not None
        server.signal(signal.SIGTERM)
        server.stop()

        assert exchange(port, b"PING\r\n") == b""
        assert product_named("mongodb").ready is not None
        assert product_named("mongodb").ready(port) is False  # type: ignore[misc]
