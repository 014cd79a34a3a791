"""``mastra-py threads``: threads and their messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from mastra_cli.exits import wrong_usage
from mastra_cli.options import (
    JsonOption,
    LimitOption,
    PageOption,
    UrlOption,
    check_paging,
)
from mastra_cli.render import print_json, print_table, print_text, say, shown_time
from mastra_cli.running import new_group, waiting
from mastra_cli.stores import opened_store
from mastra_core.contracts.storage import OrderBy
from mastra_core.errors import ThreadNotFoundError
from mastra_core.wire.messages import Message

__all__ = ("app",)

app = new_group("List threads and messages.")


@app.command("list")
@waiting
async def list_threads(
    *,
    url: UrlOption = None,
    resource: Annotated[str | None, typer.Option(help="Only threads of this resource.")] = None,
    limit: LimitOption = 100,
    page: PageOption = 0,
    as_json: JsonOption = False,
) -> None:
    """List threads, the newest first."""
    check_paging(limit, page)
    async with opened_store(url, only_reads=True) as store:
        found = await store.memory.list_threads(
            resource_id=resource, page=page, per_page=limit, order_by=OrderBy(direction="DESC")
        )
    if as_json:
        print_json([thread.to_wire() for thread in found.threads])
        return
    rows = [
        (thread.id, thread.resource_id, thread.title, shown_time(thread.to_wire()["updatedAt"]))
        for thread in found.threads
    ]
    print_table(("ID", "RESOURCE", "TITLE", "UPDATED"), rows, empty="There are no threads.")
    _say_rest(len(rows), found.total)


@app.command()
@waiting
async def messages(
    thread_id: Annotated[
        str | None, typer.Argument(metavar="[THREAD]", help="Which thread.")
    ] = None,
    *,
    thread: Annotated[
        str | None, typer.Option("--thread", metavar="ID", help="Which thread; same as THREAD.")
    ] = None,
    url: UrlOption = None,
    limit: LimitOption = 100,
    page: PageOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Show the messages of a thread, the oldest first."""
    wanted = _one_of(thread_id, thread)
    check_paging(limit, page)
    async with opened_store(url, only_reads=True) as store:
        if await store.memory.get_thread_by_id(wanted) is None:
            raise ThreadNotFoundError(
                f"There is no thread {wanted!r}.",
                hint="mastra-py threads list shows those there are.",
            )
        found = await store.memory.list_messages(wanted, page=page, per_page=limit)
    if as_json:
        print_json([message.to_wire() for message in found.messages])
        return
    for message in found.messages:
        _print_message(message)
    if not found.messages:
        say(f"Thread {wanted!r} has no messages.")
    _say_rest(len(found.messages), found.total)


def _one_of(argument: str | None, option: str | None) -> str:
    if argument is not None and option is not None and argument != option:
        raise wrong_usage(f"Two threads are named: {argument!r} and {option!r}.")
    chosen = argument if argument is not None else option
    if not chosen:
        raise wrong_usage("No thread was named.", hint="mastra-py threads messages --thread ID")
    return chosen


def _say_rest(shown: int, total: int | None) -> None:
    if total is not None and total > shown:
        say(f"{shown} of {total} shown; --limit and --page show the others.")


def _print_message(message: Message) -> None:
    kind = f" {message.type}" if message.type else ""
    print_text(f"{shown_time(message.to_wire()['createdAt'])}  {message.role}{kind}  {message.id}")
    for line in _lines(message.content):
        print_text(f"    {line}")


def _lines(content: dict[str, Any]) -> Iterator[str]:
    parts = content.get("parts") or ()
    for part in parts:
        yield from _part_lines(part)
    if not parts and isinstance(content.get("content"), str):
        yield from content["content"].splitlines()


def _part_lines(part: dict[str, Any]) -> Iterator[str]:
    match part.get("type"):
        case "text" | "reasoning":
            yield from str(part.get("text") or part.get("reasoning") or "").splitlines()
        case "tool-invocation":
            call = part.get("toolInvocation") or {}
            yield f"[{call.get('state')}] {call.get('toolName')} {call.get('args')}"
            if call.get("state") == "result":
                yield f"  → {call.get('result')}"
        case kind:
            yield f"[{kind}]"
