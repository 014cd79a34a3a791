"""What processors may do at each hook (processors.md 2-6, 12)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from mastra_conformance import case
from mastra_core import Agent, Mastra, ToolContext, tool
from mastra_core.errors import ModelError, ProcessorError, ProcessorTimeoutError
from mastra_core.messages.message_list import MessageList
from mastra_core.processors import StepPatch
from mastra_core.testing.scripted_model import ScriptedModel, text, tool_call

pytestmark = pytest.mark.anyio

MakeAgent = Callable[..., Agent]
THREAD = {"thread_id": "t1", "resource_id": "u1"}


@tool
async def echo(words: str) -> dict[str, str]:
    """Say it again."""
    return {"echoed": words}


@tool
async def broken(words: str) -> None:
    """Always fails."""
    raise RuntimeError(f"can't {words}")


def processor(name: str, **hooks: Any) -> Any:
    """A processor with these hooks."""
    return SimpleNamespace(id=name, **hooks)


def model_of(agent: Agent) -> ScriptedModel:
    model = agent.resolve_models(None)[0]
    assert isinstance(model, ScriptedModel)
    return model


def prompts_of(agent: Agent) -> list[str]:
    return [str(request.prompt) for request in model_of(agent).requests]


async def chunks_of(output: Any) -> list[dict[str, Any]]:
    return [chunk async for chunk in output.full_stream]


async def stored(agent: Agent) -> list[str]:
    """``role:text`` of every stored message."""
    assert agent.memory is not None
    page = await agent.memory.store.list_messages("t1")
    return [
        f"{message.role}:"
        + "".join(p.get("text", "") for p in message.content["parts"] if p["type"] == "text")
        for message in page.messages
    ]


def texts(messages: Any) -> list[str]:
    return ["".join(p.get("text", "") for p in message.parts) for message in messages]


def model_failing(*calls: Any) -> ScriptedModel:
    return ScriptedModel(calls)


_FAILS = [{"type": "throw", "message": "provider 500"}]


# -- input -------------------------------------------------------------------------------------


@case("processors", 1)
async def test_input_processors_run_one_after_the_other(make_agent: MakeAgent) -> None:
    seen: list[Any] = []

    async def first(args: Any) -> None:
        seen.append("A begins")
        await asyncio.sleep(0)
        args.messages[0].parts[0]["text"] = "changed"
        seen.append("A ends")

    async def second(args: Any) -> None:
        seen.append(("B", texts(args.messages)))

    agent = make_agent(
        [text("ok")],
        input_processors=[
            processor("A", process_input=first),
            processor("B", process_input=second),
        ],
    )
    await agent.generate("words")

    assert ["A begins", "A ends", ("B", ["changed"])] == seen


@case("processors", 2)
async def test_input_is_processed_once_and_each_step_once(make_agent: MakeAgent) -> None:
    seen: list[Any] = []
    agent = make_agent(
        [tool_call("echo", {"words": "1"}, id="1")],
        [tool_call("echo", {"words": "2"}, id="2")],
        [text("done")],
        tools=[echo],
        input_processors=[
            processor(
                "p",
                process_input=lambda args: seen.append("input"),
                process_input_step=lambda args: seen.append(args.step_number),
            )
        ],
    )
    await agent.generate("go")

    assert ["input", 0, 1, 2] == seen


@case("processors", 3)
async def test_a_resumed_run_processes_no_input(make_agent: MakeAgent) -> None:
    seen: list[str] = []

    @tool(require_approval=True)
    async def deploy(env: str) -> str:
        """Ship it."""
        return env

    agent = make_agent(
        [tool_call("deploy", {"env": "prod"})],
        [text("done")],
        tools=[deploy],
        input_processors=[
            processor(
                "p",
                process_input=lambda args: seen.append("input"),
                process_input_step=lambda args: seen.append("step"),
            )
        ],
    )
    output = await agent.stream("go", **THREAD)
    await output.consume_stream()
    seen.clear()

    resumed = await agent.approve_tool_call(output.run_id, "call_1")
    await resumed.text

    assert ["step"] == seen


@case("processors", 4)
async def test_a_step_shows_what_was_remembered(make_agent: MakeAgent) -> None:
    seen: list[list[str]] = []
    agent = make_agent(
        [text("first answer")],
        [text("second answer")],
        input_processors=[
            processor("p", process_input_step=lambda args: seen.append(texts(args.messages)))
        ],
    )
    await agent.generate("one", **THREAD)
    await agent.generate("two", **THREAD)

    assert ["one", "first answer", "two"] == seen[-1]


@case("processors", 6)
async def test_input_that_is_left_out_is_nowhere(make_agent: MakeAgent) -> None:
    agent = make_agent(
        [text("ok")],
        input_processors=[
            processor(
                "p",
                process_input=lambda args: [m for m in args.messages if "X" not in texts([m])[0]],
            )
        ],
    )
    await agent.generate(["keep", "X secret"], **THREAD)

    assert "X secret" not in prompts_of(agent)[0]
    assert ["user:keep", "assistant:ok"] == await stored(agent)


async def test_input_may_be_replaced_and_added_to(make_agent: MakeAgent) -> None:
    """Known ids keep their place, new messages come behind, system messages go beside."""

    def change(args: Any) -> Any:
        [given] = args.messages
        return {
            "messages": [
                {"id": given.id, "role": "user", "content": "rewritten"},
                {"role": "user", "content": "added"},
                {"role": "system", "content": "be brief"},
            ]
        }

    agent = make_agent([text("ok")], input_processors=[processor("p", process_input=change)])
    await agent.generate("words", **THREAD)

    assert ["user:rewritten", "user:added", "assistant:ok"] == await stored(agent)
    assert "be brief" in prompts_of(agent)[0]


@case("processors", 7)
async def test_a_foreign_message_list_is_refused(make_agent: MakeAgent) -> None:
    def foreign(args: Any) -> MessageList:
        return MessageList(clock=None, ids=None)  # type: ignore[arg-type]

    agent = make_agent([text("ok")], input_processors=[processor("p", process_input=foreign)])

    with pytest.raises(ProcessorError) as caught:
        await agent.generate("words")

    assert "PROCESSOR_RETURNED_EXTERNAL_MESSAGE_LIST" == caught.value.id
    assert [] == model_of(agent).requests


@pytest.mark.parametrize("returned", [3, {"messages": 1}, [3], {"other": []}])
async def test_what_is_no_message_is_refused(make_agent: MakeAgent, returned: Any) -> None:
    agent = make_agent(
        [text("ok")], input_processors=[processor("p", process_input=lambda args: returned)]
    )

    with pytest.raises(ProcessorError):
        await agent.generate("words")


# -- a step --------------------------------------------------------------------------------------


@case("processors", 8)
async def test_messages_and_list_at_once_are_refused(make_agent: MakeAgent) -> None:
    agent = make_agent(
        [text("ok")],
        input_processors=[
            processor(
                "p",
                process_input_step=lambda args: StepPatch(
                    messages=[], message_list=args.message_list
                ),
            )
        ],
    )

    with pytest.raises(ProcessorError) as caught:
        await agent.generate("words")

    assert "PROCESSOR_RETURNED_MESSAGES_AND_MESSAGE_LIST" == caught.value.id


@case("processors", 9)
async def test_a_patch_is_for_one_step(make_agent: MakeAgent) -> None:
    def patch(args: Any) -> Any:
        return StepPatch(tool_choice="none") if args.step_number == 0 else None

    agent = make_agent(
        [tool_call("echo", {"words": "a"})],
        [text("done")],
        tools=[echo],
        input_processors=[processor("p", process_input_step=patch)],
    )
    await agent.generate("go", tool_choice="required")

    assert ["none", "required"] == [r.tool_choice for r in model_of(agent).requests]


@case("processors", 10)
async def test_an_untagged_system_message_is_for_one_step(make_agent: MakeAgent) -> None:
    def once(args: Any) -> None:
        if args.step_number == 0:
            args.message_list.add_system("only now")
            args.message_list.add_system("from now on", tag="mine")

    agent = make_agent(
        [tool_call("echo", {"words": "a"})],
        [text("done")],
        tools=[echo],
        input_processors=[processor("p", process_input_step=once)],
    )
    await agent.generate("go")

    first, second = prompts_of(agent)
    assert "only now" in first
    assert "only now" not in second
    assert "from now on" in second


@case("processors", 11)
async def test_a_chosen_model_is_seen_and_asked(make_agent: MakeAgent) -> None:
    other = ScriptedModel([[text("from the other")]])
    seen: list[Any] = []
    agent = make_agent(
        [text("never")],
        input_processors=[
            processor("A", process_input_step=lambda args: {"model": other}),
            processor("B", process_input_step=lambda args: seen.append(args.model)),
        ],
    )
    answer = await agent.generate("go")

    assert [other] == seen
    assert "from the other" == answer["text"]
    assert [] == model_of(agent).requests


@case("processors", 12)
async def test_prepare_step_has_the_last_word(make_agent: MakeAgent) -> None:
    seen: list[Any] = []

    def prepare(args: Any) -> StepPatch:
        seen.append(args.tool_choice)
        return StepPatch(tool_choice="required")

    agent = make_agent(
        [text("ok")],
        tools=[echo],
        input_processors=[
            processor("p", process_input_step=lambda args: StepPatch(tool_choice="none"))
        ],
    )
    await agent.generate("go", prepare_step=prepare)

    assert ["none"] == seen
    assert "required" == model_of(agent).requests[0].tool_choice


async def test_a_tool_that_a_step_hides_cannot_be_called(make_agent: MakeAgent) -> None:
    """Hidden is hidden: not only is the model not told of it."""
    ran: list[str] = []

    @tool
    async def secret(words: str) -> str:
        """Must not run."""
        ran.append(words)
        return words

    agent = make_agent(
        [tool_call("secret", {"words": "a"})],
        [text("done")],
        tools=[echo, secret],
        input_processors=[
            processor("p", process_input_step=lambda args: StepPatch(active_tools=["echo"]))
        ],
    )
    output = await agent.stream("go")
    kinds = [chunk["type"] for chunk in await chunks_of(output)]

    assert [] == ran
    assert "tool-error" in kinds


@pytest.mark.parametrize("returned", ["text", {"nonsense": 1}])
async def test_what_is_no_patch_is_refused(make_agent: MakeAgent, returned: Any) -> None:
    agent = make_agent(
        [text("ok")], input_processors=[processor("p", process_input_step=lambda args: returned)]
    )

    with pytest.raises(ProcessorError):
        await agent.generate("words")


# -- around a request ----------------------------------------------------------------------------


@case("processors", 13)
async def test_a_changed_prompt_is_for_the_model_only(make_agent: MakeAgent) -> None:
    def change(args: Any) -> Any:
        return {
            "prompt": [
                *args.prompt,
                {"role": "user", "content": [{"type": "text", "text": "appended"}]},
            ]
        }

    agent = make_agent([text("ok")], input_processors=[processor("p", process_llm_request=change)])
    await agent.generate("go", **THREAD)

    assert "appended" in prompts_of(agent)[0]
    assert ["user:go", "assistant:ok"] == await stored(agent)


_CACHED = {
    "response": {
        "chunks": [
            {"type": "text-delta", "payload": {"id": "c", "text": "from cache"}},
            {"type": "finish", "payload": {"stepResult": {"reason": "stop"}}},
        ]
    }
}


@case("processors", 14)
async def test_an_answer_of_a_processor_replaces_the_model(make_agent: MakeAgent) -> None:
    """Later processors are still called (decisions.md 5), but theirs doesn't count."""
    seen: list[str] = []

    def late(args: Any) -> Any:
        seen.append("B")
        return {"response": {"chunks": []}}

    agent = make_agent(
        [text("never")],
        input_processors=[
            processor("A", process_llm_request=lambda args: _CACHED),
            processor("B", process_llm_request=late),
        ],
    )
    output = await agent.stream("go", **THREAD)
    chunks = await chunks_of(output)

    assert ["B"] == seen
    assert [] == model_of(agent).requests
    assert "from cache" == "".join(
        c["payload"]["text"] for c in chunks if c["type"] == "text-delta"
    )
    assert ["user:go", "assistant:from cache"] == await stored(agent)


