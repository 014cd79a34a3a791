"""Signals as values, in XML, as rows and as echoes (signals.md 2-5)."""

from __future__ import annotations

import base64
import math
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mastra_conformance import case
from mastra_core.base.clock import SystemClock
from mastra_core.base.ids import UuidIds
from mastra_core.base.jsonjs import encode
from mastra_core.errors import InvalidSignalError
from mastra_core.messages.markup import clean_name, render_tag
from mastra_core.messages.message_list import MessageList
from mastra_core.messages.signals import (
    create_signal,
    echo_chunk,
    message_from_signal,
    model_turn,
    signal_from_message,
    wire_form,
)
from mastra_core.wire.messages import Message
from mastra_core.wire.signals import Signal


def make(**members: Any) -> Signal:
    members.setdefault("type", "user")
    return create_signal(members, clock=SystemClock(), ids=UuidIds())


def shown(**members: Any) -> Any:
    return model_turn(make(**members))["content"]


@case("signals", 1, 2, 3)
@pytest.mark.parametrize(
    ("given_type", "tag", "expected"),
    [
        ("user-message", None, ("user", "user")),
        ("system-reminder", "x", ("reactive", "x")),
        ("reactive", None, ("reactive", "system-reminder")),
        ("notification", None, ("notification", "notification")),
        ("state", None, ("state", "state")),
    ],
)
def test_types_and_tags_are_normalised(
    given_type: str, tag: str | None, expected: tuple[str, str]
) -> None:
    """Legacy names are accepted for ever; an explicit tag wins."""
    signal = make(type=given_type, contents="x", **({"tagName": tag} if tag else {}))

    assert expected == (signal.type, signal.tag_name)


@case("signals", 4)
def test_an_unknown_type_is_refused() -> None:
    """The error lists the four types."""
    with pytest.raises(InvalidSignalError, match=r"Invalid signal type: foo\. .*notification"):
        make(type="foo", contents="x")


@case("signals", 5)
@pytest.mark.parametrize("transient", [True, False])
def test_state_signals_can_not_be_transient(transient: bool) -> None:
    """Not even False may be said; a reactive one may be transient."""
    with pytest.raises(InvalidSignalError, match="state signals cannot be transient"):
        make(type="state", contents="x", transient=transient)

    assert make(type="reactive", contents="x", transient=True).transient is True


@case("signals", 6)
def test_a_created_signal_keeps_its_identity() -> None:
    """Feeding it back changes nothing."""
    signal = make(type="reactive", tagName="skill", contents="x", attributes={"a": 1})

    again = create_signal(wire_form(signal), clock=SystemClock(), ids=UuidIds())

    assert signal == again


@case("signals", 7, 8, 9, 10, 11, 12, 13, 14)
@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"contents": "hi"}, "hi"),
        ({"contents": "hi", "attributes": {"a": None}}, "hi"),
        (
            {"contents": "hi", "attributes": {"name": "Jane", "sentFrom": "slack"}},
            '<user name="Jane" sentFrom="slack">hi</user>',
        ),
        (
            {"type": "notification", "contents": "a & <b> \"c\" 'd'"},
            "<notification>a &amp; &lt;b&gt; \"c\" 'd'</notification>",
        ),
        (
            {"type": "notification", "contents": "x", "attributes": {"v": 'x"<&>'}},
            '<notification v="x&quot;&lt;&amp;&gt;">x</notification>',
        ),
        (
            {
                "type": "notification",
                "contents": "x",
                "attributes": {"t": True, "f": 1.0, "e": 1e21, "n": None},
            },
            '<notification t="true" f="1" e="1e+21">x</notification>',
        ),
        ({"type": "notification", "contents": ""}, "<notification />"),
        (
            {
                "type": "notification",
                "contents": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
            },
            "<notification>a\nb</notification>",
        ),
    ],
)
def test_the_model_sees_this_turn(members: dict[str, Any], expected: str) -> None:
    """Plain for users without attributes, XML otherwise."""
    assert expected == shown(**members)


@case("signals", 15, 16, 17, 18)
def test_files_and_options_keep_parts_apart() -> None:
    """Only the first text is wrapped; a file with attributes gets a self-closing part."""
    image = {"type": "file", "data": "aGk=", "mediaType": "image/png"}
    one, two = {"type": "text", "text": "t<1"}, {"type": "text", "text": "u<2"}
    cached = {**one, "providerOptions": {"mock": {"cache": True}}}

    assert [
        image,
        {"type": "text", "text": "<notification>t&lt;1</notification>"},
        two,
    ] == shown(type="notification", contents=[image, one, two])
    assert [{"type": "text", "text": '<notification pr="1" />'}, image] == shown(
        type="notification", contents=[image], attributes={"pr": "1"}
    )
    assert [
        {**cached, "text": "<system-reminder>t&lt;1</system-reminder>"},
        two,
    ] == shown(type="reactive", contents=[cached, two])
    assert [image, one] == shown(contents=[image, one])


@case("signals", 19)
@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"tagName": "1bad"}, "Invalid signal XML tag name: 1bad"),
        ({"attributes": {"a b": 1}}, "Invalid signal XML attribute name: a b"),
        ({"attributes": {"a b": None}}, "Invalid signal XML attribute name: a b"),
    ],
)
def test_names_are_checked_at_creation(members: dict[str, Any], message: str) -> None:
    """Before anything can be stored."""
    with pytest.raises(InvalidSignalError, match=message):
        make(type="reactive", contents="x", **members)


