"""``mastra-py demo``: the whole job on real events."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from mastra_cli.options import JsonOption
from mastra_cli.render import print_json

__all__ = ("app",)

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.callback(invoke_without_command=True)
def demo(
    context: typer.Context,
    *,
    model: Annotated[
        str,
        typer.Option(
            "--model",
            metavar="NAME",
            help="local (a small real one on your CPU; pulls 93 MB once), scripted (needs "
            "nothing), or a hosted one such as openai/gpt-5-mini.",
        ),
    ] = "local",
    db: Annotated[
        Path | None,
        typer.Option(
            "--db", metavar="PATH", help="Database file; a new one in a temporary folder otherwise."
        ),
    ] = None,
    keep: Annotated[
        bool,
        typer.Option("--keep/--discard", help="Keep the temporary database to look into it."),
    ] = True,
    deliveries: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="Your own deliveries, JSON lines {event, payload}."),
    ] = None,
    decline: Annotated[
        bool, typer.Option("--decline", help="Refuse what the agent proposes.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """
    Real GitHub events, an agent, an approval, a killed process: the whole job in a minute.

    64 recorded webhook deliveries become notifications in the inbox of one thread. The
    default policy decides which wake an agent. It proposes an action that needs approval,
    its process is killed, another process finds the run, approves, and finishes.
    """
    if context.invoked_subcommand is not None:
        return
    from mastra_cli.demo.choice import choose_model
    from mastra_cli.demo.show import DemoOptions, commands_to_look, play
    from mastra_cli.demo.timeline import new_timeline
    from mastra_core.base.ids import UuidIds

    folder = Path(tempfile.mkdtemp(prefix="mastra-demo-")) if db is None else None
    try:
        options = DemoOptions(
            database=db.absolute() if db is not None else Path(folder or "") / "demo.db",
            # Of its own, so that a file may see the demo more than once.
            thread_id=f"demo-{UuidIds().new('thread')[:8]}",
            choice=choose_model(model),
            deliveries=deliveries.absolute() if deliveries else None,
            decline=decline,
        )
        timeline = new_timeline(as_json=as_json)
        summary = asyncio.run(play(options, timeline))
        if folder is None or keep:
            timeline.title("Look for yourself")
            timeline.commands(commands_to_look(options))
    finally:
        if folder is not None and not keep:
            shutil.rmtree(folder, ignore_errors=True)
    if as_json:
        print_json(summary)


@app.command()
def signals(
    *,
    url: Annotated[
        str | None,
        typer.Option(
            "--url",
            metavar="URL",
            help="Store, bus and leases, such as postgresql://…, redis://… or file:./app.db; "
            "a file in a temporary folder otherwise.",
        ),
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep/--discard", help="Keep the temporary file to look into it.")
    ] = True,
    as_json: JsonOption = False,
) -> None:
    """
    One thread, two processes: the owner is killed in mid-run, the other one takes over.

    Both processes are asked something. One of them runs the thread; what the other one was
    told reaches the same run. Then the owner is killed, and what was accepted is answered
    by the one that is left. Store, bus and leases are those of one URL.
    """
    from mastra_cli.demo.show import url_of_file
    from mastra_cli.demo.signals import SignalsOptions, commands_to_look, play
    from mastra_cli.demo.timeline import new_timeline
    from mastra_core.base.ids import UuidIds

    folder = Path(tempfile.mkdtemp(prefix="mastra-demo-")) if url is None else None
    try:
        options = SignalsOptions(
            url=url or url_of_file(Path(folder or "") / "demo.db"),
            thread_id=f"demo-{UuidIds().new('thread')[:8]}",
        )
        timeline = new_timeline(as_json=as_json)
        summary = asyncio.run(play(options, timeline))
        if folder is None or keep:
            timeline.title("Look for yourself")
            timeline.commands(commands_to_look(options))
    finally:
        if folder is not None and not keep:
            shutil.rmtree(folder, ignore_errors=True)
    if as_json:
        print_json(summary)