@case("processors", 15)
async def test_the_response_hook_gets_all_chunks_and_the_same_state(make_agent: MakeAgent) -> None:
    seen: list[Any] = []
    kinds: list[str] = []

    def request(args: Any) -> None:
        args.state["mark"] = 1

    def response(args: Any) -> None:
        words = "".join(c["payload"]["text"] for c in args.chunks if c["type"] == "text-delta")
        kinds.extend(chunk["type"] for chunk in args.chunks)
        seen.append((words, args.state["mark"], args.from_cache))

    agent = make_agent(
        [text("all of it")],
        input_processors=[
            processor("p", process_llm_request=request, process_llm_response=response)
        ],
    )
    output = await agent.stream("go")
    streamed = [chunk["type"] for chunk in await chunks_of(output)]

    assert [("all of it", 1, False)] == seen
    assert streamed[streamed.index("step-start") : streamed.index("step-finish")] == kinds


async def test_the_response_hook_is_told_of_a_replay(make_agent: MakeAgent) -> None:
    seen: list[Any] = []
    agent = make_agent(
        [text("never")],
        input_processors=[
            processor(
                "p",
                process_llm_request=lambda args: _CACHED,
                process_llm_response=lambda args: seen.append(args.from_cache),
            )
        ],
    )
    await agent.generate("go")

    assert [True] == seen


