"""One worker of the demo, in a process of its own: ``python -m mastra_cli.demo.worker``.

It tells its parent what happens, one JSON object a line on stdout, and is told things on
stdin. ``ingest`` takes the deliveries in and works until the run waits for approval; then it
only stands there until it is killed. ``resume`` finds the run, waits for a person's
decision, and finishes.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mastra_cli.demo.choice import demo_model
from mastra_cli.demo.lines import tell, told
from mastra_cli.demo.triage import AGENT_ID, RESOURCE_ID, subjects_of, triage_agent
from mastra_core import Agent, Mastra, ModelOutput
from mastra_core.base.clock import SystemClock
from mastra_core.base.tasks import TaskSupervisor
from mastra_core.errors import (
    MastraError,
    ModelError,
    ModelOutputError,
    RunNotFoundError,
    wire_from_error,
)
from mastra_core.notifications.ingest import NotificationResult
from mastra_core.threads.subscription import ThreadSubscription
from mastra_github.mapping import notification_from_delivery
from mastra_github.samples import load_deliveries, packaged_deliveries

__all__ = ("main",)

#: The demo dispatches by itself, so that its figures are the same every time.
_INBOX_SETTINGS: dict[str, Any] = {"dispatch": {"enabled": False}}


def _application(url: str, *agents: Agent) -> Mastra:
    # The workers come one after the other, so leases in memory are enough.
    return Mastra(storage=url, lease="memory:", agents=agents, notifications=_INBOX_SETTINGS)


async def _ingest(options: argparse.Namespace) -> None:
    deliveries = (
        load_deliveries(options.deliveries) if options.deliveries else packaged_deliveries()
    )
    events = [notification_from_delivery(delivery) for delivery in deliveries]
    tell("loaded", deliveries=len(events))
    is_settled = asyncio.Event()
    # What will be high is known before it is stored: the last event of a record counts.
    subjects = _subjects_of_events(events)
    agent = triage_agent(demo_model(options.model, is_settled), subjects)
    supervisor = TaskSupervisor("demo watcher")
    async with _application(options.url, agent):
        watch = agent.subscribe_to_thread(thread_id=options.thread, resource_id=RESOURCE_ID)
        done = supervisor.start(_watch(watch), name="demo-watch")
        results = await agent.send_notification_signal(
            events, thread_id=options.thread, resource_id=RESOURCE_ID
        )
        assert isinstance(results, list)
        waking = _waking_output(results)
        records = {result.record.id: result for result in results}
        decided = Counter(result.decision.action for result in records.values())
        tell(
            "ingested",
            events=len(events),
            records=len(records),
            decisions=dict(decided),
            priorities=dict(Counter(result.record.priority for result in records.values())),
        )
        is_settled.set()
        run_id = await done
        # The approval is announced a moment before its rows are durable; the run's end isn't.
        await waking.wait()
        run = await _suspended_run(agent, options.thread, run_id)
        tell("suspended", **run)
        # The parent kills this process now; if it goes away instead, so do we.
        while await told():
            continue


def _subjects_of_events(events: list[dict[str, Any]]) -> list[str]:
    latest = {(event["kind"], event["coalesce_key"]): event for event in events}
    serious = [event for event in latest.values() if event["priority"] in {"urgent", "high"}]
    ordered = sorted(serious, key=lambda event: (event["priority"] != "urgent", event["summary"]))
    return [event["summary"] for event in ordered]


def _waking_output(results: list[NotificationResult]) -> ModelOutput:
    """The run that the first delivered notification started."""
    for result in results:
        if result.accepted is not None and isinstance(result.accepted.output, ModelOutput):
            return result.accepted.output
    raise RunNotFoundError(
        "No delivery woke the agent.",
        hint="Urgent, high and medium ones do, see mastra_github.mapping.",
    )


async def _watch(subscription: ThreadSubscription) -> str:
    """
    Tell what happens on the thread until a run waits for approval; returns its id.

    Raises:
        ModelError: The model failed, or ended its turn without proposing anything.
    """
    try:
        async for chunk in subscription.stream:
            _tell_chunk(chunk)
            match chunk.get("type"):
                case "tool-call-approval":
                    return str(chunk.get("runId"))
                case "error":
                    raise ModelError(f"The model failed: {_error_text(chunk)}")
                case "finish":
                    raise ModelOutputError(
                        "The model ended its turn without proposing an action.",
                        hint="Try another one: --model local, or --model scripted.",
                    )
                case _:
                    continue
    finally:
        subscription.unsubscribe()
    raise RunNotFoundError("The thread fell silent before anything was proposed.")


def _error_text(chunk: Mapping[str, Any]) -> str:
    error = (chunk.get("payload") or {}).get("error")
    return str(error.get("message", error) if isinstance(error, Mapping) else error)


def _tell_chunk(chunk: Mapping[str, Any]) -> None:
    payload = chunk.get("payload") or {}
    match chunk.get("type"):
        case "text-delta":
            tell("text", text=payload.get("text", ""))
        case "text-end":
            tell("text-end")
        case "tool-call":
            tell("tool-call", tool=payload.get("toolName"), arguments=payload.get("args"))
        case "tool-result":
            tell("tool-result", tool=payload.get("toolName"), result=payload.get("result"))
        case "data-signal" | "data-user-message":
            tell("signal", kind=(chunk.get("data") or {}).get("tagName"))
        case _:
            return


async def _suspended_run(agent: Agent, thread: str, run_id: str) -> dict[str, Any]:
    """The run as anybody sees it who shares the store."""
    listed = await agent.list_suspended_runs(thread_id=thread)
    for run in listed.runs:
        if run.run_id == run_id:
            return {"runId": run.run_id, "run": run.to_wire()}
    raise RunNotFoundError(run_id=run_id, agent_id=AGENT_ID)


async def _resume(options: argparse.Namespace) -> None:
    is_settled = asyncio.Event()
    is_settled.set()
    async with _application(options.url) as application:
        records = await application.storage.notifications.list_notifications(options.thread)
        agent = triage_agent(demo_model(options.model, is_settled), subjects_of(records))
        application.add_agent(agent)
        listed = await agent.list_suspended_runs(thread_id=options.thread)
        if not listed.runs:
            raise RunNotFoundError(f"Thread {options.thread!r} has no suspended run.")
        run = listed.runs[0]
        tell("found", total=listed.total, run=run.to_wire())
        answer = await told()
        if answer not in {"approve", "decline"}:
            return
        output = await _answer(agent, run.run_id, approved=answer == "approve")
        async for chunk in output.full_stream:
            _tell_chunk(chunk)
        tell("finished", runId=run.run_id, reason=await output.finish_reason)
        await _dispatch(application)


async def _answer(agent: Agent, run_id: str, *, approved: bool) -> ModelOutput:
    if approved:
        return await agent.approve_tool_call(run_id)
    return await agent.decline_tool_call(run_id, reason="The person at the keyboard said no.")


async def _dispatch(application: Mastra) -> None:
    """What the dispatcher does at its next tick, now: one summary of all that can wait."""
    dispatched = await application.dispatch_due_notifications(now=SystemClock().now(), limit=1000)
    tell(
        "dispatched",
        delivered=len(dispatched.delivered),
        failed=len(dispatched.failed),
        signals=len(dispatched.signals),
    )


def main() -> None:
    """Do one part, and end with the error as a line if it can't be done."""
    parser = argparse.ArgumentParser()
    parser.add_argument("part", choices=("ingest", "resume"))
    parser.add_argument("--url", required=True)
    parser.add_argument("--thread", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--deliveries", type=Path)
    options = parser.parse_args()
    tell("started", pid=os.getpid())
    try:
        asyncio.run(_ingest(options) if options.part == "ingest" else _resume(options))
    except MastraError as exc:
        tell("failed", error=wire_from_error(exc), hint=exc.hint)
        sys.exit(1)


if __name__ == "__main__":
    main()
