"""The whole demo, as a person runs it."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PHASES = (
    "64 webhook deliveries",
    "33 records (3 high, 6 medium, 24 low)",
    "waits for approval: propose_action",
    "(SIGKILL)",
    "list_suspended_runs",
    "approved",
    "the run has ended: stop",
    "24 records that could wait went into 1 summary",
    "What is stored where",
    "Look for yourself",
)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """One scripted demo; its summary, and what was told meanwhile."""
    folder = tmp_path_factory.mktemp("demo folder")
    command = [sys.executable, "-m", "mastra_cli", "demo", "--model", "scripted", "--json"]
    done = subprocess.run(
        [*command, "--db", "my demo.db"],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
    )
    assert 0 == done.returncode, done.stderr
    return json.loads(done.stdout), done.stderr, folder


def test_the_summary_counts_everything(played: Any) -> None:
    summary, _, folder = played

    assert {
        "deliveries": 64,
        "records": 33,
        "recordsByStatus": {"delivered": 9, "pending": 24},
        "recordsByPriority": {"high": 3, "medium": 6, "low": 24},
        "coalesced": 31,
        "signalsDelivered": 10,
        "approved": True,
        "finishReason": "stop",
        "resumedInNewProcess": True,
        "model": "scripted",
        "fallback": None,
        "database": str(folder / "my demo.db"),
    }.items() <= summary.items()
    assert summary["runId"]
    assert summary["wallTimeMs"] > 0
    assert 2 == len(set(summary["processIds"]))
    assert "propose_action" == summary["toolCall"]["toolName"]


def test_the_timeline_tells_it_in_order(played: Any) -> None:
    _, told, _ = played

    places = [told.index(phase) for phase in PHASES]

    assert sorted(places) == places


def test_the_commands_at_the_end_work_as_printed(played: Any) -> None:
    _, told, folder = played
    commands = told.split("== Look for yourself\n")[1].strip().splitlines()

    outputs = [
        subprocess.run(
            shlex.split(command), capture_output=True, text=True, check=True, cwd=folder
        ).stdout
        for command in commands
    ]

    assert 4 == len(commands)
    assert "34" == str(len(outputs[0].splitlines()))
    assert "propose_action" in outputs[1]
    assert "storage" in outputs[3]


def test_nothing_waits_and_the_approval_is_in_the_thread(run: Any, played: Any) -> None:
    summary, _, folder = played
    url = f"file:{folder}/my%20demo.db"

    messages = run("threads", "messages", summary["threadId"], "--url", url, "--json").json

    assert 0 == run("runs", "suspended", "--url", url, "--json").json["total"]
    assert "notification-summary" == messages[-1]["type"]
    assert 10 == sum(message["role"] == "signal" for message in messages)


def test_a_file_may_see_the_demo_twice_and_a_proposal_may_be_declined(
    run_process: Any, played: Any
) -> None:
    first, _, folder = played

    again = run_process(
        *("demo", "--model", "scripted", "--db", "my demo.db", "--decline", "--json"), cwd=folder
    )

    assert 0 == again.code, again.err
    assert (False, 33) == (again.json["approved"], again.json["records"])
    assert first["threadId"] != again.json["threadId"]


def test_without_weights_the_script_plays_and_says_why(run_process: Any, tmp_path: Path) -> None:
    environ = {
        "MASTRA_MODELS_DIR": str(tmp_path / "models"),
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(tmp_path),
        "PIP_CONFIG_FILE": os.devnull,
    }

    ran = run_process("demo", "--json", "--discard", env=environ)

    assert 0 == ran.code, ran.err
    assert ("scripted", True) == (ran.json["model"], "can't be had" in ran.json["fallback"])
    assert "by script instead" in ran.err
    assert not Path(ran.json["database"]).exists()


def test_without_json_the_timeline_is_the_result(run_process: Any) -> None:
    ran = run_process("demo", "--model", "scripted", "--discard")

    assert 0 == ran.code, ran.err
    assert "== Worker 1 is killed" in ran.out
    assert "" == ran.err
    assert "\x1b" not in ran.out


def test_deliveries_that_wake_nobody_are_said(run_process: Any, tmp_path: Path) -> None:
    (tmp_path / "quiet.jsonl").write_text('{"event": "ping", "payload": {"hook_id": 1}}\n')

    ran = run_process("demo", "--model", "scripted", "--deliveries", "quiet.jsonl", "--discard")

    assert 1 == ran.code
    assert "No delivery woke the agent" in ran.err
    assert "Traceback" not in ran.err


def test_a_database_that_cannot_be_is_said(run_process: Any, tmp_path: Path) -> None:
    ran = run_process("demo", "--model", "scripted", "--db", str(tmp_path / "no" / "such.db"))

    assert 1 == ran.code
    assert "no/such.db" in ran.err
    assert "Traceback" not in ran.err


@pytest.mark.usefixtures("ctrl_c_works")
def test_ctrl_c_takes_the_worker_along(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mastra_cli", "demo", "--model", "scripted", "--discard"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path
    )
    assert process.stdout is not None
    line = ""
    while "is up" not in line:
        line = process.stdout.readline()
        assert line, "the demo ended early"
    worker = int(line.split("process ")[1].split()[0])

    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)

    assert (130, "") == (process.returncode, err)
    with pytest.raises(ProcessLookupError):
        os.kill(worker, 0)


def test_the_real_small_model_plays_it_too(run_process: Any) -> None:
    """Not run without the weights, and it says so; CI pulls them and makes that red."""
    from mastra_models.errors import WeightsUnavailableError
    from mastra_models.weights import WEIGHTS, find_weights

    try:
        find_weights(WEIGHTS["smollm2"])
    except WeightsUnavailableError as exc:
        if os.environ.get("MASTRA_REQUIRE_MODELS") == "1":
            pytest.fail(str(exc))
        pytest.skip(f"not run: {exc}")

    ran = run_process("demo", "--model", "local", "--json", "--discard")

    assert 0 == ran.code, ran.err
    assert ("local/smollm2", None) == (ran.json["model"], ran.json["fallback"])
    assert ran.json["resumedInNewProcess"]
    assert "propose_action" == ran.json["toolCall"]["toolName"]
