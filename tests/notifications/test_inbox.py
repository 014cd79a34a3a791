"""The inbox for people: looking marks nothing, what they mark stays."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from mastra_conformance import case
from mastra_core.base.ids import UuidIds
from mastra_core.errors import (
    NotificationError,
    NotificationNotFoundError,
    StorageConflictError,
)
from mastra_core.inmemory.storage import InMemoryStorage
from mastra_core.notifications import NotificationInbox, NotificationService
from mastra_core.plugins import AdapterContext
from mastra_core.testing.fake_clock import FakeClock
from mastra_core.wire.notifications import CreateNotification, NotificationPatch

pytestmark = pytest.mark.anyio


@pytest.fixture
def store(clock: FakeClock) -> InMemoryStorage:
    return InMemoryStorage(context=AdapterContext(clock=clock, ids=UuidIds()))


@pytest.fixture
def inbox(store: InMemoryStorage) -> NotificationInbox:
    return NotificationInbox(store.notifications)


async def add(store: InMemoryStorage, name: str, **members: Any) -> None:
    given = {"source": "github", "kind": "ci", "summary": name, "thread_id": "t1", **members}
    await store.notifications.create_notification(CreateNotification(id=name, **given))


async def test_looking_marks_nothing(store: InMemoryStorage, inbox: NotificationInbox) -> None:
    """Lists and single records are as they were."""
    await add(store, "a")
    await add(store, "b", source="slack")

    listed = await inbox.list("t1")
    found = await inbox.list("t1", search="SLACK")
    got = await inbox.get("t1", "a")

    assert (["a", "b"], ["b"]) == (sorted(r.id for r in listed), [r.id for r in found])
    assert "pending" == got.status


async def test_reading_marks_only_what_is_unread(
    store: InMemoryStorage, inbox: NotificationInbox
) -> None:
    """A dismissed record is shown as it is."""
    await add(store, "a")
    await add(store, "b")
    await inbox.dismiss("t1", "b")

    read = [await inbox.read("t1", name) for name in ("a", "b", "a")]

    assert ["seen", "dismissed", "seen"] == [record.status for record in read]


async def test_marks_are_set_whatever_the_status_was(
    store: InMemoryStorage, inbox: NotificationInbox
) -> None:
    """The last word counts."""
    await add(store, "a")

    marked = [await mark("t1", "a") for mark in (inbox.archive, inbox.dismiss, inbox.mark_seen)]

    assert ["archived", "dismissed", "seen"] == [record.status for record in marked]


async def test_what_isnt_there_is_an_error(inbox: NotificationInbox) -> None:
    """For every operation on one record."""
    for operation in (inbox.get, inbox.read, inbox.archive, inbox.dismiss, inbox.mark_seen):
        with pytest.raises(NotificationNotFoundError):
            await operation("t1", "nothing")


@case("notifications", 100)
async def test_a_failed_record_gets_a_new_start(
    store: InMemoryStorage, inbox: NotificationInbox, clock: FakeClock
) -> None:
    """Due now, without attempts; any other record is refused."""
    await add(store, "a")
    await store.notifications.update_notification(
        "t1", "a", NotificationPatch(status="failed", delivery_attempts=5)
    )

    record = await inbox.requeue("t1", "a")

    assert ("pending", 0) == (record.status, record.delivery_attempts)
    due = await store.notifications.list_due_notifications(clock.now() + timedelta(0))
    assert ["a"] == [one.id for one in due]
    with pytest.raises(StorageConflictError):
        await inbox.requeue("t1", "a")


async def test_an_application_without_an_inbox_says_so(clock: FakeClock) -> None:
    """Every use of it, except the workflow, which reports that it did nothing."""
    service = NotificationService(None, clock=clock, ids=UuidIds())

    with pytest.raises(NotificationError, match="requires a notifications storage domain"):
        _ = service.inbox
    with pytest.raises(NotificationError, match="requires a notifications storage domain"):
        await service.dispatch_due()
    assert {"delivered": 0, "failed": 0} == await service.run_workflow()
    await service.run_loop()
