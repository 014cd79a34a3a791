"""``token-limiter``: what stays of a prompt, of memory and of an answer."""

from __future__ import annotations

from typing import Any

import pytest

from mastra_core import tool
from mastra_core.errors import ConfigError
from mastra_core.testing.scripted_model import text, tool_call
from mastra_processors import TokenLimiter
from mastra_processors.tokens import cut_to_tokens, estimate_tokens

pytestmark = pytest.mark.anyio


def words(text: str) -> int:
    """A counter that a reader can check: one token per word."""
    return len(text.split())


@tool
async def look(what: str) -> str:
    """Look at something."""
    return f"seen {what}"


HISTORY = [
    {"role": "user", "content": "one two three four five six"},
    {"role": "assistant", "content": "seven"},
    {"role": "user", "content": "eight nine"},
]


async def ask(agent: Any, messages: Any = HISTORY, **options: Any) -> Any:
    return await agent.generate(messages, **options)


async def test_best_fit_keeps_every_turn_that_still_fits(make_agent: Any, prompt_of: Any) -> None:
    # Each turn costs 4 beside its words.
    limiter = TokenLimiter(limit=11, token_counter=words)
    agent = make_agent([text("ok")], input_processors=[limiter])
    history = [HISTORY[2], HISTORY[0], HISTORY[1]]

    await ask(agent, history)

    assert "user:eight nine assistant:seven" == prompt_of(agent)


async def test_contiguous_stops_at_the_first_turn_that_does_not_fit(
    make_agent: Any, prompt_of: Any
) -> None:
    limiter = TokenLimiter(limit=20, trim_mode="contiguous", token_counter=words)
    agent = make_agent([text("ok")], input_processors=[limiter])

    await ask(agent, [HISTORY[2], *HISTORY])

    assert "user:. assistant:seven user:eight nine" == prompt_of(agent)


async def test_a_call_and_its_result_stay_or_go_together(make_agent: Any, prompt_of: Any) -> None:
    limiter = TokenLimiter(limit=20, token_counter=words)
    agent = make_agent(
        [tool_call("look", {"what": "a"}, id="1")],
        [text("done")],
        tools=[look],
        input_processors=[limiter],
    )

    await ask(agent, "one two three four five")

    # The call and its result together have 4 + 2 and 4 + 3 tokens; the question's 9 are too many.
    assert "user:. assistant:<look> tool:[seen a]" == prompt_of(agent)


async def test_system_messages_stay_and_are_counted(make_agent: Any) -> None:
    limiter = TokenLimiter(limit=6, token_counter=words)
    agent = make_agent([text("ok")], instructions="be very kind", input_processors=[limiter])

    tripwire = (await agent.generate("hello"))["tripwire"]

    assert {"systemTokens": 7, "limit": 6} == tripwire["metadata"]


async def test_a_prompt_of_which_nothing_fits_stops_the_run(make_agent: Any) -> None:
    agent = make_agent(input_processors=[TokenLimiter(limit=5, token_counter=words)])

    tripwire = (await agent.generate("far too many words"))["tripwire"]

    assert "token-limiter" == tripwire["processorId"]
    assert 5 == tripwire["metadata"]["remainingBudget"]


async def test_memory_only_forgets_the_oldest_and_tells(make_agent: Any, prompt_of: Any) -> None:
    told: list[Any] = []

    async def on_trim(messages: Any, request_context: Any) -> None:
        told.append(([m.parts[-1]["text"] for m in messages], request_context["who"]))

    limiter = TokenLimiter(
        limit=30,
        trim_mode="memory-only",
        at_max_remove_tokens=10,
        token_counter=words,
        on_memory_trim=on_trim,
    )
    agent = make_agent(
        [text("a")], [text("b")], [text("c")], [text("d")], input_processors=[limiter]
    )
    thread = {"thread_id": "t1", "resource_id": "u1", "request_context": {"who": "me"}}
    for _ in range(4):
        await agent.generate("one two three", **thread)

    # A turn of the user costs 7, one of the agent 5. The third run has 31 and goes down to 19, the
    # fourth has 43 and does the same.
    first = ["one two three", "a"]
    assert [(first, "me"), ([*first, "one two three", "b"], "me")] == told
    assert "user:one two three assistant:c user:one two three" == prompt_of(agent)
    page = await agent.memory.store.list_messages("t1")
    assert 8 == len(page.messages)


async def test_a_long_answer_is_cut_on_the_stream_and_in_the_store(make_agent: Any) -> None:
    agent = make_agent(
        [text("one two three four five")],
        output_processors=[TokenLimiter(limit=3, token_counter=words)],
    )

    output = await agent.stream("go", thread_id="t1", resource_id="u1")

    assert "one two three " == "".join([piece async for piece in output.text_stream])
    page = await agent.memory.store.list_messages("t1")
    assert "one two three " == page.messages[-1].content["parts"][-1]["text"]


