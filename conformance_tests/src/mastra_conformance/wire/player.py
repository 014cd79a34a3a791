"""Plays a scene with this runtime on any store, and writes down what was seen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mastra_conformance.wire.acts import on_inbox, on_runs, on_threads, pure
from mastra_conformance.wire.expressions import UnknownVocabularyError
from mastra_conformance.wire.forms import error_form, output_form, plain
from mastra_conformance.wire.rows import stored_rows
from mastra_conformance.wire.scene import Scene
from mastra_conformance.wire.stage import NOTHING, Stage, open_stage
from mastra_core.base.clock import Clock
from mastra_core.contracts.storage import Storage
from mastra_core.errors import MastraError
from mastra_core.streaming.output import ModelOutput

__all__ = ("observed_of", "play")

_ACTS: Final = {**on_threads.ACTS, **on_runs.ACTS, **on_inbox.ACTS, **pure.ACTS}
#: Members of chunks that the recordings leave out of run streams.
_TRANSCRIPTS: Final = ("messages", "uiMessages", "dbMessages")


async def play(scene: Scene, store: Storage, *, clock: Clock) -> dict[str, Any]:
    """
    Do what the scene does, and return what was observed, in the form of its recording.

    Args:
        scene: What happens.
        store: Where everything is kept; empty at the beginning.
        clock: The clock of the store, later at every reading.
    """
    async with open_stage(scene, store, clock) as stage:
        results: list[dict[str, Any]] = []
        for number, action in enumerate(scene.actions):
            results += await _act(stage, number, action)
        await stage.settle()
        for number, output in stage.unfinished.items():
            results.append({"action": number, "value": await output_form(output)})
        results.sort(key=lambda result: result["action"])
        observed = {"results": results, **await _observed(stage)}
        if not scene.setup.get("noStorage"):
            observed |= await stored_rows(stage.mastra.storage, thread_ids=stage.thread_ids)
            observed["runs"] = await _suspended_runs(stage)
        return _without_empty(observed)


async def _act(stage: Stage, number: int, action: Mapping[str, Any]) -> list[dict[str, Any]]:
    act = _ACTS.get(action["op"])
    if act is None:
        raise UnknownVocabularyError("action", action["op"])
    try:
        value = await act(stage, action)
    except MastraError as exc:
        return [{"action": number, "error": error_form(exc)}]
    if isinstance(value, ModelOutput):
        stage.unfinished[number] = value
        return []
    return [] if value is NOTHING else [{"action": number, "value": value}]


async def _observed(stage: Stage) -> dict[str, Any]:
    return {
        "prompts": stage.requests,
        "chunks": {name: plain(chunks) for name, chunks in stage.heard.items() if chunks},
        "streams": {
            name: _ordered(
                [_without_transcript(plain(chunk)) async for chunk in output.full_stream]
            )
            for name, output in stage.streams.items()
        },
        "toolExecutions": plain(stage.journal.tool_executions),
        "hooks": plain(stage.journal.hooks),
        "threadEvents": stage.thread_events,
    }


def _ordered(chunks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """
    The chunks, with the start of a task right after its announcement.

    When the bus brings it into a stream depends on what else goes on (streaming.md 9, rule 6).
    """
    starts = {
        chunk["payload"]["taskId"]: chunk
        for chunk in chunks
        if chunk["type"] == "background-task-running"
    }
    ordered = []
    for chunk in chunks:
        if chunk["type"] != "background-task-running":
            ordered.append(chunk)
        if chunk["type"] == "background-task-started":
            start = starts.pop(chunk["payload"]["taskId"], None)
            ordered += [start] if start is not None else []
    return [*ordered, *starts.values()]


def _without_transcript(chunk: dict[str, Any]) -> dict[str, Any]:
    payload = chunk.get("payload")
    if not isinstance(payload, dict):
        return chunk
    payload = {k: v for k, v in payload.items() if k not in ("request", "messages")}
    if isinstance(payload.get("output"), dict):
        payload["output"] = {k: v for k, v in payload["output"].items() if k != "steps"}
    if isinstance(payload.get("response"), dict):
        response = payload["response"]
        payload["response"] = {k: v for k, v in response.items() if k not in _TRANSCRIPTS}
    return {**chunk, "payload": payload}


async def _suspended_runs(stage: Stage) -> list[dict[str, Any]]:
    found = []
    for name, agent in stage.agents.items():
        listed = plain(await agent.list_suspended_runs())
        if listed["runs"]:
            found.append({"agent": name, **listed})
    return found


def observed_of(scene: Scene) -> dict[str, Any]:
    """What was recorded, without what is empty, and with chunks by subscription."""
    observed: dict[str, Any] = _unmarked(_without_empty(scene.observed))
    chunks: dict[str, list[Any]] = {}
    for chunk in observed.get("chunks", ()):
        name = chunk.get("subscription", "")
        shown = {k: v for k, v in chunk.items() if k != "subscription"}
        chunks.setdefault(name, []).append(shown)
    if chunks:
        observed["chunks"] = chunks
    return observed


def _without_empty(observed: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in observed.items() if value}


def _unmarked(value: Any) -> Any:
    """Errors without the mark that tells them from other objects."""
    if isinstance(value, list):
        return [_unmarked(item) for item in value]
    if not isinstance(value, Mapping):
        return value
    if set(value) == {"$error"}:
        return _unmarked(value["$error"])
    return {name: _unmarked(member) for name, member in value.items()}
