"""Threads, messages and resources on SQL (streaming.md 10.5-10.7)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, Final, Literal

from mastra_core.base.isotime import from_epoch_ms
from mastra_core.base.pace import in_turns
from mastra_core.base.unset import UNSET, Unset
from mastra_core.contracts.pubsub import FenceToken
from mastra_core.contracts.storage import (
    DateRange,
    IncludeMessage,
    MessagePage,
    OrderBy,
    PruneOptions,
    PrunePolicy,
    PruneResult,
    ThreadPage,
)
from mastra_core.contracts.storage.memory import ClonedThread
from mastra_core.errors import (
    CapabilityNotSupportedError,
    StorageConflictError,
    StorageError,
    ThreadNotFoundError,
)
from mastra_core.rules import messages as rules
from mastra_core.rules import pruning
from mastra_core.rules.arguments import check_text, check_thread_ids
from mastra_core.rules.cloning import cloned_messages, cloned_thread, messages_to_clone
from mastra_core.rules.metadata import check_metadata_filter, metadata_matches
from mastra_core.rules.paging import (
    Page,
    PerPage,
    bounds_ms,
    check_order,
    check_page,
    has_more,
    has_more_with_included,
)
from mastra_core.rules.snapshots import next_updated_at
from mastra_core.wire.messages import Message
from mastra_core.wire.threads import Resource, Thread
from mastra_sql.executor import Executor, Program, Rows, Step
from mastra_sql.rows.codec import RowCodec
from mastra_sql.rows.messages import MessageCodec
from mastra_sql.statements.fences import FenceStatements
from mastra_sql.statements.memory import MemoryStatements, MessageFilter, ThreadFilter
from mastra_sql.storage.fences import GUARDED_WRITES, GuardedExecutor
from mastra_sql.storage.host import SqlHost
from mastra_sql.storage.pruning import Prunable, prune

__all__ = ("SqlMemory",)

#: How many messages of a long list are converted in one round of the event loop.
_ROWS_AT_ONCE: Final = 200

_NEWEST_FIRST = OrderBy(field="createdAt", direction="DESC")
_OLDEST_FIRST = OrderBy(field="createdAt", direction="ASC")


class SqlMemory:
    """Domain ``memory`` of a SQL store."""

    def __init__(self, host: SqlHost) -> None:
        self._host = host
        self._run: Executor = host.run
        #: False for a database that lacks the table, and may not be changed.
        self.is_guarding = True
        self._fences = FenceStatements(host.dialect, host.tables)
        self._sql = MemoryStatements(host.dialect, host.tables)
        self._threads = RowCodec(Thread, host.tables.threads, host.dialect)
        self._resources = RowCodec(Resource, host.tables.resources, host.dialect)
        self._messages = MessageCodec(host.dialect)

    # -- owners ----------------------------------------------------------------------------

    def guarded(self, fence: FenceToken) -> SqlMemory:
        view = copy(self)
        view._run = self._guard(fence)  # noqa: SLF001 - its own
        return view

    async def raise_fence(self, fence: FenceToken) -> None:
        await self._guard(fence).raise_fence()

    def _guard(self, fence: FenceToken) -> GuardedExecutor:
        if not self.is_guarding:
            raise CapabilityNotSupportedError(
                adapter=self._host.store, capability=GUARDED_WRITES, hint="Migrate the database."
            )
        return GuardedExecutor(host=self._host, statements=self._fences, fence=fence)

    # -- threads ---------------------------------------------------------------------------

    async def save_thread(self, thread: Thread) -> Thread:
        _check_thread(thread)
        step = Step.of(self._sql.save_thread(), self._threads.values(thread))
        return self._threads.model((await self._run.write("save_thread", step))[0])

    async def create_thread(self, thread: Thread) -> Thread:
        _check_thread(thread)
        step = Step.of(self._sql.create_thread(), self._threads.values(thread))
        return self._threads.model((await self._run.write("create_thread", step))[0])

    async def get_thread_by_id(
        self, thread_id: str, *, resource_id: str | None = None
    ) -> Thread | None:
        step = Step.of(self._sql.get_thread(), {"id": thread_id})
        [rows] = await self._run.read("get_thread_by_id", step)
        thread = self._threads.model(rows[0]) if rows else None
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
        now = self._host.clock.now()

        def change(thread: Thread) -> Thread:
            changes: dict[str, Any] = {"updated_at": next_updated_at(now, thread.updated_at)}
            if title is not UNSET and expected_title in (UNSET, thread.title):
                changes["title"] = title
            if metadata is not UNSET:
                changes["metadata"] = {**(thread.metadata or {}), **metadata}
            return thread.replace(**changes)

        return await self._change_thread("update_thread", thread_id, change)

    async def _change_thread(
        self,
        operation: str,
        thread_id: str,
        change: Callable[[Thread], Thread],
        *more: Step,
    ) -> Thread:
        def program() -> Program[Thread]:
            [rows] = yield (Step.of(self._sql.get_thread(), {"id": thread_id}),)
            if not rows:
                raise ThreadNotFoundError(thread_id=thread_id)
            before = self._threads.model(rows[0])
            after = change(before)
            changes = self._threads.changes(before, after)
            if changes:
                statement = self._sql.update_thread(changes.keys())
                yield (Step.of(statement, {**changes, "key_id": thread_id}), *more)
            return after

        return await self._run.transact(operation, program)

    async def update_thread_resource_id(self, thread_id: str, resource_id: str) -> Thread:
        check_text(resource_id, "resource_id")
        now = self._host.clock.now()
        move = Step.of(
            self._sql.move_messages(), {"key_thread_id": thread_id, "resourceId": resource_id}
        )
        return await self._change_thread(
            "update_thread_resource_id",
            thread_id,
            lambda thread: thread.replace(
                resource_id=resource_id, updated_at=next_updated_at(now, thread.updated_at)
            ),
            move,
        )

    async def delete_thread(self, thread_id: str) -> None:
        steps = [Step.of(statement, {"id": thread_id}) for statement in self._sql.delete_thread()]

        def program() -> Program[None]:
            yield steps

        await self._run.transact("delete_thread", program)

    async def list_threads(
        self,
        *,
        resource_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        page: int = 0,
        per_page: PerPage = 100,
        order_by: OrderBy | None = None,
    ) -> ThreadPage:
        wanted = check_page(page, per_page, store=self._host.store, operation="list_threads")
        order = check_order(order_by or _NEWEST_FIRST)
        threads = ThreadFilter(
            by_resource=resource_id is not None, metadata=check_metadata_filter(metadata)
        )
        listing, values = self._sql.threads_page(threads, order, limited=wanted.limit is not None)
        if resource_id is not None:
            values["resourceId"] = resource_id
        counting = self._sql.threads_count(threads)
        rows, [(total,)] = await self._run.read(
            "list_threads",
            Step.of(listing, {**values, **_limits(wanted)}),
            Step.of(counting, values),
        )
        return ThreadPage(
            threads=self._threads.models(rows),
            total=total,
            page=wanted.number,
            per_page=wanted.per_page,
            has_more=has_more(wanted, total),
        )

    # -- messages: write -------------------------------------------------------------------

    async def save_messages(self, messages: Sequence[Message]) -> list[Message]:
        rules.check_messages(messages)
        await self._host.pace.turn()
        batch = rules.collapse_batch(messages)
        if not batch:
            return []
        statement = self._sql.save_message()
        writes = await in_turns(
            batch,
            lambda some: [Step.of(statement, values) for values in self._messages.all_values(some)],
            at_once=_ROWS_AT_ONCE,
        )
        known = self._ids_step(self._sql.known_messages(), (m.id for m in batch))

        def program() -> Program[list[Message]]:
            [rows] = yield (known,)
            stored = {message_id: (thread_id, at) for message_id, thread_id, at in rows}
            saved = [self._as_stored(message, stored.get(message.id)) for message in batch]
            yield (*writes, self._touch(rules.threads_touched(*saved)))
            return saved

        return await self._run.transact("save_messages", program)

    def _as_stored(self, message: Message, stored: tuple[str, Any] | None) -> Message:
        """The message as it will be, over the thread and creation time of its row."""
        if stored is None:
            return rules.without_filler(message)
        thread_id, created_at = stored
        rules.refuse_move(message.replace(thread_id=thread_id), message)
        return rules.without_filler(
            message.replace(created_at=self._host.dialect.time_from(created_at))
        )

    async def update_messages(self, patches: Sequence[Mapping[str, Any]]) -> list[Message]:
        for patch in patches:
            rules.check_patch(patch)
        if not patches:
            return []
        found = self._ids_step(self._sql.messages_by_id(), (patch["id"] for patch in patches))

        def program() -> Program[list[Message]]:
            [rows] = yield (found,)
            before = {message.id: message for message in self._messages.messages(rows)}
            after = dict(before)
            for patch in patches:
                if patch["id"] in after:
                    after[patch["id"]] = rules.merge_patch(after[patch["id"]], patch)
            if not after:
                return []
            steps = [self._update_step(message) for message in after.values()]
            touched = rules.threads_touched(*before.values(), *after.values())
            yield (*steps, self._touch(touched))
            return list(after.values())

        return await self._run.transact("update_messages", program)

    def _update_step(self, message: Message) -> Step:
        values = self._messages.values(message)
        columns = values.keys() - {"id", "createdAt"}
        values["key_id"] = message.id
        return Step.of(self._sql.update_message(columns), values)

    async def delete_messages(self, message_ids: Sequence[str]) -> None:
        if not message_ids:
            return
        known = self._ids_step(self._sql.known_messages(), message_ids)
        delete = self._ids_step(self._sql.delete_messages(), message_ids)

        def program() -> Program[None]:
            [rows] = yield (known,)
            if rows:
                yield (delete, self._touch({thread_id for _, thread_id, _ in rows}))

        await self._run.transact("delete_messages", program)

    def _touch(self, thread_ids: Iterable[str]) -> Step:
        values = {
            "ids": self._host.dialect.list_value(sorted(thread_ids)),
            "updatedAt": self._host.dialect.time_value(self._host.clock.now()),
        }
        return Step.of(self._sql.touch_threads(), values)

    def _ids_step(self, statement: Any, ids: Iterable[str]) -> Step:
        return Step.of(statement, {"ids": self._host.dialect.list_value(list(dict.fromkeys(ids)))})

    # -- messages: read --------------------------------------------------------------------

    async def list_messages(
        self,
        thread_id: str | Sequence[str],
        *,
        resource_id: str | None = None,
        page: int = 0,
        per_page: PerPage = 40,
        order_by: OrderBy | None = None,
        date_range: DateRange | None = None,
        metadata: Mapping[str, Any] | None = None,
        include: Sequence[IncludeMessage] = (),
        include_total: bool = True,
    ) -> MessagePage:
        thread_ids = check_thread_ids(thread_id)
        wanted = check_page(page, per_page, store=self._host.store, operation="list_messages")
        values: dict[str, Any] = {}
        scope: Literal["thread", "threads"] = "thread" if len(thread_ids) == 1 else "threads"
        if scope == "thread":
            values["threadId"] = thread_ids[0]
        else:
            values["threadIds"] = self._host.dialect.list_value(thread_ids)
        if resource_id is not None:
            values["resourceId"] = resource_id
        bounds = self._bounds(date_range)
        messages = MessageFilter(
            scope=scope,
            by_resource=resource_id is not None,
            bounds=frozenset(bounds),
            metadata=check_metadata_filter(metadata),
        )
        neighbours = [self._neighbours(item, resource_id) for item in include]
        return await self._message_page(
            "list_messages",
            messages,
            {**values, **_bound_values(bounds)},
            wanted,
            order_by or _OLDEST_FIRST,
            include_total=include_total,
            neighbours=neighbours,
            is_match=rules.matcher(thread_ids, resource_id, date_range, messages.metadata),
        )

    async def list_messages_by_resource_id(
        self,
        resource_id: str,
        *,
        page: int = 0,
        per_page: PerPage = 40,
        order_by: OrderBy | None = None,
        date_range: DateRange | None = None,
        metadata: Mapping[str, Any] | None = None,
        include_total: bool = True,
    ) -> MessagePage:
        wanted = check_page(
            page, per_page, store=self._host.store, operation="list_messages_by_resource_id"
        )
        bounds = self._bounds(date_range)
        messages = MessageFilter(
            scope="resource",
            bounds=frozenset(bounds),
            metadata=check_metadata_filter(metadata),
        )
        return await self._message_page(
            "list_messages_by_resource_id",
            messages,
            {"resourceId": resource_id, **_bound_values(bounds)},
            wanted,
            order_by or _OLDEST_FIRST,
            include_total=include_total,
        )

    async def _message_page(
        self,
        operation: str,
        messages: MessageFilter,
        values: dict[str, Any],
        wanted: Page,
        order: OrderBy,
        *,
        include_total: bool,
        neighbours: Sequence[Step] = (),
        is_match: Callable[[Message], bool] | None = None,
    ) -> MessagePage:
        """One read: the page and a row beyond it, the count if it is needed, the windows."""
        check_order(order, ("createdAt",))
        listing, members = self._sql.messages_page(
            messages, order.direction, limited=wanted.limit is not None
        )
        values = {**values, **members}
        beyond = {} if wanted.limit is None else {**_limits(wanted), "limit": wanted.limit + 1}
        steps = [Step.of(listing, {**values, **beyond})]
        counts = include_total or bool(neighbours)
        if counts:
            steps.append(Step.of(self._sql.messages_count(messages), values))
        total: int | None
        try:
            rows, *others = await self._run.read(operation, *steps, *neighbours)
        except StorageError as exc:
            if not messages.metadata or not self._host.dialect.is_bad_json(exc):
                raise
            found, matches, windows = await self._matches_by_hand(
                operation, messages, values, wanted, order=order, neighbours=neighbours
            )
            total, more = matches, has_more(wanted, matches)
        else:
            more = wanted.limit is not None and len(rows) > wanted.limit
            found = await self._read(rows[: wanted.limit])
            total = others[0][0][0] if counts else None
            windows = [row for window in others[1:] for row in window]
        if neighbours and is_match is not None:
            found = rules.joined(found, await self._read(windows), order)
            more = has_more_with_included(wanted, total or 0, sum(map(is_match, found)))
        return MessagePage(
            messages=found,
            total=total if include_total else None,
            page=wanted.number,
            per_page=wanted.per_page,
            has_more=more,
        )

    async def _matches_by_hand(
        self,
        operation: str,
        messages: MessageFilter,
        values: dict[str, Any],
        wanted: Page,
        *,
        order: OrderBy,
        neighbours: Sequence[Step],
    ) -> tuple[list[Message], int, Rows]:
        """
        A page by metadata, where a content that is no JSON ends the database's own search.

        One bad row must not hide the others (field report R1), so all that the rest of the
        filter finds is read and looked at here.

        Returns:
            The page, how many there are in all, and the windows as they were asked for.
        """
        listing, _ = self._sql.messages_page(
            replace(messages, metadata={}), order.direction, limited=False
        )
        rows, *windows = await self._run.read(operation, Step.of(listing, values), *neighbours)
        matches = [
            message
            for message in await self._read(rows)
            if metadata_matches(message.content.get("metadata"), messages.metadata)
        ]
        end = None if wanted.limit is None else wanted.offset + wanted.limit
        page = matches[wanted.offset : end]
        return page, len(matches), [row for window in windows for row in window]

    def _neighbours(self, item: IncludeMessage, resource_id: str | None) -> Step:
        rules.check_include((item.with_previous_messages, item.with_next_messages))
        values: dict[str, Any] = {
            "id": item.id,
            "before": item.with_previous_messages + 1,
            "after": item.with_next_messages,
        }
        if resource_id is not None:
            values["resourceId"] = resource_id
        return Step.of(self._sql.neighbours(by_resource=resource_id is not None), values)

    def _bounds(self, date_range: DateRange | None) -> dict[str, Any]:
        """Comparison → bound: the first instant inside and the first behind."""
        low, high = bounds_ms(date_range)
        bounds = {">=": low, "<": high}
        return {
            word: self._host.dialect.time_value(from_epoch_ms(bound))
            for word, bound in bounds.items()
            if bound is not None
        }

    async def list_messages_by_id(self, message_ids: Sequence[str]) -> list[Message]:
        if not message_ids:
            return []
        step = self._ids_step(self._sql.messages_by_id(), message_ids)
        [rows] = await self._run.read("list_messages_by_id", step)
        return await self._read(rows)

    async def _read(self, rows: Rows) -> list[Message]:
        return await in_turns(rows, self._messages.messages, at_once=_ROWS_AT_ONCE)

    # -- resources -------------------------------------------------------------------------

    async def get_resource_by_id(self, resource_id: str) -> Resource | None:
        step = Step.of(self._sql.get_resource(), {"id": resource_id})
        [rows] = await self._run.read("get_resource_by_id", step)
        return self._resources.model(rows[0]) if rows else None

    async def save_resource(self, resource: Resource) -> Resource:
        check_text(resource.id, "id")
        step = Step.of(self._sql.save_resource(), self._resources.values(resource))
        return self._resources.model((await self._run.write("save_resource", step))[0])

    async def update_resource(
        self,
        resource_id: str,
        *,
        working_memory: str | Unset | None = UNSET,
        metadata: Mapping[str, Any] | Unset = UNSET,
    ) -> Resource:
        check_text(resource_id, "resource_id")
        now = self._host.clock.now()

        def program() -> Program[Resource]:
            get = Step.of(self._sql.get_resource(), {"id": resource_id})
            # Two first writers must not both find nothing.
            [rows] = yield from self._host.locked([("resource", resource_id)], get)
            before = (
                self._resources.model(rows[0])
                if rows
                else Resource(id=resource_id, created_at=now, updated_at=now)
            )
            changes: dict[str, Any] = {
                "updated_at": next_updated_at(now, before.updated_at) if rows else now
            }
            if working_memory is not UNSET:
                changes["working_memory"] = working_memory
            if metadata is not UNSET:
                changes["metadata"] = {**(before.metadata or {}), **metadata}
            after = before.replace(**changes)
            yield (Step.of(self._sql.save_resource(), self._resources.values(after)),)
            return after

        return await self._run.transact("update_resource", program)

    # -- copies ----------------------------------------------------------------------------

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
        new_id = new_thread_id or self._host.ids.new("thread")
        now = self._host.clock.now()
        get = self._sql.get_thread()
        reads = (
            Step.of(get, {"id": source_thread_id}),
            Step.of(get, {"id": new_id}),
            Step.of(self._sql.messages_of_thread(), {"threadId": source_thread_id}),
        )

        def program() -> Program[ClonedThread]:
            sources, taken, rows = yield from self._host.locked([("thread", new_id)], *reads)
            if not sources:
                raise ThreadNotFoundError(thread_id=source_thread_id)
            if taken:
                raise _exists(new_id)
            originals = messages_to_clone(
                self._messages.messages(rows),
                message_limit=message_limit,
                message_ids=message_ids,
            )
            thread = cloned_thread(
                self._threads.model(sources[0]),
                originals,
                thread_id=new_id,
                now=now,
                resource_id=resource_id,
                title=title,
                metadata=metadata,
            )
            copies = cloned_messages(
                originals, thread=thread, new_id=lambda: self._host.ids.new("message")
            )
            save = self._sql.save_message()
            yield (
                Step.of(self._sql.save_thread(), self._threads.values(thread)),
                *(Step.of(save, self._messages.values(copy)) for copy in copies),
            )
            pairs = zip(originals, copies, strict=True)
            return ClonedThread(
                thread=thread,
                cloned_messages=copies,
                message_id_map={old.id: new.id for old, new in pairs},
            )

        return await self._run.transact("clone_thread", program)

    async def copy_thread(
        self, source_thread_id: str, *, new_thread_id: str | None = None
    ) -> Thread:
        clone = await self.clone_thread(source_thread_id, new_thread_id=new_thread_id)
        return clone.thread

    # -- retention -------------------------------------------------------------------------

    async def prune(
        self, policies: Sequence[PrunePolicy], options: PruneOptions | None = None
    ) -> list[PruneResult]:
        tables = self._host.tables
        known = {
            pruning.THREADS: Prunable(
                table=tables.threads,
                anchor="updatedAt",
                children=(self._sql.prune_messages_of_threads(),),
            ),
            pruning.MESSAGES: Prunable(table=tables.messages, anchor="createdAt"),
            pruning.RESOURCES: Prunable(table=tables.resources, anchor="updatedAt"),
        }
        results = await prune(self._host, self._sql, known, policies, options)
        if self.is_guarding and not (options or PruneOptions()).dry_run:
            await self._prune_fences(options)
        return results

    async def _prune_fences(self, options: PruneOptions | None) -> None:
        """
        Forget fences that no former owner can be behind any more.

        Not those of deleted threads: a former owner would write to it, and bring it back.
        """
        old = PrunePolicy(table="fences", max_age_ms=pruning.FENCE_AGE_MS)
        table = Prunable(table=self._host.tables.fences, anchor="updatedAt", is_indexed=False)
        await prune(self._host, self._fences, {old.table: table}, [old], options)

    async def dangerously_clear_all(self) -> None:
        tables = self._host.tables
        statements = self._sql.clear(
            tables.messages, tables.threads, tables.resources, tables.fences
        )

        def program() -> Program[None]:
            yield [Step(statement) for statement in statements]

        await self._run.transact("dangerously_clear_all", program)


def _check_thread(thread: Thread) -> None:
    check_text(thread.id, "id")
    check_text(thread.resource_id, "resource_id")


def _exists(thread_id: str) -> StorageConflictError:
    return StorageConflictError(
        f"Thread {thread_id!r} exists already; nothing was copied.", what="thread", found=thread_id
    )


def _limits(wanted: Page) -> dict[str, int]:
    return {} if wanted.limit is None else {"limit": wanted.limit, "offset": wanted.offset}


def _bound_values(bounds: Mapping[str, Any]) -> dict[str, Any]:
    return {"start" if word == ">=" else "end": value for word, value in bounds.items()}
