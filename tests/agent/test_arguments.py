"""What comes from outside without types is refused by name, before anything is done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mastra_core import Agent, Mastra
from mastra_core.errors import (
    ConfigError,
    InvalidSignalError,
    MastraError,
    RunArgumentError,
    StorageArgumentError,
)
from mastra_core.testing.scripted_model import ScriptedModel, text

pytestmark = pytest.mark.anyio

MakeAgent = Callable[..., Agent]
THREAD: Any = {"thread_id": "t1", "resource_id": "u1"}
NO_IDS: list[Any] = ["", 5, True, b"x", ["t1"]]


async def stored(agent: Agent) -> int:
    """How much the agent's store holds."""
    assert agent.memory is not None
    threads = await agent.memory.store.list_threads()
    records = await agent.host.storage.notifications.list_notifications("t1")
    return threads.total + len(records)


def model_of(agent: Agent) -> ScriptedModel:
    model = agent.resolve_models(None)[0]
    assert isinstance(model, ScriptedModel)
    return model


# -- options -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "option",
    [
        {"run_id": ""},
        {"thread_id": 5},
        {"thread_id": ""},
        {"resource_id": ["u1"]},
        {"thread_title": 5},
        {"thread_metadata": 5},
        {"instructions": 5},
        {"system": [5]},
        {"model_settings": 5},
        {"model_settings": {"timeout": {"totalMs": 10**400}}},
        {"provider_options": "fast"},
        {"stop_when": 5},
        {"active_tools": 5},
        {"active_tools": "echo"},
        {"tool_choice": "bogus"},
        {"tool_choice": {"type": "tool"}},
        {"tool_call_concurrency": None},
        {"request_context": 5},
        {"request_context": None},
        {"abort_signal": 5},
        {"hide_signals": 5},
        {"on_finish": "log"},
    ],
    ids=str,
)
async def test_an_option_of_another_kind_starts_nothing(
    make_agent: MakeAgent, option: dict[str, Any]
) -> None:
    """The option is named; neither the model nor the store is asked."""
    agent = make_agent([text("never")])

    with pytest.raises(RunArgumentError) as raised:
        await agent.stream("hi", **{**THREAD, **option})

    assert ("AGENT_INVALID_OPTION", 400) == (raised.value.id, raised.value.http_status)
    assert str(raised.value).startswith(next(iter(option)))
    assert ([], 0) == (model_of(agent).requests, await stored(agent))


@pytest.mark.parametrize(
    "option",
    [
        {"tools": [5]},
        {"tools": "abc"},
        {"tools": {"echo": print}},
        {"model": 5},
        {"model": ["provider/name", None]},
        {"input_processors": [5]},
        {"input_processors": 5},
        {"output_processors": [("name", "options")]},
    ],
    ids=str,
)
async def test_what_is_no_tool_model_or_processor_starts_nothing(
    make_agent: MakeAgent, option: dict[str, Any]
) -> None:
    """Neither for one call nor for all calls of an agent."""
    agent = make_agent([text("never")])

    with pytest.raises(ConfigError):
        await agent.stream("hi", **THREAD, **option)
    with pytest.raises(ConfigError):
        Agent(**{"id": "other", **option})

    assert ([], 0) == (model_of(agent).requests, await stored(agent))


@pytest.mark.parametrize(
    "wrong",
    [
        *({"id": 5}, {"id": True}, {"id": b"x"}, {"id": ""}, {"instructions": 5}),
        *({"memory": {"last_messages": 2}}, {"memory": "all"}, {"memory": 1}),
    ],
    ids=str,
)
async def test_an_agent_of_nothing_is_not_made(wrong: dict[str, Any]) -> None:
    """Its id names rows of a store."""
    with pytest.raises(ConfigError):
        Agent(**{"id": "helper", **wrong})


async def test_right_options_of_every_kind_are_taken(make_agent: MakeAgent) -> None:
    """None says "not given" where that has a meaning."""
    agent = make_agent([text("hello")])

    full = await agent.generate(
        "hi",
        **THREAD,
        run_id="r1",
        tools=None,
        model=None,
        tool_choice={"type": "tool", "toolName": "echo"},
        system=["be brief"],
        stop_when=lambda _steps: True,
        hide_signals=["state"],
        input_processors=(),
    )

    assert "hello" == full["text"]


# -- ids and targets ---------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", NO_IDS, ids=repr)
async def test_what_is_no_id_is_refused_at_every_door(make_agent: MakeAgent, wrong: Any) -> None:
    """Ids come from requests."""
    agent = make_agent()
    asynchronous: list[Callable[[], Any]] = [
        lambda: agent.approve_tool_call(wrong),
        lambda: agent.approve_tool_call("r1", wrong),
        lambda: agent.decline_tool_call(wrong),
        lambda: agent.resume_stream({}, run_id=wrong),
        lambda: agent.resume_stream({}, run_id="r1", resource_id=wrong),
        lambda: agent.cancel_run(wrong),
        lambda: agent.list_suspended_runs(thread_id=wrong),
        lambda: agent.send_tool_approval(thread_id=wrong, resource_id="u1"),
    ]
    direct: list[Callable[[], Any]] = [
        lambda: agent.subscribe_to_thread(thread_id=wrong),
        lambda: agent.abort_thread_stream(thread_id="t1", resource_id=wrong),
        lambda: agent.get_active_thread_run_id(thread_id=wrong),
    ]

    for call in asynchronous:
        with pytest.raises(RunArgumentError):
            await call()
    for call in direct:
        with pytest.raises(RunArgumentError):
            call()


