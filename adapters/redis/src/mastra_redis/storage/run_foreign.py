"""Runs that a Node process wrote: found, indexed, and read wherever they lie (snapshots.md 13.5).

Node puts a run that has a resource under another key than one without, and reads only the
latter. Both are read; of two the newer one counts and the other one goes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from mastra_core.base import jsonjs
from mastra_core.base.isotime import to_iso_ms
from mastra_core.errors import StorageDataError
from mastra_core.wire.snapshots import WorkflowRun
from mastra_redis.keys import raw, split, text
from mastra_redis.link import Argument
from mastra_redis.pool import Server
from mastra_redis.storage.foreign import ForeignKeys
from mastra_redis.storage.host import Host, digest
from mastra_redis.storage.run_records import (
    Record,
    member_of,
    place_of,
    record_from_text,
    token,
    words_of,
)

__all__ = ("ForeignRuns",)

T = TypeVar("T")

_RESOURCE: Final = b":resourceId:"
#: How often a record is looked at again that changes under our eyes.
_TRIES: Final = 5


class ForeignRuns:
    """Keeps the index of runs right when somebody else writes them."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._keys = host.keys
        self._news = ForeignKeys(host, host.keys.snapshots, self._check)

    @property
    def is_on(self) -> bool:
        """Whether others may write at all."""
        return self._news.is_on

    @property
    def is_dirty(self) -> bool:
        """Whether a list may be incomplete."""
        return self._news.is_dirty

    async def start(self, server: Server) -> None:
        """Hear of changes from now on."""
        await self._news.start(server)

    def stop(self) -> None:
        """Hear nothing more."""
        self._news.stop()

    async def settle(self, operation: str = "list_workflow_runs") -> None:
        """Index everything that others wrote until now."""
        await self._news.settle(operation)

    async def fresh(self, operation: str, read: Callable[[], Awaitable[T]]) -> T:
        """What a read gives when everything is indexed that others wrote before it began."""
        return await self._news.fresh(operation, read)

    def may_lie_elsewhere(self, workflow_name: str, run_id: str) -> bool:
        """Whether Node may just have put the run under the key with its resource."""
        return self._news.has_news_of(place_of(workflow_name, run_id) + _RESOURCE)

    async def text_of(self, operation: str, workflow_name: str, run_id: str) -> bytes | None:
        """The record of a run, wherever it lies; None without one."""
        place = place_of(workflow_name, run_id)
        known = await self._host.read(operation, "HGET", self._keys.runs + b"rows", place)
        where = known.split(b"\n", 4)[3] if known else b""
        key = self._keys.snapshots + _place(place, where)
        found: bytes | None = await self._host.read(operation, "GET", key)
        return found

    async def look_again(self, members: Sequence[bytes]) -> None:
        """Put right what the index says of these runs."""
        places = []
        for member in members:
            run_id, name = split(member)
            places.append(place_of(name, run_id))
        rows = await self._host.read(
            "list_suspended_runs", "HMGET", self._keys.runs + b"rows", *places
        )
        held = [
            _place(place, row.split(b"\n", 4)[3] if row else b"")
            for place, row in zip(places, rows, strict=True)
        ]
        await self.forget_gone(members)
        await self._check(held)

    async def forget_gone(self, members: Sequence[bytes]) -> None:
        """Take runs whose records are gone out of the index."""
        args: list[Argument] = ["", "", "", "gone", ""]
        for member in members:
            run_id, name = split(member)
            args += [place_of(name, run_id), member]
        await self._host.script(
            "list_workflow_runs",
            "run_delete",
            (),
            [self._keys.snapshots, self._keys.runs, *args],
            repeatable=True,
        )

    async def corrupt(self, limit: int) -> list[WorkflowRun]:
        """Rows whose document isn't JSON."""
        places = await self._host.read("list_corrupt_runs", "HKEYS", self._keys.runs + b"corrupt")
        texts = await self._host.values(
            "list_corrupt_runs", [self._keys.snapshots + place for place in sorted(places)]
        )
        found: list[WorkflowRun] = []
        for record_text in texts:
            record = _read(record_text)
            if record is not None and record.document is None and len(found) < limit:
                found.append(record.run())
        return found

    async def _check(self, places: Sequence[bytes]) -> None:
        """Index what the index doesn't know as it is."""
        strangers = await self._host.script(
            "list_workflow_runs",
            "run_check",
            (),
            [self._keys.snapshots, self._keys.runs, *places],
            repeatable=True,
        )
        for place, record_text in zip(strangers[::2], strangers[1::2], strict=True):
            await self._adopt(place, record_text)

    async def _adopt(self, place: bytes, record_text: bytes | None) -> None:
        for _ in range(_TRIES):
            if record_text is None:
                await self._forget(place)
                return
            record = _read(record_text)
            if record is None:
                return  # no run at all; it can't be listed
            own = place_of(record.workflow_name, record.run_id)
            if not own or place not in {own, own + _RESOURCE + place[len(own + _RESOURCE) :]}:
                return  # what it says of itself isn't its key
            if await self._index(place, own, record, record_text):
                return
            record_text = await self._host.read(
                "list_workflow_runs", "GET", self._keys.snapshots + place
            )

    async def _index(self, place: bytes, own: bytes, record: Record, record_text: bytes) -> bool:
        other = await self._other(place, own, record)
        older: list[Argument] = ["", ""]
        if other is not None:
            other_place, other_record, other_text = other
            if other_record.updated_at > record.updated_at:
                place, record, record_text, other_place, other_text = (
                    other_place, other_record, other_text, place, record_text,
                )  # fmt: skip
            older = [other_place, digest(other_text)]
        where = b"" if place == own else token(text(place[len(own + _RESOURCE) :]))
        if record.document is None:
            await self._host.write(
                "list_workflow_runs", "HSET", self._keys.runs + b"corrupt", place, "1"
            )
        words = words_of(record.document or {})
        self._host.recent.forget(self._keys.snapshots + own)
        done = await self._host.script(
            "list_workflow_runs",
            "run_index",
            (),
            [
                self._keys.snapshots,
                self._keys.runs,
                own,
                member_of(record.workflow_name, record.run_id),
                where,
                digest(record_text),
                to_iso_ms(record.created_at),
                to_iso_ms(record.updated_at),
                token(record.workflow_name),
                token(record.resource_id),
                words.status,
                words.agent,
                words.thread,
                words.inner,
                words.claim,
                words.expires,
                words.projection,
                *older,
            ],
            repeatable=True,
        )
        return bool(done)

    async def _other(
        self, place: bytes, own: bytes, record: Record
    ) -> tuple[bytes, Record, bytes] | None:
        """The same run under its other key."""
        if place != own:
            other = own
        elif record.resource_id is not None:
            other = place_of(record.workflow_name, record.run_id, record.resource_id)
        else:
            known = await self._host.read(
                "list_workflow_runs", "HGET", self._keys.runs + b"rows", own
            )
            where = known.split(b"\n", 4)[3] if known else b""
            if not where:
                return None
            other = _place(own, where)
        found = await self._host.read("list_workflow_runs", "GET", self._keys.snapshots + other)
        read = _read(found)
        same = (record.workflow_name, record.run_id)
        if found is None or read is None or (read.workflow_name, read.run_id) != same:
            return None
        return other, read, found

    async def _forget(self, place: bytes) -> None:
        """A record is gone: so is its run, if it was the one that counted."""
        own = await self._host.read("list_workflow_runs", "HGET", self._keys.runs + b"long", place)
        own = own or place
        # The member can't be had from the place alone: names may hold what separates them.
        for end in _ends(own):
            name, run_id = text(own[:end]), text(own[end + len(b":run_id:") :])
            await self.forget_gone([member_of(name, run_id)])
        self._host.recent.forget(self._keys.snapshots + own)


def _ends(place: bytes) -> list[int]:
    """Where the name of the workflow may end."""
    ends, at = [], place.find(b":run_id:")
    while at >= 0:
        ends.append(at)
        at = place.find(b":run_id:", at + 1)
    return ends


def _place(own: bytes, where: bytes) -> bytes:
    if not where:
        return own
    return own + _RESOURCE + raw(jsonjs.decode(where))


def _read(record_text: bytes | None) -> Record | None:
    if record_text is None:
        return None
    try:
        return record_from_text(record_text)
    except StorageDataError:
        return None