# -- the stream ----------------------------------------------------------------------------------


def on_text(change: Callable[[str], str | None]) -> Callable[[Any], Any]:
    """Hook 6: another text, or None to drop it."""

    def hook(args: Any) -> Any:
        part = args.part
        if part["type"] != "text-delta":
            return part
        changed = change(part["payload"]["text"])
        return (
            None if changed is None else {**part, "payload": {**part["payload"], "text": changed}}
        )

    return hook


@case("processors", 16)
async def test_a_dropped_chunk_is_nowhere(make_agent: MakeAgent) -> None:
    seen: list[str] = []

    def later(args: Any) -> Any:
        if args.part["type"] == "text-delta":
            seen.append(args.part["payload"]["text"])
        return args.part

    agent = make_agent(
        [text("keep drop")],
        output_processors=[
            processor("A", process_output_stream=on_text(lambda t: None if "drop" in t else t)),
            processor("B", process_output_stream=later),
        ],
    )
    output = await agent.stream("go", **THREAD)
    said = await output.text

    assert ["keep "] == seen
    assert "keep " == said
    assert ["user:go", "assistant:keep "] == await stored(agent)


@case("processors", 17)
async def test_a_hook_that_raises_on_a_chunk_lets_it_pass(
    make_agent: MakeAgent, caplog: pytest.LogCaptureFixture
) -> None:
    def raises(args: Any) -> Any:
        raise ValueError("oops")

    agent = make_agent(
        [text("one two")], output_processors=[processor("p", process_output_stream=raises)]
    )
    answer = await agent.generate("go")

    assert "one two" == answer["text"]
    assert 1 == len([r for r in caplog.records if "failed on a chunk" in r.getMessage()])


