"""The demo itself: two workers, one kill, one approval; played to the person who watches."""

from __future__ import annotations

import asyncio
import json
import shlex
import shutil
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from mastra_cli.demo.child import Child, WorkerDiedError
from mastra_cli.demo.choice import SCRIPTED, Choice
from mastra_cli.demo.summary import InboxCount, count_inbox, stored_rows
from mastra_cli.demo.timeline import Timeline
from mastra_cli.stores import opened_store
from mastra_cli.suspended import suspended_runs
from mastra_core.contracts.storage import Storage

__all__ = (
    "PART_DEADLINE_S",
    "DemoOptions",
    "command_name",
    "commands_to_look",
    "play",
    "url_of_file",
)

#: How long a part may take; the local model needs most of it on a slow machine.
PART_DEADLINE_S: Final = 300.0
_WORKER: Final = "mastra_cli.demo.worker"


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """What is played, and where it is kept."""

    database: Path
    thread_id: str
    choice: Choice
    #: Other deliveries than the packaged ones.
    deliveries: Path | None = None
    #: Refuse what the agent proposes instead of approving it.
    decline: bool = False

    @property
    def url(self) -> str:
        """The store's URL."""
        return url_of_file(self.database)

    @property
    def arguments(self) -> list[str]:
        """What every worker is started with."""
        return [
            "--url",
            self.url,
            "--thread",
            self.thread_id,
            "--model",
            self.choice.name,
            *(["--deliveries", str(self.deliveries)] if self.deliveries else []),
        ]


def url_of_file(path: Path) -> str:
    """The libSQL URL of a file; what a URL can't hold is escaped."""
    return f"file:{quote(str(path), safe='/')}"


@dataclass(slots=True)
class _Played:
    """What has come out so far."""

    deliveries: int = 0
    run_id: str = ""
    call: dict[str, Any] | None = None
    first_pid: int = 0
    second_pid: int = 0
    killed_with: int | None = None
    #: Notifications that reached the agent since the last line about them.
    unsaid_signals: int = 0
    finish_reason: str | None = None


async def play(options: DemoOptions, timeline: Timeline) -> dict[str, Any]:
    """
    Play it to the end; returns the summary under wire names.

    Raises:
        MastraError: Something failed; the workers are gone then.
    """
    played = _Played()
    _introduce(options, timeline)
    for part in (_first_worker, _second_worker):
        try:
            async with asyncio.timeout(PART_DEADLINE_S):
                await part(options, timeline, played)
        except TimeoutError as exc:
            raise WorkerDiedError(
                f"A worker of the demo didn't finish within {PART_DEADLINE_S:.0f} seconds.",
                hint="A slow machine may prefer: mastra-py demo --model scripted",
            ) from exc
    async with opened_store(options.url) as store:
        inbox = await count_inbox(store, options.thread_id)
        rows = await stored_rows(store, options.thread_id, played.run_id)
    timeline.title("What is stored where")
    timeline.facts([("file", str(options.database)), *rows])
    return _summary(options, played, inbox, timeline.elapsed)


def _introduce(options: DemoOptions, timeline: Timeline) -> None:
    choice = options.choice
    if choice.fallback is not None:
        timeline.note("demo", f"Without the small model, by script instead: {choice.fallback}")
    timeline.facts(
        [
            ("model", "by script" if choice.name == SCRIPTED else choice.name),
            ("store", options.url),
            ("thread", options.thread_id),
        ]
    )
    if choice.name.startswith("local/"):
        timeline.note(
            "demo", "A model this small writes odd sentences; everything around it is real."
        )


# -- the first worker -----------------------------------------------------------------------


async def _first_worker(options: DemoOptions, timeline: Timeline, played: _Played) -> None:
    timeline.title("Worker 1: real GitHub deliveries go into the inbox, and wake an agent")
    async with Child(_WORKER, ["ingest", *options.arguments]) as worker:
        async for event in _until(worker, "suspended"):
            match event["event"]:
                case "started":
                    played.first_pid = event["pid"]
                    timeline.note("worker 1", f"process {event['pid']} is up")
                case "loaded":
                    played.deliveries = event["deliveries"]
                    timeline.note("inbox", f"{event['deliveries']} webhook deliveries to take in")
                case "ingested":
                    timeline.note("inbox", _ingested(event))
                case "suspended":
                    played.run_id = event["runId"]
                case _:
                    _show_run(event, timeline, played)
        async with opened_store(options.url) as store:
            played.call = await _durable_call(store, options.thread_id, played.run_id)
            timeline.note("tool", f"waits for approval: {_call_text(played.call)}")
            timeline.facts(await stored_rows(store, options.thread_id, played.run_id))
        timeline.title("Worker 1 is killed, as a crash or a deployment would do it")
        played.killed_with = await worker.kill()
        signal_name = signal.Signals(-played.killed_with).name
        timeline.note("demo", f"process {played.first_pid} is gone ({signal_name})")


def _ingested(event: dict[str, Any]) -> str:
    merged = event["events"] - event["records"]
    by_priority = ", ".join(
        f"{event['priorities'][name]} {name}"
        for name in ("urgent", "high", "medium", "low")
        if name in event["priorities"]
    )
    decided = event["decisions"]
    return (
        f"{event['records']} records ({by_priority}), {merged} deliveries repeat one of them; "
        f"the policy sends {decided.get('deliver', 0)} to the agent now "
        f"and keeps {decided.get('summarize', 0)} for a summary"
    )


