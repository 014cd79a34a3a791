"""Stored messages on a web page, and back (streaming.md 12.2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from mastra_conformance.wire.scene import load_scene, scene_ids
from mastra_core.errors import RunArgumentError
from mastra_core.messages.detect import messages_from_input
from mastra_core.messages.ui import ui_messages
from mastra_core.wire.messages import Message

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
NOON_TEXT = "2026-03-01T12:00:00.000Z"
#: Messages of recordings that changed after the page was told of them.
CHANGED_LATER = {
    ("background-01-deferred", "id4"),
    ("background-02-until-idle", "id3"),
    ("background-06-wake-until-idle", "id4"),
    ("processor-04-input-step-send-signal", "id9"),
    ("state-06-window-without-snapshot", "id13"),
}


def stored(*parts: Mapping[str, Any], role: str = "assistant", **content: Any) -> Message:
    return Message(
        id=content.pop("id", "m1"),
        role=role,
        created_at=NOON,
        thread_id="t1",
        resource_id="ann",
        content={"format": 2, "parts": list(parts), **content},
    )


def call(state: str, **members: Any) -> dict[str, Any]:
    known = {"toolCallId": "c1", "toolName": "deploy", "args": {"env": "prod"}}
    return {"type": "tool-invocation", "toolInvocation": {"state": state, **known, **members}}


def shown(*parts: Mapping[str, Any], version: Any = "v5", **content: Any) -> list[dict[str, Any]]:
    [message] = ui_messages([stored(*parts, **content)], version=version)
    parts_of: list[dict[str, Any]] = message["parts"]
    return parts_of


# -- against what the TypeScript system shows ---------------------------------------------------


def _recorded() -> Iterator[Any]:
    for scene_id in scene_ids():
        observed = load_scene(scene_id).observed
        rows = {row["id"]: row for row in observed.get("messages", ())}
        for chunk in observed.get("chunks", ()):
            payload = chunk.get("payload")
            response = payload.get("response") if isinstance(payload, Mapping) else None
            for message in (response or {}).get("uiMessages", ()):
                key = (scene_id, message["id"])
                if message["id"] in rows and key not in CHANGED_LATER:
                    yield pytest.param(rows[message["id"]], message, id="-".join(key))


@pytest.mark.parametrize(("row", "recorded"), list(_recorded()))
def test_rows_are_shown_as_peers_show_them(
    row: Mapping[str, Any], recorded: Mapping[str, Any]
) -> None:
    """Every UI message in the recordings, from its row."""
    message = Message(
        id=row["id"],
        role=row["role"],
        created_at=NOON,
        thread_id=row.get("thread_id"),
        resource_id=row.get("resourceId"),
        content=row["content"],
    )

    expected = {**recorded, "metadata": {**recorded["metadata"], "createdAt": NOON_TEXT}}

    assert [expected] == ui_messages([message])


# -- the table ----------------------------------------------------------------------------------


def test_a_message_says_where_it_comes_from() -> None:
    """The row's facts stand beside the message's own metadata."""
    message = stored(
        {"type": "text", "text": "hi", "createdAt": 5, "providerMetadata": {"p": {"q": 1}}},
        metadata={"modelId": "m"},
        providerMetadata={"o": {}},
    )

    assert ui_messages([message]) == [
        {
            "id": "m1",
            "role": "assistant",
            "metadata": {
                "modelId": "m",
                "createdAt": NOON_TEXT,
                "threadId": "t1",
                "resourceId": "ann",
                "providerMetadata": {"o": {}},
            },
            "parts": [
                {
                    "type": "text",
                    "text": "hi",
                    "providerMetadata": {"p": {"q": 1}, "mastra": {"createdAt": 5}},
                }
            ],
        }
    ]


def test_reasoning_and_sources_and_files() -> None:
    """Redacted reasoning has no text; documents among the sources stay out."""
    parts = shown(
        {
            "type": "reasoning",
            "reasoning": "",
            "details": [{"type": "text", "text": "hm"}, {"type": "redacted", "data": "x"}],
            "providerMetadata": {"p": {}},
        },
        {"type": "source", "source": {"sourceType": "url", "id": "s", "url": "u", "title": "T"}},
        {"type": "source-document", "sourceId": "d", "mediaType": "text/plain", "title": "D"},
        {"type": "file", "data": "aGk=", "mimeType": "text/plain", "filename": "a.txt"},
        {"type": "file", "data": "https://x/y.png", "mimeType": "image/png"},
    )

    assert parts == [
        {"type": "reasoning", "text": "hm", "state": "done", "providerMetadata": {"p": {}}},
        {"type": "source-url", "sourceId": "s", "url": "u", "title": "T"},
        {
            "type": "file",
            "url": "data:text/plain;base64,aGk=",
            "mediaType": "text/plain",
            "filename": "a.txt",
        },
        {"type": "file", "url": "https://x/y.png", "mediaType": "image/png"},
    ]


def test_steps_errors_data_and_strangers_pass_through() -> None:
    """A newer peer's parts, too."""
    parts = [
        {"type": "step-start", "model": "a/b", "createdAt": 3},
        {"type": "error", "error": {"name": "E", "message": "m"}},
        {"type": "data-x", "data": {"n": 1}, "id": "q"},
        {"type": "made-up", "z": 1},
    ]

    assert parts == shown(*parts)