@case("processors", 17)
async def test_a_closed_guard_that_raises_stops_the_run(make_agent: MakeAgent) -> None:
    def raises(args: Any) -> Any:
        raise ValueError("oops")

    agent = make_agent(
        [text("one two")],
        output_processors=[processor("p", process_output_stream=raises, on_stream_error="closed")],
    )
    output = await agent.stream("go", **THREAD)
    kinds = [chunk["type"] for chunk in await chunks_of(output)]

    assert "tripwire" == kinds[-1]
    assert "text-delta" not in kinds
    assert [] == await stored(agent)


@tool
async def noisy(words: str, context: ToolContext) -> str:
    """Writes while it works."""
    await context.writer.write({"p": 1})
    await context.writer.custom({"type": "data-x", "data": {"n": 1}})
    return words


@case("processors", 18, 19)
async def test_who_sees_what_tools_write(make_agent: MakeAgent) -> None:
    seen: dict[str, list[str]] = {"plain": [], "data": []}

    def note(name: str) -> Any:
        def hook(args: Any) -> Any:
            seen[name].append(args.part["type"])
            return args.part

        return hook

    agent = make_agent(
        [tool_call("noisy", {"words": "a"})],
        [text("done")],
        tools=[noisy],
        output_processors=[
            processor("plain", process_output_stream=note("plain")),
            processor("data", process_output_stream=note("data"), process_data_parts=True),
        ],
    )
    await agent.generate("go")

    assert "data-x" not in seen["plain"]
    assert "data-x" in seen["data"]
    assert "tool-output" in seen["plain"]
    assert "tool-output" in seen["data"]


@case("processors", 20)
async def test_only_the_last_finish_is_offered(make_agent: MakeAgent) -> None:
    seen: list[str] = []

    def note(args: Any) -> Any:
        if args.part["type"] == "finish":
            seen.append(args.part["payload"]["stepResult"]["reason"])
        return args.part

    agent = make_agent(
        [tool_call("echo", {"words": "a"})],
        [text("done")],
        tools=[echo],
        output_processors=[processor("p", process_output_stream=note)],
    )
    await agent.generate("go")

    assert ["stop"] == seen


@case("processors", 21)
async def test_a_changed_chunk_is_what_is_stored(make_agent: MakeAgent) -> None:
    agent = make_agent(
        [text("aaa")],
        output_processors=[
            processor("p", process_output_stream=on_text(lambda t: t.replace("a", "b")))
        ],
    )
    output = await agent.stream("go", **THREAD)

    assert "bbb" == await output.text
    assert ["user:go", "assistant:bbb"] == await stored(agent)


async def test_a_processor_may_hold_text_back_and_let_it_go(make_agent: MakeAgent) -> None:
    """It sees the end of the answer as a chunk, and may let chunks follow another."""

    def hold(args: Any) -> Any:
        part = args.part
        if part["type"] == "text-delta" and not args.state.get("flushed"):
            args.state.setdefault("held", []).append(part["payload"]["text"])
            return None
        if part["type"] == "text-end" and not args.state.get("flushed"):
            args.state["flushed"] = True
            whole = "".join(args.state["held"]).upper()
            args.push(part)
            return {
                **part,
                "type": "text-delta",
                "payload": {"id": part["payload"]["id"], "text": whole},
            }
        return part

    agent = make_agent(
        [text("one two three")], output_processors=[processor("p", process_output_stream=hold)]
    )
    output = await agent.stream("go", **THREAD)
    kinds = [c["type"] for c in await chunks_of(output) if c["type"].startswith("text")]

    assert ["text-start", "text-delta", "text-end"] == kinds
    assert "ONE TWO THREE" == await output.text
    assert ["user:go", "assistant:ONE TWO THREE"] == await stored(agent)


async def test_chunks_without_end_are_cut_off(make_agent: MakeAgent) -> None:
    def endless(args: Any) -> Any:
        args.push({"type": "data-more", "data": {}})
        return args.part

    agent = make_agent(
        [text("x")],
        output_processors=[processor("p", process_output_stream=endless, process_data_parts=True)],
    )

    assert "x" == (await agent.generate("go"))["text"]


# -- tripwires -----------------------------------------------------------------------------------


def aborting(reason: str | None = None, **options: Any) -> Callable[[Any], None]:
    def hook(args: Any) -> None:
        args.abort(reason, **options)

    return hook


@case("processors", 22, 28)
async def test_rejected_input_gives_one_tripwire(make_agent: MakeAgent) -> None:
    agent = make_agent(
        [text("never")],
        input_processors=[processor("guard", process_input=aborting("no", metadata={"rule": 7}))],
    )
    output = await agent.stream("bad", **THREAD)
    chunks = await chunks_of(output)

    [chunk] = chunks
    assert "tripwire" == chunk["type"]
    assert {"reason": "no", "processorId": "guard", "metadata": {"rule": 7}} == chunk["payload"]
    assert [] == model_of(agent).requests
    assert [] == await stored(agent)
    assert "tripwire" == output.status


