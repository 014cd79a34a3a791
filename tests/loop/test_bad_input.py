"""Whatever models, tools, processors and readers do: a run ends, and says so exactly once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Any, Final

import pytest
from pydantic import BaseModel, field_validator

from mastra_core import Agent, ToolContext, tool
from mastra_core.agent.tools import FunctionTool
from mastra_core.base.tasks import call_maybe_async
from mastra_core.contracts.model import ModelPart, ModelRequest
from mastra_core.errors import (
    ClosedError,
    ModelError,
    ModelTimeoutError,
    ProcessorError,
    RunArgumentError,
    RunError,
    RunTimeoutError,
    StructuredOutputError,
)
from mastra_core.processors.arguments import ProcessorArgs
from mastra_core.testing.scripted_model import Gates, ScriptedModel, text, tool_call

MakeAgent = Callable[..., Agent]
pytestmark = pytest.mark.anyio

#: How long a run that must end may take on a busy machine.
PATIENCE: Final = 30
SCOPE = {"thread_id": "t", "resource_id": "r"}
#: Chunks that end a run; what follows an ``error`` of a model still belongs to it.
ENDS: Final = ("finish", "tripwire")


async def chunks_of(output: Any) -> list[dict[str, Any]]:
    async with asyncio.timeout(PATIENCE):
        return [chunk async for chunk in output.full_stream]


def end_of(chunks: list[dict[str, Any]]) -> str:
    """The type of the one chunk with which the stream ends."""
    kinds = [chunk["type"] for chunk in chunks]
    ends = [kind for kind in kinds if kind in ENDS]
    last: str = kinds[-1]
    if not ends:
        # A processor failed: nothing that it was to judge is said any more.
        assert (1, "error") == (kinds.count("error"), last)
        return last
    assert [last] == ends
    assert kinds.count("error") <= 1
    assert kinds.count("start") <= 1
    return last


@dataclass(kw_only=True)
class Odd:
    """One way to misbehave, and what comes of it."""

    agent: Callable[[], dict[str, Any]]
    options: dict[str, Any] = field(default_factory=dict)
    end: str = "finish"
    reason: str = "stop"
    error: type[Exception] | None = None
    says: str | None = "done"


def model(*calls: Any) -> dict[str, Any]:
    return {"model": ScriptedModel([*calls, [text("done")]])}


class Endless:
    """Says more and more, or nothing at all, for ever."""

    provider = "mock"
    model_id = "endless"
    specification = "v2"

    def __init__(self, *, is_silent: bool = False) -> None:
        self._is_silent = is_silent
        self.has_ended = False

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelPart]:
        try:
            yield {"type": "text-start", "id": "1"}
            while True:
                yield {"type": "text-delta", "id": "1", "delta": "more "}
                await asyncio.sleep(3600 if self._is_silent else 0)
        finally:
            self.has_ended = True


class Says:
    """Yields what it was given, whatever that is."""

    provider = "mock"
    model_id = "odd"
    specification = "v2"

    def __init__(self, *parts: Any) -> None:
        self._parts = parts

    async def stream(self, request: ModelRequest) -> AsyncIterator[Any]:
        for part in self._parts:
            yield part


class Odder(BaseException):
    """No ``Exception``, as nothing that a program means to raise."""


class UnspeakableError(Exception):
    """Doesn't even say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


class Fails(Says):
    """Begins to speak and fails."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[Any]:
        yield {"type": "text-delta", "id": "1", "delta": "half"}
        for part in self._parts:
            raise part


def fails_with(error: BaseException) -> dict[str, Any]:
    @tool
    async def odd() -> None:
        """Fail."""
        raise error

    return {**model([tool_call("odd", {})]), "tools": [odd]}


class Unreadable(FunctionTool):
    """Its schema fails instead of saying what is wrong."""

    def parse_input(self, value: Any) -> Any:
        raise RuntimeError("broken schema")


async def never(args: Any, context: ToolContext) -> str:
    return "never"


@tool
async def look(what: str) -> str:
    """Look."""
    return what


@tool
async def break_down() -> None:
    """Break."""
    raise RuntimeError("broken")


@tool
async def hang() -> None:
    """Hang."""
    await asyncio.Event().wait()


@tool
async def opaque() -> Any:
    """Return what JSON can't hold."""
    return object()


LIMIT = {"model_settings": {"timeout": {"totalMs": 60}}}

