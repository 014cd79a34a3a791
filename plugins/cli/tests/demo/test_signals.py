"""The demo of shared threads, as a person runs it."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PHASES = (
    "worker 1 process",
    "worker 2 process",
    "starts a run here",
    "is delivered to the run that has the thread",
    "(SIGKILL)",
    "has the thread now",
    "“deploy the api” reaches the agent",
    "“tell the team” reaches the agent",
    "What is stored",
    "Look for yourself",
)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """One demo on a file; its summary, and what was told meanwhile."""
    return _play(f"file:{tmp_path_factory.mktemp('demo') / 'shared.db'}")


def _play(url: str) -> tuple[Any, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "mastra_cli", "demo", "signals", "--url", url, "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert 0 == done.returncode, done.stderr
    return json.loads(done.stdout), done.stderr, url


def test_what_was_accepted_is_answered_by_the_process_that_is_left(played: Any) -> None:
    summary, _, url = played

    _answered_by_the_other(summary, url)


@pytest.mark.parametrize("product", ["postgres", "mongodb", "redis"])
def test_a_server_alone_is_enough_for_two_processes(
    product: str, local_server: Callable[[str], Any]
) -> None:
    address: str = local_server(product).url
    # Tables and collections that only this test has, or keys in a database of its own.
    sign = "&" if "?" in address else "?"
    own = f"{address}{sign}mastra_prefix=t{uuid.uuid4().hex[:8]}_"
    summary, _, url = _play(f"{address.removesuffix('/0')}/7" if product == "redis" else own)

    _answered_by_the_other(summary, url)


def _answered_by_the_other(summary: dict[str, Any], url: str) -> None:
    assert {
        "url": url,
        "sent": 2,
        "actions": ["wake", "deliver"],
        "stored": [1, 1],
        "answered": True,
        "ownerKilled": True,
        "tookOver": True,
    }.items() <= summary.items()
    assert 2 == len(set(summary["runIds"]))
    assert 2 == len(set(summary["processIds"]))


def test_the_timeline_tells_it_in_order(played: Any) -> None:
    _, told, _ = played

    places = [told.index(phase) for phase in PHASES]

    assert sorted(places) == places


def test_the_commands_at_the_end_work_as_printed(played: Any, tmp_path: Path) -> None:
    _, told, _ = played
    first = told.split("== Look for yourself\n")[1].strip().splitlines()[0].strip()

    done = subprocess.run(
        first, shell=True, capture_output=True, text=True, check=False, cwd=tmp_path
    )

    assert 0 == done.returncode, done.stderr
    assert "deploy the api" in done.stdout


def test_a_store_that_is_not_there_ends_in_one_sentence() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mastra_cli", "demo", "signals", "--url", "redis://127.0.0.1:1/0"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert 1 == done.returncode
    assert "Traceback" not in done.stderr
    assert "mastra-py: " in done.stderr