@case("signals", 20)
def test_provider_options_are_on_the_turn_and_in_the_row() -> None:
    """Never inside ``metadata.signal``."""
    signal = make(contents="hi", providerOptions={"mock": {"x": 1}})

    row = message_from_signal(signal, thread_id="t", resource_id="r")

    assert {"mock": {"x": 1}} == model_turn(signal)["providerOptions"]
    assert {"mock": {"x": 1}} == row.content["providerMetadata"]
    assert "providerOptions" not in row.content["metadata"]["signal"]


def test_bytes_become_one_base64_text_everywhere() -> None:
    """Row, echo and wire form carry the same."""
    part = {"type": "file", "data": b"\xff\x00hi", "mediaType": "image/png"}
    signal = make(contents=[part])
    encoded = base64.b64encode(b"\xff\x00hi").decode()

    row = message_from_signal(signal, thread_id="t", resource_id="r")

    assert encoded == row.content["parts"][0]["data"]
    assert encoded == echo_chunk(signal)["data"]["contents"][0]["data"]
    assert encoded == wire_form(signal)["contents"][0]["data"]


@pytest.mark.parametrize(
    "contents", [7, [{"type": "image", "image": "x"}], [{"type": "text"}], ["text"]]
)
def test_unknown_parts_are_refused(contents: Any) -> None:
    """Nothing becomes an empty text silently."""
    with pytest.raises(InvalidSignalError):
        make(contents=contents)


@case("signals", 25, 26)
def test_rows_of_older_peers_load() -> None:
    """Without identity the type column decides; an undecodable stash falls back to parts."""
    parts = [{"type": "text", "text": "hi"}]
    base = {"id": "m", "role": "signal", "createdAt": "2026-01-01T00:00:00.000Z"}
    bare = Message.model_validate(
        {**base, "type": "user-message", "content": {"format": 2, "parts": parts}}
    )
    stash = Message.model_validate(
        {
            **base,
            "type": "user",
            "content": {
                "format": 2,
                "parts": parts,
                "metadata": {"signal": {"type": "user", "contents": {"what": "?"}}},
            },
        }
    )

    assert ("user", "hi") == (
        signal_from_message(bare).type,
        signal_from_message(bare).contents,
    )
    assert "hi" == signal_from_message(stash).contents


@case("signals", 23)
def test_a_row_that_is_loaded_and_written_again_is_equal() -> None:
    """Its identity is byte-equal."""
    signal = make(
        type="notification",
        contents="x",
        attributes={"b": 1, "a": None},
        metadata={"deep": {"x": [1]}},
    )
    row = message_from_signal(signal, thread_id="t", resource_id="r")

    again = message_from_signal(signal_from_message(row), thread_id="t", resource_id="r")

    before, after = (encode(one.content["metadata"]["signal"]) for one in (row, again))
    assert before == after
    assert row == again


@case("signals", 29)
def test_signals_of_one_millisecond_stay_in_order() -> None:
    """Each gets a later time than everything before it."""
    clock = SystemClock()
    messages = MessageList(clock=clock, ids=UuidIds(), thread_id="t", resource_id="r")

    entered = [messages.add_signal(make(contents=str(n))) for n in range(20)]

    times = [signal.created_at for signal in entered]
    assert sorted(set(times)) == times


@case("signals", 28)
def test_a_transient_twin_replaces_the_earlier_copy() -> None:
    """A processor may send the same text each step; one copy is left, the newest."""
    messages = MessageList(clock=SystemClock(), ids=UuidIds(), thread_id="t", resource_id="r")
    for words in ("hint", "other", "hint"):
        messages.add_signal(make(type="reactive", contents=words, transient=True))

    assert ["other", "hint"] == [m.parts[0]["text"] for m in messages.messages]
    assert [] == messages.unsaved()


def test_illegal_names_of_stored_rows_are_cleaned() -> None:
    """One bad row must not break every later prompt."""
    assert '<_1bad a_b="1">x</_1bad>' == render_tag("1bad", {"a b": 1}, "x")


@given(st.text(max_size=30))
def test_a_cleaned_name_is_legal(name: str) -> None:
    """Whatever it was."""
    make(type="reactive", contents="x", tagName=clean_name(name))


@given(st.floats(allow_nan=True))
def test_numbers_render_without_failing(number: float) -> None:
    """Also those that JSON doesn't know."""
    rendered = render_tag("t", {"n": number}, "x")

    assert rendered.startswith("<t n=")
    if math.isnan(number):
        assert '"NaN"' in rendered


@pytest.mark.parametrize(
    "wrong",
    [
        {"id": "a\0"},
        {"id": "\ud800"},
        {"createdAt": "yesterday"},
        {"createdAt": 5},
        {"createdAt": datetime(2026, 1, 1)},  # noqa: DTZ001 - that is what is wrong
        {"attributes": {"a": [1]}},
        {"attributes": {"a": float("nan")}},
        {"metadata": {"a": object()}},
        {"contents": [{"type": "text", "text": "x", "providerOptions": {"a": object()}}]},
    ],
)
def test_a_signal_that_nobody_could_store_or_render_is_not_made(wrong: dict[str, Any]) -> None:
    """One error for everything that is wrong with it (signals.md G7)."""
    value = {"type": "user", "contents": "x", **wrong}

    with pytest.raises(InvalidSignalError):
        create_signal(value, clock=SystemClock(), ids=UuidIds())