@case("processors", 23)
@pytest.mark.parametrize(
    ("hook", "kind", "expected"),
    [
        ("process_input", "input", "Tripwire triggered by guard"),
        ("process_output_stream", "output", "Stream part blocked by guard"),
    ],
)
async def test_a_reason_is_never_empty(
    make_agent: MakeAgent, hook: str, kind: str, expected: str
) -> None:
    guard = processor("guard", **{hook: aborting()})
    agent = make_agent([text("x")], **{f"{kind}_processors": [guard]})
    output = await agent.stream("bad")
    chunks = await chunks_of(output)

    assert expected == chunks[-1]["payload"]["reason"]


@case("processors", 54)
async def test_nothing_of_a_step_follows_its_tripwire(make_agent: MakeAgent) -> None:
    fallback = ScriptedModel([[text("never")]])

    def guard(args: Any) -> Any:
        if args.part["type"] == "text-delta" and "bad" in args.part["payload"]["text"]:
            args.abort("bad word")
        return args.part

    agent = make_agent(
        model=[ScriptedModel([[text("fine bad more words")]]), fallback],
        output_processors=[processor("guard", process_output_stream=guard)],
    )
    output = await agent.stream("go", **THREAD)
    chunks = await chunks_of(output)

    kinds = [chunk["type"] for chunk in chunks]
    assert ["tripwire"] == kinds[kinds.index("text-delta") + 1 :]
    assert [] == fallback.requests
    assert [] == await stored(agent)


@case("processors", 5)
async def test_a_vetoed_answer_is_not_saved(make_agent: MakeAgent) -> None:
    agent = make_agent(
        [text("answer")],
        output_processors=[processor("veto", process_output_result=aborting("vetoed"))],
    )
    output = await agent.stream("go", **THREAD)

    assert "" == await output.text
    assert "other" == await output.finish_reason
    tripwire = await output.tripwire
    assert tripwire is not None
    assert "vetoed" == tripwire["reason"]
    assert [] == await stored(agent)


async def test_a_rewritten_answer_is_what_everybody_gets(make_agent: MakeAgent) -> None:
    def scrub(args: Any) -> None:
        for message in args.messages:
            for part in message.parts:
                part["text"] = part["text"].replace("secret", "***")

    agent = make_agent(
        [text("my secret")], output_processors=[processor("scrub", process_output_result=scrub)]
    )
    output = await agent.stream("go", **THREAD)

    assert "my ***" == await output.text
    assert ["user:go", "assistant:my ***"] == await stored(agent)


async def test_a_broken_guard_lets_nothing_be_stored(make_agent: MakeAgent) -> None:
    """What couldn't be judged counts as rejected."""

    def breaks(args: Any) -> None:
        raise RuntimeError("broke")

    agent = make_agent(
        [text("unjudged")], output_processors=[processor("p", process_output_result=breaks)]
    )

    with pytest.raises(ProcessorError) as caught:
        await agent.generate("go", **THREAD)

    assert isinstance(caught.value.__cause__, RuntimeError)
    assert {"processorId": "p", "phase": "process_output_result"}.items() <= (
        caught.value.to_wire()["details"].items()
    )
    assert [] == await stored(agent)


# -- repeats -------------------------------------------------------------------------------------


def judging(wrong: str, reason: str = "improve", seen: list[int] | None = None) -> Any:
    def hook(args: Any) -> None:
        if seen is not None:
            seen.append(args.retry_count)
        if wrong in args.text:
            args.abort(reason, retry=True)

    return hook


@case("processors", 24)
async def test_a_rejected_answer_is_asked_for_again(make_agent: MakeAgent) -> None:
    seen: list[int] = []
    agent = make_agent(
        [text("bad answer")],
        [text("good answer")],
        output_processors=[processor("judge", process_output_step=judging("bad", "xyz", seen))],
        max_processor_retries=1,
    )
    output = await agent.stream("go", **THREAD)
    said = await output.text

    assert "good answer" == said
    assert "xyz" in prompts_of(agent)[1]
    assert [0, 1] == seen
    assert ["user:go", "assistant:good answer"] == await stored(agent)
    assert ["retry", "stop"] == [step["finishReason"] for step in await output.steps]


async def test_feedback_is_told_once(make_agent: MakeAgent) -> None:
    agent = make_agent(
        [text("bad")],
        [tool_call("echo", {"words": "a"})],
        [text("good")],
        tools=[echo],
        output_processors=[processor("judge", process_output_step=judging("bad", "xyz"))],
        max_processor_retries=1,
    )
    await agent.generate("go")

    assert [False, True, False] == ["xyz" in prompt for prompt in prompts_of(agent)]


