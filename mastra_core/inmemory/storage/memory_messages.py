"""Messages of the in-memory store (streaming.md 10.6, 10.7)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import islice
from typing import Any, Literal

from mastra_core.base.clock import Clock
from mastra_core.base.pace import Pace, in_turns
from mastra_core.contracts.pubsub import FenceToken
from mastra_core.contracts.storage.memory import DateRange, IncludeMessage, MessagePage, OrderBy
from mastra_core.inmemory.storage.memory_tables import MemoryTables, StoredMessage
from mastra_core.inmemory.storage.sorted_keys import SortedKeys
from mastra_core.rules.arguments import check_text, check_thread_ids
from mastra_core.rules.messages import (
    check_include,
    check_messages,
    check_patch,
    collapse_batch,
    merge_patch,
    refuse_move,
    threads_touched,
)
from mastra_core.rules.metadata import check_metadata_filter, metadata_matches
from mastra_core.rules.paging import (
    Page,
    bounds_ms,
    check_order,
    check_page,
    has_more_with_included,
)
from mastra_core.wire.messages import Message

__all__ = ("MessageStore",)

#: Messages have no other time.
_ORDER_FIELDS = ("createdAt",)
#: How many messages one stretch without an await takes in, or gives out.
_BULK = 200
#: So many are as much work as a usual call.
_UNIT = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class _Query:
    """A checked filter on messages."""

    #: Ordered keys that may match, one run per thread or one of a resource.
    runs: Sequence[SortedKeys[tuple[int, str]]]
    low: int | None
    high: int | None
    resource_id: str | None
    metadata: Mapping[str, Any]
    newest_first: bool
    #: True if every key in ``runs`` belongs to the resource.
    is_one_resource: bool

    @property
    def is_plain(self) -> bool:
        """True if every key between the bounds matches."""
        return not self.metadata and (self.resource_id is None or self.is_one_resource)

    def matches(self, stored: StoredMessage) -> bool:
        """Whether a message passes the filter, apart from its thread."""
        at = stored.key[0]
        if (self.low is not None and at < self.low) or (self.high is not None and at >= self.high):
            return False
        if self.resource_id is not None and stored.row.resource_id != self.resource_id:
            return False
        return metadata_matches(stored.metadata, self.metadata)


class MessageStore:
    """The part of the memory domain that knows messages."""

    _pace: Pace
    _tables: MemoryTables
    _clock: Clock
    #: What the writes carry; None for whoever owns nothing.
    _fence: FenceToken | None = None

    async def save_messages(self, messages: Sequence[Message]) -> list[Message]:
        """Upsert all or none, in one step without an await."""
        await self._pace.turn()
        check_messages(messages)
        rows = await in_turns(collapse_batch(messages), StoredMessage.of, at_once=_BULK)
        # No await from here on: all of them or none.
        for place, row in enumerate(rows):
            stored = self._tables.messages.get(row.row.id)
            if stored is not None:
                refuse_move(stored.row, row.row)
                rows[place] = row.created(stored.row.created_at)
        self._tables.admit(self._fence)
        for row in rows:
            self._tables.put_message(row)
        self._tables.touch(threads_touched(*(row.row for row in rows)), self._clock.now())
        return await in_turns(rows, StoredMessage.given_out, at_once=_BULK)

    async def update_messages(self, patches: Sequence[Mapping[str, Any]]) -> list[Message]:
        """Patch all or none, in one step without an await."""
        await self._pace.turn()
        for patch in patches:
            check_patch(patch)
        changed: dict[str, StoredMessage] = {}
        touched: set[str] = set()
        for patch in patches:
            before = changed.get(patch["id"]) or self._tables.messages.get(patch["id"])
            if before is None:
                continue
            [after] = StoredMessage.of([merge_patch(before.message(), patch)])
            touched |= threads_touched(before.row, after.row)
            changed[patch["id"]] = after
        self._tables.admit(self._fence)
        for row in changed.values():
            self._tables.put_message(row)
        self._tables.touch(touched, self._clock.now())
        return StoredMessage.given_out(list(changed.values()))

    async def delete_messages(self, message_ids: Sequence[str]) -> None:
        """Delete those that exist, in one step without an await."""
        self._tables.admit(self._fence)
        dropped = [self._tables.drop_message(message_id) for message_id in message_ids]
        self._tables.touch(
            threads_touched(*(stored.row for stored in dropped if stored)), self._clock.now()
        )

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
        await self._pace.turn()
        place = check_page(page, per_page, store="inmemory", operation="list_messages")
        wanted = check_thread_ids(thread_id)
        orders = [order for name in wanted if (order := self._tables.messages_of.get(name))]
        query = _query(
            [order.keys for order in orders],
            resource_id=resource_id,
            order_by=order_by,
            date_range=date_range,
            metadata=metadata,
            is_one_resource=all(order.resources.keys() == {resource_id} for order in orders),
        )
        included = self._included(include, resource_id)
        found, total = self._page(query, place)
        self._pace.spent(len(found) // _UNIT)
        known = {row.row.id for row in found} if included else set()
        extra = [row for row in included if row.row.id not in known]
        returned = len(found) + sum(
            row.row.thread_id in wanted and query.matches(row) for row in extra
        )
        rows = found
        if extra:
            rows = sorted([*found, *extra], key=lambda row: row.key, reverse=query.newest_first)
        return MessagePage(
            messages=await in_turns(rows, StoredMessage.given_out, at_once=_BULK),
            total=total if include_total else None,
            page=page,
            per_page=per_page,
            has_more=has_more_with_included(place, total, returned),
        )

    async def list_messages_by_id(self, message_ids: Sequence[str]) -> list[Message]:
        """Those that exist, by (created_at, id)."""
        await self._pace.turn()
        messages = self._tables.messages
        rows = [messages[name] for name in dict.fromkeys(message_ids) if name in messages]
        return StoredMessage.given_out(sorted(rows, key=lambda row: row.key))

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
        await self._pace.turn()
        place = check_page(
            page, per_page, store="inmemory", operation="list_messages_by_resource_id"
        )
        keys = self._tables.messages_of_resource.get(check_text(resource_id, "resource_id"))
        query = _query(
            [] if keys is None else [keys],
            resource_id=resource_id,
            order_by=order_by,
            date_range=date_range,
            metadata=metadata,
            is_one_resource=True,
        )
        found, total = self._page(query, place)
        return MessagePage(
            messages=await in_turns(found, StoredMessage.given_out, at_once=_BULK),
            total=total if include_total else None,
            page=page,
            per_page=per_page,
            has_more=has_more_with_included(place, total, len(found)),
        )

    def _page(self, query: _Query, place: Page) -> tuple[list[StoredMessage], int]:
        """The rows of the page and the number of all matches."""
        messages = self._tables.messages
        if query.is_plain and len(query.runs) == 1:
            keys, total = _between(query, query.runs[0], place)
            return [messages[key[1]] for key in keys], total
        rows = (messages[key[1]] for key in _in_order(query))
        if query.is_plain:
            total = sum(_count(query, run) for run in query.runs)
            return list(islice(rows, place.offset, place.end)), total
        found = [row for row in rows if query.matches(row)]
        return found[place.offset : place.end], len(found)

    def _included(
        self, include: Sequence[IncludeMessage], resource_id: str | None
    ) -> list[StoredMessage]:
        """The named messages and their neighbours, each once; never of another resource."""
        rows: dict[str, StoredMessage] = {}
        for item in include:
            before, after = item.with_previous_messages, item.with_next_messages
            check_include((before, after))
            stored = self._tables.messages.get(item.id)
            if stored is None:
                continue
            keys = self._tables.messages_of[stored.row.thread_id or ""].keys
            place = keys.rank(stored.key)
            for _, message_id in keys.ascending(max(0, place - before), place + after + 1):
                row = self._tables.messages[message_id]
                if resource_id is None or row.row.resource_id == resource_id:
                    rows[message_id] = row
        return list(rows.values())


def _query(
    runs: Sequence[SortedKeys[tuple[int, str]]],
    *,
    resource_id: str | None,
    order_by: OrderBy | None,
    date_range: DateRange | None,
    metadata: Mapping[str, Any] | None,
    is_one_resource: bool,
) -> _Query:
    order = check_order(order_by or OrderBy(), _ORDER_FIELDS)
    low, high = bounds_ms(date_range)
    return _Query(
        runs=runs,
        low=low,
        high=high,
        resource_id=resource_id,
        metadata=check_metadata_filter(metadata),
        newest_first=order.direction == "DESC",
        is_one_resource=is_one_resource,
    )


def _positions(query: _Query, run: SortedKeys[tuple[int, str]]) -> tuple[int, int]:
    start = 0 if query.low is None else run.rank((query.low,))
    stop = len(run) if query.high is None else run.rank((query.high,))
    return start, max(start, stop)


def _count(query: _Query, run: SortedKeys[tuple[int, str]]) -> int:
    start, stop = _positions(query, run)
    return stop - start


def _between(
    query: _Query, run: SortedKeys[tuple[int, str]], place: Page
) -> tuple[Iterator[tuple[int, str]], int]:
    """The keys of the page among those between the bounds, and how many those are."""
    start, stop = _positions(query, run)
    total = stop - start
    first = min(place.offset, total)
    last = total if place.end is None else min(place.end, total)
    if query.newest_first:
        return run.descending(stop - last, stop - first), total
    return run.ascending(start + first, start + last), total


def _in_order(query: _Query) -> Iterator[tuple[int, str]]:
    """All keys between the bounds, of all runs, in the order that was asked for."""
    if query.newest_first:
        return merge(*(run.descending(*_positions(query, run)) for run in query.runs), reverse=True)
    return merge(*(run.ascending(*_positions(query, run)) for run in query.runs))
