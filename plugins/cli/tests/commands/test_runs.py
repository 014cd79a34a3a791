"""``mastra-py runs``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

APPLICATION = """
from mastra_core import Agent, Mastra, tool
from mastra_core.testing.scripted_model import ScriptedModel, text

@tool(require_approval=True)
async def deploy(env: str) -> dict:
    "Bring it to an environment."
    return {"deployed": env}

def new_agent(name="ops"):
    return Agent(id=name, model=ScriptedModel([[text("All done.")]]), tools=[deploy])

agent = new_agent()
stranger = new_agent("stranger")
number = 7
"""


@pytest.fixture
def _application(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module in the current folder that holds the agent; forgotten after the test."""
    import sys

    (tmp_path / "shop.py").write_text(APPLICATION)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "shop", raising=False)
    yield
    sys.modules.pop("shop", None)


def suspended(run: Any, seeded: Any, *arguments: str) -> Any:
    return run("runs", "suspended", *arguments, "--url", seeded.url, "--json").json


def test_suspended_runs_under_wire_names(run: Any, seeded: Any) -> None:
    listed = suspended(run, seeded)

    (found,) = listed["runs"]
    assert 1 == listed["total"]
    assert (seeded.run_id, "suspended", "t1", "r1", "ops") == tuple(
        found[name] for name in ("runId", "status", "threadId", "resourceId", "agentId")
    )
    (call,) = found["toolCalls"]
    assert ("call_1", "deploy", {"env": "prod"}, True) == tuple(
        call[name] for name in ("toolCallId", "toolName", "args", "requiresApproval")
    )


@pytest.mark.parametrize(
    ("filters", "total"),
    [
        (("--agent", "ops"), 1),
        (("--agent", "other"), 0),
        (("--thread", "t1"), 1),
        (("--thread", "t2"), 0),
        (("--resource", "r2"), 0),
        (("--agent", "ops", "--thread", "t1"), 1),
    ],
)
def test_suspended_runs_can_be_narrowed(
    run: Any, seeded: Any, filters: tuple[str, ...], total: int
) -> None:
    assert total == suspended(run, seeded, *filters)["total"]


def test_a_page_behind_the_last_is_empty_and_keeps_the_total(run: Any, seeded: Any) -> None:
    assert {"runs": [], "total": 1} == suspended(run, seeded, "--page", "1", "--limit", "1")


def test_people_see_what_waits(run: Any, seeded: Any) -> None:
    ran = run("runs", "suspended", "--url", seeded.url)

    assert "ops" in ran.out
    assert "approval" in ran.out


def test_without_an_application_the_agent_is_named(run: Any, seeded: Any) -> None:
    ran = run("runs", "approve", seeded.run_id, "--url", seeded.url)

    assert 2 == ran.code
    assert "belongs to agent 'ops'" in ran.err
    assert "--app module:name" in ran.err


@pytest.mark.usefixtures("_application")
@pytest.mark.parametrize("app", ["shop:agent", "shop:new_agent"])
def test_approve_lets_the_tool_run(run: Any, seeded: Any, app: str) -> None:
    ran = run("runs", "approve", seeded.run_id, "--app", app, "--url", seeded.url, "--json")

    assert 0 == ran.code, ran.err
    assert {
        "runId": seeded.run_id,
        "approved": True,
        "finishReason": "stop",
        "text": "All done.",
    } == ran.json
    assert {"runs": [], "total": 0} == suspended(run, seeded)
    assert "deployed" in run("threads", "messages", "t1", "--url", seeded.url, "--json").out


@pytest.mark.usefixtures("_application")
def test_decline_does_not(run: Any, seeded: Any) -> None:
    line = ("--reason", "too risky", "--app", "shop:agent", "--url", seeded.url)

    ran = run("runs", "decline", seeded.run_id, *line)

    assert (0, "All done.\n") == (ran.code, ran.out)
    stored = run("threads", "messages", "t1", "--url", seeded.url, "--json").out
    assert "deployed" not in stored
    assert "too risky" in stored


@pytest.mark.usefixtures("_application")
def test_a_second_answer_is_refused(run: Any, seeded: Any) -> None:
    line = ("runs", "approve", seeded.run_id, "--app", "shop:agent", "--url", seeded.url)
    run(*line)

    again = run(*line)

    assert 1 == again.code
    assert seeded.run_id in again.err


@pytest.mark.usefixtures("_application")
def test_a_wrong_call_id_runs_nothing(run: Any, seeded: Any) -> None:
    line = ("--tool-call", "call_9", "--app", "shop:agent", "--url", seeded.url)

    ran = run("runs", "approve", seeded.run_id, *line)

    assert 1 == ran.code
    assert "call_9" in ran.err
    assert 1 == suspended(run, seeded)["total"]


@pytest.mark.usefixtures("_application")
def test_another_agent_may_not_answer(run: Any, seeded: Any) -> None:
    line = ("--app", "shop:stranger", "--url", seeded.url)

    ran = run("runs", "approve", seeded.run_id, *line)

    assert 2 == ran.code
    assert "'ops'" in ran.err
    assert "stranger" in ran.err
    assert 1 == suspended(run, seeded)["total"]


@pytest.mark.usefixtures("_application")
def test_an_object_of_another_kind_is_refused(run: Any, seeded: Any) -> None:
    ran = run("runs", "approve", "r", "--app", "shop:number", "--url", seeded.url)

    assert 2 == ran.code
    assert "int" in ran.err
