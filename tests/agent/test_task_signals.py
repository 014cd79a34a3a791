"""The task list that an agent keeps in its thread (signals.md 15)."""

from __future__ import annotations

from typing import Any

import pytest

from mastra_core import Agent, Mastra, TaskSignals
from mastra_core.agent.task_list import NewTask, Task, applied, changes, numbered
from mastra_core.testing.scripted_model import ScriptedModel, text, tool_call

pytestmark = pytest.mark.anyio

T = {"thread_id": "t", "resource_id": "r"}


def task(content: str, status: str = "pending", **members: Any) -> dict[str, Any]:
    return {"content": content, "status": status, "activeForm": f"{content}…", **members}


async def ran(*calls: Any, store: Any = "memory:", **options: Any) -> tuple[Any, Any]:
    """One run of an agent with a task list; its tool results and its model."""
    model = ScriptedModel([*([call] for call in calls), [text("done")]])
    agent = Agent(id="a", model=model, signals=[TaskSignals()])
    async with Mastra(storage=store, agents=[agent]):
        output = await agent.stream("go", **{**T, **options})
        results = [one["payload"]["result"] for one in await output.tool_results]
    return results, model


async def test_the_list_is_written_changed_and_checked() -> None:
    """By ids that stay; at most one task goes on."""
    results, _ = await ran(
        tool_call("task_write", {"tasks": [task("Fix the login", "in_progress"), task("Test")]}),
        tool_call("task_update", {"id": "task_test", "status": "in_progress"}),
        tool_call("task_complete", {"id": "task_fix_the_login"}),
        tool_call("task_check", {}),
    )

    written, updated, completed, checked = results
    statuses = [[one["status"] for one in result["tasks"]] for result in results]
    assert ["task_fix_the_login", "task_test"] == [one["id"] for one in written["tasks"]]
    assert [
        ["in_progress", "pending"],
        ["pending", "in_progress"],
        ["completed", "in_progress"],
        ["completed", "in_progress"],
    ] == statuses
    assert not any(result["isError"] for result in results)
    assert "Test" == updated["tasks"][1]["content"]
    assert "1 of 2" in completed["content"]
    assert {"total": 2, "completed": 1, "inProgress": 1, "pending": 0, "incomplete": 1} == {
        name: number for name, number in checked["summary"].items() if not isinstance(number, bool)
    }
    assert (True, False) == (checked["summary"]["hasTasks"], checked["summary"]["allCompleted"])
    assert ["task_test"] == [one["id"] for one in checked["incompleteTasks"]]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (tool_call("task_complete", {"id": "nobody"}), "task_one"),
        (tool_call("task_update", {"id": "task_one"}), "say what"),
        (
            tool_call(
                "task_write", {"tasks": [task("a", "in_progress"), task("b", "in_progress")]}
            ),
            "at most one",
        ),
    ],
)
async def test_what_cannot_be_changes_nothing(call: Any, words: str) -> None:
    """The answer says why, and what the list is."""
    results, _ = await ran(tool_call("task_write", {"tasks": [task("one")]}), call)

    assert results[1]["isError"]
    assert words in results[1]["content"]
    assert results[0]["tasks"] == results[1]["tasks"]


async def test_the_model_is_told_all_of_it_and_then_what_changed() -> None:
    """Once each; another run on the thread knows it, too."""
    model = ScriptedModel(
        [
            [tool_call("task_write", {"tasks": [task("one"), task("two")]})],
            [tool_call("task_complete", {"id": "task_one"})],
            [text("done")],
            [text("still")],
        ]
    )
    agent = Agent(id="a", model=model, signals=[TaskSignals()])
    async with Mastra(storage="memory:", agents=[agent]) as mastra:
        for words in ("go", "and now?"):
            await agent.generate(words, **T)
        thread = await mastra.storage.memory.get_thread_by_id("t")
        stored = await mastra.storage.thread_state.get_state("t", "task")

    prompts = [str(request.prompt) for request in model.requests]
    counts = [(p.count("<current-task-list "), p.count("<task-list-update ")) for p in prompts]
    assert [(0, 0), (1, 0), (1, 1), (1, 1)] == counts
    assert "<current-task-list>" in prompts[0]
    assert "✓ [completed] {id: task_one} one" in prompts[2]
    assert thread is not None
    assert "tasks" in thread.metadata["mastra"]["stateSignals"]
    assert ["completed", "pending"] == [one["status"] for one in stored]


async def test_calls_of_one_step_do_not_undo_each_other() -> None:
    """They run at the same time; each change is there afterwards."""
    written = tool_call("task_write", {"tasks": [task("one"), task("two"), task("three")]})
    both = [
        tool_call("task_complete", {"id": f"task_{name}"}, id=name)
        for name in ("one", "two", "three")
    ]
    model = ScriptedModel([[written], both, [tool_call("task_check", {})], [text("done")]])
    agent = Agent(id="a", model=model, signals=[TaskSignals()])
    async with Mastra(storage="memory:", agents=[agent]):
        output = await agent.stream("go", **T)
        results = [one["payload"]["result"] for one in await output.tool_results]

    assert results[-1]["summary"]["allCompleted"]


async def test_without_a_thread_there_is_no_list() -> None:
    """The tools say so, and the run goes on."""
    results, model = await ran(
        tool_call("task_write", {"tasks": [task("one")]}),
        tool_call("task_check", {}),
        thread_id=None,
        resource_id=None,
    )

    assert [True, True] == [result["isError"] for result in results]
    assert not results[1]["summary"]["hasTasks"]
    assert "current-task-list count" not in str(model.requests[-1].prompt)


async def test_a_list_that_node_wrote_is_read() -> None:
    """The same type of thread state, the same members."""
    model = ScriptedModel([[tool_call("task_check", {})], [text("done")]])
    agent = Agent(id="a", model=model, signals=[TaskSignals()])
    async with Mastra(storage="memory:", agents=[agent]) as mastra:
        await mastra.storage.thread_state.set_state(
            "t", "task", [task("Deploy", "in_progress", id="task_deploy"), "no task", {"id": 1}]
        )
        output = await agent.stream("go", **T)
        [result] = [one["payload"]["result"] for one in await output.tool_results]

    assert ["task_deploy"] == [one["id"] for one in result["tasks"]]
    assert "▸ [in_progress] {id: task_deploy} Deploy" in str(model.requests[0].prompt)


def test_ids_are_kept_or_made() -> None:
    """Of what was given, of the one before that said the same, or of the words."""
    before = [
        Task(id="x", content="same", active_form="…"),
        Task(id="y", content="b", active_form="…"),
    ]
    given = [
        NewTask(id="mine", content="a", active_form="…"),
        NewTask(id="mine", content="a", active_form="…"),
        NewTask(content="same", active_form="…"),
        NewTask(content="b", active_form="…"),
        NewTask(content="b", active_form="…"),
        NewTask(content="…!", active_form="…"),
    ]

    assert ["mine", "task_a", "x", "task_b", "task_b_2", "task_item"] == [
        one.id for one in numbered(given, before)
    ]


def test_changes_lead_from_one_list_to_the_other() -> None:
    """Those that can't be read change nothing."""
    before = [Task(id=name, content=name, active_form="…") for name in ("a", "b")]
    now = [
        Task(id="b", content="b", active_form="…", status="completed"),
        Task(id="c", content="c", active_form="…"),
    ]

    ops = changes(before, now)

    assert ["update", "add", "remove"] == [op["op"] for op in ops]
    assert now == applied(before, ops)
    assert before == applied(before, [{"op": "add"}, 7, {"op": "add", "task": {"id": 1}}])
    assert before == applied(before, None)