async def test_each_piece_may_be_counted_by_itself(make_agent: Any) -> None:
    pieces = [
        {"type": "text-start", "id": "1"},
        {"type": "text-delta", "id": "1", "delta": "one two "},
        {"type": "text-delta", "id": "1", "delta": "three four five "},
        {"type": "text-delta", "id": "1", "delta": "six"},
        {"type": "text-end", "id": "1"},
    ]
    limiter = TokenLimiter(limit=2, count_mode="part", token_counter=words)
    # Hook 9 looks at the whole text, so only the stream is asked here.
    agent = make_agent(pieces, output_processors=[limiter])

    output = await agent.stream("go")

    assert "one two six" == "".join([piece async for piece in output.text_stream])


async def test_abort_stops_the_run_instead(make_agent: Any) -> None:
    limiter = TokenLimiter(limit=1, strategy="abort", token_counter=words)
    agent = make_agent([text("one two three")], output_processors=[limiter])

    tripwire = (await agent.generate("go"))["tripwire"]

    assert "The answer is longer than 1 tokens." == tripwire["reason"]


async def test_a_replayed_answer_is_cut_too(make_agent: Any) -> None:
    """An answer that doesn't pass the stream's hooks is cut at the end."""

    class Replays:
        id = "replays"

        def process_llm_request(self, args: Any) -> Any:
            chunk = {"type": "text-delta", "payload": {"id": "1", "text": "one two three four"}}
            finish = {"type": "finish", "payload": {"stepResult": {"reason": "stop"}}}
            return {"response": {"chunks": [chunk, finish]}}

    agent = make_agent(
        input_processors=[Replays()],
        output_processors=[TokenLimiter(limit=2, token_counter=words)],
    )

    assert "one two" == (await agent.generate("go"))["text"].strip()


@pytest.mark.parametrize(
    ("words_given", "least", "most"),
    [
        ("The quick brown fox jumps over the lazy dog.", 9, 12),
        ("internationalization", 3, 6),
        ("これは日本語の文です", 8, 12),
        ("1234567", 2, 4),
        ("", 0, 0),
        ('{"key": [1, 2, 3]}', 9, 15),
    ],
)
def test_the_estimate_is_near(words_given: str, least: int, most: int) -> None:
    assert least <= estimate_tokens(words_given) <= most


def test_a_cut_text_has_no_more_than_the_limit() -> None:
    long = "some words and more words " * 200

    cut = cut_to_tokens(long, 100, estimate_tokens)

    assert long.startswith(cut)
    assert 95 <= estimate_tokens(cut) <= 100
    assert "" == cut_to_tokens(long, 0, estimate_tokens)


def test_a_limit_is_needed() -> None:
    with pytest.raises(ConfigError, match="limit"):
        TokenLimiter()
    with pytest.raises(ConfigError, match="limit"):
        TokenLimiter(limit=0)


async def test_memory_counts_calls_and_thoughts(make_agent: Any, prompt_of: Any) -> None:
    thoughts = {"type": "reasoning", "text": "hm hm hm hm hm hm hm hm hm hm"}
    limiter = TokenLimiter(limit=40, trim_mode="memory-only", token_counter=words)
    agent = make_agent(
        [thoughts, tool_call("look", {"what": "a"}, id="1")],
        [text("seen it")],
        [text("ok")],
        tools=[look],
        input_processors=[limiter],
    )
    thread = {"thread_id": "t1", "resource_id": "u1"}
    await agent.generate("go", **thread)
    long = "word " * 20
    await agent.generate(long.strip(), **thread)

    assert f"user:{long.strip()}" == prompt_of(agent)


async def test_an_object_is_counted_as_the_last_that_was_seen(make_agent: Any) -> None:
    """Each piece of an object holds the former ones."""
    from types import SimpleNamespace

    limiter = TokenLimiter(limit=3, token_counter=len)
    state: dict[str, Any] = {}
    passed = []
    for value in ({}, 1, "ab", 12345):
        chunk = {"type": "object", "object": value}
        args: Any = SimpleNamespace(part=chunk, state=state)
        if limiter.process_output_stream(args) is not None:
            passed.append(value)

    assert [{}, 1] == passed


def test_turns_of_all_kinds_are_counted() -> None:
    from mastra_processors.tokens import tokens_of_turn

    def of(*parts: Any) -> int:
        return tokens_of_turn({"role": "user", "content": list(parts)}, words) - 4

    assert 6 == tokens_of_turn({"role": "system", "content": "two words"}, words)
    assert 256 == of({"type": "file", "data": "x" * 9999})
    assert 2 == of({"type": "reasoning", "text": "two words"})
    assert 2 == of({"type": "tool-result", "toolName": "t", "output": {"value": {"a": 1}}})
    assert 1 == of({"type": "unknown"})
