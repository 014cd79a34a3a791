"""An answer becomes the parts of a message when its step is over."""

from __future__ import annotations

from typing import Any

from mastra_core.base.ids import UuidIds
from mastra_core.messages.from_output import ResponseWriter
from mastra_core.messages.message_list import MessageList
from mastra_core.testing.fake_clock import FakeClock

SIGNED = {"acme": {"signature": "s1"}}


def writer() -> tuple[ResponseWriter, MessageList]:
    clock = FakeClock()
    messages = MessageList(clock=clock, ids=UuidIds(), thread_id="t", resource_id="r")
    made = ResponseWriter(messages, clock=clock, provider="acme", model_id="m1")
    made.message_id = "a1"
    return made, messages


def parts(messages: MessageList) -> list[dict[str, Any]]:
    found = messages.find("a1")
    assert found is not None
    return [{k: v for k, v in part.items() if k != "createdAt"} for part in found.parts]


def test_blocks_that_take_turns_are_parts_in_the_order_of_their_beginning() -> None:
    answer, messages = writer()

    answer.reasoning("0", "Two")
    answer.text("1", "It is")
    answer.reasoning("0", " and two.")
    answer.text("1", " four.")
    answer.finish_step()

    assert [
        {
            "type": "reasoning",
            "reasoning": "Two and two.",
            "details": [{"type": "text", "text": "Two and two."}],
        },
        {"type": "text", "text": "It is four."},
    ] == parts(messages)


def test_nothing_is_in_the_message_before_the_step_is_over() -> None:
    answer, messages = writer()

    answer.text("0", "word")

    assert messages.find("a1") is None


def test_what_a_provider_signs_at_the_end_of_a_block_is_kept_with_it() -> None:
    answer, messages = writer()

    answer.text("0", "four")
    answer.text("0", "", SIGNED)
    answer.reasoning("1", "", SIGNED)
    answer.finish_step()

    assert [SIGNED, SIGNED] == [part["providerMetadata"] for part in parts(messages)]


def test_a_step_that_begins_anew_forgets_what_was_said() -> None:
    answer, messages = writer()

    answer.text("0", "never mind")
    answer.begin_step()
    answer.text("0", "four")
    answer.finish_step()

    assert [{"type": "text", "text": "four"}] == parts(messages)
