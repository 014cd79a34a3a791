"""Two applications on one store and one bus, and one that dies (streaming.md 8.1, 8.5, 8.9)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from mastra_conformance import case
from mastra_core import Agent, FunctionTool, Mastra, ToolContext
from mastra_core.background import BackgroundTaskManager, settings_from
from mastra_core.background.manager import lease_key
from mastra_core.base.clock import SystemClock
from mastra_core.base.ids import UuidIds
from mastra_core.config import Settings
from mastra_core.contracts.background import TaskPlan
from mastra_core.errors import EventTooLargeError, StorageConnectionError, TaskError
from mastra_core.testing.scripted_model import Gates, ScriptedModel, text, tool_call
from mastra_core.wire.events import Event
from mastra_core.wire.tasks import BackgroundTask

pytestmark = pytest.mark.anyio

OpenApp = Callable[..., Any]
THREAD = {"thread_id": "t1", "resource_id": "u1"}
NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Desk:
    """An agent whose one tool waits at a gate; what its bodies did is counted."""

    def __init__(self, *calls: Any, **background: Any) -> None:
        self.gates = Gates()
        self.ran: list[str] = []

        async def body(args: Any, context: ToolContext) -> str:
            self.ran.append(context.tool_call_id)
            await self.gates.wait("end")
            return "found"

        self.model = ScriptedModel(calls)
        tool = FunctionTool(id="research", execute=body, background=background or True)
        self.agent = Agent(id="helper", model=self.model, tools=[tool])


def manager_of(app: Mastra) -> BackgroundTaskManager:
    assert app.background_tasks is not None
    return app.background_tasks


def record(**members: Any) -> BackgroundTask:
    values = {
        "id": "task-1",
        "status": "running",
        "tool_name": "research",
        "tool_call_id": "call_1",
        "args": {"topic": "tea"},
        "agent_id": "helper",
        "thread_id": "t1",
        "resource_id": "u1",
        "run_id": "run-1",
        "created_at": NOW,
        **members,
    }
    return BackgroundTask(**values)


async def ends(app: Mastra, task_id: str) -> BackgroundTask:
    """The record once it has ended."""
    manager = manager_of(app)
    assert await manager.wait_for_end([task_id], limit_ms=20_000)
    await app.pubsub.flush()
    task = await manager.get_task(task_id)
    assert task is not None
    return task


async def calls_of(app: Mastra) -> list[dict[str, Any]]:
    page = await app.storage.memory.list_messages("t1", per_page=False)
    return [
        part["toolInvocation"]
        for message in page.messages
        for part in message.content["parts"]
        if part["type"] == "tool-invocation"
    ]


CALL = [tool_call("research", {"topic": "tea"})]


@case("streaming", 44)
async def test_of_two_ends_one_counts(open_app: OpenApp, shared: Any) -> None:
    """One process completes the task while the other cancels it: one write, one event."""
    desk = Desk(CALL, [text("started")])
    first = await open_app(desk.agent)
    second = await open_app()
    heard: list[str] = []

    async def hear(event: Event) -> None:
        heard.append(event.type)

    await shared.pubsub.subscribe("background-tasks-result", hear, start_from="latest")
    await (await desk.agent.stream("go", **THREAD)).wait()
    (task,) = (await manager_of(first).list_tasks()).tasks

    desk.gates.open("end")
    answers = await asyncio.gather(
        manager_of(second).cancel(task.id),
        ends(first, task.id),
        manager_of(first).cancel(task.id),
    )
    await shared.pubsub.flush()
    after = await manager_of(first).get_task(task.id)

    assert after is not None
    last = {"completed": "task.completed", "cancelled": "task.cancelled"}[after.status]
    assert heard == ["task.running", last]
    assert [answers[0], answers[2]].count(True) == (1 if after.status == "cancelled" else 0)


@case("streaming", 44)
async def test_a_write_that_expects_another_status_changes_nothing(
    open_app: OpenApp, shared: Any
) -> None:
    """``update_task(expected_status=...)`` succeeds once."""
    await shared.storage.background_tasks.create_task(record())
    store = shared.storage.background_tasks

    won = await asyncio.gather(
        *(
            store.update_task("task-1", {"status": "completed"}, expected_status="running")
            for _ in range(5)
        )
    )

    assert sorted(won) == [False] * 4 + [True]


async def test_cancelling_elsewhere_stops_the_body_here(open_app: OpenApp) -> None:
    """The event reaches the process that runs it."""
    desk = Desk(CALL, [text("started")])
    first = await open_app(desk.agent)
    second = await open_app()
    await (await desk.agent.stream("go", **THREAD)).wait()
    await desk.gates.reached("end")
    (task,) = (await manager_of(first).list_tasks()).tasks

    assert await manager_of(second).cancel(task.id)
    await first.pubsub.flush()

    assert not manager_of(first).is_ours(task.id) or await _gone(first, task.id)
    assert (await manager_of(first).get_task(task.id)).status == "cancelled"  # type: ignore[union-attr] # it exists


async def test_a_result_that_is_too_large_for_the_bus_is_read_from_the_record(
    open_app: OpenApp, shared: Any
) -> None:
    """Whoever observes hears of the end at once, and sees the whole result (R55, R128)."""
    large = "x" * (shared.pubsub.capabilities.max_event_bytes + 1)

    async def body(args: Any, context: ToolContext) -> str:
        return large

    tool = FunctionTool(id="research", execute=body, background=True)
    agent = Agent(id="helper", model=ScriptedModel([CALL, [text("started")]]), tools=[tool])
    await open_app(agent)
    other = await open_app()
    seen = manager_of(other).stream(include_existing=False)

    await (await agent.stream("go", **THREAD)).wait()
    async with asyncio.timeout(30):
        last = [await anext(seen) for _ in range(2)][-1]

    assert "background-task-completed" == last["type"]
    assert large == last["payload"]["result"]


async def test_arguments_that_are_too_large_for_the_bus_reach_the_worker(
    open_app: OpenApp, shared: Any
) -> None:
    """It takes them from the record, as it always does."""
    desk = Desk()
    desk.gates.open("end")
    producer = await open_app(background_tasks={"mode": "producer"})
    await open_app(desk.agent, background_tasks={"mode": "worker"})

    task = await manager_of(producer).hand_over(
        TaskPlan(disposition="deferred", timeout_ms=60_000, max_retries=0),
        tool_name="research",
        tool_call_id="call_1",
        args={"topic": "x" * shared.pubsub.capabilities.max_event_bytes},
        agent_id="helper",
        run_id="run-1",
    )
    assert task is not None

    assert "completed" == (await ends(producer, task.id)).status


async def test_data_that_no_worker_can_be_told_are_refused(open_app: OpenApp, shared: Any) -> None:
    """They stand nowhere else: whoever gave them must know."""
    await shared.storage.background_tasks.create_task(record(status="suspended"))
    producer = await open_app(background_tasks={"mode": "producer"})

    with pytest.raises(EventTooLargeError):
        await manager_of(producer).resume(
            "task-1", "x" * shared.pubsub.capabilities.max_event_bytes
        )


async def _gone(app: Mastra, task_id: str) -> bool:
    for _ in range(1000):
        if not manager_of(app).is_ours(task_id):
            return True
        await asyncio.sleep(0)
    return False


async def test_a_worker_knows_the_agents_of_its_teams(open_app: OpenApp) -> None:
    """A task of a sub-agent is carried out where only its supervisor was named."""
    ask = [tool_call("agent-helper", {"prompt": "Find tea."}, id="outer")]

    asking, working = Desk(CALL, [text("started")]), Desk()
    other = Agent(id="middle", model=ScriptedModel(), agents=[working.agent])
    boss = Agent(id="boss", model=ScriptedModel(), agents=[other])
    middle = Agent(id="middle", model=ScriptedModel([ask, [text("ok")]]), agents=[asking.agent])
    producer = await open_app(middle, background_tasks={"mode": "producer"})
    await open_app(boss)
    await (await middle.stream("go", **THREAD)).wait()
    (task,) = (await manager_of(producer).list_tasks()).tasks

    working.gates.open("end")
    ended = await ends(producer, task.id)

    assert ("helper", "completed", ["call_1"]) == (ended.agent_id, ended.status, working.ran)


async def test_a_producer_hands_over_and_a_worker_executes(open_app: OpenApp) -> None:
    """The result reaches the run of the producer and the stored message (8.3, 8.6)."""
    asking = Desk(CALL, [{"type": "gate", "name": "speak"}, text("here")])
    working = Desk()
    producer = await open_app(asking.agent, background_tasks={"mode": "producer"})
    await open_app(working.agent, background_tasks={"mode": "worker"})
    output = await asking.agent.stream("go", **THREAD)
    await working.gates.reached("end")
    await asking.model.gates.reached("speak")
    (task,) = (await manager_of(producer).list_tasks()).tasks

    working.gates.open("end")
    await ends(producer, task.id)
    for _ in range(200):
        await asyncio.sleep(0)
    asking.model.gates.open("speak")
    chunks = [chunk async for chunk in output.full_stream]

    assert (asking.ran, working.ran) == ([], ["call_1"])
    results = [c["payload"]["result"] for c in chunks if c["type"] == "tool-result"]
    assert results[1:] == ["found"]
    (call,) = await calls_of(producer)
    assert (call["state"], call["result"]) == ("result", "found")


async def test_a_stale_message_restarts_nothing(open_app: OpenApp, shared: Any) -> None:
    """A dispatch of a task that has ended, or that runs, is dropped (R125)."""
    desk = Desk(CALL, [text("started")])
    app = await open_app(desk.agent)
    await shared.storage.background_tasks.create_task(
        record(status="completed", result="old", completed_at=NOW)
    )
    await (await desk.agent.stream("go", **THREAD)).wait()
    await desk.gates.reached("end")
    running = (await manager_of(app).list_tasks(status="running")).tasks[0]

    for task_id in ("task-1", running.id, "nobody"):
        event = Event(type="task.dispatch", run_id=task_id, data={"taskId": task_id})
        await shared.pubsub.publish("background-tasks", event)
    await shared.pubsub.flush()
    desk.gates.open("end")
    await ends(app, running.id)

    assert desk.ran == ["call_1"]
    old = await manager_of(app).get_task("task-1")
    assert old is not None
    assert old.result == "old"


async def test_the_first_dispatch_starts_the_workers(shared: Any) -> None:
    """Starting is safe to repeat, also at the same time (R131); nothing needs to be called."""
    ran: list[str] = []

    async def executor(execution: Any) -> str:
        ran.append(execution.task.id)
        return "done"

    manager = BackgroundTaskManager(
        shared.storage.background_tasks,
        shared.pubsub,
        shared.lease,
        results=None,
        settings=settings_from({"shutdown_grace_ms": 0}),
        clock=SystemClock(),
        ids=UuidIds(),
        worker_id="w1",
    )
    plan = TaskPlan(disposition="deferred", timeout_ms=10_000, max_retries=0)
    facts = {"tool_call_id": "c", "args": {}, "agent_id": "a", "run_id": "r"}
    given = [
        manager.hand_over(plan, tool_name=f"t{n}", executor=executor, **facts) for n in range(3)
    ]
    tasks = await asyncio.gather(manager.start(), manager.start(), *given)
    for task in tasks[2:]:
        assert task is not None
        assert await manager.wait_for_end([task.id], limit_ms=10_000)
    await manager.aclose()

    assert len(ran) == 3


# -- recovery -----------------------------------------------------------------------------------


@case("streaming", 46)
async def test_a_task_of_a_live_process_is_left_alone(open_app: OpenApp) -> None:
    """Another application starts on the same store: running and waiting rows stay."""
    desk = Desk([*CALL, tool_call("research", {"topic": "cake"}, id="call_2")], [text("started")])
    first = await open_app(desk.agent, background_tasks={"per_agent_concurrency": 1})
    await (await desk.agent.stream("go", **THREAD)).wait()
    await desk.gates.reached("end")
    before = await manager_of(first).list_tasks()

    other = Desk()
    second = await open_app(other.agent)
    await manager_of(second)._recovery.look()
    after = await manager_of(second).list_tasks()

    assert [task.to_wire() for task in after.tasks] == [task.to_wire() for task in before.tasks]
    assert other.ran == []
    desk.gates.open("end")


@pytest.mark.parametrize(
    ("members", "status", "runs"),
    [
        ({"status": "pending"}, "completed", 1),
        ({"status": "running", "max_retries": 1}, "completed", 1),
        ({"status": "running", "max_retries": 1, "retry_count": 1}, "failed", 0),
        ({"status": "running"}, "failed", 0),
        ({"status": "pending", "max_retries": 1, "retry_count": 1}, "completed", 1),
    ],
)
async def test_what_a_dead_process_left_is_taken_over(
    open_app: OpenApp, shared: Any, members: Any, status: str, runs: int
) -> None:
    """Wherever it died: recorded, begun, or between two attempts."""
    await shared.storage.background_tasks.create_task(record(**members))
    desk = Desk()
    desk.gates.open("end")
    app = await open_app(desk.agent)

    task = await ends(app, "task-1")

    await app.aclose()

    assert (task.status, len(desk.ran)) == (status, runs)
    assert await shared.lease.get_lease_owner(lease_key("task-1")) is None


async def test_a_result_that_nobody_told_is_told_by_the_next_process(
    open_app: OpenApp, shared: Any
) -> None:
    """It died between the end of the task and the message: the placeholder doesn't stay."""
    desk = Desk(CALL, [text("started")])
    first = await open_app(desk.agent)
    await (await desk.agent.stream("go", **THREAD)).wait()
    (task,) = (await manager_of(first).list_tasks()).tasks

    async def die(_task: BackgroundTask) -> None:
        raise StorageConnectionError("gone")

    manager_of(first)._results.write = die  # type: ignore[method-assign, union-attr] # dies there
    desk.gates.open("end")
    await ends(first, task.id)
    lost = await calls_of(first)
    await first.aclose()

    second = await open_app(Desk().agent)
    await manager_of(second)._recovery.look()

    assert str(lost[0]["result"]).startswith("Background task started")
    (call,) = await calls_of(second)
    assert (call["state"], call["result"]) == ("result", "found")


