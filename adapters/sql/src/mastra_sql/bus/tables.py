"""The tables of the bus (pubsub_and_lease.md 8.3): logs, groups, what groups hold, the dead.

Names and columns are ours; the TypeScript system has no bus in a SQL database.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from sqlalchemy import BigInteger, Column, DateTime, MetaData, Table, Text

from mastra_sql.tables import ColumnKind

if TYPE_CHECKING:
    from sqlalchemy.types import TypeEngine

__all__ = ("BusTables", "ColumnPlan", "build_bus_tables", "make_table")

#: name, kind, required
ColumnPlan: TypeAlias = tuple[str, ColumnKind, bool]

TEXT, INTEGER = ColumnKind.TEXT, ColumnKind.INTEGER


@dataclass(frozen=True, slots=True, kw_only=True)
class BusTables:
    """Every table that a bus uses."""

    metadata: MetaData
    #: One row per topic; its lock orders the publishers of the topic.
    topics: Table
    events: Table
    groups: Table
    #: What groups were given and haven't settled.
    pending: Table
    dead: Table

    def own(self) -> Iterator[Table]:
        """All of them; they are ours."""
        yield from (self.topics, self.events, self.groups, self.pending, self.dead)


def make_table(
    metadata: MetaData, name: str, columns: Sequence[ColumnPlan], key: Sequence[str]
) -> Table:
    """A table whose columns know their kind; how a kind is stored is the adapter's business."""
    return Table(
        name,
        metadata,
        *(
            Column(
                column,
                _type(kind),
                nullable=not required,
                primary_key=column in key,
                # The only key that the database makes.
                autoincrement=list(key) == [column] == ["topicId"],
                info={"kind": kind.value},
            )
            for column, kind, required in columns
        ),
    )


def _type(kind: ColumnKind) -> TypeEngine[Any]:
    match kind:
        case ColumnKind.INTEGER:
            return BigInteger()
        case ColumnKind.TIME:
            return DateTime(timezone=True)
        case _:
            return Text()


def build_bus_tables(
    prefix: str = "", *, time: ColumnKind = ColumnKind.TIME, schema: str | None = None
) -> BusTables:
    """
    The tables, their names behind a prefix.

    Args:
        prefix: In front of every name.
        time: How this database keeps an instant: as one, or as a number of milliseconds.
        schema: Where they are, if the database has such places.
    """
    metadata = MetaData(schema=schema)
    topic_id: ColumnPlan = ("topicId", INTEGER, True)
    group: ColumnPlan = ("group", TEXT, True)
    epoch: ColumnPlan = ("epoch", INTEGER, True)
    seq: ColumnPlan = ("seq", INTEGER, True)
    return BusTables(
        metadata=metadata,
        topics=make_table(
            metadata,
            f"{prefix}mastra_pubsub_topics",
            (
                topic_id,
                ("topic", TEXT, True),
                # Grows with every clear and every life of the topic.
                epoch,
                ("lastSeq", INTEGER, True),
                ("firstSeq", INTEGER, True),
                # Grows with everything that somebody may want to hear of.
                ("revision", INTEGER, True),
                ("lastWriteAt", time, True),
                ("idleTtlMs", INTEGER, False),
                ("class", TEXT, True),
            ),
            ("topicId",),
        ),
        events=make_table(
            metadata,
            f"{prefix}mastra_pubsub_events",
            (
                topic_id,
                epoch,
                seq,
                ("eventId", TEXT, True),
                ("type", TEXT, True),
                ("runId", TEXT, True),
                ("payload", TEXT, True),
                ("createdAt", time, True),
            ),
            ("topicId", "epoch", "seq"),
        ),
        groups=make_table(
            metadata,
            f"{prefix}mastra_pubsub_groups",
            (
                topic_id,
                group,
                epoch,
                ("cursorSeq", INTEGER, True),
                ("createdAt", time, True),
                ("lastSeenAt", time, True),
            ),
            ("topicId", "group"),
        ),
        pending=make_table(
            metadata,
            f"{prefix}mastra_pubsub_pending",
            (
                topic_id,
                group,
                epoch,
                # Below 0: a dead letter that was asked for again.
                seq,
                ("consumer", TEXT, False),
                ("attempt", INTEGER, True),
                ("visibleAt", time, True),
                ("lastError", TEXT, False),
                # The envelope, where the log no longer has it.
                ("payload", TEXT, False),
            ),
            ("topicId", "group", "epoch", "seq"),
        ),
        dead=make_table(
            metadata,
            f"{prefix}mastra_pubsub_dead",
            (
                ("id", TEXT, True),
                # By name: dead letters outlive the row of their topic.
                ("topic", TEXT, True),
                group,
                epoch,
                seq,
                ("attempt", INTEGER, True),
                ("lastError", TEXT, False),
                ("payload", TEXT, True),
                ("deadAt", time, True),
            ),
            ("id",),
        ),
    )
