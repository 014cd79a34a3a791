"""A failure shows what it takes to find out why: plan, history, and the command for it again."""

from __future__ import annotations

import json

import pytest

__all__ = ()

SUITE = """
import asyncio
from mastra_conformance import Suite

class TestIt(Suite):
    role = "storage"
    capabilities = ("thread_state",)
    tier = 4

    async def test_it(self, store, notebook):
        notebook.note("Plan", "kill it twice")
        history = notebook.history("calls")
        await history.record("me", "get", store.thread_state.get_state("t", "s"), key="t")
        assert {outcome}
"""


def run(pytester: pytest.Pytester, outcome: str) -> pytest.RunResult:
    """One test of the fourth tier, in memory."""
    pytester.makepyfile(test_it=SUITE.replace("{outcome}", outcome))
    return pytester.runpytest_inprocess(
        "--mastra-adapter=memory:",
        "--mastra-tier=4",
        "--mastra-seed=7",
        "--mastra-own-server=redis@7.0",
        f"--mastra-histories={pytester.path / 'kept'}",
        *("-p", "no:asyncio", "-p", "no:randomly", "-p", "no:cacheprovider"),
        *("-p", "no:hypothesispytest", "--import-mode=importlib"),
    )


def test_a_failure_shows_its_notes(pytester: pytest.Pytester) -> None:
    """And keeps its history as JSON lines."""
    result = run(pytester, "False")

    result.stdout.fnmatch_lines(
        [
            "*Repeat this test with*",
            "mastra-conformance run memory: --tier=4 --seed=7 --own-server=redis@7.0 -k test_it",
            "*Plan*",
            "kill it twice",
            "*History 'calls'*",
        ]
    )
    (kept,) = (pytester.path / "kept").glob("*.jsonl")
    (line,) = kept.read_text("utf-8").splitlines()
    assert {"client": "me", "name": "get", "arguments": {"key": "t"}}.items() <= (
        json.loads(line).items()
    )


def test_a_success_shows_and_keeps_nothing(pytester: pytest.Pytester) -> None:
    """There is nothing to find out."""
    result = run(pytester, "True")

    assert 0 == result.ret
    assert "Repeat this test" not in result.stdout.str()
    assert not (pytester.path / "kept").exists()
