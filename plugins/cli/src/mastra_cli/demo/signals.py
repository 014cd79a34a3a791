"""The demo of shared threads: two processes, one thread, one kill, nothing lost."""

from __future__ import annotations

import asyncio
import shlex
import signal
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field
from typing import Any, Final

from mastra_cli.demo.child import Child, WorkerDiedError
from mastra_cli.demo.show import command_name
from mastra_cli.demo.signals_worker import RESOURCE_ID
from mastra_cli.demo.timeline import Timeline
from mastra_cli.stores import opened_store
from mastra_core.wire.messages import Message

__all__ = ("SignalsOptions", "commands_to_look", "play")

_WORKER: Final = "mastra_cli.demo.signals_worker"
#: How long one step may take: a slow machine, a dead owner's lease.
_STEP_DEADLINE_S: Final = 90.0
_FIRST: Final = "deploy the api"
_SECOND: Final = "tell the team"


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalsOptions:
    """Where it is played."""

    url: str
    thread_id: str
    #: Seconds between two words of the model.
    pause: float = 0.3


@dataclass(slots=True)
class _Worker:
    """One of the two processes, and what it has told."""

    name: str
    child: Child
    events: AsyncGenerator[dict[str, Any], None]
    pid: int = 0


@dataclass(slots=True)
class _Played:
    """What has come out so far."""

    sent: list[dict[str, Any]] = field(default_factory=list)
    killed_with: int | None = None
    first_run: str | None = None
    second_run: str | None = None


async def play(options: SignalsOptions, timeline: Timeline) -> dict[str, Any]:
    """
    Play it to the end; returns the summary under wire names.

    Raises:
        MastraError: Something failed; the workers are gone then.
    """
    played = _Played()
    timeline.facts([("store, bus and leases", options.url), ("thread", options.thread_id)])
    async with AsyncExitStack() as stack:
        timeline.title("Two processes share one thread")
        one = await _started(stack, "worker 1", options, timeline)
        two = await _started(stack, "worker 2", options, timeline)

        timeline.title("Worker 1 is asked, and runs the thread; worker 2 reaches the same run")
        await _ask(one, _FIRST, timeline, played)
        played.first_run = await _until_text(two, timeline)
        await _ask(two, _SECOND, timeline, played)

        timeline.title("Worker 1 is killed in the middle of its answer")
        played.killed_with = await one.child.kill()
        timeline.end_speech()
        name = signal.Signals(-played.killed_with).name
        timeline.note("demo", f"process {one.pid} is gone ({name}); its lease runs out")

        timeline.title("Worker 2 finds what was accepted, and answers it")
        played.second_run = await _until_finish(two, timeline, not_run=played.first_run)
        pids = [one.pid, two.pid]
    rows = await _rows(options)
    timeline.title("What is stored")
    timeline.facts([(row.role, _text_of(row)) for row in rows])
    return _summary(options, played, rows, pids, timeline.elapsed)


async def _started(
    stack: AsyncExitStack, name: str, options: SignalsOptions, timeline: Timeline
) -> _Worker:
    arguments = ["--url", options.url, "--thread", options.thread_id, "--name", name.capitalize()]
    child = await stack.enter_async_context(
        Child(_WORKER, [*arguments, "--pause", str(options.pause)])
    )
    events = await stack.enter_async_context(aclosing(child.events()))
    worker = _Worker(name=name, child=child, events=events)
    worker.pid = (await _next(worker, "started"))["pid"]
    await _next(worker, "ready")
    timeline.note(name, f"process {worker.pid} is up")
    return worker


async def _next(worker: _Worker, *wanted: str) -> dict[str, Any]:
    """The next of these events; what comes before is of no interest."""
    try:
        async with asyncio.timeout(_STEP_DEADLINE_S):
            async for event in worker.events:
                if event["event"] in wanted:
                    return event
    except TimeoutError as exc:
        raise WorkerDiedError(
            f"{worker.name.capitalize()} didn't come to {wanted[0]!r} within "
            f"{_STEP_DEADLINE_S:.0f} seconds.",
            hint="Are store, bus and leases of this URL reachable? Try: mastra-py doctor --url …",
        ) from exc
    raise WorkerDiedError(f"{worker.name.capitalize()} ended before {wanted[0]!r}.")


async def _ask(worker: _Worker, text: str, timeline: Timeline, played: _Played) -> None:
    timeline.note("demo", f"to {worker.name}: “{text}”")
    await worker.child.tell(f"send {text}")
    accepted = await _next(worker, "accepted")
    played.sent.append(accepted)
    how = {
        "wake": "starts a run here",
        "deliver": "is delivered to the run that has the thread",
    }.get(accepted["action"], accepted["action"])
    timeline.note(worker.name, f"accepted, safe in storage: {how} ({accepted['runId']})")


async def _until_text(worker: _Worker, timeline: Timeline) -> str:
    """Until the answer has begun, as this process sees it; the id of the run."""
    event = await _next(worker, "text")
    timeline.speak(event["text"])
    timeline.end_speech()
    return str(event["runId"])


async def _until_finish(worker: _Worker, timeline: Timeline, *, not_run: str | None) -> str:
    """Until another run than this one has answered; its id."""
    while True:
        event = await _next(worker, "text", "text-end", "signal", "start", "finish", "error")
        run_id, kind = event["runId"], event["event"]
        if kind == "error" and run_id == not_run:
            timeline.note(worker.name, f"sees that the run has ended: {event['text']}")
        if run_id == not_run:
            continue
        match kind:
            case "start":
                timeline.note(worker.name, f"has the thread now ({run_id})")
            case "signal":
                timeline.note("inbox", f"“{event['text']}” reaches the agent")
            case "text":
                timeline.speak(event["text"])
            case "text-end":
                timeline.end_speech()
            case "finish":
                return str(run_id)
            case _:
                raise WorkerDiedError(f"The second run failed: {event.get('text')}")


async def _rows(options: SignalsOptions) -> list[Message]:
    async with opened_store(options.url) as store:
        page = await store.memory.list_messages(
            options.thread_id, resource_id=RESOURCE_ID, per_page=False
        )
        return list(page.messages)


def _text_of(row: Message) -> str:
    return "".join(str(part.get("text", "")) for part in row.content["parts"]).strip()


def _summary(
    options: SignalsOptions,
    played: _Played,
    rows: list[Message],
    pids: list[int],
    seconds: float,
) -> dict[str, Any]:
    texts = [_text_of(row) for row in rows]
    answers = [_text_of(row) for row in rows if row.role == "assistant"]
    asked = (_FIRST, _SECOND)
    return {
        "url": options.url,
        "threadId": options.thread_id,
        "sent": len(played.sent),
        "actions": [sent["action"] for sent in played.sent],
        "stored": [texts.count(text) for text in asked],
        "answered": all(any(text in answer for answer in answers) for text in asked),
        "ownerKilled": played.killed_with == -signal.SIGKILL,
        "tookOver": played.second_run not in (None, played.first_run),
        "runIds": [played.first_run, played.second_run],
        "processIds": pids,
        "wallTimeMs": round(seconds * 1000),
    }


def commands_to_look(options: SignalsOptions) -> list[str]:
    """Commands that show what the demo left behind; they work as they are printed."""
    url = f"--url {shlex.quote(options.url)}"
    thread = f"--thread {shlex.quote(options.thread_id)}"
    return [
        f"{command_name()} threads messages {url} {thread}",
        f"{command_name()} doctor {url}",
    ]
