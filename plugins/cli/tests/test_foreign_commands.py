"""Commands of third parties, found by entry point."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

PLUGIN = """
from mastra_core.errors import ConfigError
from mastra_core.plugins import CliCommand, hookimpl
MASTRA_PLUGIN_API = (1, 0)

@hookimpl
def mastra_cli_commands():
    yield CliCommand(name="hello", factory="acme_hello:hello", help="Greet somebody.")
    yield CliCommand(name="demo", factory="acme_hello:hello", help="Takes nothing over.")

def hello(name: str, *, fail: bool = False) -> None:
    if fail:
        raise ConfigError("No greeting today.", hint="Try tomorrow.")
    print(f"Hello {name}!")
"""


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """A folder with an installed distribution that offers commands."""
    site = tmp_path / "site"
    info = site / "acme_hello-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "acme_hello.py").write_text(PLUGIN)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-hello\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[mastra_core]\nhello = acme_hello\n")
    return {"PYTHONPATH": str(site)}


def test_it_stands_in_the_help(run_process: Any, env: dict[str, str]) -> None:
    ran = run_process("--help", env=env)

    assert "hello        Greet somebody." in ran.out
    assert "Takes nothing over" not in ran.out


def test_it_runs(run_process: Any, env: dict[str, str]) -> None:
    assert "Hello Ann!\n" == run_process("hello", "Ann", env=env).out


def test_its_errors_end_as_ours_do(run_process: Any, env: dict[str, str]) -> None:
    ran = run_process("hello", "Ann", "--fail", env=env)

    assert (2, "mastra-py: No greeting today.\nHint: Try tomorrow.\n") == (ran.code, ran.err)


def test_a_broken_plugin_harms_no_command(run_process: Any, env: dict[str, str]) -> None:
    (Path(env["PYTHONPATH"]) / "acme_hello.py").write_text("raise SystemExit(7)")

    ran = run_process("--help", env=env)

    assert 0 == ran.code
    assert "doctor" in ran.out
    assert "acme-hello" in ran.err