MODELS = {
    "malformed arguments": Odd(
        agent=lambda: {
            **model([{"type": "tool-call", "toolCallId": "c", "toolName": "look", "input": "{x"}]),
            "tools": [look],
        }
    ),
    "arguments that are no object": Odd(
        agent=lambda: {
            **model([{"type": "tool-call", "toolCallId": "c", "toolName": "look", "input": "7"}]),
            "tools": [look],
        }
    ),
    "an unknown tool": Odd(agent=lambda: model([tool_call("nosuch", {})])),
    "nothing at all": Odd(
        agent=lambda: {"model": Says()}, reason="error", error=ModelError, says=None
    ),
    "an end without an answer": Odd(
        agent=lambda: {"model": Says({"type": "finish", "finishReason": "other", "usage": {}})},
        reason="error",
        error=ModelError,
        says=None,
    ),
    "an end with an error": Odd(
        agent=lambda: {"model": Says({"type": "finish", "finishReason": "error", "usage": {}})},
        reason="error",
        error=ModelError,
        says=None,
    ),
    "no end after an answer": Odd(
        agent=lambda: {"model": ScriptedModel([[text("done"), {"type": "cut"}], [text("!")]])},
        options={"max_steps": 1},
        reason="unknown",
    ),
    "an error in mid-stream": Odd(
        agent=lambda: model([text("half"), {"type": "error", "message": "gone"}]),
        reason="error",
        error=ModelError,
        says=None,
    ),
    "an exception at once": Odd(
        agent=lambda: model([{"type": "throw", "message": "gone"}]),
        reason="error",
        error=ModelError,
        says=None,
    ),
    "parts that are none": Odd(
        agent=lambda: {"model": Says("text", None)}, reason="error", error=ModelError, says=None
    ),
    "a chunk of the run": Odd(
        agent=lambda: {"model": Says({"type": "finish-step"}, {"type": "abort"})},
        reason="error",
        error=ModelError,
        says=None,
    ),
    "usage that can't be counted": Odd(
        agent=lambda: {
            "model": Says(
                {"type": "text-delta", "id": "1", "delta": "done"},
                {"type": "finish", "finishReason": "stop", "usage": {"inputTokens": "many"}},
            )
        }
    ),
    "an error that isn't one of a program": Odd(
        agent=lambda: {"model": Fails(Odder("odd"))}, reason="error", error=ModelError, says=None
    ),
    "several errors at once": Odd(
        agent=lambda: {"model": Fails(BaseExceptionGroup("all", [Odder(), ValueError()]))},
        reason="error",
        error=ModelError,
        says=None,
    ),
    "an error that can't be told": Odd(
        agent=lambda: {"model": Fails(UnspeakableError())},
        reason="error",
        error=ModelError,
        says=None,
    ),
    "no end": Odd(
        agent=lambda: {"model": Endless()},
        options=LIMIT,
        reason="error",
        error=RunTimeoutError,
        says=None,
    ),
    "silence after the first word": Odd(
        agent=lambda: {"model": Endless(is_silent=True)},
        options={"model_settings": {"timeout": {"stepMs": 60}}},
        reason="error",
        error=ModelTimeoutError,
        says=None,
    ),
}
TOOLS = {
    "raises": Odd(agent=lambda: {**model([tool_call("break_down", {})]), "tools": [break_down]}),
    "raises what is no error of a program": Odd(agent=lambda: fails_with(Odder("odd"))),
    "raises several errors at once": Odd(
        agent=lambda: fails_with(BaseExceptionGroup("all", [Odder(), ValueError()]))
    ),
    "raises what can't be told": Odd(agent=lambda: fails_with(UnspeakableError())),
    "fails at its arguments": Odd(
        agent=lambda: {
            **model([tool_call("odd", {})]),
            "tools": [Unreadable(id="odd", execute=never)],
        }
    ),
    "returns what JSON can't hold": Odd(
        agent=lambda: {**model([tool_call("opaque", {})]), "tools": [opaque]}
    ),
    "hangs": Odd(
        agent=lambda: {**model([tool_call("hang", {})]), "tools": [hang]},
        options=LIMIT,
        reason="error",
        error=RunTimeoutError,
        says=None,
    ),
}


