"""Keys and texts that a Node process reads and writes (snapshots.md 13.5, field reports O1-O4)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from redis.asyncio import Redis

from mastra_conformance import case
from mastra_core.errors import StorageArgumentError, StorageConflictError
from mastra_core.plugins.context import AdapterContext
from mastra_core.wire.messages import Message
from mastra_core.wire.threads import Resource, Thread
from mastra_redis import RedisStorage

pytestmark = pytest.mark.anyio

NOW = datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC)
LATER = "2026-02-03T04:05:07.000Z"
EARLIER = "2026-02-03T04:05:05.000Z"


def a_thread(**changes: Any) -> Thread:
    given: dict[str, Any] = {
        "id": "t1",
        "resource_id": "r1",
        "title": "Talk",
        "metadata": {"a": 1},
        "created_at": NOW,
        "updated_at": NOW,
    }
    return Thread(**{**given, **changes})


def a_message(message_id: str, **changes: Any) -> Message:
    given: dict[str, Any] = {
        "id": message_id,
        "role": "user",
        "created_at": NOW,
        "thread_id": "t1",
        "resource_id": "r1",
        "content": {"format": 2, "parts": [{"type": "text", "text": "hi"}]},
    }
    return Message(**{**given, **changes})


def suspended(agent_id: str = "agent") -> dict[str, Any]:
    return {
        "status": "suspended",
        "context": {"step": {"status": "suspended", "suspendPayload": {"__agentId": agent_id}}},
    }


def node_run(run_id: str, *, resource_id: str | None = None, **changes: Any) -> dict[str, Any]:
    """A record as Node puts it together."""
    record = {"namespace": "workflows", "workflow_name": "agentic-loop", "run_id": run_id}
    if resource_id is not None:
        record["resourceId"] = resource_id
    snapshot: Mapping[str, Any] = suspended()
    return {
        **record, "snapshot": snapshot, "createdAt": EARLIER, "updatedAt": EARLIER, **changes
    }  # fmt: skip


class Node:
    """Writes keys as the TypeScript store does, without any index of ours."""

    def __init__(self, client: Redis, namespace: str) -> None:
        self._client = client
        self._prefix = f"{namespace}:"

    def run_key(self, run_id: str, resource_id: str | None = None) -> str:
        key = f"{self._prefix}mastra_workflow_snapshot:namespace:workflows"
        key += f":workflow_name:agentic-loop:run_id:{run_id}"
        return key if resource_id is None else f"{key}:resourceId:{resource_id}"

    async def put(self, key: str, value: Any) -> None:
        await self._client.set(key, json.dumps(value, separators=(",", ":")))

    async def put_run(self, run_id: str, resource_id: str | None = None, **changes: Any) -> None:
        value = node_run(run_id, resource_id=resource_id, **changes)
        await self.put(self.run_key(run_id, resource_id), value)

    async def get(self, name: str) -> Any:
        found = await self._client.get(f"{self._prefix}{name}")
        return None if found is None else json.loads(found)

    async def names(self, beginning: str) -> list[str]:
        start = f"{self._prefix}{beginning}"
        return sorted(
            [key.decode()[len(self._prefix) :] async for key in self._client.scan_iter(f"{start}*")]
        )

    async def save_message(self, thread_id: str, message_id: str, **changes: Any) -> None:
        """What its ``saveMessages`` does."""
        message = {
            "id": message_id, "role": "user", "threadId": thread_id, "resourceId": "r1",
            "createdAt": LATER, "content": {"format": 2, "parts": []}, "_index": 0, **changes,
        }  # fmt: skip
        await self.put(
            f"{self._prefix}mastra_messages:threadId:{thread_id}:id:{message_id}", message
        )
        await self._client.set(f"{self._prefix}msg-idx:{message_id}", thread_id)
        score = int(datetime.fromisoformat(message["createdAt"]).timestamp() * 1000) * 1000
        await self._client.zadd(
            f"{self._prefix}thread:{thread_id}:messages", {message_id: score + message["_index"]}
        )
        thread = await self.get(f"mastra_threads:id:{thread_id}")
        if thread is not None:
            await self.put(
                f"{self._prefix}mastra_threads:id:{thread_id}", {**thread, "updatedAt": LATER}
            )

    async def put_thread(self, thread_id: str, **changes: Any) -> None:
        thread = {
            "id": thread_id, "title": "Node's", "resourceId": "r1",
            "createdAt": EARLIER, "updatedAt": EARLIER, **changes,
        }  # fmt: skip
        await self.put(f"{self._prefix}mastra_threads:id:{thread_id}", thread)

    async def delete(self, *names: str) -> None:
        await self._client.delete(*(f"{self._prefix}{name}" for name in names))


@pytest.fixture
def node(client: Redis, namespace: str) -> Node:
    return Node(client, namespace)


# -- what we write -----------------------------------------------------------------------------


async def test_a_thread_is_written_as_node_does(store: RedisStorage, node: Node) -> None:
    await store.memory.save_thread(a_thread())

    assert {
        "id": "t1",
        "resourceId": "r1",
        "title": "Talk",
        "metadata": {"a": 1},
        "createdAt": "2026-02-03T04:05:06.000Z",
        "updatedAt": "2026-02-03T04:05:06.000Z",
    } == await node.get("mastra_threads:id:t1")


async def test_messages_are_written_as_node_does(
    store: RedisStorage, node: Node, client: Redis, namespace: str
) -> None:
    """The record, its thread by id, and its place in the thread."""
    await store.memory.save_messages([a_message("m1")])

    assert {
        "id": "m1",
        "role": "user",
        "createdAt": "2026-02-03T04:05:06.000Z",
        "threadId": "t1",
        "resourceId": "r1",
        "content": {"format": 2, "parts": [{"type": "text", "text": "hi"}]},
        "_index": 0,
    } == await node.get("mastra_messages:threadId:t1:id:m1")
    assert b"t1" == await client.get(f"{namespace}:msg-idx:m1")
    order = await client.zrange(f"{namespace}:thread:t1:messages", 0, -1, withscores=True)
    assert [(b"m1", NOW.timestamp() * 1e6)] == [tuple(pair) for pair in order]


async def test_a_resource_is_written_as_node_does(store: RedisStorage, node: Node) -> None:
    """Its metadata is JSON text inside the JSON text."""
    await store.memory.save_resource(
        Resource(
            id="r1", working_memory="# Me", metadata={"a": [1]}, created_at=NOW, updated_at=NOW
        )
    )

    assert {
        "id": "r1",
        "workingMemory": "# Me",
        "metadata": '{"a":[1]}',
        "createdAt": "2026-02-03T04:05:06.000Z",
        "updatedAt": "2026-02-03T04:05:06.000Z",
    } == await node.get("mastra_resources:r1")


async def test_a_run_is_written_where_node_loads_it(store: RedisStorage, node: Node) -> None:
    """Without the resource in its key, which Node couldn't load, but with it in the record."""
    await store.workflows.persist_workflow_snapshot(
        workflow_name="agentic-loop",
        run_id="a",
        resource_id="r1",
        snapshot=suspended(),
        created_at=NOW,
        updated_at=NOW,
    )

    name = "mastra_workflow_snapshot:namespace:workflows:workflow_name:agentic-loop:run_id:a"
    found = await node.get(name)
    assert [name] == await node.names("mastra_workflow_snapshot")
    assert {
        "namespace": "workflows",
        "workflow_name": "agentic-loop",
        "run_id": "a",
        "resourceId": "r1",
        "snapshot": suspended(),
        "createdAt": "2026-02-03T04:05:06.000Z",
        "updatedAt": "2026-02-03T04:05:06.000Z",
    } == found