async def _durable_call(store: Storage, thread_id: str, run_id: str) -> dict[str, Any]:
    """The parked call as this process reads it; the kill must not come before it is there."""
    found = await suspended_runs(
        store.workflows, agent_id=None, thread_id=thread_id, resource_id=None, page=0, per_page=100
    )
    for run in found.to_wire()["runs"]:
        if run["runId"] == run_id and run["toolCalls"]:
            call: dict[str, Any] = run["toolCalls"][0]
            return call
    raise WorkerDiedError(f"Run {run_id!r} was announced, but isn't in the store.")


# -- the second worker ----------------------------------------------------------------------


async def _second_worker(options: DemoOptions, timeline: Timeline, played: _Played) -> None:
    timeline.title("Worker 2: another process finds the run and finishes it")
    async with Child(_WORKER, ["resume", *options.arguments]) as worker:
        async for event in _until(worker, None):
            match event["event"]:
                case "started":
                    played.second_pid = event["pid"]
                    timeline.note("worker 2", f"process {event['pid']} is up")
                case "found":
                    await _answer(worker, event, options, timeline)
                case "finished":
                    played.finish_reason = event["reason"]
                    timeline.note("worker 2", f"the run has ended: {event['reason']}")
                case "dispatched":
                    timeline.note("inbox", _dispatched(event))
                case _:
                    _show_run(event, timeline, played)


async def _answer(
    worker: Child, event: dict[str, Any], options: DemoOptions, timeline: Timeline
) -> None:
    call = event["run"]["toolCalls"][0]
    timeline.note("worker 2", f"list_suspended_runs: {event['run']['runId']}")
    timeline.note("tool", f"pending: {_call_text(call)}")
    verb, done = ("decline", "declined") if options.decline else ("approve", "approved")
    timeline.note("demo", f"{done}, as you would with: mastra-py runs {verb}")
    await worker.tell(verb)


def _dispatched(event: dict[str, Any]) -> str:
    return (
        f"{event['delivered']} records that could wait went into "
        f"{event['signals']} summary without waking anybody"
    )


# -- both -----------------------------------------------------------------------------------


async def _until(worker: Child, last: str | None) -> AsyncGenerator[dict[str, Any], None]:
    """The worker's events up to ``last``; all of them if that is None."""
    async with aclosing(worker.events()) as events:
        async for event in events:
            yield event
            if event["event"] == last:
                return
    if last is not None:
        raise WorkerDiedError(f"The worker ended before it came to {last!r}.")


def _show_run(event: dict[str, Any], timeline: Timeline, played: _Played) -> None:
    if event["event"] == "signal":
        played.unsaid_signals += 1
        return
    if played.unsaid_signals:
        noun = "notification reaches" if played.unsaid_signals == 1 else "notifications reach"
        timeline.note("inbox", f"{played.unsaid_signals} {noun} the agent")
        played.unsaid_signals = 0
    match event["event"]:
        case "text":
            timeline.speak(event["text"])
        case "text-end":
            timeline.end_speech()
        case "tool-call":
            timeline.note("model", f"calls {event['tool']} {_json(event['arguments'])}")
        case "tool-result":
            timeline.note("tool", f"{event['tool']} answers {_json(event['result'])}")
        case _:
            return


def _call_text(call: dict[str, Any] | None) -> str:
    return f"{(call or {}).get('toolName')} {_json((call or {}).get('args'))}"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _summary(
    options: DemoOptions, played: _Played, inbox: InboxCount, seconds: float
) -> dict[str, Any]:
    was_killed = played.killed_with == -signal.SIGKILL
    return {
        "deliveries": played.deliveries,
        **inbox.to_wire(),
        "runId": played.run_id,
        "toolCall": played.call,
        "approved": not options.decline,
        "finishReason": played.finish_reason,
        "resumedInNewProcess": was_killed and played.second_pid != played.first_pid,
        "processIds": [played.first_pid, played.second_pid],
        "model": options.choice.name,
        "fallback": options.choice.fallback,
        "database": str(options.database),
        "threadId": options.thread_id,
        "wallTimeMs": round(seconds * 1000),
    }


def commands_to_look(options: DemoOptions) -> list[str]:
    """Commands that show what the demo left behind; they work as they are printed."""
    command = command_name()
    url = f"--url {shlex.quote(options.url)}"
    thread = f"--thread {shlex.quote(options.thread_id)}"
    return [
        f"{command} inbox list {url} {thread}",
        f"{command} threads messages {url} {thread}",
        f"{command} runs suspended {url}",
        f"{command} doctor {url}",
    ]


def command_name() -> str:
    """``mastra-py`` if the shell finds it, and it is this one; else how to call this one."""
    found = shutil.which("mastra-py")
    here = Path(sys.executable).parent / "mastra-py"
    if found is not None and Path(found).resolve() == here.resolve():
        return "mastra-py"
    return f"{shlex.quote(sys.executable)} -m mastra_cli"