@pytest.mark.parametrize(
    ("invocation", "v5", "v6"),
    [
        (call("call"), {"state": "input-available"}, {"state": "input-available"}),
        (call("partial-call"), {"state": "input-streaming"}, {"state": "input-streaming"}),
        (
            call("result", result={"ok": 1}, approval={"id": "c1", "approved": True}),
            {"state": "output-available", "output": {"ok": 1}},
            {
                "state": "output-available",
                "output": {"ok": 1},
                "approval": {"id": "c1", "approved": True},
            },
        ),
        (
            call("output-error", errorText="bad", rawInput="{"),
            {"state": "output-error", "errorText": "bad", "rawInput": "{"},
            {"state": "output-error", "errorText": "bad", "rawInput": "{"},
        ),
        (
            call("output-denied", approval={"id": "c1", "approved": False, "reason": "no"}),
            {"state": "output-available", "output": "no"},
            {
                "state": "output-denied",
                "approval": {"id": "c1", "approved": False, "reason": "no"},
            },
        ),
        (
            call("output-denied", approval={"id": "c1", "approved": False}),
            {"state": "output-available", "output": "Tool call was not approved by the user"},
            {"state": "output-denied", "approval": {"id": "c1", "approved": False}},
        ),
        (
            call("approval-requested", approval={"id": "a1"}),
            {"state": "input-available"},
            {"state": "approval-requested", "approval": {"id": "a1"}},
        ),
        (
            call("approval-responded", approval={"id": "a1", "approved": True}),
            {"state": "input-available"},
            {"state": "approval-responded", "approval": {"id": "a1", "approved": True}},
        ),
    ],
)
def test_tool_calls_in_every_state(
    invocation: dict[str, Any], v5: dict[str, Any], v6: dict[str, Any]
) -> None:
    """Version 5 knows neither approvals nor denials."""
    known = {"type": "tool-deploy", "toolCallId": "c1", "input": {"env": "prod"}}

    assert [known | v5] == shown(invocation)
    assert [known | v6] == shown(invocation, version="v6")
    assert [known | v6] == shown(invocation, version="v7")


def test_providers_facts_of_a_call() -> None:
    """Under the name that tool parts have for them."""
    part = {**call("call"), "providerExecuted": True, "providerMetadata": {"p": {}}, "title": "T"}

    [v5], [v6] = shown(part), shown(part, version="v6")

    assert ({"p": {}}, True) == (v5["callProviderMetadata"], v5["providerExecuted"])
    assert "title" not in v5
    assert "T" == v6["title"]


def test_what_waits_for_somebody_stands_behind_its_call() -> None:
    """As data for every version; from v6 on the call's state says so, too."""
    entry = {"toolCallId": "c1", "toolName": "deploy", "runId": "r1", "resumeSchema": "{}"}
    text = {"type": "text", "text": "after"}
    metadata = {"pendingToolApprovals": {"c1": entry}}
    kind = "data-tool-call-approval"
    data = {"type": kind, "id": "c1", "data": {"state": kind, **entry}}

    v5 = shown(call("call"), text, metadata=metadata)
    v6 = shown(call("call"), text, metadata=metadata, version="v6")

    assert [data, text] == v5[1:] == v6[1:]
    assert "input-available" == v5[0]["state"]
    assert ("approval-requested", {"id": "r1::c1"}) == (v6[0]["state"], v6[0]["approval"])


def test_a_suspension_shows_what_the_tool_asks() -> None:
    """And isn't shown twice if its part is stored."""
    entry = {"toolCallId": "c1", "toolName": "deploy", "runId": "r1", "suspendPayload": {"q": 1}}
    metadata = {"suspendedTools": {"c1": entry}}
    own = {"type": "data-tool-call-suspended", "data": {"toolCallId": "c1", "mine": 1}}

    fresh = shown(call("call"), metadata=metadata)
    there = shown(call("call"), own, metadata=metadata)

    assert {"q": 1} == fresh[1]["data"]["suspendPayload"]
    assert [own] == there[1:]


