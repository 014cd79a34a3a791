"""Threads in Redis (streaming.md 10.6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NoReturn

from mastra_core.base import jsonjs
from mastra_core.base.isotime import parse_iso, to_iso_ms
from mastra_core.base.unset import UNSET, Unset
from mastra_core.contracts.pubsub import FenceToken
from mastra_core.contracts.storage.memory import ClonedThread, OrderBy, ThreadPage
from mastra_core.errors import (
    FencedOutError,
    StorageConflictError,
    StorageTimeoutError,
    ThreadNotFoundError,
)
from mastra_core.rules.arguments import check_text
from mastra_core.rules.cloning import cloned_messages, cloned_thread, messages_to_clone
from mastra_core.rules.metadata import check_metadata_filter, metadata_matches
from mastra_core.rules.paging import Page, check_order, check_page, has_more
from mastra_core.rules.snapshots import next_updated_at
from mastra_core.wire.messages import Message
from mastra_core.wire.threads import Thread
from mastra_redis.errors import error_id
from mastra_redis.keys import Keys, raw
from mastra_redis.link import Argument
from mastra_redis.storage.foreign import ForeignKeys
from mastra_redis.storage.host import Host, digest
from mastra_redis.storage.memory_records import (
    message_from_text,
    message_words,
    thread_from_text,
    thread_words,
)

__all__ = ("ThreadStore",)

_DEFAULT_ORDER: Final = OrderBy(field="createdAt", direction="DESC")
_TRIES: Final = 200
_PORTION: Final = 1_000


class ThreadStore:
    """The part of the memory domain that knows threads."""

    _host: Host
    _keys: Keys
    foreign: ForeignKeys
    #: What the writes carry; None for whoever owns nothing.
    _fence: FenceToken | None = None

    async def save_thread(self, thread: Thread) -> Thread:
        """Upsert; an existing row keeps its ``created_at``."""
        answer = await self._write_thread("save_thread", thread, "*")
        return _read_back(thread, answer[1])

    async def create_thread(self, thread: Thread) -> Thread:
        """Insert if absent; returns what is stored."""
        answer = await self._write_thread("create_thread", thread, "")
        return _read_back(thread, answer[1]) if answer[0] == 1 else thread_from_text(answer[3])

    async def _write_thread(self, operation: str, thread: Thread, wanted: str) -> Any:
        check_text(thread.id, "id")
        check_text(thread.resource_id, "resource_id")
        return await self._write(operation, threads=[(thread, wanted)])

    async def get_thread_by_id(
        self, thread_id: str, *, resource_id: str | None = None
    ) -> Thread | None:
        """The thread; None if it is absent or belongs to another resource."""
        found = await self._host.read("get_thread_by_id", "GET", self._keys.thread(thread_id))
        thread = None if found is None else thread_from_text(found)
        if thread is None or (resource_id is not None and thread.resource_id != resource_id):
            return None
        return thread

    async def update_thread(
        self,
        thread_id: str,
        *,
        title: str | Unset = UNSET,
        metadata: Mapping[str, Any] | Unset = UNSET,
        expected_title: str | Unset = UNSET,
    ) -> Thread:
        """Title and metadata, in one step of the server."""
        now = self._host.clock.now()
        key = self._keys.thread(thread_id)
        async with self._host.turn(key):
            found = await self._host.read("update_thread", "GET", key)
            for _ in range(_TRIES):
                if found is None:
                    raise ThreadNotFoundError(thread_id=thread_id)
                thread = thread_from_text(found)
                changes: dict[str, Any] = {"updated_at": next_updated_at(now, thread.updated_at)}
                if title is not UNSET and expected_title in (UNSET, thread.title):
                    changes["title"] = title
                if metadata is not UNSET:
                    changes["metadata"] = {**(thread.metadata or {}), **metadata}
                changed = thread.replace(**changes)
                answer = await self._write("update_thread", threads=[(changed, digest(found))])
                if answer[0] == 1:
                    return _read_back(changed, answer[1])
                found = answer[3]
        raise StorageTimeoutError(
            f"Others changed thread {thread_id!r} {_TRIES} times.", id=error_id("update_thread")
        )

    async def delete_thread(self, thread_id: str) -> None:
        """Messages first, then the thread, in one step of the server."""
        await self._delete("delete_thread", threads=[raw(thread_id)], messages=[])

    async def list_threads(
        self,
        *,
        resource_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        page: int = 0,
        per_page: int | Literal[False] = 100,
        order_by: OrderBy | None = None,
    ) -> ThreadPage:
        """One page; without a metadata filter it costs the page, not the table."""
        place = check_page(page, per_page, store=self._host.name, operation="list_threads")
        wanted = check_metadata_filter(metadata)
        order = check_order(order_by or _DEFAULT_ORDER)
        name = b"threads:updated" if order.field == "updatedAt" else b"threads:created"
        if resource_id is not None:
            name += b":" + jsonjs.encode_bytes(resource_id)
        newest = order.direction == "DESC"
        read_all = bool(wanted)
        rows, total = await self.foreign.fresh(
            "list_threads",
            lambda: self._threads(
                name,
                0 if read_all else place.offset,
                None if read_all else place,
                newest=newest,
            ),
        )
        if wanted:
            found = [t for t in rows if metadata_matches(t.metadata, wanted)]
            total, rows = len(found), found[place.offset : place.end]
        return ThreadPage(
            threads=rows,
            total=total,
            page=page,
            per_page=per_page,
            has_more=has_more(place, total),
        )

    async def _threads(
        self, name: bytes, offset: int, place: Page | None, *, newest: bool
    ) -> tuple[list[Thread], int]:
        limit = None if place is None else place.limit
        for _ in range(_TRIES):
            threads: list[Thread] = []
            lost, total, at = False, 0, offset
            while True:
                left = _PORTION if limit is None else min(_PORTION, limit - len(threads))
                answer = await self._host.script(
                    "list_threads",
                    "threads_page",
                    (),
                    [self._keys.prefix, self._keys.memory, name, at, left, int(newest)],
                    repeatable=True,
                )
                total, texts = int(answer[0]), answer[2::2]
                lost = lost or None in texts
                threads += [thread_from_text(found) for found in texts if found is not None]
                at += len(texts)
                if lost or len(texts) < left or (limit is not None and at - offset >= limit):
                    break
            if not lost:
                return threads, total
        return threads, total

    async def update_thread_resource_id(self, thread_id: str, resource_id: str) -> Thread:
        """The thread and all its messages, in one step of the server."""
        check_text(resource_id, "resource_id")
        now = to_iso_ms(self._host.clock.now())
        place, moves = self._place(raw(thread_id))
        found = await self._host.script(
            "update_thread_resource_id",
            "memory_move",
            (),
            [
                *(self._keys.prefix, self._keys.memory, now, raw(thread_id)),
                *(jsonjs.encode_bytes(resource_id), place),
            ],
            moves=moves,
        )
        if found is None:
            raise ThreadNotFoundError(thread_id=thread_id)
        return thread_from_text(found)

    async def clone_thread(
        self,
        source_thread_id: str,
        *,
        new_thread_id: str | None = None,
        resource_id: str | None = None,
        title: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        message_limit: int | None = None,
        message_ids: Sequence[str] | None = None,
    ) -> ClonedThread:
        """Copy a thread with new ids; the copy is written in one step of the server."""
        source = await self.get_thread_by_id(source_thread_id)
        if source is None:
            raise ThreadNotFoundError(thread_id=source_thread_id)
        thread_id = new_thread_id or self._host.ids.new("thread")
        originals = messages_to_clone(
            await self._all_messages("clone_thread", source_thread_id),
            message_limit=message_limit,
            message_ids=message_ids,
        )
        thread = cloned_thread(
            source,
            originals,
            thread_id=thread_id,
            now=self._host.clock.now(),
            resource_id=resource_id,
            title=title,
            metadata=metadata,
        )
        copies = cloned_messages(
            originals, thread=thread, new_id=lambda: self._host.ids.new("message")
        )
        answer = await self._write(
            "clone_thread",
            threads=[(thread, "")],
            messages=[message_words(message, "*") for message in copies],
        )
        if answer[0] != 1:
            raise StorageConflictError(
                f"Thread {thread_id!r} exists already; nothing was copied.",
                what="thread",
                expected=None,
                found=thread_id,
            )
        return ClonedThread(
            thread=_read_back(thread, answer[1]),
            cloned_messages=copies,
            message_id_map={old.id: new.id for old, new in zip(originals, copies, strict=True)},
        )

    async def copy_thread(
        self, source_thread_id: str, *, new_thread_id: str | None = None
    ) -> Thread:
        """As ``clone_thread`` without the messages."""
        return (await self.clone_thread(source_thread_id, new_thread_id=new_thread_id)).thread

    # -- shared with messages ------------------------------------------------------------------

    async def _all_messages(self, operation: str, thread_id: str) -> list[Message]:
        answer = await self._host.script(
            operation,
            "memory_page",
            (),
            [
                *(self._keys.prefix, self._keys.memory, "-inf", "+inf", 0, -1, 0, ""),
                raw(thread_id),
            ],
            repeatable=True,
        )
        return [message_from_text(found) for found in answer[3]]

    async def _write(
        self,
        operation: str,
        *,
        threads: Sequence[tuple[Thread, str]] = (),
        messages: Sequence[list[Argument]] = (),
        touched: Sequence[bytes] = (),
    ) -> Any:
        """Write threads and messages, all or none."""
        args: list[Argument] = [to_iso_ms(self._host.clock.now()), len(threads)]
        moves: list[tuple[bytes, bytes]] = []
        for thread, wanted in threads:
            place, move = self._place(raw(thread.id))
            moves += move
            args += thread_words(thread, wanted, place)
        args.append(len(messages))
        for words in messages:
            args += words
        args.append(len(touched))
        for name in touched:
            place, move = self._place(name)
            moves += move
            args += [name, place]
        keys, tokens = self._fence_words()
        answer = await self._host.script(
            operation,
            "memory_write",
            keys,
            [self._keys.prefix, self._keys.memory, *args, *tokens],
            moves=moves,
        )
        if answer[0] == 0 and answer[1] == b"fence":
            self._refuse(answer[2])
        return answer

    def _fence_words(self) -> tuple[list[Argument], list[Argument]]:
        """The key and the last argument of a script that looks at the fence."""
        if self._fence is None:
            return [], []
        return [self._keys.fence(self._fence[0])], [self._fence[1]]

    def _refuse(self, newest: bytes) -> NoReturn:
        key, token = self._fence or ("", 0)
        raise FencedOutError(key=key, fence=token, current=int(newest))

    def _place(self, thread_id: bytes) -> tuple[bytes, list[tuple[bytes, bytes]]]:
        """Where a script puts a thread's record, and how it gets to its key."""
        if not self.foreign.is_on:
            return b"", []
        place = self._host.new_place()
        return place, [(place, self._keys.threads + thread_id)]

    async def _delete(
        self,
        operation: str,
        *,
        threads: Sequence[bytes],
        messages: Sequence[bytes],
        touches: bool = True,
    ) -> int:
        # A time before every stored one moves no thread on by more than a millisecond.
        now = to_iso_ms(self._host.clock.now()) if touches else ""
        keys, tokens = self._fence_words()
        gone = await self._host.script(
            operation,
            "memory_delete",
            keys,
            [
                *(self._keys.prefix, self._keys.memory, now),
                *(len(threads), *threads, *messages, *tokens),
            ],
        )
        if isinstance(gone, list):
            self._refuse(gone[0])
        return int(gone)

    async def _check_threads(self, thread_ids: Sequence[bytes]) -> None:
        """Index threads that somebody else wrote, and their messages."""
        uncounted = await self._host.script(
            "list_threads",
            "threads_check",
            (),
            [self._keys.prefix, self._keys.memory, *thread_ids],
            repeatable=True,
        )
        for name in uncounted:
            await self._sync(name)

    async def _sync(self, thread_id: bytes) -> None:
        await self._host.script(
            "list_messages",
            "memory_sync",
            (),
            [self._keys.prefix, self._keys.memory, thread_id],
            repeatable=True,
        )


def _read_back(thread: Thread, created: bytes) -> Thread:
    """The thread as it will be read: JSON values of its own, creation time of the store."""
    read = thread.replace(created_at=parse_iso(created.decode()))
    if thread.metadata is None:
        return read
    return read.replace(metadata=jsonjs.sanitize_copy(thread.metadata))
