"""Actions on a thread: listen, send, abort, look."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from mastra_conformance.wire.expressions import UnknownVocabularyError, snake_members
from mastra_conformance.wire.forms import accepted_form, plain, send_form
from mastra_conformance.wire.stage import NOTHING, RESOURCE, THREAD, Stage
from mastra_core import Agent
from mastra_core.contracts.signal_sink import SendSignalResult
from mastra_core.messages.signals import wire_form
from mastra_core.notifications import NotificationResult
from mastra_core.wire.messages import Message
from mastra_core.wire.threads import Thread

__all__ = ("ACTS",)

_GATE_SECONDS: Final = 10.0


def _thread_of(stage: Stage, options: Mapping[str, Any]) -> dict[str, Any]:
    found = {"resource_id": RESOURCE, "thread_id": THREAD, **snake_members(options)}
    if found["thread_id"] is not None:
        stage.thread_ids.add(found["thread_id"])
    return found


async def _subscribe(stage: Stage, action: Mapping[str, Any]) -> Any:
    options = _thread_of(stage, action.get("options", {}))
    subscription = stage.agent(action).subscribe_to_thread(**options)
    stage.listen(action.get("as", ""), subscription)
    return NOTHING


async def _send(stage: Stage, action: Mapping[str, Any]) -> Any:
    target = _target(stage, action.get("target", {}))
    agent = stage.agent(action)
    match action["method"]:
        case "sendMessage":
            result = agent.send_message(action["input"], **target)
        case "sendSignal":
            result = agent.send_signal(action["input"], **target)
        case "queueMessage":
            result = agent.queue_message(action["input"], **target)
        case "sendStateSignal":
            return await _send_state(agent, action["input"], target)
        case "sendNotificationSignal":
            return await _send_notification(stage, action, target)
        case other:
            raise UnknownVocabularyError("way to send", other)
    form = await send_form(result)
    if "as" in action:
        accepted = form["accepted"]
        stage.named[action["as"]] = {
            "runId": accepted.get("runId"),
            "id": result.signal.id,
            "signal": {"id": result.signal.id},
        }
    return form


async def _send_state(
    agent: Agent, state: Mapping[str, Any], target: Mapping[str, Any]
) -> dict[str, Any]:
    sent = await agent.send_state_signal(state, **target)
    if sent.signal is None or sent.accepted is None:
        return {"skipped": sent.skipped, "reason": sent.reason, "hasPersisted": False}
    return await send_form(
        SendSignalResult(signal=sent.signal, accepted=sent.accepted, persisted=sent.persisted)
    )


async def _send_notification(
    stage: Stage, action: Mapping[str, Any], target: Mapping[str, Any]
) -> dict[str, Any]:
    result = await stage.agent(action).send_notification_signal(action["input"], **target)
    assert isinstance(result, NotificationResult)
    form: dict[str, Any] = {
        "record": plain(result.record),
        "decision": result.decision.to_wire(),
        "hasPersisted": result.persisted is not None,
    }
    if result.run_id is not None:
        form["runId"] = result.run_id
    if result.signal is not None:
        form["signal"] = plain(wire_form(result.signal))
    if result.accepted is not None:
        form["accepted"] = accepted_form(result.accepted)
    if result.persisted is not None:
        await result.persisted
        form["persisted"] = "resolved"
    return form


def _target(stage: Stage, target: Mapping[str, Any]) -> dict[str, Any]:
    found = _thread_of(stage, target)
    for branch in ("if_active", "if_idle"):
        if branch in found:
            members = snake_members(found[branch])
            if "stream_options" in members:
                members["stream_options"] = snake_members(members["stream_options"])
            found[branch] = members
    return found


async def _settle(stage: Stage, action: Mapping[str, Any]) -> Any:
    await stage.settle()
    return NOTHING


async def _await_gate(stage: Stage, action: Mapping[str, Any]) -> Any:
    async with asyncio.timeout(_GATE_SECONDS):
        await stage.gates.reached(action["gate"])
    return NOTHING


async def _open(stage: Stage, action: Mapping[str, Any]) -> Any:
    stage.gates.open(action["gate"])
    return NOTHING


async def _abort_thread(stage: Stage, action: Mapping[str, Any]) -> Any:
    options = _thread_of(stage, action.get("options", {}))
    return stage.agent(action).abort_thread_stream(**options)


async def _cancel_queued(stage: Stage, action: Mapping[str, Any]) -> Any:
    options = snake_members(stage.resolve(action["options"]))
    cancelled = stage.agent(action).cancel_queued_messages(**{"thread_id": THREAD, **options})
    return {"cancelledSignalIds": cancelled}


async def _thread_events(stage: Stage, action: Mapping[str, Any]) -> Any:
    options = _thread_of(stage, action.get("options", {}))
    stage.stops.append(
        stage.agent(action).subscribe_thread_events(
            lambda event: stage.thread_events.append(dict(event)), **options
        )
    )
    return NOTHING


async def _remember(stage: Stage, action: Mapping[str, Any]) -> Any:
    memory = stage.agent(action).memory
    assert memory is not None
    options = snake_members(action.get("options", {}))
    return [_brief(row) for row in await memory.recall(THREAD, RESOURCE, **options)]


def _brief(row: Message) -> dict[str, Any]:
    texts = [part["text"] for part in row.content["parts"] if part["type"] == "text"]
    kind = {"type": row.type} if row.role == "signal" else {}
    return {"id": row.id, "role": row.role, **kind, "text": f"{row.role}:{'|'.join(texts)}"}


async def _active_run_id(stage: Stage, action: Mapping[str, Any]) -> Any:
    return stage.agent(action).get_active_thread_run_id(resource_id=RESOURCE, thread_id=THREAD)


async def _create_thread(stage: Stage, action: Mapping[str, Any]) -> Any:
    options: dict[str, Any] = {"id": THREAD, "title": "", "resource_id": RESOURCE}
    given = snake_members(action.get("options", {}))
    options.update({"id" if name == "thread_id" else name: given[name] for name in given})
    stage.thread_ids.add(options["id"])
    created, updated = stage.clock.now(), stage.clock.now()
    thread = Thread(**options, created_at=created, updated_at=updated)
    return plain(await stage.mastra.storage.memory.save_thread(thread))


ACTS: Final[Mapping[str, Callable[[Stage, Mapping[str, Any]], Awaitable[Any]]]] = MappingProxyType(
    {
        "subscribe": _subscribe,
        "send": _send,
        "settle": _settle,
        # The recordings slept until something was over; here that can be seen.
        "sleep": _settle,
        "awaitGate": _await_gate,
        "open": _open,
        "abortThread": _abort_thread,
        "activeRunId": _active_run_id,
        "cancelQueued": _cancel_queued,
        "rememberMessages": _remember,
        "threadEvents": _thread_events,
        "createThread": _create_thread,
    }
)
