"""What can go wrong with a file, by name: typed, with advice, and nothing half-written."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
import pytest

from mastra_core.errors import (
    StorageArgumentError,
    StorageConnectionError,
    StorageDataError,
    StorageError,
)
from mastra_core.wire.messages import Message
from mastra_core.wire.notifications import CreateNotification
from mastra_core.wire.threads import Thread
from mastra_libsql import LibSQLStorage

pytestmark = pytest.mark.anyio

Query = Callable[..., list[tuple[Any, ...]]]
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def letter(path: Path) -> bytes:
    """Something else than a database."""
    path.write_bytes(b"This is a letter, not a database. " * 100)
    return bytes_of(path)


def bytes_of(path: Path) -> bytes:
    return path.read_bytes()


def damage(path: Path) -> None:
    """Fill all pages but the first three with nonsense."""
    content = bytearray(path.read_bytes())
    content[4096 * 3 :] = b"\xa5" * (len(content) - 4096 * 3)
    path.write_bytes(content)


async def test_a_file_that_is_no_database(path: Path) -> None:
    content = letter(path)

    with pytest.raises(StorageDataError, match="is not a SQLite database") as caught:
        await LibSQLStorage(f"file:{path}").init()

    assert "MASTRA_STORAGE_LIBSQL_OPEN_FAILED" == caught.value.id
    assert isinstance(caught.value.__cause__, apsw.NotADBError)
    assert content == bytes_of(path)


async def test_a_damaged_database(path: Path) -> None:
    """Pages that make no sense are reported as damage, with what to do."""
    async with LibSQLStorage(f"file:{path}") as store:
        for number in range(300):
            await store.memory.save_thread(
                Thread(
                    id=f"t{number}",
                    resource_id="u",
                    title="x" * 500,
                    created_at=NOW,
                    updated_at=NOW,
                )
            )
    damage(path)

    with pytest.raises(StorageDataError, match="is damaged") as caught:
        async with LibSQLStorage(f"file:{path}") as store:
            await store.memory.list_threads(per_page=False)

    assert ".recover" in str(caught.value.hint)
    assert isinstance(caught.value.__cause__, apsw.CorruptError)


async def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(StorageConnectionError, match="can't be opened") as caught:
        await LibSQLStorage(f"file:{tmp_path}/missing/app.db").init()

    assert "folder must exist" in str(caught.value.hint)


async def test_a_folder_instead_of_a_file(tmp_path: Path) -> None:
    with pytest.raises(StorageConnectionError, match="can't be opened: it is a folder") as caught:
        await LibSQLStorage(f"file:{tmp_path}").init()

    assert "Name a file in it" in str(caught.value.hint)


async def test_a_store_that_became_read_only(path: Path) -> None:
    """The call fails typed, and says which files have to be writable."""
    async with LibSQLStorage(f"file:{path}") as store:
        client = store._door.opened()  # the only way to the connection itself
        await client.call(
            "limit", lambda session: session.connection.execute("PRAGMA query_only=1")
        )  # type: ignore[attr-defined]

        with pytest.raises(StorageError, match="can't be written") as caught:
            await create(store)

        assert isinstance(caught.value.__cause__, apsw.ReadOnlyError)
        assert [] == await store.notifications.list_notifications("t")


async def test_a_full_disk_leaves_the_old_row(path: Path) -> None:
    """Nothing is half-written, and the store goes on working once there is space."""
    async with LibSQLStorage(f"file:{path}") as store:
        key = {"workflow_name": "w", "run_id": "r"}
        await store.workflows.persist_workflow_snapshot(**key, snapshot={"status": "pending"})
        client: Any = store._door.opened()
        await client.call("limit", _limit_pages)

        with pytest.raises(StorageError, match="is full"):
            await store.workflows.persist_workflow_snapshot(**key, snapshot={"x": "y" * 400_000})

        assert {"status": "pending"} == await store.workflows.load_workflow_snapshot(**key)
        await client.call("unlimit", lambda s: s.connection.execute("PRAGMA max_page_count=100000"))
        await store.workflows.persist_workflow_snapshot(**key, snapshot={"x": "y" * 400_000})


def _limit_pages(session: Any) -> None:
    [(pages,)] = session.connection.execute("PRAGMA page_count").fetchall()
    session.connection.execute(f"PRAGMA max_page_count = {pages + 1}")


async def test_a_closed_store(path: Path) -> None:
    store = LibSQLStorage(f"file:{path}")

    with pytest.raises(StorageConnectionError, match="closed, or was not opened yet"):
        await store.memory.list_threads()
    async with store:
        await store.memory.list_threads()
    with pytest.raises(StorageConnectionError, match="closed, or was not opened yet"):
        await store.memory.list_threads()

    assert {"connections": 0, "worker_threads": 0, "waiting_calls": 0} == store.open_resources()


async def test_opening_twice_is_harmless(path: Path) -> None:
    """The inner block doesn't close what the outer one uses."""
    store = LibSQLStorage(f"file:{path}")

    async with store:
        async with store:
            await store.init()
        assert 0 == (await store.memory.list_threads()).total

    assert 0 == sum(store.open_resources().values())


