"""``mastra-py inbox``: the durable inbox of one thread (notifications.md)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Literal

import typer

from mastra_cli.exits import wrong_usage
from mastra_cli.options import JsonOption, LimitOption, ThreadOption, UrlOption
from mastra_cli.render import print_json, print_table, print_text, say, shown_time
from mastra_cli.running import new_group, waiting
from mastra_cli.stores import opened_store
from mastra_core.contracts.storage import NotificationsStorage
from mastra_core.wire.notifications import (
    PRIORITIES,
    STATUSES,
    NotificationPatch,
    NotificationRecord,
)

__all__ = (
    "Change",
    "IdsArgument",
    "app",
)

app = new_group("Look into the inbox of a thread.")

IdsArgument = Annotated[list[str], typer.Argument(metavar="ID...", help="Which notifications.")]


@app.command("list")
@waiting
async def list_records(
    *,
    thread: ThreadOption,
    url: UrlOption = None,
    status: Annotated[
        list[str] | None, typer.Option(help=f"Only these: {', '.join(STATUSES)}.")
    ] = None,
    priority: Annotated[
        list[str] | None, typer.Option(help=f"Only these: {', '.join(PRIORITIES)}.")
    ] = None,
    source: Annotated[str | None, typer.Option(help="Only from this source.")] = None,
    search: Annotated[
        str | None, typer.Option(help="Only where summary, kind or source contain this.")
    ] = None,
    limit: LimitOption = 100,
    as_json: JsonOption = False,
) -> None:
    """List what is in the inbox, the newest change first."""
    _check_names("status", status, STATUSES)
    _check_names("priority", priority, PRIORITIES)
    async with opened_store(url, only_reads=True) as store:
        records = await store.notifications.list_notifications(
            thread,
            status=status or None,
            priority=priority or None,
            source=source,
            search=search,
            limit=limit,
        )
    if as_json:
        print_json([record.to_wire() for record in records])
        return
    columns = ("ID", "PRIORITY", "STATUS", "KIND", "COUNT", "UPDATED", "SUMMARY")
    rows = [
        (
            record.id,
            record.priority,
            record.status,
            record.kind,
            record.coalesced_count,
            shown_time(record.to_wire()["updatedAt"]),
            record.summary,
        )
        for record in records
    ]
    print_table(columns, rows, empty=f"The inbox of thread {thread!r} is empty.")


@app.command()
@waiting
async def read(
    ids: IdsArgument, *, thread: ThreadOption, url: UrlOption = None, as_json: JsonOption = False
) -> None:
    """Show notifications whole, and mark them seen."""
    records = await _changed(url, thread, ids, _to_status("seen"))
    if as_json:
        print_json([record.to_wire() for record in records])
        return
    for record in records:
        _print_record(record)


@app.command()
@waiting
async def archive(
    ids: IdsArgument, *, thread: ThreadOption, url: UrlOption = None, as_json: JsonOption = False
) -> None:
    """Put notifications away; they are never delivered."""
    _report(await _changed(url, thread, ids, _to_status("archived")), "archived", as_json=as_json)


@app.command()
@waiting
async def dismiss(
    ids: IdsArgument, *, thread: ThreadOption, url: UrlOption = None, as_json: JsonOption = False
) -> None:
    """Decline notifications; they are never delivered."""
    _report(await _changed(url, thread, ids, _to_status("dismissed")), "dismissed", as_json=as_json)


@app.command()
@waiting
async def requeue(
    ids: IdsArgument, *, thread: ThreadOption, url: UrlOption = None, as_json: JsonOption = False
) -> None:
    """Try failed notifications again, from the first attempt on."""

    async def again(store: NotificationsStorage, thread_id: str, id: str) -> NotificationRecord:
        return await store.requeue(thread_id, id)

    _report(await _changed(url, thread, ids, again), "requeued", as_json=as_json)


Change = Callable[[NotificationsStorage, str, str], Awaitable[NotificationRecord]]


def _to_status(status: Literal["seen", "archived", "dismissed"]) -> Change:
    async def change(store: NotificationsStorage, thread_id: str, id: str) -> NotificationRecord:
        record = await store.update_notification(thread_id, id, NotificationPatch(status=status))
        assert record is not None  # no expected status was given, so it was written
        return record

    return change


async def _changed(
    url: str | None, thread: str, ids: list[str], change: Change
) -> list[NotificationRecord]:
    """All of them changed, or none if one isn't there."""
    async with opened_store(url) as store:
        inbox = store.notifications
        for wanted in ids:
            if await inbox.get_notification(thread, wanted) is None:
                raise _not_there(thread, wanted)
        return [await change(inbox, thread, wanted) for wanted in ids]


def _not_there(thread: str, id: str) -> Exception:
    from mastra_core.errors import NotificationNotFoundError

    return NotificationNotFoundError(
        f"Thread {thread!r} has no notification {id!r}.",
        hint=f"mastra-py inbox list --thread {thread} shows those that it has.",
    )


def _report(records: list[NotificationRecord], what: str, *, as_json: bool) -> None:
    if as_json:
        print_json([record.to_wire() for record in records])
        return
    for record in records:
        print_text(record.id)
    say(f"{len(records)} {what}.")


def _print_record(record: NotificationRecord) -> None:
    import json

    for name, value in record.to_wire().items():
        shown = value if isinstance(value, str | int) else json.dumps(value, ensure_ascii=False)
        print_text(f"{name:<22} {shown}")
    print_text()


def _check_names(what: str, given: list[str] | None, known: tuple[str, ...]) -> None:
    for name in given or ():
        if name not in known:
            raise wrong_usage(f"There is no {what} {name!r}. Known: {', '.join(known)}.")