# -- what Node writes ----------------------------------------------------------------------------


async def test_runs_that_node_wrote_before_are_listed(
    node: Node, url: str, context: AdapterContext
) -> None:
    """The first list of a process looks at everything once."""
    for number in range(3):
        await node.put_run(f"n{number}")
    await node.put_run("other", snapshot=suspended("somebody else"))

    async with RedisStorage(url, context) as store:
        page = await store.workflows.list_suspended_runs(
            workflow_names=["agentic-loop"], agent_id="agent"
        )
        await store.dangerously_clear_all()

    assert ["n2", "n1", "n0"] == [row.run_id for row in page.rows]


async def test_runs_that_node_writes_now_are_listed_at_once(
    store: RedisStorage, node: Node
) -> None:
    """New ones, changed ones, and those that are gone."""

    async def listed() -> list[str]:
        page = await store.workflows.list_suspended_runs(
            workflow_names=["agentic-loop"], agent_id="agent"
        )
        return [row.run_id for row in page.rows]

    assert [] == await listed()
    await node.put_run("a")
    await node.put_run("b")
    assert ["b", "a"] == await listed()
    await node.put_run("a", snapshot={**suspended(), "status": "running"})
    assert ["b"] == await listed()
    await node.put_run("a", snapshot=suspended(), updatedAt=LATER)
    assert ["b", "a"] == await listed()
    await node.delete(
        "mastra_workflow_snapshot:namespace:workflows:workflow_name:agentic-loop:run_id:b"
    )
    assert ["a"] == await listed()