@case("processors", 25)
@pytest.mark.parametrize("budget", [0, None])
async def test_without_budget_a_repeat_is_an_end(
    make_agent: MakeAgent, caplog: pytest.LogCaptureFixture, budget: int | None
) -> None:
    agent = make_agent(
        [text("bad")],
        [text("bad")],
        output_processors=[processor("judge", process_output_step=judging("bad"))],
        max_processor_retries=budget,
    )
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            output = await agent.stream("go", **THREAD)
            chunks = await chunks_of(output)

    assert "tripwire" == chunks[-1]["type"]
    assert "tripwire" == await output.finish_reason
    assert 1 == len([r for r in caplog.records if "max_processor_retries" in r.getMessage()])
    assert [] == await stored(agent)


@case("processors", 26)
async def test_a_budget_is_kept(make_agent: MakeAgent) -> None:
    agent = make_agent(
        *[[text("bad")] for _ in range(5)],
        output_processors=[processor("judge", process_output_step=judging("bad"))],
        max_processor_retries=2,
    )
    output = await agent.stream("go")
    chunks = await chunks_of(output)

    assert 3 == len(model_of(agent).requests)
    assert "tripwire" == chunks[-1]["type"]


async def test_the_budget_of_a_step_is_new(make_agent: MakeAgent) -> None:
    """A step that was accepted gives the budget back."""
    agent = make_agent(
        [text("bad")],
        [tool_call("echo", {"words": "a"})],
        [text("bad")],
        [text("good")],
        tools=[echo],
        output_processors=[processor("judge", process_output_step=judging("bad"))],
        max_processor_retries=1,
    )

    assert "good" == (await agent.generate("go"))["text"]


async def test_a_repeat_uses_up_a_step(make_agent: MakeAgent) -> None:
    agent = make_agent(
        *[[text("bad")] for _ in range(5)],
        output_processors=[processor("judge", process_output_step=judging("bad"))],
        max_processor_retries=10,
    )
    output = await agent.stream("go", max_steps=2)
    await output.consume_stream()

    assert 2 == len(model_of(agent).requests)
    assert "tripwire" == output.status


@case("processors", 27)
async def test_error_processors_have_three_repeats(
    make_agent: MakeAgent, caplog: pytest.LogCaptureFixture
) -> None:
    agent = make_agent(
        *[_FAILS for _ in range(6)],
        error_processors=[processor("e", process_api_error=lambda args: {"retry": True})],
    )
    with caplog.at_level(logging.WARNING), pytest.raises(ModelError):
        await agent.generate("go", max_steps=20)

    assert 4 == len(model_of(agent).requests)
    assert 1 == len([r for r in caplog.records if "max_processor_retries" in r.getMessage()])


@case("processors", 53)
async def test_a_step_hook_may_ask_for_a_repeat(make_agent: MakeAgent) -> None:
    def once(args: Any) -> None:
        if args.retry_count == 0:
            args.abort("not yet", retry=True)

    agent = make_agent(
        [text("ok")],
        input_processors=[processor("p", process_input_step=once)],
        max_processor_retries=1,
    )
    answer = await agent.generate("go")

    assert "ok" == answer["text"]
    assert "not yet" in prompts_of(agent)[0]


@case("processors", 53)
async def test_parity_can_be_had(make_agent: MakeAgent) -> None:
    agent = make_agent(
        [text("ok")],
        input_processors=[processor("p", process_input_step=aborting("no", retry=True))],
        max_processor_retries=1,
        retry_hooks={"process_output_step"},
    )
    output = await agent.stream("go")
    chunks = await chunks_of(output)

    assert "tripwire" == chunks[-1]["type"]
    assert chunks[-1]["payload"]["retry"] is True
    assert [] == model_of(agent).requests


# -- failed requests -------------------------------------------------------------------------------


@case("processors", 29)
async def test_the_first_repeat_decides(make_agent: MakeAgent) -> None:
    seen: list[str] = []
    agent = make_agent(
        _FAILS,
        [text("recovered")],
        error_processors=[
            processor("e1", process_api_error=lambda args: {"retry": True}),
            processor("e2", process_api_error=lambda args: seen.append("e2")),
        ],
    )
    answer = await agent.generate("go")

    assert "recovered" == answer["text"]
    assert [] == seen


@case("processors", 30)
async def test_an_error_processor_that_raises_is_passed_over(make_agent: MakeAgent) -> None:
    seen: list[str] = []

    def breaks(args: Any) -> None:
        raise RuntimeError("handler broke")

    agent = make_agent(
        _FAILS,
        error_processors=[
            processor("e1", process_api_error=breaks),
            processor("e2", process_api_error=lambda args: seen.append(str(args.error))),
        ],
    )

    with pytest.raises(ModelError, match="provider 500"):
        await agent.generate("go")

    assert 1 == len(seen)
    assert "provider 500" in seen[0]


@case("processors", 31)
async def test_an_error_processor_may_take_messages_out(make_agent: MakeAgent) -> None:
    def prune(args: Any) -> Any:
        args.message_list.remove_by_ids([args.messages[0].id])
        return {"retry": True}

    agent = make_agent(
        _FAILS,
        [text("ok")],
        error_processors=[processor("e", process_api_error=prune)],
    )
    await agent.generate(["too long", "short"])

    first, second = prompts_of(agent)
    assert "too long" in first
    assert "too long" not in second
    assert "short" in second