@pytest.mark.parametrize("odd", [*MODELS.values(), *TOOLS.values()], ids=[*MODELS, *TOOLS])
async def test_a_run_ends_once_whatever_model_and_tools_do(make_agent: MakeAgent, odd: Odd) -> None:
    agent = make_agent(**odd.agent())

    output = await agent.stream("go", **SCOPE, **odd.options)
    chunks = await chunks_of(output)

    assert odd.end == end_of(chunks)
    assert odd.reason == await output.finish_reason
    error = await output.error
    assert (error is None) is (odd.error is None)
    if odd.error is not None:
        assert isinstance(error, odd.error)
        with pytest.raises(odd.error):
            await output.get_full_output()
    if odd.says is not None:
        assert odd.says == await output.text
    # The thread is free again, and knows what happened.
    assert agent.get_active_thread_run_id(**SCOPE) is None


async def test_nobody_takes_a_failure_for_an_answer(make_agent: MakeAgent) -> None:
    """Whoever waits without having looked at the chunks gets the error (decisions.md 7)."""
    agent = make_agent(**MODELS["an error in mid-stream"].agent())
    output = await agent.stream("go")

    with pytest.raises(ModelError, match="gone"):
        await output.text
    agent = make_agent(**model([{"type": "throw", "message": "gone"}]))
    with pytest.raises(ModelError, match="gone"):
        await agent.generate("go")


async def test_an_answer_without_end_is_closed(make_agent: MakeAgent) -> None:
    endless = Endless()
    agent = make_agent(model=endless)
    output = await agent.stream("go")
    async with aclosing(output.full_stream) as stream:  # type: ignore[type-var]
        async for chunk in stream:
            if chunk["type"] == "text-delta":
                break
    output.abort()
    chunks = await chunks_of(output)

    assert ("finish", True) == (end_of(chunks), endless.has_ended)
    assert "aborted" == await output.finish_reason


# -- tools ----------------------------------------------------------------------------------------


async def test_what_a_tool_writes_after_its_end_is_dropped(
    make_agent: MakeAgent, caplog: pytest.LogCaptureFixture
) -> None:
    late: list[Any] = []

    @tool
    async def look(context: ToolContext) -> str:
        """Look."""
        late.append(context.writer)
        return "seen"

    agent = make_agent(**model([tool_call("look", {})]), tools=[look])
    output = await agent.stream("go")
    chunks = await chunks_of(output)
    with caplog.at_level(logging.WARNING):
        await late[0].write("too late")
        await late[0].custom({"type": "data-late", "data": 1})

    assert chunks == await chunks_of(output)
    assert 2 == [record.message for record in caplog.records].count("write after the tool settled")


async def test_a_tool_can_not_end_the_run_by_a_chunk(make_agent: MakeAgent) -> None:
    @tool
    async def look(context: ToolContext) -> str:
        """Look."""
        await context.writer.custom({"type": "finish", "payload": {}})
        return "never"

    agent = make_agent(**model([tool_call("look", {})]), tools=[look])
    output = await agent.stream("go")

    assert "finish" == end_of(await chunks_of(output))
    assert ("done", []) == (await output.text, await output.tool_results)


async def test_a_hanging_tool_is_stopped_by_an_abort(make_agent: MakeAgent) -> None:
    entered = asyncio.Event()

    @tool
    async def hang() -> None:
        """Hang."""
        entered.set()
        await asyncio.Event().wait()

    agent = make_agent(**model([tool_call("hang", {})]), tools=[hang])
    output = await agent.stream("go", **SCOPE)
    async with asyncio.timeout(PATIENCE):
        await entered.wait()
    output.abort()

    assert "finish" == end_of(await chunks_of(output))
    assert ("aborted", "canceled") == (await output.finish_reason, output.status)


async def test_a_tool_that_takes_no_notice_of_an_abort_has_no_result(
    make_agent: MakeAgent,
) -> None:
    """Its call stays open, in the stream as in the thread (streaming.md 2.4)."""
    entered = asyncio.Event()

    @tool
    async def stubborn() -> str:
        """Go on."""
        entered.set()
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return "done anyway"

    asked = model([tool_call("stubborn", {})])
    agent = make_agent(**asked, tools=[stubborn])
    output = await agent.stream("go", **SCOPE)
    async with asyncio.timeout(PATIENCE):
        await entered.wait()
    output.abort()
    chunks = await chunks_of(output)

    assert "finish" == end_of(chunks)
    assert {"tool-result", "step-finish"}.isdisjoint(chunk["type"] for chunk in chunks)
    assert 1 == len(asked["model"].requests)
    assert "aborted" == await output.finish_reason


