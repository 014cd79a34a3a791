"""``mastra-py runs``: runs that wait for an answer (snapshots.md 8, 9)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mastra_cli.exits import wrong_usage
from mastra_cli.options import (
    AppOption,
    JsonOption,
    LimitOption,
    PageOption,
    UrlOption,
    check_paging,
)
from mastra_cli.render import print_json, print_piece, print_table, print_text, say, shown_time
from mastra_cli.running import new_group, waiting
from mastra_cli.stores import opened_store

if TYPE_CHECKING:
    from mastra_core import Mastra, ModelOutput

__all__ = ("app",)

app = new_group("List runs that wait for an answer, and answer them.")

_RunArgument = Annotated[str | None, typer.Argument(metavar="[RUN]", help="Which run.")]
_RunOption = Annotated[
    str | None, typer.Option("--run", metavar="ID", help="Which run; same as RUN.")
]
_CallOption = Annotated[
    str | None,
    typer.Option("--tool-call", metavar="ID", help="Which of its calls; needed if several wait."),
]


@app.command()
@waiting
async def suspended(
    *,
    url: UrlOption = None,
    agent: Annotated[str | None, typer.Option(help="Only runs of this agent id.")] = None,
    thread: Annotated[str | None, typer.Option(help="Only runs of this thread.")] = None,
    resource: Annotated[str | None, typer.Option(help="Only runs of this resource.")] = None,
    limit: LimitOption = 100,
    page: PageOption = 0,
    as_json: JsonOption = False,
) -> None:
    """List runs that wait for approval or data, the newest first."""
    from mastra_cli.suspended import suspended_runs

    check_paging(limit, page)
    async with opened_store(url, only_reads=True) as store:
        found = await suspended_runs(
            store.workflows,
            agent_id=agent,
            thread_id=thread,
            resource_id=resource,
            page=page,
            per_page=limit,
        )
    if as_json:
        print_json(found.to_wire())
        return
    rows = []
    for run in found.to_wire()["runs"]:
        for call in run["toolCalls"] or [{}]:
            needs = "approval" if call.get("requiresApproval") else "data"
            facts = (run["runId"], run.get("agentId"), run.get("threadId"))
            told = (call.get("toolCallId"), call.get("toolName"), needs, call.get("args"))
            rows.append((*facts, *told, shown_time(run["suspendedAt"])))
    columns = ("RUN", "AGENT", "THREAD", "CALL", "TOOL", "NEEDS", "ARGUMENTS", "SINCE")
    print_table(columns, rows, empty="No run waits for an answer.")


@app.command()
def approve(
    run_id: _RunArgument = None,
    *,
    run: _RunOption = None,
    tool_call: _CallOption = None,
    app: AppOption = None,
    url: UrlOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let a parked tool call run; the run goes on here, to its end or its next stop."""
    _answer(
        run_id, run, tool_call, app_name=app, url=url, approved=True, reason=None, as_json=as_json
    )


@app.command()
def decline(
    run_id: _RunArgument = None,
    *,
    run: _RunOption = None,
    tool_call: _CallOption = None,
    reason: Annotated[str | None, typer.Option(help="What the model is told.")] = None,
    app: AppOption = None,
    url: UrlOption = None,
    as_json: JsonOption = False,
) -> None:
    """Refuse a parked tool call; the run goes on and the model is told."""
    _answer(
        run_id,
        run,
        tool_call,
        app_name=app,
        url=url,
        approved=False,
        reason=reason,
        as_json=as_json,
    )


def _answer(
    argument: str | None,
    option: str | None,
    tool_call: str | None,
    *,
    app_name: str | None,
    url: str | None,
    approved: bool,
    reason: str | None,
    as_json: bool,
) -> None:
    from mastra_cli.applications import load_application

    run_id = _one_run(argument, option)
    if app_name is None:
        raise asyncio.run(_no_application(run_id, url))
    # Before the event loop runs: whatever importing it does, Ctrl-C ends it.
    application = load_application(app_name, url)
    answer = _Answer(run_id=run_id, tool_call=tool_call, approved=approved, reason=reason)
    result = asyncio.run(_carry_out(answer, application, app_name, is_quiet=as_json))
    if as_json:
        print_json(result)
        return
    finish_reason = result["finishReason"]
    say(f"{'Approved' if approved else 'Declined'}. The run ended with {finish_reason!r}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """What a person said to a parked call."""

    run_id: str
    tool_call: str | None
    approved: bool
    reason: str | None


async def _carry_out(
    answer: _Answer, application: Mastra, app_name: str, *, is_quiet: bool
) -> dict[str, Any]:
    from mastra_cli.suspended import owner_of_run

    async with application:
        owner = await owner_of_run(application.storage.workflows, answer.run_id)
        if owner not in application.agents:
            known = ", ".join(sorted(application.agents)) or "none"
            raise wrong_usage(
                f"Run {answer.run_id!r} belongs to agent {owner!r}; --app {app_name!r} has: {known}."
            )
        agent = application.get_agent(owner)
        if answer.approved:
            output = await agent.approve_tool_call(answer.run_id, answer.tool_call)
        else:
            output = await agent.decline_tool_call(answer.run_id, answer.tool_call, answer.reason)
        text = await _told(output, is_quiet=is_quiet)
        result = await output.get_full_output()
    wire: dict[str, Any] = {"runId": answer.run_id, "approved": answer.approved}
    if answer.tool_call is not None:
        wire["toolCallId"] = answer.tool_call
    return {**wire, "finishReason": result["finishReason"], "text": text}


async def _told(output: ModelOutput, *, is_quiet: bool) -> str:
    """What the model says from here on, shown as it comes."""
    text = ""
    async for piece in output.text_stream:
        text += piece
        if not is_quiet:
            print_piece(piece)
    if text and not is_quiet:
        print_text()
    return text


def _one_run(argument: str | None, option: str | None) -> str:
    if argument is not None and option is not None and argument != option:
        raise wrong_usage(f"Two runs are named: {argument!r} and {option!r}.")
    chosen = argument if argument is not None else option
    if not chosen:
        raise wrong_usage(
            "No run was named.", hint="mastra-py runs suspended shows those there are."
        )
    return chosen


async def _no_application(run_id: str, url: str | None) -> Exception:
    """Whose run it is, so that the person knows what to name."""
    from mastra_cli.suspended import owner_of_run

    async with opened_store(url, only_reads=True) as store:
        owner = await owner_of_run(store.workflows, run_id)
    return wrong_usage(
        f"Run {run_id!r} belongs to agent {owner!r}, whose tools and model are in your code.",
        hint="Name the Agent or Mastra object that holds it: --app module:name",
    )
