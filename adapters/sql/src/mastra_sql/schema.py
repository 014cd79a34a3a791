"""What is beside the tables of a database: indexes, and parts that have a version."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy import Table

__all__ = ("Index", "Needs", "Part")


class Needs(StrEnum):
    """What has to be true of the rows before an index can be created."""

    NOTHING = "nothing"
    #: No two notifications with one (threadId, id).
    NO_DUPLICATES = "no duplicates"
    #: Such duplicates stand, so the unique index can't be.
    DUPLICATES = "duplicates"
    #: No snapshot that is no JSON.
    VALID_SNAPSHOTS = "valid snapshots"


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """One index, in SQL text."""

    name: str
    table: Table
    #: Columns or expressions, as they stand between the brackets.
    keys: str
    unique: bool = False
    #: Condition of a partial index.
    where: str = ""
    needs: Needs = Needs.NOTHING
    #: True if Node creates it, too.
    shared: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """Tables and indexes that belong together and have one version."""

    component: str
    version: int
    tables: tuple[Table, ...]
    indexes: tuple[Index, ...] = ()