async def test_a_snapshot_over_the_limit_leaves_the_old_one(path: Path) -> None:
    async with LibSQLStorage(f"file:{path}", max_snapshot_bytes=2000) as store:
        key = {"workflow_name": "w", "run_id": "r"}
        await store.workflows.persist_workflow_snapshot(**key, snapshot={"small": True})

        with pytest.raises(StorageArgumentError) as caught:
            await store.workflows.persist_workflow_snapshot(
                **key, snapshot={"context": {"big": "x" * 5000, "small": "y"}}
            )

        assert "SNAPSHOT_TOO_LARGE" == caught.value.id
        assert "big" in str(caught.value.details)
        assert {"small": True} == await store.workflows.load_workflow_snapshot(**key)


# -- odd text ---------------------------------------------------------------------------------


async def test_odd_text_survives_in_json(store: LibSQLStorage) -> None:
    """NUL, lone surrogates and huge integers keep their value in JSON columns."""
    odd = {"nul": "a\0b", "lone": "x\ud800y", "pair": "\U0001f600", "big": 2**70, "\0": -(2**64)}

    await store.workflows.persist_workflow_snapshot(workflow_name="w", run_id="r", snapshot=odd)
    record = await store.notifications.create_notification(
        CreateNotification(thread_id="t", source="s", kind="k", summary="x", payload=odd)
    )
    await store.thread_state.set_state("t", "odd", odd)
    await store.memory.save_messages([_message({"format": 2, "parts": [], "odd": odd})])

    fetched = await store.notifications.get_notification("t", record.id)
    [message] = (await store.memory.list_messages("t")).messages
    assert odd == await store.workflows.load_workflow_snapshot(workflow_name="w", run_id="r")
    assert fetched is not None
    assert odd == fetched.payload
    assert odd == await store.thread_state.get_state("t", "odd")
    assert odd == message.content["odd"]


async def test_nul_survives_in_text_columns(store: LibSQLStorage, query: Query) -> None:
    """SQLite keeps it, so we do; the text isn't cut."""
    record = await store.notifications.create_notification(
        CreateNotification(thread_id="t\0t", source="s", kind="k", summary="before\0after")
    )

    fetched = await store.notifications.get_notification("t\0t", record.id)

    assert fetched is not None
    assert "before\0after" == fetched.summary
    assert [(b"before\0after",)] == query("SELECT CAST(summary AS BLOB) FROM mastra_notifications")


async def test_a_lone_surrogate_in_a_text_column_is_refused_loudly(store: LibSQLStorage) -> None:
    with pytest.raises(StorageArgumentError, match="lone surrogate"):
        await store.notifications.create_notification(
            CreateNotification(thread_id="t", source="s", kind="k", summary="half \ud83d")
        )

    assert [] == await store.notifications.list_notifications("t")


async def test_an_unreadable_row_is_left_out_of_lists(store: LibSQLStorage, query: Query) -> None:
    """One bad row never hides the others; asked for by name it is an error (R1)."""
    good = await create(store)
    bad = await create(store)
    query("UPDATE mastra_notifications SET payload = '{oops' WHERE id = ?", bad)

    listed = await store.notifications.list_notifications("t")

    assert [good] == [record.id for record in listed]
    with pytest.raises(StorageDataError, match="can't be read"):
        await store.notifications.get_notification("t", bad)


async def create(store: LibSQLStorage) -> str:
    record = await store.notifications.create_notification(
        CreateNotification(thread_id="t", source="s", kind="k", summary="x")
    )
    return record.id


def _message(content: dict[str, Any]) -> Message:
    return Message(
        id="m", role="user", thread_id="t", resource_id="u", created_at=NOW, content=content
    )
