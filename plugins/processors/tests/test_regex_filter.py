"""``regex-filter``: what is stopped, masked and reported, also in pieces."""

from __future__ import annotations

import logging
import re
from typing import Any

import pytest

from mastra_core.errors import ConfigError
from mastra_core.testing.scripted_model import text
from mastra_processors import RegexFilter
from mastra_processors.redaction import find_matches, redacted, regions_of
from mastra_processors.regex_presets import PRESETS

pytestmark = pytest.mark.anyio

CODE = {"name": "code", "pattern": r"INT-\d{4}", "replacement": "[CODE]"}


def piecewise(*pieces: str) -> list[dict[str, Any]]:
    """A call of a script that says its text in these pieces."""
    return [
        {"type": "text-start", "id": "1"},
        *({"type": "text-delta", "id": "1", "delta": piece} for piece in pieces),
        {"type": "text-end", "id": "1"},
    ]


async def streamed(agent: Any, **options: Any) -> tuple[str, Any]:
    """The text that came out, and the tripwire."""
    output = await agent.stream("go", **options)
    said = "".join([piece async for piece in output.text_stream])
    return said, await output.tripwire


# -- input -------------------------------------------------------------------------------------


async def test_input_that_matches_stops_the_run(make_agent: Any) -> None:
    agent = make_agent(input_processors=[RegexFilter(rules=[CODE])])

    tripwire = (await agent.generate("see INT-1234"))["tripwire"]

    assert {
        "processorId": "regex-filter",
        "matches": [{"rule": "code", "match": "INT-1234", "index": 4}],
        "strategy": "block",
    } == tripwire["metadata"]
    assert agent.resolve_models(None)[0].requests == []


async def test_input_is_masked_for_the_model_and_the_store(make_agent: Any, prompt_of: Any) -> None:
    agent = make_agent(
        [text("ok")], input_processors=[RegexFilter(rules=[CODE], strategy="redact")]
    )
    await agent.generate("see INT-1234!", thread_id="t1", resource_id="u1")

    assert "user:see [CODE]!" == prompt_of(agent)
    page = await agent.memory.store.list_messages("t1")
    assert "INT" not in str(page.messages[0].content)


async def test_a_warning_lets_everything_pass(
    make_agent: Any, prompt_of: Any, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[Any] = []
    filters = RegexFilter(rules=[CODE], strategy="warn", on_violation=told.append)
    agent = make_agent([text("ok")], input_processors=[filters])

    with caplog.at_level(logging.WARNING):
        await agent.generate("see INT-1234")

    assert "user:see INT-1234" == prompt_of(agent)
    assert ["patterns found"] == [record.message for record in caplog.records]
    assert "INT-1234" not in caplog.text
    assert ["code"] == [match["rule"] for match in told[0]["detail"]["matches"]]


async def test_a_phase_looks_at_one_side_only(make_agent: Any, prompt_of: Any) -> None:
    both = RegexFilter(rules=[CODE], strategy="redact", phase="output")
    agent = make_agent([text("INT-1234")], input_processors=[both], output_processors=[both])

    said, _ = await streamed(agent)
    assert "[CODE]" == said

    agent = make_agent(
        [text("INT-1234")],
        output_processors=[RegexFilter(rules=[CODE], strategy="redact", phase="input")],
    )
    said, _ = await streamed(agent)
    assert "INT-1234" == said


async def test_redactions_are_reported_with_their_place(make_agent: Any) -> None:
    told: list[Any] = []
    rules = [CODE, {"name": "number", "pattern": r"\d+"}]
    for with_values in (False, True):
        filters = RegexFilter(
            rules=rules,
            strategy="redact",
            include_redacted_values=with_values,
            on_violation=told.append,
        )
        agent = make_agent([text("ok")], input_processors=[filters])
        await agent.generate("see INT-1234")

    expected = {
        "rule": "code",
        "index": 4,
        "length": 8,
        "replacement": "[CODE]",
        "overlappingRules": ["code", "number"],
    }
    first, second = (violation["detail"] for violation in told)
    assert [expected] == first["redactions"]
    assert [{**expected, "value": "INT-1234"}] == second["redactions"]
    assert ("redact", "processInput", 0) == (first["strategy"], first["phase"], first["partIndex"])


# -- the stream --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "pieces",
    [
        ("before INT-1234 after",),
        ("before INT", "-1234 after"),
        tuple("before INT-1234 after"),
    ],
)
async def test_a_match_in_pieces_is_masked_whole(make_agent: Any, pieces: Any) -> None:
    agent = make_agent(
        piecewise(*pieces),
        output_processors=[RegexFilter(rules=[CODE], strategy="redact", stream_carryover_size=8)],
    )
    said, _ = await streamed(agent, thread_id="t1", resource_id="u1")

    assert "before [CODE] after" == said
    page = await agent.memory.store.list_messages("t1")
    assert "before [CODE] after" == page.messages[-1].content["parts"][-1]["text"]


