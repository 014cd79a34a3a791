"""How often a call goes to the server, and that no hot call looks at the whole database."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from mastra_core.wire.messages import Message
from mastra_core.wire.notifications import CreateNotification, NotificationPatch
from mastra_core.wire.threads import Thread
from mastra_redis import RedisStorage

pytestmark = pytest.mark.anyio

NOW = datetime(2026, 2, 3, tzinfo=UTC)
Executed = list[tuple[Any, ...]]


async def trips(executed: Executed, call: Callable[[], Awaitable[object]]) -> int:
    """How many commands one call sends; a transaction counts as one."""
    executed.clear()
    await call()
    names = [str(command[0]) for command in executed]
    assert not {"SCAN", "KEYS", "HGETALL", "SMEMBERS"} & set(names)
    return names.count("EXEC") if "EXEC" in names else len(names)


def note(**given: Any) -> CreateNotification:
    return CreateNotification(
        **{"thread_id": "t", "source": "s", "kind": "k", "summary": "x", **given}
    )


def message(name: str) -> Message:
    return Message(
        id=name,
        role="user",
        created_at=NOW,
        thread_id="t",
        resource_id="r",
        content={"format": 2, "parts": []},
    )


async def test_a_call_is_a_round_trip(store: RedisStorage, executed: Executed) -> None:
    """Creating, merging, updating, saving, listing: one each, once the process is warm."""
    notes, memory, runs = store.notifications, store.memory, store.workflows
    document = {
        "status": "suspended",
        "context": {"s": {"status": "suspended", "suspendPayload": {"__agentId": "a"}}},
    }
    await memory.save_thread(Thread(id="t", resource_id="r", created_at=NOW, updated_at=NOW))
    await memory.list_threads()
    first = await notes.create_notification(note(dedupe_key="d"))
    await runs.persist_workflow_snapshot(workflow_name="w", run_id="r", snapshot=document)
    await runs.list_workflow_runs()

    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "create": lambda: notes.create_notification(note()),
        "create with a new key": lambda: notes.create_notification(note(dedupe_key="other")),
        "merge": lambda: notes.create_notification(note(dedupe_key="d")),
        "update": lambda: notes.update_notification(
            "t", first.id, NotificationPatch(status="seen")
        ),
        "inbox": lambda: notes.list_notifications("t", limit=20),
        "due": lambda: notes.list_due_notifications(NOW, limit=20),
        "persist": lambda: runs.persist_workflow_snapshot(
            workflow_name="w", run_id="r", snapshot=document
        ),
        "step": lambda: runs.update_workflow_results(
            workflow_name="w", run_id="r", step_id="x", result={"status": "success"}
        ),
        "state": lambda: runs.update_workflow_state(
            workflow_name="w", run_id="r", opts={"status": "suspended"}
        ),
        "load": lambda: runs.load_workflow_snapshot(workflow_name="w", run_id="r"),
        "suspended runs": lambda: runs.list_suspended_runs(
            workflow_names=["w", "v"], agent_id="a", page=0, per_page=20
        ),
        "runs": lambda: runs.list_workflow_runs(page=0, per_page=20),
        "save messages": lambda: memory.save_messages([message(f"m{n}") for n in range(10)]),
        "raise a fence": lambda: memory.raise_fence(("k", 1)),
        "save messages as an owner": lambda: memory.guarded(("k", 1)).save_messages(
            [message(f"m{n}") for n in range(10)]
        ),
        "history": lambda: memory.list_messages("t", per_page=40),
        "history of a resource": lambda: memory.list_messages("t", resource_id="r", per_page=40),
        "threads": lambda: memory.list_threads(resource_id="r"),
    }

    assert dict.fromkeys(calls, 1) == {
        name: await trips(executed, call) for name, call in calls.items()
    }


async def test_claims_of_a_page_are_two(store: RedisStorage) -> None:
    """One to look, one for all twenty claims."""
    notes = store.notifications
    await asyncio.gather(*(notes.create_notification(note(deliver_at=NOW)) for _ in range(25)))
    link = store._host.server.link
    before = link.writes

    claimed = await notes.claim_due(NOW, "me", limit=20)

    assert 20 == len(claimed)
    assert 2 == link.writes - before


async def test_steps_that_come_at_once_are_few_writes(
    store: RedisStorage, executed: Executed
) -> None:
    """Fifty writers of one run, none lost."""
    await store.workflows.persist_workflow_snapshot(
        workflow_name="w", run_id="r", snapshot={"status": "running", "context": {}}
    )
    executed.clear()

    await asyncio.gather(
        *(
            store.workflows.update_workflow_results(
                workflow_name="w", run_id="r", step_id=f"s{n}", result={"status": "success", "n": n}
            )
            for n in range(50)
        )
    )

    loaded = await store.workflows.load_workflow_snapshot(workflow_name="w", run_id="r")
    assert loaded is not None
    assert {f"s{n}" for n in range(50)} == loaded["context"].keys()
    assert len([command for command in executed if command[0] == "EXEC"]) <= 3


async def test_a_list_ships_none_of_the_conversation(store: RedisStorage) -> None:
    """The stream state of a suspended run stays at the server."""
    payload = {"__agentId": "a", "__streamState": {"big": "x" * 100_000}, "kept": 1}
    for number in range(5):
        await store.workflows.persist_workflow_snapshot(
            workflow_name="w",
            run_id=f"r{number}",
            snapshot={
                "status": "suspended",
                "context": {"s": {"status": "suspended", "suspendPayload": payload}},
            },
        )
    await store.workflows.list_suspended_runs(workflow_names=["w"], agent_id="a")
    info = await store._host.read("test", "CLIENT", "INFO")
    assert info

    page = await store.workflows.list_suspended_runs(
        workflow_names=["w"], agent_id="a", page=0, per_page=2
    )

    assert 5 == page.total
    assert [{"s": {"__agentId": "a", "kept": 1}}] * 2 == [row.steps for row in page.rows]
