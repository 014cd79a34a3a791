"""``mastra-py runs``: runs that wait for an answer (snapshots.md 8, 9)."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from mastra_cli.exits import wrong_usage
from mastra_cli.options import AppOption, JsonOption, LimitOption, PageOption, UrlOption
from mastra_cli.render import print_json, print_table, print_text, say, shown_time
from mastra_cli.running import new_group, waiting
from mastra_cli.stores import opened_store

__all__ = ("app",)

app = new_group("List runs that wait for an answer, and answer them.")

RunArgument = Annotated[str | None, typer.Argument(metavar="[RUN]", help="Which run.")]
RunOption = Annotated[
    str | None, typer.Option("--run", metavar="ID", help="Which run; same as RUN.")
]
CallOption = Annotated[
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
    from mastra_core.workflows.suspended import check_page

    check_page(limit, page)
    async with opened_store(url) as store:
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
@waiting
async def approve(
    run_id: RunArgument = None,
    *,
    run: RunOption = None,
    tool_call: CallOption = None,
    app: AppOption = None,
    url: UrlOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let a parked tool call run; the run goes on here, to its end or its next stop."""
    await _answer(
        run_id, run, tool_call, app_name=app, url=url, approved=True, reason=None, as_json=as_json
    )


@app.command()
@waiting
async def decline(
    run_id: RunArgument = None,
    *,
    run: RunOption = None,
    tool_call: CallOption = None,
    reason: Annotated[str | None, typer.Option(help="What the model is told.")] = None,
    app: AppOption = None,
    url: UrlOption = None,
    as_json: JsonOption = False,
) -> None:
    """Refuse a parked tool call; the run goes on and the model is told."""
    await _answer(
        run_id,
        run,
        tool_call,
        app_name=app,
        url=url,
        approved=False,
        reason=reason,
        as_json=as_json,
    )


async def _answer(
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
    from mastra_cli.applications import opened_application
    from mastra_cli.suspended import owner_of_run

    run_id = _one_run(argument, option)
    if app_name is None:
        async with opened_store(url) as store:
            raise _no_application(run_id, await owner_of_run(store.workflows, run_id))
    async with opened_application(app_name, url) as application:
        owner = await owner_of_run(application.storage.workflows, run_id)
        if owner not in application.agents:
            known = ", ".join(sorted(application.agents)) or "none"
            raise wrong_usage(
                f"Run {run_id!r} belongs to agent {owner!r}; --app {app_name!r} has: {known}."
            )
        agent = application.get_agent(owner)
        if approved:
            output = await agent.approve_tool_call(run_id, tool_call)
        else:
            output = await agent.decline_tool_call(run_id, tool_call, reason)
        result = await output.get_full_output()
    _report(run_id, tool_call, result, approved=approved, as_json=as_json)


def _report(
    run_id: str, tool_call: str | None, result: Any, *, approved: bool, as_json: bool
) -> None:
    if as_json:
        wire = {
            "runId": run_id,
            "approved": approved,
            "finishReason": result["finishReason"],
            "text": result["text"],
        }
        if tool_call is not None:
            wire["toolCallId"] = tool_call
        print_json(wire)
        return
    if result["text"]:
        print_text(result["text"])
    verb = "Approved" if approved else "Declined"
    reason = result["finishReason"]
    say(f"{verb}. The run ended with {reason!r}.")


def _one_run(argument: str | None, option: str | None) -> str:
    if argument is not None and option is not None and argument != option:
        raise wrong_usage(f"Two runs are named: {argument!r} and {option!r}.")
    chosen = argument if argument is not None else option
    if not chosen:
        raise wrong_usage(
            "No run was named.", hint="mastra-py runs suspended shows those there are."
        )
    return chosen


def _no_application(run_id: str, owner: str) -> Exception:
    return wrong_usage(
        f"Run {run_id!r} belongs to agent {owner!r}, whose tools and model are in your code.",
        hint="Name the Agent or Mastra object that holds it: --app module:name",
    )