async def test_an_error_processor_is_asked_before_the_next_model(make_agent: MakeAgent) -> None:
    """A repeat goes to the model that failed; without one the next is tried."""
    first, second = ScriptedModel([_FAILS, [text("recovered")]]), ScriptedModel([[text("never")]])
    agent = make_agent(
        model=[first, second],
        error_processors=[processor("e", process_api_error=lambda args: {"retry": True})],
    )

    assert "recovered" == (await agent.generate("go"))["text"]
    assert [] == second.requests


# -- tool results ----------------------------------------------------------------------------------


@case("processors", 32)
async def test_an_edited_result_is_what_everybody_gets(make_agent: MakeAgent) -> None:
    def edit(args: Any) -> None:
        args.message_list.update_tool_invocation(
            {"toolCallId": args.tool_call_id, "state": "result", "result": {"echoed": "***"}}
        )

    agent = make_agent(
        [tool_call("echo", {"words": "secret"})],
        [text("done")],
        tools=[echo],
        output_processors=[processor("p", process_tool_result=edit)],
    )
    output = await agent.stream("go", **THREAD)
    chunks = await chunks_of(output)

    [result] = [c["payload"]["result"] for c in chunks if c["type"] == "tool-result"]
    assert {"echoed": "***"} == result
    assert "{'echoed': '***'}" in prompts_of(agent)[1]
    assert agent.memory is not None
    page = await agent.memory.store.list_messages("t1")
    assert {"echoed": "***"} == page.messages[1].content["parts"][0]["toolInvocation"]["result"]


@case("processors", 33)
async def test_a_failed_tool_has_no_result_to_look_at(make_agent: MakeAgent) -> None:
    seen: list[str] = []
    agent = make_agent(
        [tool_call("broken", {"words": "a"})],
        [text("done")],
        tools=[broken],
        output_processors=[
            processor("p", process_tool_result=lambda args: seen.append(args.tool_name))
        ],
    )
    await agent.generate("go")

    assert [] == seen


@case("processors", 34)
async def test_a_rejected_result_is_nowhere(make_agent: MakeAgent) -> None:
    agent = make_agent(
        [tool_call("echo", {"words": "secret"}, id="1"), tool_call("echo", {"words": "b"}, id="2")],
        [text("never")],
        tools=[echo],
        output_processors=[processor("p", process_tool_result=aborting("no results"))],
    )
    output = await agent.stream("go", **THREAD)
    chunks = await chunks_of(output)

    assert "tripwire" == chunks[-1]["type"]
    assert "tool-result" not in [chunk["type"] for chunk in chunks]
    assert 1 == len(model_of(agent).requests)
    assert [] == await stored(agent)


async def test_a_result_hook_that_raises_is_a_tool_error(make_agent: MakeAgent) -> None:
    def breaks(args: Any) -> None:
        raise RuntimeError("broke")

    agent = make_agent(
        [tool_call("echo", {"words": "a"})],
        [text("done")],
        tools=[echo],
        output_processors=[processor("p", process_tool_result=breaks)],
    )
    output = await agent.stream("go")
    kinds = [chunk["type"] for chunk in await chunks_of(output)]

    assert "tool-error" in kinds
    assert "tool-result" not in kinds
    assert "done" == await output.text


# -- state, watching ---------------------------------------------------------------------------------


@case("processors", 35)
async def test_state_lasts_for_one_run(make_agent: MakeAgent) -> None:
    seen: list[Any] = []

    def note(name: str) -> Any:
        def hook(args: Any) -> Any:
            seen.append((name, args.state.get("mark")))
            return args.part

        return hook

    def mark(args: Any) -> None:
        seen.append(("2", args.state.get("mark")))
        args.state["mark"] = args.run_id

    both = processor(
        "p",
        process_input_step=mark,
        process_output_step=note("7"),
        process_output_result=note("9"),
        process_output_stream=note("6"),
    )
    agent = make_agent([text("a")], [text("b")], input_processors=[both], output_processors=[both])
    await agent.generate("go", run_id="r1")
    await agent.generate("go", run_id="r2")

    assert {("2", None), *((name, run) for name in "679" for run in ("r1", "r2"))} == set(seen)


@case("processors", 36)
async def test_runs_at_once_have_their_own_states(make_agent: MakeAgent) -> None:
    barrier = asyncio.Barrier(2)
    seen: list[bool] = []

    async def mark(args: Any) -> None:
        args.state["run"] = args.run_id
        await barrier.wait()
        seen.append(args.state["run"] == args.run_id)

    agent = make_agent(
        [text("a")], [text("b")], input_processors=[processor("p", process_input_step=mark)]
    )
    await asyncio.gather(agent.generate("go"), agent.generate("go"))

    assert [True, True] == seen


@case("processors", 37)
async def test_a_violation_is_told_and_its_telling_may_fail(make_agent: MakeAgent) -> None:
    told: list[Any] = []

    def tell(violation: Any) -> None:
        told.append(violation)
        raise RuntimeError("nobody listens")

    guard = processor(
        "guard", process_tool_result=aborting("no", metadata={"n": 1}), on_violation=tell
    )
    agent = make_agent([tool_call("echo", {"words": "a"})], tools=[echo], output_processors=[guard])
    output = await agent.stream("go")
    chunks = await chunks_of(output)

    assert [{"processorId": "guard", "message": "no", "detail": {"n": 1}}] == told
    assert "tripwire" == chunks[-1]["type"]


