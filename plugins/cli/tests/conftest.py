"""What the tests of the command line share: a runner, and a store with something in it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from mastra_cli.app import app
from mastra_core import Agent, Mastra, tool
from mastra_core.testing.scripted_model import ScriptedModel, text, tool_call
from mastra_core.wire.notifications import NotificationPatch

THREAD = "t1"
RESOURCE = "r1"


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command ended and what it wrote."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Ran]


@pytest.fixture(autouse=True)
def _own_surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings of the machine: an empty folder, no variables of ours."""
    monkeypatch.chdir(tmp_path)
    for name in tuple(os.environ):
        if name.startswith("MASTRA_") and name not in {
            "MASTRA_MODELS_DIR",
            "MASTRA_REQUIRE_MODELS",
        }:
            monkeypatch.delenv(name)


@pytest.fixture
def run() -> Run:
    """Run a command in this process."""

    def invoke(*arguments: str) -> Ran:
        result = CliRunner().invoke(app, list(arguments))
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Ran(result.exit_code, result.stdout, result.stderr)

    return invoke


@pytest.fixture
def run_process() -> Run:
    """Run a command in a process of its own, as a shell does."""

    def invoke(*arguments: str, env: dict[str, str] | None = None, **options: Any) -> Ran:
        done = subprocess.run(
            [sys.executable, "-m", "mastra_cli", *arguments],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, **(env or {})},
            **options,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    return invoke


@tool(require_approval=True)
async def deploy(env: str) -> dict[str, Any]:
    """Bring it to an environment."""
    return {"deployed": env}


def new_agent(calls: Sequence[Any]) -> Agent:
    return Agent(id="ops", model=ScriptedModel(calls), tools=[deploy])


@dataclass(slots=True)
class Seeded:
    """A store with a thread, an inbox and a run that waits."""

    url: str
    run_id: str = ""
    notification_ids: list[str] = field(default_factory=list)


@pytest.fixture
def seeded(tmp_path: Path) -> Seeded:
    store = Seeded(f"file:{tmp_path}/app.db")
    asyncio.run(_seed(store))
    return store


async def _seed(store: Seeded) -> None:
    agent = new_agent([[text("I will."), tool_call("deploy", {"env": "prod"})]])
    async with Mastra(
        storage=store.url,
        lease="memory:",
        agents=[agent],
        notifications={"dispatch": {"enabled": False}},
    ) as application:
        output = await agent.stream("Deploy it.", thread_id=THREAD, resource_id=RESOURCE)
        await output.wait()
        store.run_id = output.run_id
        inbox = application.storage.notifications
        for number, priority in enumerate(("urgent", "high", "medium", "low")):
            record = await inbox.create_notification(_event(number, priority))
            store.notification_ids.append(record.id)
        failed = NotificationPatch(status="failed", delivery_attempts=3)
        await inbox.update_notification(THREAD, store.notification_ids[3], failed)


@pytest.fixture
def ctrl_c_works() -> Iterator[None]:
    """Children hear SIGINT, even where whoever started the tests had it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def _event(number: int, priority: str) -> Any:
    from mastra_core.wire.notifications import CreateNotification

    return CreateNotification(
        id=f"n{number}",
        thread_id=THREAD,
        resource_id=RESOURCE,
        agent_id="ops",
        source="github",
        kind="ci",
        priority=priority,
        summary=f"CI failed ({priority})",
        payload={"number": number},
    )