async def test_a_run_heals_the_placeholders_that_it_remembers(
    open_app: OpenApp, shared: Any
) -> None:
    """Even without recovery the next turn of the thread shows the model the real result."""
    desk = Desk(CALL, [text("started")], [text("here")])
    app = await open_app(desk.agent, background_tasks={"recover_stale_tasks_on_start": False})
    await (await desk.agent.stream("go", **THREAD)).wait()
    (task,) = (await manager_of(app).list_tasks()).tasks

    async def die(_task: BackgroundTask) -> None:
        raise StorageConnectionError("gone")

    manager_of(app)._results.write = die  # type: ignore[method-assign, union-attr] # dies there
    desk.gates.open("end")
    await ends(app, task.id)

    await (await desk.agent.stream("and?", **THREAD)).wait()

    told = [turn for turn in desk.model.requests[2].prompt if turn["role"] == "tool"]
    assert told[0]["content"][0]["output"] == {"type": "text", "value": "found"}
    (call,) = await calls_of(app)
    assert call["result"] == "found"


async def test_closing_leaves_what_may_be_repeated_and_fails_the_rest(
    open_app: OpenApp, shared: Any
) -> None:
    """Nothing is left that nobody will ever end; what waits for a place stays pending (8.5)."""
    once = Desk([*CALL, tool_call("research", {"topic": "cake"}, id="call_2")], [text("started")])
    first = await open_app(once.agent, background_tasks={"per_agent_concurrency": 1})
    await (await once.agent.stream("go", **THREAD)).wait()
    await once.gates.reached("end")
    await first.aclose()

    store = shared.storage.background_tasks
    states = {t.tool_call_id: t.status for t in (await store.list_tasks()).tasks}
    twice = Desk()
    twice.gates.open("end")
    second = await open_app(twice.agent)
    (waiting,) = [t for t in (await store.list_tasks()).tasks if t.tool_call_id == "call_2"]
    task = await ends(second, waiting.id)

    assert states == {"call_1": "failed", "call_2": "pending"}
    assert (task.status, twice.ran) == ("completed", ["call_2"])
    calls = {call["toolCallId"]: call["state"] for call in await calls_of(second)}
    assert calls == {"call_1": "output-error", "call_2": "result"}


