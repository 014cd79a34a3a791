"""Bringing a database to the shape that this version needs, seen from outside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

__all__ = ("MigratableStorage", "MigrationPlan")


class MigrationPlan(Protocol):
    """What has to be done to a database; nothing, if there are no statements."""

    @property
    def found_version(self) -> int:
        """The version that the database holds; 0 for one that we never touched."""
        ...

    @property
    def target_version(self) -> int: ...

    @property
    def statements(self) -> Sequence[str]:
        """What is run, in order; only ever adds."""
        ...

    @property
    def skipped(self) -> Sequence[str]:
        """What can't be added, with the reason; the store works without it, but slower."""
        ...


@runtime_checkable
class MigratableStorage(Protocol):
    """
    What a store with the capability ``storage.migrations`` offers beside its domains.

    ``init`` is what migrates: under a lock, all or nothing.
    """

    async def plan_migration(self) -> MigrationPlan:
        """
        What ``init`` would do right now; changes nothing, and needs no open store.

        Raises:
            StorageSchemaError: The database is newer than this version.
        """
        ...

    def export_ddl(self) -> str:
        """Everything that an empty database needs, for people who run it themselves."""
        ...
