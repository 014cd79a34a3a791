"""The objects that a bus and leases need in a SQL database.

They are created when the role is first used, under the same lock and by the same rules as the
tables of the store: only what is missing, nothing dropped, a newer version refused.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from sqlalchemy import Table

from mastra_core.rules.migrations import MigrationPlan, too_new
from mastra_sql.bus.tables import BusTables
from mastra_sql.lease.tables import LeaseTables
from mastra_sql.schema import Index, Part

__all__ = ("BUS", "LEASE", "SqlBusSchema")

#: Rows of ``mastra_py_schema``, and the versions that this package knows.
LEASE: Final = ("lease", 1)
BUS: Final = ("bus", 1)


class SqlBusSchema(ABC):
    """
    The tables of a bus and of leases; an adapter says how they are created.

    Args:
        bus: The tables of the bus.
        lease: Those of leases.
        versions: Where the versions of both stand.
        store: Short name of the adapter, for errors.
    """

    def __init__(self, *, bus: BusTables, lease: LeaseTables, versions: Table, store: str) -> None:
        self.bus = bus
        self.lease = lease
        self.versions = versions
        self._store = store

    @abstractmethod
    def create_table(self, table: Table) -> str:
        """The statement that creates a table if it is missing."""

    @abstractmethod
    def create_index(self, index: Index) -> str:
        """The statement that creates an index if it is missing."""

    @abstractmethod
    def remember(self, component: str, version: int) -> str:
        """The statement that writes the version of a part down."""

    @abstractmethod
    def index_name(self, name: str) -> str:
        """The name of an index behind the prefix of the tables."""

    # -- parts -----------------------------------------------------------------------------

    def lease_parts(self) -> tuple[Part, ...]:
        """What leases need."""
        return (Part(*LEASE, tuple(self.lease.own())),)

    def bus_parts(self) -> tuple[Part, ...]:
        """What a bus needs; its publishes check fences, so leases are part of it."""
        return (*self.lease_parts(), Part(*BUS, tuple(self.bus.own()), tuple(self._indexes())))

    def _indexes(self) -> Iterator[Index]:
        def index(name: str, table: Table, keys: str, *, unique: bool = False) -> Index:
            return Index(name=self.index_name(name), table=table, keys=keys, unique=unique)

        # Every statement names its topic.
        yield index("mastra_pubsub_topics_topic", self.bus.topics, '"topic"', unique=True)
        # A publish that is repeated is stored once.
        keys = '"topicId", "epoch", "eventId"'
        yield index("mastra_pubsub_events_id", self.bus.events, keys, unique=True)
        # What a group can claim again.
        keys = '"topicId", "group", "visibleAt"'
        yield index("mastra_pubsub_pending_visible", self.bus.pending, keys)
        yield index("mastra_pubsub_dead_topic", self.bus.dead, '"topic", "deadAt"')

    # -- the plan --------------------------------------------------------------------------

    def plan(
        self,
        parts: Sequence[Part],
        objects: Collection[str] = (),
        found: Mapping[str, int] | None = None,
    ) -> MigrationPlan:
        """
        The statements that are needed, in order; everything for an empty database.

        Args:
            parts: What is needed.
            objects: Names of the tables and indexes that are there.
            found: Versions of parts that the database holds.

        Raises:
            StorageSchemaError: A part has a newer version.
        """
        found = found or {}
        statements = []
        if self.versions.name not in objects:
            statements.append(self.create_table(self.versions))
        for part in parts:
            known = found.get(part.component, 0)
            if known > part.version:
                raise too_new(
                    "The database",
                    part.component,
                    found=known,
                    known=part.version,
                    package=f"mastra-{self._store}",
                    error_id=f"MASTRA_STORAGE_{self._store.upper()}_INIT_FAILED",
                )
            statements += [self.create_table(one) for one in part.tables if one.name not in objects]
            statements += [
                self.create_index(one) for one in part.indexes if one.name not in objects
            ]
            if known < part.version:
                statements.append(self.remember(part.component, part.version))
        last = parts[-1]
        return MigrationPlan(
            found_version=found.get(last.component, 0),
            target_version=last.version,
            statements=tuple(statements),
        )