async def test_a_model_that_takes_no_notice_of_an_abort_is_not_read_on(
    make_agent: MakeAgent,
) -> None:
    entered = asyncio.Event()

    class Stubborn(Says):
        async def stream(self, request: ModelRequest) -> AsyncIterator[Any]:
            yield {"type": "text-delta", "id": "1", "delta": "one"}
            entered.set()
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
            while True:
                yield {"type": "text-delta", "id": "1", "delta": "more"}

    agent = make_agent(model=Stubborn())
    output = await agent.stream("go", **SCOPE)
    async with asyncio.timeout(PATIENCE):
        await entered.wait()
    output.abort()

    assert "finish" == end_of(await chunks_of(output))
    assert ("aborted", "one") == (await output.finish_reason, await output.text)


@pytest.mark.parametrize("ends", ["abort", "limit"])
async def test_calls_that_had_ended_keep_their_results(
    make_agent: MakeAgent, stored: Callable[[Agent], Any], ends: str
) -> None:
    """What was done and shown is in the thread, whatever stopped the others."""

    @tool
    async def hang() -> None:
        """Hang."""
        await asyncio.Event().wait()

    calls = [tool_call("look", {"what": "sky"}, id="a"), tool_call("hang", {}, id="b")]
    agent = make_agent(**model(calls), tools=[look, hang])
    limit = {"model_settings": {"timeout": {"totalMs": 500}}} if ends == "limit" else {}
    output = await agent.stream("go", **SCOPE, **limit)
    async for chunk in output.full_stream:
        if ends == "abort" and chunk["type"] == "tool-result":
            output.abort()

    answer = (await stored(agent))[-1]
    calls = [part["toolInvocation"] for part in answer.content["parts"] if "toolInvocation" in part]
    assert [("result", "sky"), ("call", None)] == [
        (call["state"], call.get("result")) for call in calls
    ]


# -- processors -----------------------------------------------------------------------------------


class Raises:
    id = "raises"

    def __init__(self, hook: str) -> None:
        setattr(self, hook, self._fail)

    async def _fail(self, args: ProcessorArgs) -> Any:
        raise RuntimeError("broken processor")


class Blocks(Raises):
    id = "blocks"

    async def _fail(self, args: ProcessorArgs) -> Any:
        await asyncio.Event().wait()


class ReturnsJunk(Raises):
    id = "junk"

    async def _fail(self, args: ProcessorArgs) -> Any:
        return 7


class RaisesOddly(Raises):
    id = "odd"

    async def _fail(self, args: ProcessorArgs) -> Any:
        raise Odder("odd")


class Returns(Raises):
    """Returns what it was given, whatever that is."""

    id = "returns"

    def __init__(self, hook: str, value: Any) -> None:
        super().__init__(hook)
        self._value = value

    async def _fail(self, args: ProcessorArgs) -> Any:
        return await call_maybe_async(self._value, args) if callable(self._value) else self._value


class Aborts(Raises):
    id = "aborts"

    async def _fail(self, args: ProcessorArgs) -> Any:
        args.abort("no")


INPUT_HOOKS: Final = (
    *("process_input", "process_input_step"),
    *("process_llm_request", "process_llm_response"),
)
OUTPUT_HOOKS: Final = ("process_output_step", "process_output_result")


def guarded_by(odd: type[Raises], hook: str) -> dict[str, Any]:
    kind = "input_processors" if hook in INPUT_HOOKS else "output_processors"
    return {**model(), kind: [odd(hook)]}


@pytest.mark.parametrize(
    ("odd", "hook"),
    [
        (odd, hook)
        for odd in (Raises, Blocks, ReturnsJunk, RaisesOddly)
        for hook in (*INPUT_HOOKS, *OUTPUT_HOOKS)
        # Nobody asks for what this one returns.
        if (odd, hook) != (ReturnsJunk, "process_llm_response")
    ],
)
async def test_a_processor_that_fails_ends_the_run_once(
    make_agent: MakeAgent, odd: type[Raises], hook: str
) -> None:
    agent = make_agent(**guarded_by(odd, hook), processor_timeout_ms=100)

    output = await agent.stream("go", **SCOPE)
    chunks = await chunks_of(output)

    assert "error" == end_of(chunks)
    assert "error" == await output.finish_reason
    error = await output.error
    assert isinstance(error, ProcessorError)
    assert odd.id in str(error)