async def test_what_node_overwrites_is_indexed_as_it_is_now(
    store: RedisStorage, node: Node
) -> None:
    """Ours was suspended; Node finished it, and later we write it again."""
    await store.workflows.persist_workflow_snapshot(
        workflow_name="agentic-loop", run_id="a", snapshot=suspended()
    )
    await node.put_run("a", snapshot={"status": "success", "context": {}})

    page = await store.workflows.list_suspended_runs(
        workflow_names=["agentic-loop"], agent_id="agent"
    )
    done = await store.workflows.list_workflow_runs(status="success")
    await store.workflows.persist_workflow_snapshot(
        workflow_name="agentic-loop", run_id="a", snapshot=suspended()
    )
    again = await store.workflows.list_suspended_runs(
        workflow_names=["agentic-loop"], agent_id="agent"
    )

    assert [] == page.rows
    assert ["a"] == [run.run_id for run in done.runs]
    assert ["a"] == [row.run_id for row in again.rows]
    # The creation time that Node gave it stays.
    assert EARLIER == again.rows[0].created_at.isoformat(timespec="milliseconds").replace(
        "+00:00", "Z"
    )


@case("snapshots", 44)
async def test_a_run_under_the_long_key_is_one_run(store: RedisStorage, node: Node) -> None:
    """Loaded, listed, updated, and then there is one key."""
    await node.put_run("a", "r1")

    loaded = await store.workflows.load_workflow_snapshot(workflow_name="agentic-loop", run_id="a")
    before = await store.workflows.list_workflow_runs(resource_id="r1")
    context = await store.workflows.update_workflow_results(
        workflow_name="agentic-loop", run_id="a", step_id="next", result={"status": "success"}
    )
    after = await store.workflows.list_workflow_runs()
    names = await node.names("mastra_workflow_snapshot")
    await store.workflows.delete_workflow_run_by_id(workflow_name="agentic-loop", run_id="a")

    assert suspended() == loaded
    assert ["a"] == [run.run_id for run in before.runs]
    assert {"step", "next"} == context.keys()
    assert [("a", "r1")] == [(run.run_id, run.resource_id) for run in after.runs]
    assert ["mastra_workflow_snapshot:namespace:workflows:workflow_name:agentic-loop:run_id:a"] == (
        names
    )
    assert [] == await node.names("mastra_workflow_snapshot")


@pytest.mark.parametrize(
    ("long_at", "kept"), [(LATER, "long"), ("2026-02-03T04:00:00.000Z", "short")]
)
async def test_of_two_keys_of_one_run_the_newer_counts(
    store: RedisStorage, node: Node, long_at: str, kept: str
) -> None:
    await node.put_run("a", snapshot={**suspended(), "from": "short"}, resourceId="r1")
    await node.put_run("a", "r1", snapshot={**suspended(), "from": "long"}, updatedAt=long_at)

    runs = await store.workflows.list_workflow_runs()
    loaded = await store.workflows.load_workflow_snapshot(workflow_name="agentic-loop", run_id="a")

    assert 1 == runs.total
    assert loaded is not None
    assert kept == loaded["from"]
    assert 1 == len(await node.names("mastra_workflow_snapshot"))


async def test_a_run_deleted_by_us_is_gone_under_both_keys(store: RedisStorage, node: Node) -> None:
    await store.workflows.list_workflow_runs()
    await node.put_run("a", "r1")

    await store.workflows.delete_workflow_run_by_id(workflow_name="agentic-loop", run_id="a")

    assert [] == await node.names("mastra_workflow_snapshot")
    assert 0 == (await store.workflows.list_workflow_runs()).total


async def test_names_that_are_patterns_or_hold_anything_are_just_names(
    store: RedisStorage,
) -> None:
    """Globs, colons, NUL, half an emoji."""
    names = ["a*", "a?", "[a]", "a:run_id", "\0", "a\0b", "\ud83d", "ü", "a%3A"]
    for name in names:
        await store.workflows.persist_workflow_snapshot(
            workflow_name=name,
            run_id=name,
            snapshot={"status": "suspended", "context": {}, "n": name},
        )
        await store.notifications.create_notification(_note(thread_id=name, id=name))
        await store.thread_state.set_state(name, name, name)

    for name in names:
        runs = await store.workflows.list_workflow_runs(workflow_name=name)
        assert [name] == [run.run_id for run in runs.runs]
        records = await store.notifications.list_notifications(name)
        assert [name] == [record.id for record in records]
        assert {name: name} == await store.thread_state.list_states(name)


def _note(**given: Any) -> Any:
    from mastra_core.wire.notifications import CreateNotification

    return CreateNotification(source="s", kind="k", summary="x", **given)