def test_what_a_network_left_is_a_call() -> None:
    """Its JSON isn't for people."""
    told = '{"isNetwork":true,"primitiveId":"sub","input":"task","finalResult":{"text":"T"}}'

    [part] = shown({"type": "text", "text": told})
    [plain] = shown({"type": "text", "text": '"isNetwork":true is what I said'})

    assert ("dynamic-tool", "sub") == (part["type"], part["toolName"])
    assert ("task", {"text": "T"}) == (part["input"], part["output"])
    assert "text" == plain["type"]


def test_the_oldest_rows_have_their_text_elsewhere() -> None:
    """And system messages are nobody's business."""
    assert [{"type": "text", "text": "old"}] == shown(content="old")
    assert [] == ui_messages([stored({"type": "text", "text": "secret"}, role="system")])


def test_unknown_versions_are_refused() -> None:
    """With those that there are."""
    with pytest.raises(RunArgumentError, match="v5, v6, v7"):
        ui_messages([], version="v4")  # type: ignore[arg-type]


# -- signals ------------------------------------------------------------------------------------


def signal(kind: str, text: str, id: str) -> Message:
    identity = {"id": id, "type": kind, "tagName": kind, "createdAt": NOON_TEXT}
    message = stored({"type": "text", "text": text}, role="signal", id=id)
    return message.model_copy(
        update={"content": {**message.content, "metadata": {"signal": identity}}}
    )


def test_what_a_user_signals_is_a_user_message() -> None:
    """It looks like what it is."""
    [message] = ui_messages([signal("user", "hello", "s1")])

    assert ("user", "s1") == (message["role"], message["id"])
    assert [{"type": "text", "text": "hello"}] == message["parts"]


def test_other_signals_are_shown_only_if_asked_for() -> None:
    """Beside the assistant message before them, else in the one that follows."""
    answer = stored({"type": "text", "text": "yes"})
    told = signal("notification", "news", "s1")

    before = ui_messages([told, answer], show_signals=True)
    after = ui_messages([answer, told], show_signals=True)
    alone = ui_messages([told, signal("user", "hello", "s2")], show_signals=True)

    assert ui_messages([answer]) == ui_messages([told, answer])
    assert [["data-signal", "text"]] == [[p["type"] for p in m["parts"]] for m in before]
    assert [["text", "data-signal"]] == [[p["type"] for p in m["parts"]] for m in after]
    assert [("assistant", "s1"), ("user", "s2")] == [(m["role"], m["id"]) for m in alone]
    assert "news" == before[0]["parts"][0]["data"]["contents"]


# -- back ---------------------------------------------------------------------------------------


def test_a_page_gives_back_what_it_was_shown() -> None:
    """Calls, reasoning, files, times and metadata; so a thread can be filled from a page."""
    parts = [
        {"type": "reasoning", "reasoning": "hm", "details": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "hi", "createdAt": 5, "providerMetadata": {"p": {"q": 1}}},
        {**call("result", result={"ok": 1}), "providerExecuted": True},
        call("output-error", errorText="bad"),
        call("output-denied", approval={"id": "c1", "approved": False, "reason": "no"}),
        call("call"),
        {"type": "source", "source": {"sourceType": "url", "id": "s", "url": "u", "title": "T"}},
        {"type": "data-x", "data": {"n": 1}, "id": "q"},
        {"type": "step-start"},
    ]
    message = stored(*parts, metadata={"modelId": "m"}, providerMetadata={"o": {}})

    [back] = messages_from_input(ui_messages([message], version="v6"))

    assert parts == back["content"]["parts"]
    assert ({"modelId": "m"}, {"o": {}}) == (
        back["content"]["metadata"],
        back["content"]["providerMetadata"],
    )
    assert "m1" == back["id"]


def test_dynamic_tools_and_attachments_of_a_page() -> None:
    """What a page has by itself."""
    dynamic = {
        "type": "dynamic-tool",
        "toolName": "deploy",
        "toolCallId": "c1",
        "state": "output-available",
        "input": None,
        "output": 1,
    }
    attached = {"type": "file", "url": "data:image/png;base64,AA==", "mediaType": "image/png"}

    [answer, question] = messages_from_input(
        [
            {"id": "m1", "role": "assistant", "parts": [dynamic]},
            {"id": "m2", "role": "user", "parts": [attached]},
        ]
    )

    assert [call("result", args={}, result=1)] == answer["content"]["parts"]
    assert question["content"]["parts"] == [
        {"type": "file", "data": "data:image/png;base64,AA==", "mimeType": "image/png"}
    ]


def test_a_call_without_an_id_is_refused() -> None:
    """Nobody could answer it."""
    part = {"type": "tool-deploy", "state": "input-available", "input": {}}

    with pytest.raises(RunArgumentError, match="toolCallId"):
        messages_from_input([{"role": "assistant", "parts": [part]}])
