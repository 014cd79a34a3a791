"""Messages in Redis (streaming.md 10.6, 10.7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, Protocol

from mastra_core.base import jsonjs
from mastra_core.base.isotime import epoch_ms, parse_iso
from mastra_core.base.pace import in_turns
from mastra_core.contracts.storage.memory import DateRange, IncludeMessage, MessagePage, OrderBy
from mastra_core.errors import StorageArgumentError, StorageTimeoutError
from mastra_core.rules.arguments import check_text, check_thread_ids
from mastra_core.rules.messages import (
    check_include,
    check_messages,
    check_patch,
    collapse_batch,
    merge_patch,
    refuse_move,
    threads_touched,
    without_filler,
)
from mastra_core.rules.metadata import check_metadata_filter, metadata_matches
from mastra_core.rules.paging import (
    Page,
    bounds_ms,
    check_order,
    check_page,
    has_more,
    has_more_with_included,
)
from mastra_core.wire.messages import Message
from mastra_core.wire.threads import Thread
from mastra_redis.errors import error_id
from mastra_redis.keys import Keys, raw, text
from mastra_redis.link import Argument
from mastra_redis.storage.foreign import ForeignKeys
from mastra_redis.storage.host import Host, digest
from mastra_redis.storage.memory_records import message_from_text, message_words

__all__ = ("MessageStore",)

#: Messages have no other time.
_ORDER_FIELDS: Final = ("createdAt",)
_TRIES: Final = 50
_PORTION: Final = 1_000
#: So many messages are written or read in one round of the event loop.
_MESSAGES_AT_ONCE: Final = 100
#: What a script says if nobody knows whether all messages belong to a resource.
_UNCOUNTED: Final = 2


class _Writes(Protocol):
    async def __call__(
        self,
        operation: str,
        *,
        threads: Sequence[tuple[Thread, str]] = (),
        messages: Sequence[list[Argument]] = (),
        touched: Sequence[bytes] = (),
    ) -> Any: ...


class _Deletes(Protocol):
    async def __call__(
        self,
        operation: str,
        *,
        threads: Sequence[bytes],
        messages: Sequence[bytes],
        touches: bool = True,
    ) -> int: ...


class _Syncs(Protocol):
    async def __call__(self, thread_id: bytes) -> None: ...


class MessageStore:
    """The part of the memory domain that knows messages."""

    _host: Host
    _keys: Keys
    foreign: ForeignKeys
    _write: _Writes
    _delete: _Deletes
    _sync: _Syncs

    async def save_messages(self, messages: Sequence[Message]) -> list[Message]:
        """Upsert all or none, in one step of the server."""
        check_messages(messages)
        batch = [without_filler(message) for message in collapse_batch(messages)]
        if not batch:
            return []
        words = await in_turns(
            batch,
            lambda some: [message_words(message, "*") for message in some],
            at_once=_MESSAGES_AT_ONCE,
        )
        answer = await self._write(
            "save_messages",
            messages=words,
            touched=[raw(name) for name in sorted(threads_touched(*batch))],
        )
        if answer[0] != 1:
            message = batch[answer[2] - 1]
            if answer[3] == b"another":
                raise StorageArgumentError(
                    f"Another message lies under the key of {message.id!r} of thread "
                    f"{message.thread_id!r}: ids with colons can give one key."
                )
            refuse_move(message.replace(thread_id=text(answer[3])), message)
        return await in_turns(
            list(zip(batch, answer[1:], strict=True)),
            lambda some: [
                _copied(message.replace(created_at=parse_iso(created.decode())))
                for message, created in some
            ],
            at_once=_MESSAGES_AT_ONCE,
        )

    async def update_messages(self, patches: Sequence[Mapping[str, Any]]) -> list[Message]:
        """Patch all or none, in one step of the server."""
        for patch in patches:
            check_patch(patch)
        ids = list(dict.fromkeys(patch["id"] for patch in patches))
        if not ids:
            return []
        for _ in range(_TRIES):
            stored = await self._by_id("update_messages", [(name, 0, 0) for name in ids])
            texts = {message.id: (message, found) for message, found in stored}
            changed: dict[str, Message] = {}
            touched: set[str] = set()
            for patch in patches:
                if patch["id"] not in texts:
                    continue
                before = changed.get(patch["id"]) or texts[patch["id"]][0]
                after = merge_patch(before, patch)
                touched |= threads_touched(before, after)
                changed[patch["id"]] = after
            if not changed:
                return []
            answer = await self._write(
                "update_messages",
                messages=[
                    message_words(message, digest(texts[name][1]))
                    for name, message in changed.items()
                ],
                touched=[raw(name) for name in sorted(touched)],
            )
            if answer[0] == 1:
                return [_copied(message) for message in changed.values()]
        raise StorageTimeoutError(
            f"Others changed the same messages {_TRIES} times.", id=error_id("update_messages")
        )

    async def delete_messages(self, message_ids: Sequence[str]) -> None:
        """Delete those that exist, in one step of the server."""
        ids = [raw(name) for name in dict.fromkeys(message_ids)]
        if ids:
            await self._delete("delete_messages", threads=[], messages=ids)

    async def list_messages(
        self,
        thread_id: str | Sequence[str],
        *,
        resource_id: str | None = None,
        page: int = 0,
        per_page: int | Literal[False] = 40,
        order_by: OrderBy | None = None,
        date_range: DateRange | None = None,
        metadata: Mapping[str, Any] | None = None,
        include: Sequence[IncludeMessage] = (),
        include_total: bool = True,
    ) -> MessagePage:
        """One page of one or several threads, joined with the included messages."""
        place = check_page(page, per_page, store=self._host.name, operation="list_messages")
        wanted = check_thread_ids(thread_id)
        order = check_order(order_by or OrderBy(), _ORDER_FIELDS)
        filters = check_metadata_filter(metadata)
        low, high = bounds_ms(date_range)
        newest = order.direction == "DESC"

        def matches(message: Message) -> bool:
            at = epoch_ms(message.created_at)
            if (low is not None and at < low) or (high is not None and at >= high):
                return False
            if resource_id is not None and message.resource_id != resource_id:
                return False
            return metadata_matches(message.content.get("metadata"), filters)

        included = await self._included(include, resource_id)
        found, total = await self._page_of(
            wanted,
            resource_id=resource_id,
            place=place,
            bounds=(low, high),
            newest=newest,
            matches=matches if filters else None,
        )
        known = {message.id for message in found}
        extra = [message for message in included if message.id not in known]
        returned = len(found) + sum(
            message.thread_id in wanted and matches(message) for message in extra
        )
        rows = found
        if extra:
            rows = sorted([*found, *extra], key=_order_key, reverse=newest)
        return MessagePage(
            messages=rows,
            total=total if include_total else None,
            page=page,
            per_page=per_page,
            has_more=has_more_with_included(place, total, returned),
        )

    async def _page_of(
        self,
        threads: Sequence[str],
        *,
        resource_id: str | None,
        place: Page,
        bounds: tuple[int | None, int | None],
        newest: bool,
        matches: Any,
    ) -> tuple[list[Message], int]:
        """The page of what the threads hold, and how many messages match."""
        low, high = bounds
        resource = b"" if resource_id is None else jsonjs.encode_bytes(resource_id)
        limit = -1 if place.limit is None else place.limit
        all_of_it = matches is not None
        names = [raw(name) for name in threads]
        for _ in range(_TRIES):
            answer = await self._host.script(
                "list_messages",
                "memory_page",
                (),
                [
                    *(self._keys.prefix, self._keys.memory),
                    "-inf" if low is None else low * 1000,
                    "+inf" if high is None else f"({high * 1000}",
                    0 if all_of_it else place.offset,
                    -1 if all_of_it else limit,
                    int(newest),
                    resource,
                    *names,
                ],
                repeatable=True,
            )
            total, alike, gone, texts = answer
            if alike == _UNCOUNTED or gone:
                for name in gone or names:
                    await self._sync(name)
                continue
            messages = [message_from_text(found) for found in texts]
            if not all_of_it and alike:
                return messages, total
            kept = [
                message
                for message in messages
                if (resource_id is None or message.resource_id == resource_id)
                and (matches is None or matches(message))
            ]
            return kept[place.offset : place.end], len(kept)
        raise StorageTimeoutError(
            f"Messages vanished under our eyes {_TRIES} times.", id=error_id("list_messages")
        )

    async def list_messages_by_id(self, message_ids: Sequence[str]) -> list[Message]:
        """Those that exist, by (created_at, id)."""
        names = list(dict.fromkeys(message_ids))
        found = await self._by_id("list_messages_by_id", [(name, 0, 0) for name in names])
        return sorted((message for message, _ in found), key=_order_key)

    async def list_messages_by_resource_id(
        self,
        resource_id: str,
        *,
        page: int = 0,
        per_page: int | Literal[False] = 40,
        order_by: OrderBy | None = None,
        date_range: DateRange | None = None,
        metadata: Mapping[str, Any] | None = None,
        include_total: bool = True,
    ) -> MessagePage:
        """One page over all threads of a resource."""
        check_text(resource_id, "resource_id")
        place = check_page(
            page, per_page, store=self._host.name, operation="list_messages_by_resource_id"
        )
        order = check_order(order_by or OrderBy(), _ORDER_FIELDS)
        filters = check_metadata_filter(metadata)
        low, high = bounds_ms(date_range)
        limit = -1 if place.limit is None else place.limit
        args: list[Argument] = [
            "-inf" if low is None else low,
            "+inf" if high is None else f"({high}",
            *((0, -1) if filters else (place.offset, limit)),
            int(order.direction == "DESC"),
            jsonjs.encode_bytes(resource_id),
        ]
        total, messages = await self.foreign.fresh(
            "list_messages_by_resource_id", lambda: self._of_resource(args)
        )
        if filters:
            messages = [m for m in messages if metadata_matches(m.content.get("metadata"), filters)]
            total, messages = len(messages), messages[place.offset : place.end]
        return MessagePage(
            messages=messages,
            total=total if include_total else None,
            page=page,
            per_page=per_page,
            has_more=has_more(place, total),
        )

    async def _of_resource(self, args: Sequence[Argument]) -> tuple[int, list[Message]]:
        """A page of a resource's messages; those that are gone leave its order."""
        for _ in range(_TRIES):
            answer = await self._host.script(
                "list_messages_by_resource_id",
                "memory_resource",
                (),
                [self._keys.prefix, self._keys.memory, *args],
                repeatable=True,
            )
            texts = answer[2::2]
            if None not in texts:
                break
        return int(answer[0]), [message_from_text(one) for one in texts if one is not None]

    async def _included(
        self, include: Sequence[IncludeMessage], resource_id: str | None
    ) -> list[Message]:
        """The named messages and their neighbours, each once; never of another resource."""
        windows = []
        for item in include:
            window = (item.with_previous_messages, item.with_next_messages)
            check_include(window)
            windows.append((item.id, *window))
        if not windows:
            return []
        found = await self._by_id("list_messages", windows)
        return [
            message
            for message, _ in found
            if resource_id is None or message.resource_id == resource_id
        ]

    async def _by_id(
        self, operation: str, windows: Sequence[tuple[str, int, int]]
    ) -> list[tuple[Message, bytes]]:
        """Messages with their neighbours, each with its text."""
        found: list[tuple[Message, bytes]] = []
        for first in range(0, len(windows), _PORTION):
            args: list[Argument] = []
            for name, before, after in windows[first : first + _PORTION]:
                args += [raw(name), before, after]
            texts = await self._host.script(
                operation,
                "memory_get",
                (),
                [self._keys.prefix, self._keys.memory, *args],
                repeatable=True,
            )
            found += [(message_from_text(one), one) for one in texts]
        return found


def _order_key(message: Message) -> tuple[int, str]:
    return (epoch_ms(message.created_at), message.id)


def _copied(message: Message) -> Message:
    """The message with JSON values of its own, as it will be read."""
    return without_filler(message.replace(content=jsonjs.sanitize_copy(message.content)))
