"""Servers of our own: found, started, restarted, stopped."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path

import pytest

from mastra_conformance.servers import (
    Found,
    Missing,
    Product,
    ServerFailedError,
    product_named,
    start_server,
)
from mastra_conformance.servers.family import wait_until_gone
from mastra_conformance.servers.find import find_server
from mastra_conformance.servers.product import WheelOrPackage

__all__ = ()


def _arguments(port: int, data: Path) -> Sequence[str]:
    return ("-m", "http.server", str(port), "--bind", "127.0.0.1", "--directory", str(data))


def _url(port: int) -> str:
    return f"http://127.0.0.1:{port}"


#: A server that every machine with Python has.
TOY = Product(
    name="toy",
    summary="toy server",
    variable="MASTRA_TEST_TOY_URL",
    binaries=("a-toy-server-that-nobody-has",),
    packages=(WheelOrPackage(registry="npm", requirement="toy@1", binary="toy"),),
    arguments=_arguments,
    url=_url,
    health_path="/",
)
PYTHON = Found(binary=Path(sys.executable), source="here")


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def status_of(port: int) -> int:
    connection = HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/")
        return connection.getresponse().status
    finally:
        connection.close()


def test_a_server_answers_inside_the_block_and_is_gone_after_it() -> None:
    """Port, process and folder exist as long as the block."""
    with start_server(TOY, PYTHON) as server:
        assert server.port is not None
        assert server.pid is not None
        assert server.folder is not None
        pid, folder = server.pid, server.folder
        assert status_of(server.port) == 200
        assert server.is_ours

    assert not is_alive(pid)
    assert not folder.exists()


def test_a_restart_keeps_port_and_data() -> None:
    """Killed at once or stopped cleanly, the data folder is the same afterwards."""
    with start_server(TOY, PYTHON) as server:
        assert server.folder is not None
        assert server.port is not None
        (server.folder / "data" / "kept").touch()
        before = server.pid

        server.restart(immediate=True)

        assert before != server.pid
        assert status_of(server.port) == 200
        assert (server.folder / "data" / "kept").exists()


def test_a_paused_server_is_stopped_all_the_same() -> None:
    """A server that SIGSTOP froze doesn't outlive its block."""
    with start_server(TOY, PYTHON) as server:
        assert server.pid is not None
        pid = server.pid
        server.signal(signal.SIGSTOP)

    assert not is_alive(pid)


def test_a_server_that_ends_shows_its_output() -> None:
    """The message holds the exit code and the last output."""

    def wrong(port: int, data: Path) -> Sequence[str]:
        return ("-c", "import sys; print('no such disk'); sys.exit(7)")

    with (
        pytest.raises(ServerFailedError, match=r"ended with code 7:\nno such disk"),
        start_server(replace(TOY, arguments=wrong), PYTHON),
    ):
        pass


def test_a_server_without_health_path_is_ready_when_its_port_is() -> None:
    """Products that don't speak HTTP are waited for, too."""
    with start_server(replace(TOY, health_path=None), PYTHON) as server:
        assert server.port is not None
        socket.create_connection(("127.0.0.1", server.port), timeout=5).close()


def test_a_server_of_somebody_else_is_left_alone() -> None:
    """A URL of the environment is used, never started or stopped."""
    found = find_server(TOY, environ={TOY.variable: "http://elsewhere"})
    assert isinstance(found, Found)

    with start_server(TOY, found) as server:
        assert server.url == "http://elsewhere"
        assert not server.is_ours
        with pytest.raises(ServerFailedError, match="isn't ours"):
            server.restart()
        with pytest.raises(ServerFailedError, match="isn't ours"):
            server.signal(signal.SIGTERM)


def test_a_binary_is_found_on_the_path(tmp_path: Path) -> None:
    """PATH comes after the environment and before installed packages."""
    binary = tmp_path / TOY.binaries[0]
    binary.touch()
    binary.chmod(binary.stat().st_mode | stat.S_IXUSR)

    found = find_server(TOY, environ={"PATH": str(tmp_path)})

    assert found == Found(binary=binary, source="PATH")


def test_an_installed_package_is_found(tmp_path: Path) -> None:
    """In the folder that ``servers install`` fills."""
    for name in (
        "mastra_core/__init__.py",
        "conformance_tests/pyproject.toml",
        "tools/.servers/toy",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()

    found = find_server(TOY, environ={"PATH": ""}, start=tmp_path)

    folder = tmp_path / "tools/.servers"
    assert found == Found(binary=folder / "toy", source="toy@1", home=folder)


def test_a_missing_server_says_what_would_fix_it(tmp_path: Path) -> None:
    """The reason, and one command."""
    found = find_server(TOY, environ={"PATH": ""}, start=tmp_path)

    assert isinstance(found, Missing)
    assert "MASTRA_TEST_TOY_URL isn't set" in found.reason
    assert found.command == "mastra-conformance servers install toy"


def test_products_have_names() -> None:
    """An unknown name lists the known ones."""
    assert product_named("sqld").variable == "MASTRA_TEST_LIBSQL_URL"
    with pytest.raises(LookupError, match=r"Unknown server 'mysql'\. Known: postgres, .*, sqld"):
        product_named("mysql")


def test_a_killed_process_is_waited_for() -> None:
    """One that nobody has asked for its end is gone, too: it holds nothing."""
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as process:
        is_gone = [wait_until_gone([process.pid], seconds=0)]
        process.kill()
        is_gone.append(wait_until_gone([process.pid], seconds=60))

    assert [False, True] == is_gone
    assert wait_until_gone([process.pid], seconds=0)