async def test_text_goes_out_while_it_comes_in(make_agent: Any) -> None:
    agent = make_agent(
        piecewise(*["0123456789"] * 5),
        output_processors=[RegexFilter(rules=[CODE], strategy="redact", stream_carryover_size=8)],
    )
    output = await agent.stream("go")
    pieces = [piece async for piece in output.text_stream]

    assert ["01", "2345678901"] == [pieces[0], pieces[1]]
    assert "0123456789" * 5 == "".join(pieces)


async def test_a_match_longer_than_the_tail_is_masked_too(make_agent: Any) -> None:
    address = "https://example.org/" + "a" * 500
    agent = make_agent(
        piecewise("see ", *re.findall(".{1,7}", address), " now"),
        output_processors=[
            RegexFilter(presets=["urls"], strategy="redact", stream_carryover_size=16)
        ],
    )
    said, _ = await streamed(agent)

    assert "see [URL] now" == said


async def test_nothing_of_a_forbidden_text_gets_out(make_agent: Any) -> None:
    agent = make_agent(
        piecewise("my key is INT", "-12", "34 and more"),
        output_processors=[RegexFilter(rules=[CODE], stream_carryover_size=8)],
    )
    said, tripwire = await streamed(agent)

    assert "my key is".startswith(said.strip())
    assert "INT-1234" == tripwire["metadata"]["matches"][0]["match"]


async def test_a_match_in_pieces_is_warned_of_once(make_agent: Any) -> None:
    told: list[Any] = []
    filters = RegexFilter(
        rules=[{"name": "mail", "pattern": r"\w+@\w+(\.\w+)*"}],
        strategy="warn",
        phase="all",
        on_violation=told.append,
    )

    class Last:
        """Takes what hook 9 would report again."""

        id = "last"

        def process_output_result(self, args: Any) -> None:
            told.append("end")

    agent = make_agent(
        piecewise("to a@b", ".org or ", "c@d.org"), output_processors=[Last(), filters]
    )
    said, _ = await streamed(agent)

    assert "to a@b.org or c@d.org" == said
    streamed_only = told[: told.index("end")]
    assert ["a@b", "c@d.org"] == [v["detail"]["matches"][0]["match"] for v in streamed_only]


async def test_two_texts_are_held_apart(make_agent: Any) -> None:
    parts = [
        {"type": "text-start", "id": "1"},
        {"type": "text-delta", "id": "1", "delta": "INT-"},
        {"type": "text-start", "id": "2"},
        {"type": "text-delta", "id": "2", "delta": "1234"},
        {"type": "text-end", "id": "1"},
        {"type": "text-end", "id": "2"},
    ]
    agent = make_agent(parts, output_processors=[RegexFilter(rules=[CODE], strategy="redact")])

    output = await agent.stream("go")
    said = [
        (chunk["payload"]["id"], chunk["payload"]["text"])
        async for chunk in output.full_stream
        if chunk["type"] == "text-delta"
    ]

    assert [("1", "INT-"), ("2", "1234")] == said


async def test_a_text_that_ends_with_the_step_is_not_lost(make_agent: Any) -> None:
    agent = make_agent(
        [{"type": "text", "text": "see INT-1234", "open": True}],
        output_processors=[RegexFilter(rules=[CODE], strategy="redact")],
    )
    said, _ = await streamed(agent)

    assert "see [CODE]" == said


