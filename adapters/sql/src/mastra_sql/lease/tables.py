"""The tables of leases and fences (pubsub_and_lease.md 8.3)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlalchemy import MetaData, Table

from mastra_sql.bus.tables import make_table
from mastra_sql.tables import ColumnKind

__all__ = ("LeaseTables", "build_lease_tables")

TEXT, INTEGER = ColumnKind.TEXT, ColumnKind.INTEGER


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTables:
    """Every table that leases use."""

    metadata: MetaData
    leases: Table
    #: The newest fence that a guarded write carried, by key.
    fences: Table

    def own(self) -> Iterator[Table]:
        """All of them; they are ours."""
        yield from (self.leases, self.fences)


def build_lease_tables(
    prefix: str = "", *, time: ColumnKind = ColumnKind.TIME, schema: str | None = None
) -> LeaseTables:
    """The tables, their names behind a prefix; for ``time`` see ``build_bus_tables``."""
    metadata = MetaData(schema=schema)
    return LeaseTables(
        metadata=metadata,
        leases=make_table(
            metadata,
            f"{prefix}mastra_leases",
            (
                ("key", TEXT, True),
                # NULL after a release; the row stays, since its fence must.
                ("owner", TEXT, False),
                ("holder", TEXT, False),
                ("fence", INTEGER, True),
                # How the current term began: acquired or transferred.
                ("origin", TEXT, True),
                ("expiresAt", time, True),
                ("updatedAt", time, True),
                # Which start of the machine the time counts in; NULL where a server keeps it.
                ("bootId", TEXT, False),
            ),
            ("key",),
        ),
        fences=make_table(
            metadata,
            f"{prefix}mastra_fences",
            (("key", TEXT, True), ("token", INTEGER, True), ("updatedAt", time, True)),
            ("key",),
        ),
    )
