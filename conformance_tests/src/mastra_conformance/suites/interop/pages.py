"""A web page reads our streams and messages with the AI SDK itself (streaming.md 12)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any, cast

import pytest

from mastra_conformance.cases import case
from mastra_conformance.node import NodePeer, NodePlace, find_pages, node_peer
from mastra_conformance.outcomes import not_run
from mastra_conformance.suites.interop.shared import NodeSuite
from mastra_conformance.suites.runtime.agents import (
    RESOURCE,
    THREAD,
    Workshop,
    application,
    deploy_calls,
    workshop,
)
from mastra_conformance.wire.scene import load_scene, scene_ids
from mastra_core import UI_STREAM_HEADERS, ui_frames, ui_messages
from mastra_core.base.clock import Clock
from mastra_core.base.ids import Ids
from mastra_core.contracts.storage import Storage
from mastra_core.messages.ui import UiVersion
from mastra_core.streaming.output import ModelOutput
from mastra_core.testing.scripted_model import text, tool_call

__all__ = ("PageSuite",)

_VERSIONS = ("v5", "v6")
versions = pytest.mark.parametrize("version", _VERSIONS)


class PageSuite(NodeSuite):
    """What people see of a run and of a stored thread."""

    role = "runtime"
    capabilities = ("memory", "workflows", "workflows.claim_resume")

    @pytest.fixture
    async def page(self, node_place: NodePlace) -> AsyncIterator[NodePeer]:
        """A Node process with the AI SDK."""
        missing = find_pages(node_place)
        if missing is not None:
            not_run(missing.reason, command=missing.command)
        async with node_peer(node_place) as peer:
            yield peer

    @versions
    async def test_a_page_shows_a_run_with_a_tool(
        self, page: NodePeer, store: Storage, clock: Clock, ids: Ids, version: UiVersion
    ) -> None:
        """Text, reasoning, the call and its result; as stored, as shown."""
        calls = [
            [
                {"type": "reasoning", "text": "let me see"},
                tool_call("echo", {"text": "hi"}),
            ],
            [text("it said hi")],
        ]
        one = workshop(calls)
        async with application(store, one, clock=clock, ids=ids):
            output = await _ask(one)
            shown = await _read(page, output, version, send_reasoning=True)
            [_, answer] = await _stored(store, version)

        assert [] == shown["errors"]
        parts = shown["message"]["parts"]
        assert ["reasoning", "tool-echo", "text"] == _kinds(parts)
        assert {"echoed": "hi"} == _part(parts, "tool-echo")["output"]
        assert "it said hi" == _part(parts, "text")["text"]
        assert answer["id"] == shown["message"]["id"]
        for kind, member in (("tool-echo", "output"), ("text", "text"), ("reasoning", "text")):
            assert _part(answer["parts"], kind)[member] == _part(parts, kind)[member]

    @case("streaming", 65)
    @versions
    async def test_a_page_asks_for_an_approval_and_shows_what_came_of_it(
        self, page: NodePeer, store: Storage, clock: Clock, ids: Ids, version: UiVersion
    ) -> None:
        """The second stream goes on with the message of the first."""
        one = workshop()
        async with application(store, one, clock=clock, ids=ids):
            output = await _ask(one)
            asked = await _read(page, output, version)
            stored = await _stored(store, version)
            resumed = await one.agent.approve_tool_call(output.run_id, resource_id=RESOURCE)
            answered = await _read(page, resumed, version, last=asked["message"])

        assert [] == asked["errors"] == answered["errors"]
        data = _part(asked["message"]["parts"], "data-tool-call-approval")
        assert ("call_1", output.run_id) == (data["id"], data["data"]["runId"])
        call = _part(asked["message"]["parts"], "tool-deploy")
        if version == "v5":
            assert "input-available" == call["state"]
        else:
            assert "approval-requested" == call["state"]
            assert f"{output.run_id}::call_1" == call["approval"]["id"]
        shown_again = _part(stored[-1]["parts"], "tool-deploy")
        assert (call["state"], call["input"]) == (shown_again["state"], shown_again["input"])
        parts = answered["message"]["parts"]
        assert asked["message"]["id"] == answered["message"]["id"]
        assert "output-available" == _part(parts, "tool-deploy")["state"]
        assert "done" == _part(parts, "text")["text"]

    @versions
    async def test_a_page_shows_that_a_call_was_refused(
        self, page: NodePeer, store: Storage, clock: Clock, ids: Ids, version: UiVersion
    ) -> None:
        """With the reason, in the way that the version has for it."""
        one = workshop([deploy_calls("prod"), [text("then not")]])
        async with application(store, one, clock=clock, ids=ids):
            output = await _ask(one)
            asked = await _read(page, output, version)
            resumed = await one.agent.decline_tool_call(
                output.run_id, reason="too early", resource_id=RESOURCE
            )
            answered = await _read(page, resumed, version, last=asked["message"])
            stored = await _stored(store, version)
            checked = await _check(page, stored, version)

        assert [] == answered["errors"]
        call = _part(answered["message"]["parts"], "tool-deploy")
        again = next(p for m in stored for p in m["parts"] if p["type"] == "tool-deploy")
        assert call["state"] == again["state"]
        if version == "v5":
            assert ("output-available", "too early") == (call["state"], call["output"])
        else:
            assert "output-denied" == call["state"]
            assert "too early" == again["approval"]["reason"]
        assert len(stored) == checked["count"]

    @case("streaming", 66)
    @versions
    async def test_a_page_learns_that_a_processor_stopped_the_run(
        self, page: NodePeer, store: Storage, clock: Clock, ids: Ids, version: UiVersion
    ) -> None:
        """Its stream ends as every other does."""
        one = workshop([[text("anything")]])
        one.agent.input_processors = (_Guard(),)
        async with application(store, one, clock=clock, ids=ids):
            output = await _ask(one)
            shown = await _read(page, output, version)

        assert [] == shown["errors"]
        assert "spam" == _part(shown["message"]["parts"], "data-tripwire")["data"]["reason"]
        assert "finish" == shown["chunks"][-1]

    @versions
    async def test_a_page_learns_of_an_error(
        self, page: NodePeer, store: Storage, clock: Clock, ids: Ids, version: UiVersion
    ) -> None:
        """Its message, and nothing of where it happened."""
        one = workshop([[text("half"), {"type": "error", "message": "out of order"}]])
        async with application(store, one, clock=clock, ids=ids):
            output = await _ask(one)
            shown = await _read(page, output, version)

        assert any("out of order" in error for error in shown["errors"])
        assert "half" == _part(shown["message"]["parts"], "text")["text"]

    @versions
    async def test_a_page_takes_a_stored_thread_and_gives_it_back(
        self, page: NodePeer, store: Storage, clock: Clock, ids: Ids, version: UiVersion
    ) -> None:
        """Every message is valid there, and another thread can be filled with them."""
        calls = [
            [tool_call("echo", {"text": "hi"}), tool_call("echo", {}, id="call_2")],
            [text("one failed")],
            [text("go on")],
        ]
        one = workshop(calls)
        async with application(store, one, clock=clock, ids=ids):
            await (await _ask(one)).consume_stream()
            stored = await _stored(store, version)
            checked = await _check(page, stored, version)
            output = await one.agent.stream([*stored, "more"])
            await output.consume_stream()

        assert len(stored) == checked["count"]
        assert ["user", "assistant", "tool", "assistant"] == checked["roles"]
        roles = [turn["role"] for turn in one.prompts()[-1]]
        assert ["system", "user", "assistant", "tool", "assistant", "user"] == roles

    @versions
    async def test_a_page_shows_every_recorded_run(
        self, page: NodePeer, version: UiVersion
    ) -> None:
        """Streams of the TypeScript system, converted here: nothing that the page refuses."""
        runs = list(_recorded_runs())
        for name, chunks in runs:
            told = [one for one in chunks if one["type"] == "error"]
            shown = await _read_chunks(page, _each(chunks), version)

            assert len(told) == len(shown["errors"]), f"{name}: {shown['errors']}"
            assert "start" == shown["chunks"][0], name

        assert len(runs) > 20


class _Guard:
    """Lets nothing in."""

    id = "guard"

    async def process_input(self, args: Any) -> None:
        args.abort("spam")


async def _ask(one: Workshop) -> ModelOutput:
    return await one.agent.stream("go", thread_id=THREAD, resource_id=RESOURCE)


async def _read(
    page: NodePeer, output: ModelOutput, version: UiVersion, *, last: Any = None, **options: Any
) -> dict[str, Any]:
    """What a page shows after it has read the frames of a run."""
    return await _read_chunks(page, output.full_stream, version, last=last, **options)


async def _read_chunks(
    page: NodePeer,
    chunks: AsyncIterator[dict[str, Any]],
    version: UiVersion,
    *,
    last: Any = None,
    **options: Any,
) -> dict[str, Any]:
    frames = [frame async for frame in ui_frames(chunks, version=version, **options)]
    shown = await page.do(
        "read-page",
        version=version,
        frames="".join(frames),
        headers=dict(UI_STREAM_HEADERS),
        last=last,
    )
    return cast(dict[str, Any], shown)


async def _check(page: NodePeer, messages: list[Any], version: UiVersion) -> dict[str, Any]:
    checked = await page.do("check-messages", version=version, messages=messages)
    return cast(dict[str, Any], checked)


async def _stored(store: Storage, version: UiVersion) -> list[dict[str, Any]]:
    listed = await store.memory.list_messages(THREAD, per_page=False)
    return ui_messages(listed.messages, version=version)


def _recorded_runs() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Whole runs of agents; a resumed one goes on with a message that isn't recorded."""
    for scene_id in scene_ids():
        for name, chunks in (load_scene(scene_id).observed.get("streams") or {}).items():
            if chunks and chunks[0]["type"] == "start":
                # One recording has a chunk that says that it has no data.
                whole = [c for c in chunks if not c["type"].startswith("data-") or "data" in c]
                yield f"{scene_id}/{name}", whole


async def _each(chunks: list[dict[str, Any]]) -> AsyncIterator[dict[str, Any]]:
    for chunk in chunks:
        yield chunk


def _kinds(parts: list[dict[str, Any]]) -> list[str]:
    return [part["type"] for part in parts if part["type"] != "step-start"]


def _part(parts: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    return next(part for part in parts if part["type"] == kind)