@pytest.mark.parametrize("wrong", NO_IDS, ids=repr)
async def test_input_for_no_thread_is_refused(make_agent: MakeAgent, wrong: Any) -> None:
    """Nothing is queued or stored."""
    agent = make_agent()

    for member in THREAD:
        target: Any = {**THREAD, member: wrong}
        with pytest.raises(MastraError):
            agent.send_message("hi", **target)
        with pytest.raises(MastraError):
            await agent.send_notification_signal(
                {"source": "s", "kind": "k", "summary": "x"}, **target
            )

    assert 0 == await stored(agent)


async def test_an_approval_names_its_thread(make_agent: MakeAgent) -> None:
    """Without one, any parked run of the agent would be answered."""
    with pytest.raises(RunArgumentError):
        await make_agent().send_tool_approval(thread_id=None, resource_id="u1")  # type: ignore[arg-type]


async def test_data_goes_to_one_call_or_to_all(make_agent: MakeAgent) -> None:
    """A misspelled target must not be taken for one."""
    with pytest.raises(RunArgumentError) as raised:
        await make_agent().resume_stream({}, run_id="r1", target="some")  # type: ignore[arg-type]

    assert "target" == raised.value.details["argument"]


@pytest.mark.parametrize(
    ("branch", "expected"),
    [
        ({"if_idle": 5}, RunArgumentError),
        ({"if_active": "deliver"}, RunArgumentError),
        ({"if_idle": {"behavior": "deliver"}}, RunArgumentError),
        ({"if_idle": {"behaviour": "wake"}}, RunArgumentError),
        ({"if_idle": {"stream_options": 5}}, RunArgumentError),
        ({"if_idle": {"stream_options": {"max_steps": 0}}}, RunArgumentError),
        ({"if_idle": {"stream_options": {"bogus": 1}}}, RunArgumentError),
        ({"if_idle": {"attributes": {"a b": 1}}}, InvalidSignalError),
        ({"if_active": {"attributes": {"1st": None}}}, InvalidSignalError),
        ({"if_active": {"attributes": 5}}, InvalidSignalError),
    ],
    ids=str,
)
async def test_a_wrong_branch_is_refused_when_it_is_sent(
    make_agent: MakeAgent, branch: Any, expected: type[MastraError]
) -> None:
    """Not when the thread takes the branch, perhaps much later."""
    agent = make_agent([text("never")])

    with pytest.raises(expected):
        agent.send_message("hi", **THREAD, **branch)
    with pytest.raises(expected):
        await agent.send_notification_signal(
            {"source": "s", "kind": "k", "summary": "x"}, **THREAD, **branch
        )

    assert ([], 0) == (model_of(agent).requests, await stored(agent))


@pytest.mark.parametrize("wrong", [None, 5, "hi", ["hi"]], ids=repr)
async def test_a_signal_is_a_mapping(make_agent: MakeAgent, wrong: Any) -> None:
    """Whatever else was sent is named."""
    with pytest.raises(InvalidSignalError):
        make_agent().send_signal(wrong, **THREAD)


@pytest.mark.parametrize("member", ["id", "metadata", "attributes", "providerOptions", "tagName"])
async def test_a_signal_has_members_of_their_kinds(make_agent: MakeAgent, member: str) -> None:
    """The member is named, also where a checker of types found it."""
    with pytest.raises(InvalidSignalError):
        make_agent().send_signal({"type": "user", "contents": "hi", member: 5}, **THREAD)


# -- the inbox ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong", [None, 5, "text", b"x", [None], [[]], [{"source": "s"}, "text"]], ids=repr
)
async def test_a_notification_that_is_no_mapping_is_refused(wrong: Any) -> None:
    """All of the call is checked before the first event is stored."""
    agent = Agent(id="helper", model=ScriptedModel([]))
    event = {"source": "s", "kind": "k", "summary": "x", "priority": "low"}
    given = [event, *wrong] if isinstance(wrong, list) else wrong
    async with Mastra(storage="memory:", agents=[agent]) as application:
        with pytest.raises(InvalidSignalError) as raised:
            await agent.send_notification_signal(given, **THREAD)

        assert 400 == raised.value.http_status
        assert [] == await application.storage.notifications.list_notifications("t1")


@pytest.mark.parametrize("limit", [True, "1", 0, -1, 1.5], ids=repr)
async def test_a_dispatch_is_limited_by_a_whole_number(limit: Any) -> None:
    """True isn't one."""
    async with Mastra(storage="memory:") as application:
        with pytest.raises(StorageArgumentError):
            await application.dispatch_due_notifications(limit=limit)
