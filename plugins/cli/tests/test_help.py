"""Help: quick, complete, and the same every time."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from mastra_cli import __version__
from mastra_cli.catalog import COMMANDS
from mastra_cli.plugin import mastra_cli_commands

HELP = """\
Usage: mastra-py [OPTIONS] COMMAND [ARGS]...

  Look into threads, inboxes and runs of a Mastra store, and see the demo.

Options:
  --version  Print the version.
  --debug    Show tracebacks; may stand anywhere.
  --help     Show this message and exit.

Commands:
  demo         Real events, an agent, an approval, a killed process: the whole
               job in a minute.
  doctor       Check the installation, the settings and a store.
  plugins      List the plugins and what became of each.
  migrate      Bring a database to the shape this version needs.
  inbox        Look into the inbox of a thread.
  threads      List threads and messages.
  runs         List runs that wait for an answer, and answer them.
  models       List local models and pull their weights.
  conformance  Prove what an adapter is worth.
"""

COMMAND_PATHS = [
    *(
        name
        for name in COMMANDS
        if name not in {"inbox", "threads", "runs", "models", "conformance"}
    ),
    *(f"inbox {name}" for name in ("list", "read", "archive", "dismiss", "requeue")),
    *(f"threads {name}" for name in ("list", "messages")),
    *(f"runs {name}" for name in ("suspended", "approve", "decline")),
    *(f"models {name}" for name in ("list", "pull")),
]


def test_the_help_of_the_root(run: Any) -> None:
    ran = run("--help")

    assert (0, HELP) == (ran.code, ran.out)


@pytest.mark.parametrize("path", COMMAND_PATHS)
def test_every_command_explains_itself(run: Any, path: str) -> None:
    ran = run(*path.split(), "--help")

    assert 0 == ran.code
    assert f"Usage: mastra-py {path}" in ran.out
    assert len(ran.out.splitlines()) > 4


@pytest.mark.parametrize("path", [path for path in COMMAND_PATHS if path != "models pull"])
def test_every_command_has_json(run: Any, path: str) -> None:
    assert "--json" in run(*path.split(), "--help").out


def test_the_version(run: Any) -> None:
    assert f"mastra-py {__version__}\n" == run("--version").out


def test_help_imports_no_command_and_nothing_heavy() -> None:
    code = (
        "import sys; from mastra_cli.app import app; app(['--help'], standalone_mode=False);"
        "heavy = {'rich', 'pydantic', 'mastra_core.agent', 'mastra_cli.stores', 'asyncio'};"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "[]" == done.stderr.strip()


def test_our_commands_are_offered_as_those_of_any_plugin() -> None:
    assert list(COMMANDS) == [command.name for command in mastra_cli_commands()]


@pytest.mark.parametrize(
    "arguments", [("nope",), ("inbox", "nope"), ("inbox", "list"), ("--nope",)]
)
def test_a_wrong_command_line_is_exit_code_two(run: Any, arguments: tuple[str, ...]) -> None:
    ran = run(*arguments)

    assert 2 == ran.code
    assert "Usage:" in ran.err