@pytest.mark.parametrize("hook", [*INPUT_HOOKS, "process_output_stream", *OUTPUT_HOOKS])
async def test_a_processor_that_refuses_ends_the_run_once(make_agent: MakeAgent, hook: str) -> None:
    agent = make_agent(**guarded_by(Aborts, hook))

    output = await agent.stream("go", **SCOPE)
    end = end_of(await chunks_of(output))

    assert "finish" == end if hook == "process_output_result" else "tripwire" == end
    assert "tripwire" == output.status


@pytest.mark.parametrize("hook", [*INPUT_HOOKS, *OUTPUT_HOOKS, "process_api_error"])
async def test_an_abort_ends_a_processor_that_blocks(make_agent: MakeAgent, hook: str) -> None:
    entered = asyncio.Event()

    async def block(args: ProcessorArgs) -> None:
        entered.set()
        await asyncio.Event().wait()

    guarded: dict[str, Any] = guarded_by(Raises, hook)
    if hook == "process_api_error":
        guarded = {
            "model": ScriptedModel([[{"type": "throw", "message": "gone"}]]),
            "error_processors": guarded["output_processors"],
        }
    for processors in (value for name, value in guarded.items() if name.endswith("processors")):
        setattr(processors[0], hook, block)
    agent = make_agent(**guarded)
    output = await agent.stream("go", **SCOPE)
    async with asyncio.timeout(PATIENCE):
        await entered.wait()
    output.abort()

    assert "finish" == end_of(await chunks_of(output))
    assert ("aborted", "canceled") == (await output.finish_reason, output.status)
    assert agent.get_active_thread_run_id(**SCOPE) is None


@pytest.mark.parametrize("callback", ["on_chunk", "on_step_finish", "on_iteration_complete"])
async def test_an_abort_ends_a_callback_that_blocks(make_agent: MakeAgent, callback: str) -> None:
    entered = asyncio.Event()

    async def block(facts: Any) -> None:
        if not entered.is_set():
            entered.set()
            await asyncio.Event().wait()

    agent = make_agent(**model())
    output = await agent.stream("go", **SCOPE, **{callback: block})
    async with asyncio.timeout(PATIENCE):
        await entered.wait()
    output.abort()

    assert "finish" == end_of(await chunks_of(output))
    assert "aborted" == await output.finish_reason


def touched(args: ProcessorArgs) -> Any:
    assert args.part is not None
    args.part["payload"] = {"text": object()}
    return args.part


def pushed(args: ProcessorArgs) -> Any:
    assert args.push is not None
    args.push({"type": "finish", "payload": {}})
    return args.part


@pytest.mark.parametrize(
    "value",
    [{"type": ""}, {"type": "text-delta"}, {"type": "finish", "payload": {}}, touched, pushed],
    ids=["no type", "no text", "an end", "a chunk that was changed", "an end behind"],
)
async def test_a_chunk_passes_unchanged_if_what_came_of_it_is_none(
    make_agent: MakeAgent, value: Any
) -> None:
    agent = make_agent(**model(), output_processors=[Returns("process_output_stream", value)])
    output = await agent.stream("go", **SCOPE)

    assert "finish" == end_of(await chunks_of(output))
    assert "done" == await output.text
    assert ["done"] == [piece async for piece in output.text_stream]


@pytest.mark.parametrize(
    ("hook", "value"),
    [
        ("process_input_step", {"tools": [7]}),
        ("process_input_step", {"model": 7}),
        ("process_input_step", {"message_id": 7}),
        ("process_input_step", {"active_tools": "look"}),
        ("process_input_step", {"model_settings": 7}),
        ("process_llm_request", {"prompt": 7}),
        ("process_llm_request", {"response": 7}),
        ("process_llm_request", {"response": {"chunks": [7]}}),
        ("process_llm_request", {"response": {"chunks": [{"type": "tripwire", "payload": {}}]}}),
        (
            "process_llm_request",
            {"response": {"chunks": [{"type": "source", "payload": {"x": object()}}]}},
        ),
    ],
)
async def test_what_is_no_step_and_no_answer_is_the_processors_fault(
    make_agent: MakeAgent, hook: str, value: Any
) -> None:
    agent = make_agent(**model(), input_processors=[Returns(hook, value)])
    output = await agent.stream("go", **SCOPE)

    assert "error" == end_of(await chunks_of(output))
    error = await output.error
    assert isinstance(error, ProcessorError)
    assert "returns" in str(error)


