"""What a delivered signal leaves: its row, and its run if that fails (signals.md 4.1, 7)."""

from __future__ import annotations

import pytest

from mastra_conformance import case
from mastra_core.errors import ModelError
from mastra_core.testing.scripted_model import text
from mastra_core.testing.thread_scene import ThreadScene

__all__ = ()

pytestmark = pytest.mark.anyio

T = {"thread_id": "t", "resource_id": "r"}


@case("signals", 22)
@pytest.mark.parametrize("kind", ["user", "reactive", "notification"])
async def test_a_row_has_what_its_form_names_and_no_more(scene: ThreadScene, kind: str) -> None:
    """Every member of the row, with its value."""
    agent = scene.agent([text("ok")])
    signal = {"type": kind, "contents": "hi", "attributes": {"a": 1}, "metadata": {"m": [1]}}

    sent = agent.send_signal(signal, **T)
    await sent.accepted
    await scene.idle()
    row = (await scene.rows())[0].to_wire()

    made = sent.signal
    identity = row["content"]["metadata"]["signal"]
    part = row["content"]["parts"][0]
    assert {
        "id": made.id,
        "role": "signal",
        "type": made.tag_name,
        "threadId": "t",
        "resourceId": "r",
        "createdAt": identity["createdAt"],
        "content": {
            "format": 2,
            "parts": [{"type": "text", "text": "hi", "createdAt": part["createdAt"]}],
            "metadata": {
                "signal": {
                    "id": made.id,
                    "type": kind,
                    "tagName": made.tag_name,
                    "createdAt": identity["createdAt"],
                    "acceptedAt": identity["acceptedAt"],
                    "attributes": {"a": 1},
                    "metadata": {"m": [1]},
                }
            },
        },
    } == row
    assert isinstance(part["createdAt"], int)
    assert identity["acceptedAt"] <= identity["createdAt"]


@case("signals", 47)
async def test_the_error_of_a_woken_run_is_on_its_output(scene: ThreadScene) -> None:
    """Who sent the message had been told that it was accepted."""
    agent = scene.agent([{"type": "throw", "message": "down"}])

    accepted = await agent.send_message("hi", **T).accepted
    await scene.idle()

    assert "wake" == accepted.action
    error = await accepted.output.error
    assert isinstance(error, ModelError)
    assert "down" == error.message
    with pytest.raises(ModelError, match="down"):
        await accepted.output.text