# -- rules -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("preset", "given", "shown"),
    [
        ("pii", "ann@example.org", "[EMAIL]"),
        ("pii", "4111 1111 1111 1111", "[CREDIT_CARD]"),
        ("pii", "4111111111111111", "[CREDIT_CARD]"),
        ("pii", "123-45-6789", "[SSN]"),
        ("pii", "call (555) 123-4567 or +1 555-123-4567", "call [PHONE] or [PHONE]"),
        ("pii", "in 2026 there were 1234 of 12", "in 2026 there were 1234 of 12"),
        ("secrets", "sk-abcdefghijklmnop1234", "[API_KEY]"),
        ("secrets", "AKIAABCDEFGHIJKLMNOP", "[AWS_KEY]"),
        ("secrets", "Authorization: Bearer abcdefghijklmnopqrst", "Authorization: [BEARER_TOKEN]"),
        ("secrets", 'password: "hunter22!"', '[PASSWORD]"'),
        ("secrets", "eyJhbGciOiJI.eyJzdWIi.c2lnbmF0dXJl", "[JWT]"),
        (
            "secrets",
            "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----",
            "[PRIVATE_KEY]",
        ),
        ("secrets", "a risk-based approach to tasks", "a risk-based approach to tasks"),
        ("urls", "see http://example.org/a?b=1, too", "see [URL] too"),
    ],
)
def test_presets_find_what_they_are_for(preset: Any, given: str, shown: str) -> None:
    assert shown == redacted(given, regions_of(find_matches(given, PRESETS[preset])))


async def test_groups_may_be_named_in_a_replacement(make_agent: Any, prompt_of: Any) -> None:
    rule = {"name": "id", "pattern": r"ID-(\d\d)\d+", "replacement": r"ID-\1…"}
    agent = make_agent(
        [text("ok")], input_processors=[RegexFilter(rules=[rule], strategy="redact")]
    )
    await agent.generate("ID-123456")

    assert "user:ID-12…" == prompt_of(agent)


async def test_two_filters_of_one_list_have_two_ids(make_agent: Any, prompt_of: Any) -> None:
    agent = make_agent(
        [text("ok")],
        input_processors=[
            RegexFilter(rules=[CODE], strategy="redact"),
            RegexFilter(presets=["secrets"], id="no-secrets"),
        ],
    )
    tripwire = (await agent.generate("INT-1234 sk-abcdefghijklmnop1234"))["tripwire"]

    assert "no-secrets" == tripwire["processorId"]


def test_a_wrong_pattern_is_refused() -> None:
    with pytest.raises(ConfigError, match="not a regular expression"):
        RegexFilter(rules=[{"name": "x", "pattern": "("}])


async def test_a_long_text_is_masked_too(make_agent: Any, prompt_of: Any) -> None:
    long = f"{'word ' * 4000}INT-1234"
    agent = make_agent(
        [text("ok")], input_processors=[RegexFilter(rules=[CODE], strategy="redact")]
    )
    await agent.generate(long)

    assert prompt_of(agent).endswith("word [CODE]")


async def test_a_listener_that_raises_changes_nothing(
    make_agent: Any, prompt_of: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def listen(violation: Any) -> None:
        raise ValueError("nobody listens")

    filters = RegexFilter(rules=[CODE], strategy="redact", on_violation=listen)
    agent = make_agent([text("ok")], input_processors=[filters])
    await agent.generate("INT-1234")

    assert "user:[CODE]" == prompt_of(agent)
    assert "on_violation failed" in caplog.text


@pytest.mark.parametrize(
    ("pattern", "replacement", "shown"),
    [
        # What matched because of its surroundings doesn't match by itself: nothing of it stays.
        (r"(?<=id=)(\w+)", r"<\1>", r"id=<\1>"),
        # A group that isn't there can't be named.
        (r"\w+=\w+", r"\2", r"\2"),
        (r"(\w+)=\w+", r"\1=…", "id=…"),
        (r"x*", "-", "id=7"),
    ],
)
def test_replacements_never_leave_a_match(pattern: str, replacement: str, shown: str) -> None:
    from mastra_processors.regex_presets import Rule

    rule = Rule(name="r", pattern=re.compile(pattern), replacement=replacement)

    assert shown == redacted("id=7", regions_of(find_matches("id=7", [rule])))
