"""The statements of the bus that both databases share; each shape is compiled once.

A topic is named by its name in every statement, so that none needs an earlier answer: what
belongs together goes in one batch. Publishing and claiming are the adapters' own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Table,
    and_,
    case,
    delete,
    exists,
    func,
    literal_column,
    null,
    select,
    update,
)
from sqlalchemy.sql.selectable import ScalarSelect

from mastra_sql.bus.dialect import BusDialect, listed, number, words
from mastra_sql.bus.tables import BusTables
from mastra_sql.statement import Statement, StatementCache

__all__ = ("BusStatements",)

#: A group that claims is noted as seen at most so often.
_SEEN_EVERY_MS = 60_000


class BusStatements:
    """Statements for one dialect and one set of tables."""

    def __init__(self, dialect: BusDialect, tables: BusTables) -> None:
        self.dialect = dialect
        self.tables = tables
        self._cache = StatementCache(dialect.compiler)

    def shape(self, name: str, build: Callable[[], Any], *key: object) -> Statement:
        """The statement of this name, compiled when it is first asked for."""
        return self._cache.get((name, *key), build, name=f"bus.{name}")

    def compiled(self) -> Iterator[Statement]:
        """Every statement that was used so far, e.g. to look at its plan."""
        return iter(self._cache)

    # -- topics ----------------------------------------------------------------------------

    def make_topic(self) -> Statement:
        """A row for a topic that has none."""

        def build() -> Any:
            return (
                self.dialect.insert(self.tables.topics)
                .values(self._new_topic(literal_column("0")))
                .on_conflict_do_nothing(index_elements=[self.tables.topics.c.topic])
            )

        return self.shape("make_topic", build)

    def allocate(self) -> Statement:
        """Numbers for ``count`` events, and the row that keeps them in order until the commit."""

        def build() -> Any:
            topics = self.tables.topics
            return (
                self.dialect.insert(topics)
                .values(self._new_topic(number("count")))
                .on_conflict_do_update(
                    index_elements=[topics.c.topic],
                    set_={
                        "lastSeq": topics.c.lastSeq + number("count"),
                        "revision": topics.c.revision + literal_column("1"),
                        "lastWriteAt": self.dialect.now(),
                        "idleTtlMs": number("idle_ttl_ms"),
                    },
                )
                .returning(topics.c.topicId, topics.c.epoch, topics.c.lastSeq, topics.c.firstSeq)
            )

        return self.shape("allocate", build)

    def mark_changed(self) -> Statement:
        """Let those who poll know that there is something to claim."""

        def build() -> Any:
            topics = self.tables.topics
            return (
                update(topics)
                .where(topics.c.topic == words("topic"))
                .values(revision=topics.c.revision + literal_column("1"))
            )

        return self.shape("mark_changed", build)

    def revisions(self) -> Statement:
        """Epoch and revision of those of these topics that are there."""

        def build() -> Any:
            topics = self.tables.topics
            return select(topics.c.topic, topics.c.epoch, topics.c.revision).where(
                self.dialect.sql.one_of(topics.c.topic, listed("topics"))
            )

        return self.shape("revisions", build)

    def look_at_topic(self) -> Statement:
        """Where the log of a topic begins and ends."""

        def build() -> Any:
            topics = self.tables.topics
            return select(topics.c.epoch, topics.c.firstSeq, topics.c.lastSeq).where(
                topics.c.topic == words("topic")
            )

        return self.shape("look_at_topic", build)

    # -- the log ---------------------------------------------------------------------------

    def read_after(self) -> Statement:
        """A page of events; at least one row if the topic is there, without an event if need be."""

        def build() -> Any:
            topics, events = self.tables.topics, self.tables.events
            after = case(
                (number("epoch").in_([topics.c.epoch, literal_column("0")]), number("after")),
                else_=literal_column("0"),
            )
            on = and_(
                events.c.topicId == topics.c.topicId,
                events.c.epoch == topics.c.epoch,
                events.c.seq > after,
            )
            return (
                select(topics.c.epoch, topics.c.firstSeq, events.c.seq, events.c.payload)
                .select_from(topics.outerjoin(events, on))
                .where(topics.c.topic == words("topic"))
                .order_by(events.c.seq)
                .limit(number("limit"))
            )

        return self.shape("read_after", build)

    def known_ids(self) -> Statement:
        """Those of these event ids that the log of a topic holds."""

        def build() -> Any:
            topics, events = self.tables.topics, self.tables.events
            return (
                select(events.c.eventId)
                .select_from(topics.join(events, self._same_log(events)))
                .where(
                    topics.c.topic == words("topic"),
                    self.dialect.sql.one_of(events.c.eventId, listed("ids")),
                )
            )

        return self.shape("known_ids", build)

    def floor(self) -> Statement:
        """The number below which no group needs anything; NULL without groups."""

        def build() -> Any:
            topics, groups, pending = self.tables.topics, self.tables.groups, self.tables.pending
            lowest = (
                select(func.min(pending.c.seq))
                .where(
                    pending.c.topicId == groups.c.topicId,
                    pending.c.group == groups.c.group,
                    pending.c.epoch == groups.c.epoch,
                    pending.c.seq > literal_column("0"),
                )
                .scalar_subquery()
            )
            unread = groups.c.cursorSeq + literal_column("1")
            return (
                select(func.min(self.dialect.smaller(lowest, unread)))
                .select_from(groups.join(topics, groups.c.topicId == topics.c.topicId))
                .where(topics.c.topic == words("topic"))
            )

        return self.shape("floor", build)

    def drop_before(self) -> tuple[Statement, Statement]:
        """Delete events below a number, and note that they are gone."""
        topics, events = self.tables.topics, self.tables.events
        first = number("first")

        def drop() -> Any:
            return delete(events).where(
                events.c.topicId == self.topic_id(),
                events.c.epoch == number("epoch"),
                events.c.seq < first,
            )

        def note() -> Any:
            return (
                update(topics)
                .where(
                    topics.c.topic == words("topic"),
                    topics.c.epoch == number("epoch"),
                    topics.c.firstSeq < first,
                )
                .values(firstSeq=first)
            )

        return self.shape("drop_before", drop), self.shape("note_first", note)

    def events_of_run(self) -> Statement:
        """Every event of a run."""

        def build() -> Any:
            topics, events = self.tables.topics, self.tables.events
            return (
                select(events.c.epoch, events.c.seq, events.c.payload)
                .select_from(topics.join(events, self._same_log(events)))
                .where(topics.c.topic == words("topic"), events.c.runId == words("run_id"))
            )

        return self.shape("events_of_run", build)

    def trim(self) -> tuple[Statement, Statement]:
        """Hand these events to the groups that hold them, and delete them from the log."""
        events, pending = self.tables.events, self.tables.pending

        def hand_over() -> Any:
            payload = self.payload_of(pending)
            return (
                update(pending)
                .where(
                    pending.c.topicId == self.topic_id(),
                    pending.c.epoch == number("epoch"),
                    self.dialect.one_of_numbers(pending.c.seq, "seqs"),
                    pending.c.payload.is_(None),
                )
                .values(payload=payload)
            )

        def drop() -> Any:
            return delete(events).where(
                events.c.topicId == self.topic_id(),
                events.c.epoch == number("epoch"),
                self.dialect.one_of_numbers(events.c.seq, "seqs"),
            )

        return self.shape("hand_over", hand_over), self.shape("trim", drop)

    def clear(self) -> tuple[Statement, ...]:
        """
        Start a new epoch: what groups hold goes, groups stand at its start.

        Nobody reads the events of an older epoch; ``drop_old_epochs`` deletes them.
        """
        topics, groups, pending = self.tables.topics, self.tables.groups, self.tables.pending

        def start() -> Any:
            return (
                update(topics)
                .where(topics.c.topic == words("topic"))
                .values(
                    epoch=self.dialect.larger(
                        topics.c.epoch + literal_column("1"), self.dialect.now_us()
                    ),
                    lastSeq=literal_column("0"),
                    firstSeq=literal_column("1"),
                    revision=topics.c.revision + literal_column("1"),
                    lastWriteAt=self.dialect.now(),
                )
            )

        def reset() -> Any:
            epoch = select(topics.c.epoch).where(topics.c.topic == words("topic")).scalar_subquery()
            return (
                update(groups)
                .where(groups.c.topicId == self.topic_id())
                .values(epoch=epoch, cursorSeq=literal_column("0"))
            )

        def drop() -> Any:
            return delete(pending).where(pending.c.topicId == self.topic_id())

        return (
            self.shape("clear.start", start),
            self.shape("clear.reset", reset),
            self.shape("clear.drop", drop),
        )

    def drop_old_epochs(self, *, of_topic: bool) -> Statement:
        """Delete at most ``limit`` events from before a clear, of one topic or of all."""

        def build() -> Any:
            topics, events = self.tables.topics, self.tables.events
            row_id = self.dialect.sql.row_id(events)
            is_old = and_(events.c.topicId == topics.c.topicId, events.c.epoch < topics.c.epoch)
            old = select(row_id).select_from(topics.join(events, is_old)).limit(number("limit"))
            if of_topic:
                old = old.where(topics.c.topic == words("topic"))
            return (
                delete(events)
                .where(row_id.in_(old.scalar_subquery()))
                .returning(literal_column("1"))
            )

        return self.shape("drop_old_epochs", build, of_topic)

    # -- groups ----------------------------------------------------------------------------

    def join_group(self, start: str) -> Statement:
        """
        A row for a group that has none.

        Args:
            start: ``earliest``, ``latest``, or ``after``, with the parameters ``epoch`` and
                ``after``.
        """

        def build() -> Any:
            topics, groups = self.tables.topics, self.tables.groups
            cursor: ColumnElement[Any] = literal_column("0")
            if start == "latest":
                cursor = topics.c.lastSeq
            elif start == "after":
                cursor = case(
                    (number("epoch").in_([topics.c.epoch, literal_column("0")]), number("after")),
                    else_=literal_column("0"),
                )
            now = self.dialect.now()
            row = select(topics.c.topicId, words("group"), topics.c.epoch, cursor, now, now).where(
                topics.c.topic == words("topic")
            )
            names = ["topicId", "group", "epoch", "cursorSeq", "createdAt", "lastSeenAt"]
            return (
                self.dialect.insert(groups)
                .from_select(names, row)
                .on_conflict_do_update(
                    index_elements=[groups.c.topicId, groups.c.group],
                    set_={"lastSeenAt": now},
                    where=groups.c.lastSeenAt
                    < self.dialect.later(literal_column(f"-{_SEEN_EVERY_MS}")),
                )
            )

        return self.shape("join_group", build, start)

    def leave_group(self) -> Statement:
        """What a consumer still holds is claimable at once, and this delivery doesn't count."""

        def build() -> Any:
            pending = self.tables.pending
            return (
                update(pending)
                .where(*self._of_group(), pending.c.consumer == words("consumer"))
                .values(
                    consumer=null(),
                    attempt=pending.c.attempt - literal_column("1"),
                    visibleAt=self.dialect.now(),
                )
                .returning(literal_column("1"))
            )

        return self.shape("leave_group", build)

    def touch_group(self) -> Statement:
        """Somebody still wants the events of a group."""

        def build() -> Any:
            groups = self.tables.groups
            return (
                update(groups)
                .where(
                    groups.c.topicId == self.topic_id(),
                    groups.c.group == words("group"),
                    groups.c.lastSeenAt < self.dialect.later(literal_column(f"-{_SEEN_EVERY_MS}")),
                )
                .values(lastSeenAt=self.dialect.now())
            )

        return self.shape("touch_group", build)

    def look_for_work(self) -> Statement:
        """
        Whether a group could claim anything, without taking a lock.

        No row without the topic; else: is the group there, is there something new, and in how
        many milliseconds something that is held or delayed can be claimed.
        """

        def build() -> Any:
            topics, groups = self.tables.topics, self.tables.groups
            events, pending = self.tables.events, self.tables.pending
            new = (
                select(literal_column("1"))
                .where(
                    events.c.topicId == topics.c.topicId,
                    events.c.epoch == topics.c.epoch,
                    events.c.seq > groups.c.cursorSeq,
                )
                .limit(literal_column("1"))
                .scalar_subquery()
            )
            earliest = (
                select(func.min(pending.c.visibleAt))
                .where(pending.c.topicId == topics.c.topicId, pending.c.group == words("group"))
                .scalar_subquery()
            )
            joined = topics.outerjoin(
                groups,
                and_(groups.c.topicId == topics.c.topicId, groups.c.group == words("group")),
            )
            return (
                select(groups.c.cursorSeq, new.label("new"), self.dialect.left_ms(earliest))
                .select_from(joined)
                .where(topics.c.topic == words("topic"))
            )

        return self.shape("look_for_work", build)

    def next_due(self) -> Statement:
        """Milliseconds until the earliest held or delayed event of a group is claimable."""

        def build() -> Any:
            pending = self.tables.pending
            earliest = func.min(pending.c.visibleAt)
            return select(self.dialect.left_ms(earliest)).where(*self._of_group())

        return self.shape("next_due", build)

    # -- settling --------------------------------------------------------------------------

    def ack(self) -> Statement:
        """Forget what this consumer holds in these attempts."""

        def build() -> Any:
            return delete(self.tables.pending).where(*self._held_by_consumer())

        return self.shape("ack", build)

    def show_again(self, *, counts: bool) -> Statement:
        """Make it claimable after a pause; ``counts``: this delivery was one."""

        def build() -> Any:
            pending = self.tables.pending
            values: dict[str, ColumnElement[Any]] = {
                "consumer": null(),
                "visibleAt": self.dialect.later(number("delay_ms")),
            }
            if counts:
                values["lastError"] = func.coalesce(words("error"), pending.c.lastError)
            else:
                values["attempt"] = pending.c.attempt - literal_column("1")
            return update(pending).where(*self._held_by_consumer()).values(values)

        return self.shape("show_again", build, counts)

    def extend(self) -> Statement:
        """Start the time anew of what this consumer still holds."""

        def build() -> Any:
            return (
                update(self.tables.pending)
                .where(*self._held_by_consumer())
                .values(visibleAt=self.dialect.later(number("ack_wait_ms")))
            )

        return self.shape("extend", build)

    def bury(self) -> Statement:
        """A dead letter of what this consumer holds; ``ack`` follows."""

        def build() -> Any:
            pending, dead = self.tables.pending, self.tables.dead
            row = select(
                words("id"),
                words("topic"),
                pending.c.group,
                pending.c.epoch,
                pending.c.seq,
                pending.c.attempt,
                func.coalesce(words("error"), pending.c.lastError),
                func.coalesce(pending.c.payload, self.payload_of(pending)),
                self.dialect.now(),
            ).where(
                *self._held_by_consumer(),
                func.coalesce(pending.c.payload, self.payload_of(pending)).is_not(None),
            )
            names = [
                "id",
                "topic",
                "group",
                "epoch",
                "seq",
                "attempt",
                "lastError",
                "payload",
                "deadAt",
            ]
            return (
                self.dialect.insert(dead).from_select(names, row).returning(*self._dead_columns())
            )

        return self.shape("bury", build)

    # -- dead letters ----------------------------------------------------------------------

    def list_dead(self) -> Statement:
        """The dead letters of a topic that are still kept, oldest first."""

        def build() -> Any:
            dead = self.tables.dead
            return (
                select(*self._dead_columns())
                .where(dead.c.topic == words("topic"), self._is_kept())
                .order_by(dead.c.deadAt, dead.c.id)
            )

        return self.shape("list_dead", build)

    def requeue_dead(self) -> tuple[Statement, Statement, Statement]:
        """The group of a dead letter; the letter as something that it holds; the letter gone."""
        topics, groups = self.tables.topics, self.tables.groups
        pending, dead = self.tables.pending, self.tables.dead
        now = self.dialect.now()

        def wanted() -> tuple[ColumnElement[bool], ...]:
            return (
                dead.c.id == words("id"),
                dead.c.topic == words("topic"),
                topics.c.topic == dead.c.topic,
                self._is_kept(),
            )

        def join() -> Any:
            row = select(
                topics.c.topicId, dead.c.group, topics.c.epoch, topics.c.lastSeq, now, now
            ).where(*wanted())
            names = ["topicId", "group", "epoch", "cursorSeq", "createdAt", "lastSeenAt"]
            return (
                self.dialect.insert(groups)
                .from_select(names, row)
                .on_conflict_do_nothing(index_elements=[groups.c.topicId, groups.c.group])
            )

        def show() -> Any:
            # Its place in the log may be gone or belong to another epoch: it gets one of its own.
            lowest = (
                select(func.min(pending.c.seq))
                .where(
                    pending.c.topicId == topics.c.topicId,
                    pending.c.group == dead.c.group,
                    pending.c.epoch == topics.c.epoch,
                )
                .scalar_subquery()
            )
            seq = self.dialect.smaller(lowest, literal_column("0")) - literal_column("1")
            row = select(
                topics.c.topicId,
                dead.c.group,
                topics.c.epoch,
                seq,
                literal_column("0"),
                now,
                dead.c.payload,
            ).where(*wanted())
            names = ["topicId", "group", "epoch", "seq", "attempt", "visibleAt", "payload"]
            return self.dialect.insert(pending).from_select(names, row)

        def drop() -> Any:
            return (
                delete(dead)
                .where(dead.c.id == words("id"), dead.c.topic == words("topic"), self._is_kept())
                .returning(literal_column("1"))
            )

        return (
            self.shape("requeue.join", join),
            self.shape("requeue.show", show),
            self.shape("requeue.drop", drop),
        )

    def purge_dead(self) -> Statement:
        """Forget the dead letters of a topic."""

        def build() -> Any:
            dead = self.tables.dead
            return delete(dead).where(dead.c.topic == words("topic")).returning(literal_column("1"))

        return self.shape("purge_dead", build)

    # -- sweeping --------------------------------------------------------------------------

    def idle_topics(self) -> Statement:
        """Topics that nobody wrote to for their time, without a group that may come back."""

        def build() -> Any:
            topics, groups = self.tables.topics, self.tables.groups
            idle = self.dialect.left_ms(topics.c.lastWriteAt) + topics.c.idleTtlMs
            return (
                select(topics.c.topicId)
                .where(
                    topics.c.idleTtlMs.is_not(None),
                    idle < literal_column("0"),
                    ~exists().where(groups.c.topicId == topics.c.topicId),
                )
                .limit(number("limit"))
            )

        return self.shape("idle_topics", build)

    def forget_topic(self) -> tuple[Statement, ...]:
        """Delete a topic that is still idle, with everything that belongs to it."""
        topics, groups = self.tables.topics, self.tables.groups
        idle = self.dialect.left_ms(topics.c.lastWriteAt) + topics.c.idleTtlMs

        def topic() -> Any:
            return delete(topics).where(
                topics.c.topicId == number("topic_id"),
                idle < literal_column("0"),
                ~exists().where(groups.c.topicId == topics.c.topicId),
            )

        def rest(table: Any) -> Any:
            is_gone = ~exists().where(topics.c.topicId == number("topic_id"))
            return delete(table).where(table.c.topicId == number("topic_id"), is_gone)

        return (
            self.shape("forget.topic", topic),
            *(
                self.shape("forget.rest", lambda table=table: rest(table), table.name)  # type: ignore[misc]
                for table in (self.tables.events, self.tables.pending)
            ),
        )

    def forget_groups(self) -> tuple[Statement, Statement]:
        """Groups whose consumers vanished long ago, and what they held."""
        groups, pending = self.tables.groups, self.tables.pending
        oldest = self.dialect.later(-number("group_ttl_ms"))

        def group() -> Any:
            return delete(groups).where(groups.c.lastSeenAt < oldest)

        def held() -> Any:
            same = and_(groups.c.topicId == pending.c.topicId, groups.c.group == pending.c.group)
            return delete(pending).where(~exists().where(same))

        return self.shape("forget.groups", group), self.shape("forget.held", held)

    def forget_dead(self) -> Statement:
        """Dead letters that were kept long enough."""

        def build() -> Any:
            return delete(self.tables.dead).where(~self._is_kept())

        return self.shape("forget.dead", build)

    # -- parts -----------------------------------------------------------------------------

    def topic_id(self) -> ScalarSelect[Any]:
        """The number of the topic that the parameter ``topic`` names."""
        topics = self.tables.topics
        return select(topics.c.topicId).where(topics.c.topic == words("topic")).scalar_subquery()

    def _new_topic(self, count: ColumnElement[Any]) -> dict[str, ColumnElement[Any]]:
        return {
            "topic": words("topic"),
            "epoch": self.dialect.now_us(),
            "lastSeq": count,
            "firstSeq": literal_column("1"),
            "revision": literal_column("1"),
            "lastWriteAt": self.dialect.now(),
            "idleTtlMs": number("idle_ttl_ms"),
            "class": words("class"),
        }

    def _same_log(self, events: Any) -> ColumnElement[bool]:
        topics = self.tables.topics
        return and_(events.c.topicId == topics.c.topicId, events.c.epoch == topics.c.epoch)

    def payload_of(self, pending: Table) -> ScalarSelect[Any]:
        """The envelope of something that a group holds, from the log."""
        events = self.tables.events

        return (
            select(events.c.payload)
            .where(
                events.c.topicId == self.dialect.column_of(pending, "topicId"),
                events.c.epoch == self.dialect.column_of(pending, "epoch"),
                events.c.seq == self.dialect.column_of(pending, "seq"),
            )
            .scalar_subquery()
        )

    def _of_group(self) -> tuple[ColumnElement[bool], ...]:
        pending = self.tables.pending
        return (pending.c.topicId == self.topic_id(), pending.c.group == words("group"))

    def _held_by_consumer(self) -> tuple[ColumnElement[bool], ...]:
        pending = self.tables.pending
        return (
            *self._of_group(),
            pending.c.consumer == words("consumer"),
            self.dialect.held(pending, "held"),
        )

    def _dead_columns(self) -> list[ColumnElement[Any]]:
        dead = self.tables.dead
        return [
            dead.c.id,
            dead.c.group,
            dead.c.attempt,
            dead.c.lastError,
            dead.c.payload,
            self.dialect.epoch_ms(dead.c.deadAt).label("deadAtMs"),
        ]

    def _is_kept(self) -> ColumnElement[bool]:
        return self.tables.dead.c.deadAt > self.dialect.later(-number("dead_retention_ms"))
