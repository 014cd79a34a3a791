"""Contents that older peers stashed in the metadata of a row (signals.md 4.3)."""

from __future__ import annotations

from typing import Any

import pytest

from mastra_conformance import case
from mastra_core.messages.signals import signal_from_message
from mastra_core.wire.messages import Message

IMAGE = {"type": "image", "image": "aGk="}
FILE = {"type": "file", "data": "aGk=", "mediaType": "image/png"}
TEXT = {"type": "text", "text": "see"}


def loaded(stash: Any) -> Any:
    """The contents of a row whose parts say something else."""
    row = Message.model_validate(
        {
            "id": "m",
            "role": "signal",
            "type": "user-message",
            "createdAt": "2026-01-01T00:00:00.000Z",
            "content": {
                "format": 2,
                "parts": [{"type": "text", "text": "of the parts"}],
                "metadata": {"signal": {"type": "user-message", "contents": stash}},
            },
        }
    )
    return signal_from_message(row).contents


@case("signals", 24)
def test_an_image_in_a_wrapper_loads_as_a_file() -> None:
    """Its type is that of most images unless it says another one."""
    assert [TEXT, FILE] == loaded({"role": "user", "content": [TEXT, IMAGE]})


@pytest.mark.parametrize(
    ("stash", "expected"),
    [
        ("plain", "plain"),
        (["a", TEXT], [{"type": "text", "text": "a"}, TEXT]),
        ([TEXT], "see"),
        ({"role": "user", "content": "hi"}, "hi"),
        (
            [{"role": "user", "content": "a"}, {"role": "user", "content": [TEXT]}],
            [{"type": "text", "text": "a"}, TEXT],
        ),
        ([{**IMAGE, "mimeType": "image/jpeg"}], [{**FILE, "mediaType": "image/jpeg"}]),
        ([{"type": "image", "data": "aGk="}], [FILE]),
        (
            [{"type": "file", "data": "x", "mimeType": "text/plain", "filename": "n"}],
            [{"type": "file", "data": "x", "mediaType": "text/plain", "filename": "n"}],
        ),
        ([{**TEXT, "providerOptions": {"p": {}}}], [{**TEXT, "providerOptions": {"p": {}}}]),
    ],
)
def test_each_form_of_a_stash_loads(stash: Any, expected: Any) -> None:
    """A single plain text is a text."""
    assert expected == loaded(stash)


@pytest.mark.parametrize(
    "stash",
    [
        [],
        3,
        {"role": "assistant", "content": "hi"},
        {"role": "user", "content": []},
        {"role": "user", "content": 3},
        [TEXT, {"type": "video"}],
        [TEXT, 3],
        [{"type": "file", "data": "x"}],
        [{"type": "file", "mediaType": "x/y"}],
        [{"type": "text"}],
        [{"role": "system", "content": "x"}],
    ],
)
def test_of_an_undecodable_stash_the_parts_are_used(stash: Any) -> None:
    """One entry that can't be decoded makes all of it so."""
    assert "of the parts" == loaded(stash)