async def test_closing_lets_go_of_what_may_be_repeated(open_app: OpenApp, shared: Any) -> None:
    """It stays running, without a lease, for whoever recovers it."""
    desk = Desk(CALL, [text("started")], max_retries=1)
    first = await open_app(desk.agent)
    await (await desk.agent.stream("go", **THREAD)).wait()
    await desk.gates.reached("end")
    await first.aclose()
    (left,) = (await shared.storage.background_tasks.list_tasks()).tasks

    again = Desk(max_retries=1)
    again.gates.open("end")
    second = await open_app(again.agent)
    task = await ends(second, left.id)

    assert left.status == "running"
    assert (task.status, task.retry_count, again.ran) == ("completed", 1, ["call_1"])


async def test_an_application_may_be_opened_again(shared: Any) -> None:
    """The manager is made when the store is there, each time anew (R127)."""
    desk = Desk(CALL, [text("started")], CALL, [text("started")])
    desk.gates.open("end")
    app = Mastra(
        storage=shared.storage,
        pubsub=shared.pubsub,
        lease=shared.lease,
        agents=[desk.agent],
        settings=Settings(),
        notifications={"enabled": False},
        background_tasks=True,
    )
    assert app.background_tasks is None
    for number in (1, 2):
        async with app:
            output = await desk.agent.stream("go", thread_id=f"t{number}", resource_id="u1")
            await output.wait()
            (task,) = (await manager_of(app).list_tasks(thread_id=f"t{number}")).tasks
            assert (await ends(app, task.id)).status == "completed"
    assert app.background_tasks is None


async def test_two_answers_to_one_suspended_task_are_one(open_app: OpenApp) -> None:
    """The slower one is refused, and takes nothing from the faster one."""
    gates = Gates()
    ran: list[Any] = []

    async def body(args: Any, context: ToolContext) -> Any:
        if not context.is_resumed:
            await context.suspend("which?")
            return None
        ran.append(context.resume_data)
        await gates.wait("end")
        return context.resume_data

    tool = FunctionTool(id="research", execute=body, background=True)
    agent = Agent(id="helper", model=ScriptedModel([CALL, [text("ok")]]), tools=[tool])
    app = await open_app(agent)
    await (await agent.stream("go", **THREAD)).wait()
    manager = manager_of(app)
    (task,) = (await manager.list_tasks()).tasks
    await manager.wait_for_end([task.id], limit_ms=10_000)

    answers = await asyncio.gather(
        manager.resume(task.id, "green"), manager.resume(task.id, "black"), return_exceptions=True
    )
    await gates.reached("end")
    owner = await app.lease.get_lease_owner(lease_key(task.id))
    gates.open("end")
    ended = await ends(app, task.id)

    assert [isinstance(answer, TaskError) for answer in answers].count(True) == 1
    assert ran == [ended.result]
    assert owner is not None