@case("processors", 52)
async def test_a_call_may_turn_processors_off(make_agent: MakeAgent) -> None:
    seen: list[str] = []
    agent = make_agent(
        [text("first")],
        [text("second")],
        input_processors=[processor("p", process_input=lambda args: seen.append("p"))],
    )
    await agent.generate("one", **THREAD)
    seen.clear()
    await agent.generate("two", input_processors=[], **THREAD)

    assert [] == seen
    assert "first" in prompts_of(agent)[1]


async def test_a_hook_may_take_so_long_and_no_longer(make_agent: MakeAgent) -> None:
    async def hangs(args: Any) -> None:
        await asyncio.Event().wait()

    agent = make_agent(
        [text("ok")],
        input_processors=[processor("p", process_input=hangs)],
        processor_timeout_ms=20,
    )

    with pytest.raises(ProcessorTimeoutError):
        await agent.generate("go")


# -- signals -----------------------------------------------------------------------------------------


@case("processors", 38, 39)
async def test_signals_of_a_processor(make_agent: MakeAgent) -> None:
    async def hint(args: Any) -> None:
        if args.step_number == 0:
            await args.send_signal({"type": "reactive", "contents": "stored hint"})
            await args.send_signal({"type": "reactive", "contents": "live hint", "transient": True})

    agent = make_agent([text("ok")], input_processors=[processor("p", process_input_step=hint)])
    output = await agent.stream("go", **THREAD)
    echoes = [c["data"]["contents"] for c in await chunks_of(output) if c["type"] == "data-signal"]

    assert ["stored hint", "live hint"] == echoes
    [prompt] = prompts_of(agent)
    assert "<system-reminder>stored hint</system-reminder>" in prompt
    assert "<system-reminder>live hint</system-reminder>" in prompt
    assert ["user:go", "signal:stored hint", "assistant:ok"] == await stored(agent)


@case("signals", 28)
async def test_a_live_hint_is_shown_once_and_last(make_agent: MakeAgent) -> None:
    """Sent again before each step, it replaces its earlier copy."""

    async def hint(args: Any) -> None:
        await args.send_signal({"type": "reactive", "contents": "live hint", "transient": True})

    agent = make_agent(
        [tool_call("echo", {"words": "a"})],
        [text("done")],
        tools=[echo],
        input_processors=[processor("p", process_input_step=hint)],
    )
    await agent.generate("go", **THREAD)

    assert [1, 1] == [prompt.count("live hint") for prompt in prompts_of(agent)]
    for request in model_of(agent).requests:
        assert "live hint" in str(request.prompt[-1])
    assert "live hint" not in str(await stored(agent))


@case("processors", 40)
async def test_a_signal_parts_the_answer(make_agent: MakeAgent) -> None:
    async def hint(args: Any) -> None:
        if args.step_number == 1:
            await args.send_signal({"type": "reactive", "contents": "hint"})

    agent = make_agent(
        [text("before"), tool_call("echo", {"words": "a"})],
        [text("after")],
        tools=[echo],
        input_processors=[processor("p", process_input_step=hint)],
    )
    output = await agent.stream("go", **THREAD)
    chunks = await chunks_of(output)
    ids = [c["payload"]["messageId"] for c in chunks if c["type"] == "step-start"]

    assert ["user:go", "assistant:before", "signal:hint", "assistant:after"] == await stored(agent)
    assert 2 == len(set(ids))


async def test_plugins_watch_what_processors_do(make_agent: MakeAgent) -> None:
    """Errors, violations and every awaited call, with the run that they belong to."""
    from contextlib import asynccontextmanager

    from mastra_core.plugins import hookimpl

    seen: list[Any] = []

    class Watcher:
        @hookimpl
        def mastra_processor_error(self, processor: Any, phase: str) -> None:
            seen.append(("error", processor.id, phase))

        @hookimpl
        def mastra_processor_violation(self, violation: Any, run: Any) -> None:
            seen.append(("violation", violation["message"], run.run_id))

        @hookimpl
        @asynccontextmanager
        async def mastra_processor_call(self, processor: Any, phase: str) -> Any:
            seen.append(("enter", processor.id, phase))
            yield

    def breaks(args: Any) -> Any:
        raise ValueError("oops")

    agent = make_agent(
        [text("x")],
        output_processors=[
            processor("p", process_output_stream=breaks, process_output_result=aborting("vetoed"))
        ],
    )
    async with Mastra(storage="memory:", agents=[agent], plugins=[Watcher()]):
        output = await agent.stream("go", run_id="r1")
        await output.consume_stream()

    assert ("error", "p", "process_output_stream") in seen
    assert ("violation", "vetoed", "r1") in seen
    assert ("enter", "p", "process_output_result") in seen
    assert ("enter", "p", "process_output_stream") not in seen