async def test_two_runs_never_share_a_key(store: RedisStorage) -> None:
    """``a`` with run ``b:run_id:c`` has the key of ``a:run_id:b`` with run ``c``."""
    await store.workflows.persist_workflow_snapshot(
        workflow_name="a", run_id="b:run_id:c", snapshot={"status": "running", "context": {}}
    )

    with pytest.raises(StorageConflictError, match="colons"):
        await store.workflows.persist_workflow_snapshot(
            workflow_name="a:run_id:b", run_id="c", snapshot={"status": "running", "context": {}}
        )
    assert None is await store.workflows.load_workflow_snapshot(
        workflow_name="a:run_id:b", run_id="c"
    )


async def test_two_messages_never_share_a_key(store: RedisStorage) -> None:
    await store.memory.save_messages([a_message("b:id:c", thread_id="a")])

    with pytest.raises(StorageArgumentError, match="colons"):
        await store.memory.save_messages([a_message("c", thread_id="a:id:b")])


@case("snapshots", 16)
async def test_corrupt_runs_are_told_and_break_no_list(store: RedisStorage, node: Node) -> None:
    await node.put_run("bad", snapshot="{no json")
    await node.put_run("good")

    corrupt = await store.workflows.list_corrupt_runs()
    by_status = await store.workflows.list_workflow_runs(status="suspended")
    page = await store.workflows.list_suspended_runs(
        workflow_names=["agentic-loop"], agent_id="agent"
    )

    assert ["bad"] == [run.run_id for run in corrupt]
    assert (["good"], 1) == ([run.run_id for run in by_status.runs], by_status.total)
    assert ["good"] == [row.run_id for row in page.rows]


async def test_threads_that_node_writes_are_listed_at_once(store: RedisStorage, node: Node) -> None:
    """New, changed and deleted ones, in both orders."""
    await store.memory.save_thread(a_thread())
    assert 1 == (await store.memory.list_threads(resource_id="r1")).total

    await node.put_thread("n1", metadata='{"from":"node"}')
    listed = (await store.memory.list_threads(resource_id="r1")).threads
    assert ["t1", "n1"] == [thread.id for thread in listed]
    assert {"from": "node"} == listed[1].metadata
    await node.put_thread("t1", resourceId="r2", createdAt=EARLIER)
    assert ["n1"] == [t.id for t in (await store.memory.list_threads(resource_id="r1")).threads]
    await node.delete("mastra_threads:id:n1")
    assert [] == (await store.memory.list_threads(resource_id="r1")).threads


async def test_messages_that_node_writes_count_at_once(store: RedisStorage, node: Node) -> None:
    """In pages of their thread, filtered by resource, and over all threads of a resource."""
    await store.memory.save_thread(a_thread())
    await store.memory.save_messages([a_message("m1")])
    await node.save_message("t1", "n1")
    await node.save_message("t1", "n2", resourceId="r2")

    everything = await store.memory.list_messages("t1")
    own = await store.memory.list_messages("t1", resource_id="r1")
    everywhere = await store.memory.list_messages_by_resource_id("r1")
    named = await store.memory.list_messages_by_id(["n2"])

    assert ["m1", "n1", "n2"] == [message.id for message in everything.messages]
    assert (["m1", "n1"], 2) == ([message.id for message in own.messages], own.total)
    assert ["m1", "n1"] == [message.id for message in everywhere.messages]
    assert ["n2"] == [message.id for message in named]


async def test_a_thread_of_node_keeps_what_we_dont_know(store: RedisStorage, node: Node) -> None:
    await node.put_thread("n1", future={"x": 1})

    await store.memory.update_thread("n1", title="Ours")

    found = await node.get("mastra_threads:id:n1")
    assert ("Ours", {"x": 1}, EARLIER) == (found["title"], found["future"], found["createdAt"])


async def test_without_a_mixed_fleet_nobody_is_asked(
    url: str, context: AdapterContext, node: Node
) -> None:
    """Only what this side wrote is listed; no scan and no tracking."""
    async with RedisStorage(url, context, mixed_fleet=False) as store:
        seen: list[tuple[Any, ...]] = []
        store.observe(seen.append)
        await node.put_run("a")
        await store.workflows.persist_workflow_snapshot(
            workflow_name="agentic-loop", run_id="b", snapshot=suspended()
        )
        runs = await store.workflows.list_workflow_runs()
        await store.memory.list_threads()

        assert ["b"] == [run.run_id for run in runs.runs]
        assert not {command[0] for command in seen} & {"SCAN", "KEYS", "CLIENT"}
        store.observe(None)
        await store.dangerously_clear_all()