async def test_a_run_ends_although_its_transcript_was_broken(make_agent: MakeAgent) -> None:
    """Nothing can be stored then, but nobody waits for ever."""

    def break_up(args: ProcessorArgs) -> None:
        args.message_list.messages.append(7)  # type: ignore[arg-type]  # that's the fault

    agent = make_agent(**model(), input_processors=[Returns("process_input_step", break_up)])
    output = await agent.stream("go", **SCOPE)

    assert "error" == end_of(await chunks_of(output))
    assert isinstance(await output.error, RunError)
    assert agent.get_active_thread_run_id(**SCOPE) is None


async def test_a_processor_writes_chunks_of_its_own_while_its_run_goes_on(
    make_agent: MakeAgent, caplog: pytest.LogCaptureFixture
) -> None:
    kept: list[ProcessorArgs] = []
    refused: list[str] = []

    async def write(args: ProcessorArgs) -> None:
        kept.append(args)
        assert args.write is not None
        for chunk in (None, {}, {"type": "finish"}, {"type": "text-delta"}):
            try:
                await args.write(chunk)  # type: ignore[arg-type]  # some are none
            except ProcessorError as exc:
                refused.append(str(exc))

    agent = make_agent(**model(), input_processors=[Returns("process_input_step", write)])
    output = await agent.stream("go", **SCOPE)
    chunks = await chunks_of(output)
    [args] = kept
    assert args.write is not None
    assert args.send_signal is not None
    await args.write({"type": "data-late", "data": 1})
    with pytest.raises(ClosedError):
        await args.send_signal({"type": "reactive", "contents": "late"})

    assert 4 == len(refused)
    assert chunks == await chunks_of(output)
    assert "a processor wrote after the end of its run" in caplog.messages


# -- structured output ----------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["strict", "fallback"])
async def test_a_type_that_fails_at_an_answer_is_a_misfit(
    make_agent: MakeAgent, strategy: str
) -> None:
    class Judged(BaseModel):
        number: int

        @field_validator("number")
        @classmethod
        def judge(cls, value: int) -> int:
            raise RuntimeError("can't judge")

    wanted: dict[str, Any] = {"schema": Judged, "error_strategy": strategy}
    if strategy == "fallback":
        wanted["fallback_value"] = {"number": 0}
    agent = make_agent(model=ScriptedModel([[text('{"number": 1}')]]))
    output = await agent.stream("go", **SCOPE, structured_output=wanted)

    assert "finish" == end_of(await chunks_of(output))
    if strategy == "strict":
        assert isinstance(await output.error, StructuredOutputError)
    else:
        assert {"number": 0} == await output.object


# -- readers --------------------------------------------------------------------------------------


async def test_readers_that_leave_or_are_cancelled_end_nothing(make_agent: MakeAgent) -> None:
    gates = Gates()
    said = [text("one "), {"type": "gate", "name": "g"}, text("two")]
    agent = make_agent(model=ScriptedModel([said], gates=gates))
    output = await agent.stream("go")

    async def read_on() -> int:
        return len([chunk async for chunk in output.full_stream])

    async for _ in output.full_stream:
        break
    reader = asyncio.create_task(read_on())
    awaiting = asyncio.ensure_future(_text_of(output))
    async with asyncio.timeout(PATIENCE):
        await gates.reached("g")
    for task in (reader, awaiting):
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    gates.open("g")

    assert "finish" == end_of(await chunks_of(output))
    assert "one two" == await output.text


async def _text_of(output: Any) -> Any:
    return await output.text


# -- what is asked --------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [0, -1, 1.5, True])
async def test_no_steps_are_refused_before_anything_is_done(
    make_agent: MakeAgent, steps: Any
) -> None:
    asked = ScriptedModel()
    agent = make_agent(model=asked)

    with pytest.raises(RunArgumentError) as caught:
        await agent.stream("go", max_steps=steps, **SCOPE)

    assert ("AGENT_INVALID_OPTION", []) == (caught.value.id, asked.requests)
    assert agent.get_active_thread_run_id(**SCOPE) is None


@pytest.mark.parametrize("prompt", ["", [], [""], [{"role": "user", "content": []}]])
async def test_an_empty_prompt_is_asked_as_it_is(make_agent: MakeAgent, prompt: Any) -> None:
    """An empty list goes on with what the thread has; the model decides what to say."""
    agent = make_agent(**model(), instructions="Be kind.")

    output = await agent.stream(prompt, **SCOPE)

    assert "finish" == end_of(await chunks_of(output))
    assert "done" == await output.text
