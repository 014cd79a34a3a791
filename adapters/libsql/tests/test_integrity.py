"""Damage is found wherever it is, by looking only."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mastra_core.contracts.storage.integrity import CheckableStorage
from mastra_core.errors import StorageDataError
from mastra_core.wire.messages import Message
from mastra_libsql import LibSQLStorage

pytestmark = pytest.mark.anyio

PAGE = 4096


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    """A database with some pages of messages, closed."""
    found = tmp_path / "app.db"
    async with LibSQLStorage(f"file:{found}") as store:
        await store.memory.save_messages(
            [
                Message(
                    id=f"m{number}",
                    thread_id="t1",
                    resource_id="r1",
                    role="user",
                    created_at=number,
                    content={"format": 2, "parts": [{"type": "text", "text": "x" * 500}]},
                )
                for number in range(100)
            ]
        )
    return found


def damaged_pages(path: Path) -> Iterator[int]:
    """The number of each page in turn, while it alone is overwritten."""
    whole = path.read_bytes()
    for number in range(1, len(whole) // PAGE):
        damaged = bytearray(whole)
        damaged[number * PAGE : (number + 1) * PAGE] = b"\xa5" * PAGE
        path.write_bytes(damaged)
        yield number


async def test_a_whole_database_has_nothing_wrong(path: Path) -> None:
    """Open or not."""
    store = LibSQLStorage(f"file:{path}")

    assert isinstance(store, CheckableStorage)
    assert () == await store.check_integrity()
    async with store:
        assert () == await store.check_integrity()
    assert {0} == set(store.open_resources().values())


async def test_every_damaged_page_is_found(path: Path) -> None:
    """Also those that opening the store doesn't read."""
    silent = []
    for number in damaged_pages(path):
        try:
            found = await LibSQLStorage(f"file:{path}").check_integrity()
        except StorageDataError:
            continue
        if not found:
            silent.append(number)
        assert all("\n" not in line for line in found or ())

    assert [] == silent


async def test_looking_makes_no_file(tmp_path: Path) -> None:
    """What isn't there isn't damaged."""
    path = tmp_path / "new.db"

    assert () == await LibSQLStorage(f"file:{path}").check_integrity()
    assert not path.exists()


async def test_the_files_of_a_server_are_its_own() -> None:
    """Nothing is asked, and nothing is claimed."""
    assert None is await LibSQLStorage("libsql+http://127.0.0.1:1").check_integrity()
