"""How commands end: exit codes, one sentence, and a traceback only with --debug."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mastra_cli.exits import Exit, exit_code_of, sentence_of
from mastra_core.errors import (
    AdapterNotInstalledError,
    ConfigError,
    DriverNotInstalledError,
    MastraError,
    StorageConnectionError,
    StorageError,
    ThreadNotFoundError,
)

#: Command lines that can't work, with the exit code and what the sentence says.
FAULTS = [
    ("inbox list --thread t", 2, "No store was named"),
    ("threads list --url postgress://db.example/app", 2, "Did you mean 'postgresql'?"),
    ("threads list --url http://db.example", 2, "libsql+http"),
    ("threads list --url app.db", 2, "file:app.db"),
    ("threads list --url file:nope.db", 2, "There is no database"),
    ("threads list --url file:x.db?mastra_nope=1", 2, "nope"),
    ("threads list --url redis://127.0.0.1:1/0", 1, "can't be reached"),
    ("threads list --url memory: --limit 0", 2, "at least 1"),
    ("threads list --url memory: --page -1", 2, "page"),
    ("threads messages --url memory:", 2, "No thread was named"),
    ("threads messages a --thread b --url memory:", 2, "Two threads"),
    ("threads messages a --url memory:", 1, "There is no thread 'a'"),
    ("inbox list --thread t --url memory: --limit 0", 2, "at least 1"),
    ("inbox list --thread t --url memory: --limit -1", 2, "at least 1"),
    ("inbox list --thread t --url memory: --priority huge", 2, "urgent, high, medium, low"),
    ("inbox list --thread t --url memory: --status gone", 2, "pending, delivered"),
    ("inbox read n9 --thread t --url memory:", 1, "no notification 'n9'"),
    ("runs suspended --url memory: --limit 0", 2, "at least 1"),
    ("runs approve --url memory:", 2, "No run was named"),
    ("runs approve r9 --url memory:", 1, "No suspended run 'r9'"),
    ("runs approve r9 --app nonsense", 2, "module:name"),
    ("runs approve r9 --app no_such_module:app", 2, "no_such_module"),
    ("runs approve r9 --app json:nothing", 2, "has no 'nothing'"),
    ("runs approve r9 --app json:decoder", 2, "neither an Agent nor a Mastra"),
    ("migrate --url memory:", 2, "storage.migrations"),
    ("migrate --url file:x.db --sql --dry-run", 2, "exclude each other"),
    ("plugins nope", 2, "Known: inmemory"),
    ("models pull nope", 1, "local/smollm2"),
    ("demo --model acme/large", 1, "No provider offers"),
    ("demo --model scripted --deliveries nope.jsonl", 2, "can't be read"),
]


@pytest.mark.parametrize(("line", "code", "said"), FAULTS, ids=[fault[0] for fault in FAULTS])
def test_a_fault_is_one_sentence(run: Any, line: str, code: int, said: str) -> None:
    ran = run(*line.split())

    assert code == ran.code
    assert said in ran.err
    assert ran.err.startswith("mastra-py: ") or "Known: " in ran.err or "process" in ran.err
    assert "Traceback" not in ran.err
    assert "" == ran.out or line.startswith("demo")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError("x"), Exit.WRONG_USAGE),
        (AdapterNotInstalledError(scheme="redis", extra="redis"), Exit.ENVIRONMENT_MISSING),
        (DriverNotInstalledError(driver="apsw"), Exit.ENVIRONMENT_MISSING),
        (MastraError("x", id="MODEL_WEIGHTS_UNAVAILABLE"), Exit.ENVIRONMENT_MISSING),
        (ThreadNotFoundError("x"), Exit.FAILED),
        (StorageConnectionError("x"), Exit.FAILED),
        (StorageError("x"), Exit.FAILED),
    ],
)
def test_exit_codes(error: MastraError, code: Exit) -> None:
    assert code == exit_code_of(error)


def test_a_sentence_is_one_line_and_the_hint_another() -> None:
    error = ConfigError("Two\nlines.", hint="Do this.")

    assert "Two lines.\nHint: Do this." == sentence_of(error)


@pytest.mark.parametrize("place", [0, 2, 4])
def test_debug_shows_the_traceback_wherever_it_stands(run_process: Any, place: int) -> None:
    line = ["threads", "list", "--url", "file:nope.db"]
    line.insert(place, "--debug")

    ran = run_process(*line)

    assert 1 == ran.code
    assert "Traceback" in ran.err
    assert "ConfigError" in ran.err


def test_a_bug_is_a_sentence_too(run_process: Any, tmp_path: Path) -> None:
    (tmp_path / "buggy.py").write_text("def app():\n    raise KeyError('oops')\n")

    ran = run_process("runs", "approve", "r1", "--app", "buggy:app", "--url", "memory:")

    assert 1 == ran.code
    assert "KeyError" in ran.err
    assert "--debug shows where" in ran.err
    assert "Traceback" not in ran.err


def test_a_reader_that_leaves_is_no_fault(seeded: Any) -> None:
    line = f"{sys.executable} -m mastra_cli inbox list --thread t1 --url {seeded.url} | head -c 1"

    done = subprocess.run(line, shell=True, capture_output=True, text=True, check=False)

    assert "I" == done.stdout
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr


@pytest.mark.usefixtures("ctrl_c_works")
def test_ctrl_c_ends_cleanly(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(
        "import sys, time\nprint('waiting', file=sys.stderr, flush=True)\ntime.sleep(60)\n"
    )
    command = [sys.executable, "-m", "mastra_cli", "runs", "approve", "r", "--app", "slow:app"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert "waiting\n" == process.stderr.readline()

    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)

    assert (130, "") == (process.returncode, err)


def test_results_go_to_stdout_and_talk_to_stderr(run: Any, seeded: Any) -> None:
    listed = run("inbox", "list", "--thread", "t1", "--url", seeded.url)
    empty = run("inbox", "list", "--thread", "t2", "--url", seeded.url)

    assert 5 == len(listed.out.splitlines())
    assert "" == empty.out
    assert "empty" in empty.err


@pytest.mark.parametrize(("no_color", "has_colours"), [("", True), ("1", False)])
def test_colours_only_on_a_terminal_that_wants_them(
    seeded: Any, no_color: str, has_colours: bool
) -> None:
    environ = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
    environ |= {"TERM": "xterm-256color", "COLUMNS": "200"}
    if no_color:
        environ["NO_COLOR"] = no_color

    shown = _on_a_terminal(["inbox", "list", "--thread", "t1", "--url", seeded.url], environ)

    assert "CI failed" in shown
    assert has_colours is ("\x1b[1;31m" in shown)


def _on_a_terminal(arguments: list[str], environ: dict[str, str]) -> str:
    import pty

    master, slave = pty.openpty()
    command = [sys.executable, "-m", "mastra_cli", *arguments]
    process = subprocess.Popen(command, stdout=slave, stderr=slave, env=environ)
    os.close(slave)
    shown = b""
    try:
        while piece := os.read(master, 65536):
            shown += piece
    except OSError:
        pass  # how Linux says that the other side is closed
    finally:
        os.close(master)
        process.wait(30)
    return shown.decode()
