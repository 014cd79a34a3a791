"""Arguments of domains that must be texts."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import pytest

from mastra_core.errors import StorageArgumentError
from mastra_core.inmemory.storage import InMemoryStorage
from mastra_core.rules.text_arguments import check_text_arguments

pytestmark = pytest.mark.anyio


@check_text_arguments
class Shelf:
    """A domain that gives back what it was asked for."""

    async def get(self, thread_id: str, *, name: str | None = None) -> Any:
        return (thread_id, name)

    async def pick(self, ids: Sequence[str], limit: int = 5) -> Any:
        return (list(ids), limit)


@pytest.mark.parametrize("wrong", [["t"], 5, True, b"t", {"$ne": None}])
async def test_what_is_no_text_is_refused(wrong: Any) -> None:
    """By position and by name, with the argument in the error."""
    shelf = Shelf()

    with pytest.raises(StorageArgumentError, match="thread_id must be a text"):
        await shelf.get(wrong)
    with pytest.raises(StorageArgumentError, match="thread_id must be a text"):
        await shelf.get(thread_id=wrong)
    with pytest.raises(StorageArgumentError, match="name must be a text"):
        await shelf.get("t", name=wrong)


@pytest.mark.parametrize("wrong", ["abc", 5, b"x", [5], ["a", ["b"]], {"a": 1}])
async def test_what_is_no_list_of_texts_is_refused(wrong: Any) -> None:
    """A text is no list of its characters."""
    with pytest.raises(StorageArgumentError, match="ids must be a list of texts"):
        await Shelf().pick(wrong)


async def test_everything_else_passes() -> None:
    """None, other kinds of arguments, and any collection of texts."""
    shelf = Shelf()

    assert ("t", None) == await shelf.get("t", name=None)
    assert (["a"], 3) == await shelf.pick(("a",), 3)
    assert (["a"], 3) == await shelf.pick(ids={"a"}, limit=3)


def test_the_signature_stays() -> None:
    """Whoever looks at the method sees what it asks for."""
    assert ["self", "thread_id", "name"] == list(inspect.signature(Shelf.get).parameters)
    assert inspect.iscoroutinefunction(Shelf.get)


@pytest.mark.parametrize("wrong", [["l"], {"a": 1}, 5])
async def test_the_store_in_memory_refuses_ids_that_are_none(wrong: Any) -> None:
    """In every domain, whatever the id would have been looked up in."""
    async with InMemoryStorage() as store:
        for looking in (
            store.notifications.get_notification(wrong, "x"),
            store.notifications.get_notification("t", wrong),
            store.notifications.update_notifications_status("t", [wrong], "seen"),
            store.memory.get_thread_by_id(wrong),
            store.memory.list_messages_by_id([wrong]),
            store.workflows.load_workflow_snapshot(workflow_name="w", run_id=wrong),
            store.workflows.extend_resume_claim(
                workflow_name="w", run_id=wrong, claim_id="c", ttl_ms=5
            ),
            store.background_tasks.get_task(wrong),
            store.schedules.get_schedule(wrong),
        ):
            with pytest.raises(StorageArgumentError):
                await looking
