"""Signals that say which calls have gone into the background, and what came of them."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from mastra_core.errors import MastraError
from mastra_core.messages.message_list import MessageList
from mastra_core.processors import ProcessorArgs
from mastra_core.wire.tasks import BackgroundTask
from mastra_processors.built_in import BuiltIn
from mastra_processors.options import Options

__all__ = ("BackgroundWorkSignals",)

logger = logging.getLogger(__name__)

#: Status of the record → status that is told; whoever gave up has failed for the model.
_ENDS: Final[Mapping[str, str]] = {
    "completed": "completed",
    "failed": "failed",
    "timed_out": "failed",
    "cancelled": "cancelled",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """A call of the transcript that runs as a task."""

    task_id: str
    tool_call_id: str
    tool_name: str
    disposition: str | None


class BackgroundWorkSignals(BuiltIn[Options]):
    """
    Tells the model about background tasks of its thread with notification signals.

    One ``work-deferred`` or ``work-awaited`` when a call has gone, one ``work-completed`` or
    ``work-failed`` before the step that follows its end. What has been told stands in the
    thread, so the end of a task is also told in a later run. Nothing here can fail a run.
    """

    id = "background-work-signals"

    async def process_input_step(self, args: ProcessorArgs) -> None:
        """Hook 2."""
        manager = getattr(getattr(args.agent, "host", None), "background_tasks", None)
        if manager is None:
            return
        told = set(_told(args.message_list))
        for work in list(_works(args.message_list)):
            has_begun, has_ended = ((work.task_id, end) in told for end in (False, True))
            if has_ended:
                continue
            try:
                task: BackgroundTask | None = await manager.store.get_task(work.task_id)
                if task is None:
                    continue
                if not has_begun:
                    await self._tell(args, work, task, status="running")
                if task.status in _ENDS:
                    await self._tell(args, work, task, status=_ENDS[task.status])
            except MastraError:
                logger.warning(
                    "background work can't be told", exc_info=True, extra={"task": work.task_id}
                )

    async def _tell(
        self, args: ProcessorArgs, work: _Work, task: BackgroundTask, *, status: str
    ) -> None:
        disposition = work.disposition or _declared(args, work.tool_name)
        if status == "running":
            tag = f"work-{disposition}"
        else:
            tag = "work-completed" if status == "completed" else "work-failed"
        assert args.send_signal is not None
        await args.send_signal(
            {
                "type": "notification",
                "tagName": tag,
                "contents": f"{tag}: {work.tool_call_id}",
                "metadata": {
                    "originRunId": task.run_id,
                    "originToolCallId": work.tool_call_id,
                    "taskId": task.id,
                    "invocationKind": "agent" if task.tool_name.startswith("agent-") else "tool",
                    "disposition": disposition,
                    "status": status,
                },
            }
        )


def _works(messages: MessageList) -> Iterator[_Work]:
    for message in messages.messages:
        for part in message.parts:
            if part.get("type") != "tool-invocation":
                continue
            mark = ((part.get("providerMetadata") or {}).get("mastra") or {}).get("backgroundTask")
            if not isinstance(mark, Mapping) or not mark.get("taskId"):
                continue
            call = part["toolInvocation"]
            given = call.get("args")
            override = given.get("_background") if isinstance(given, Mapping) else None
            yield _Work(
                task_id=str(mark["taskId"]),
                tool_call_id=str(call.get("toolCallId")),
                tool_name=str(call.get("toolName")),
                disposition=override.get("disposition") if isinstance(override, Mapping) else None,
            )


def _declared(args: ProcessorArgs, tool_name: str) -> str:
    """What the tool says about itself."""
    policy = getattr(args.tools.get(tool_name), "background", None)
    return getattr(policy, "default_disposition", None) or "deferred"


def _told(messages: MessageList) -> Iterator[tuple[str, bool]]:
    """Task and whether its end was told, for each signal of ours in the transcript."""
    for message in messages.messages:
        if message.role != "signal":
            continue
        signal: Any = (message.content.get("metadata") or {}).get("signal")
        noted = signal.get("metadata") if isinstance(signal, Mapping) else None
        if isinstance(noted, Mapping) and "originToolCallId" in noted and noted.get("taskId"):
            yield str(noted["taskId"]), noted.get("status") != "running"
