"""Bringing a database to the shape that this version needs, and not one command more.

What is missing is worked out from the catalogue. Every step can be repeated, and the server
itself lets two processes that take the same step at once come out the same, so no lock is
held. A database of a newer version is refused. Nothing is ever dropped, renamed or rewritten.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from pymongo.errors import CollectionInvalid, OperationFailure

from mastra_core.base.isotime import to_iso_ms
from mastra_core.rules.migrations import script, too_new
from mastra_core.wire.tables import SCHEMA_VERSIONS
from mastra_mongodb.errors import error_id
from mastra_mongodb.pool import MongoPool
from mastra_mongodb.schema import Component, Index, Names

__all__ = (
    "MigrationPlan",
    "apply_plan",
    "create_index",
    "look",
    "plan_of_nothing",
)

logger = logging.getLogger(__name__)

_EXISTS: Final = 48
_NO_COLLECTION: Final = 26
#: Collections whose indexes are looked at at once: to open more connections for it takes longer.
_LOOKS_AT_ONCE: Final = 2
_DUPLICATES: Final = 11000
#: An index of these keys is there under another name or with other options.
_CONFLICTS: Final = frozenset({85, 86})


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationPlan:
    """What has to be done to a database; nothing, if there are no statements."""

    #: Version that the database holds; 0 for one that we never touched.
    found_version: int
    target_version: int
    collections: tuple[str, ...] = ()
    indexes: tuple[Index, ...] = ()
    #: Options of new collections that aren't plain ones.
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    #: Indexes that can't be, with the reason; the store works without them, but slower.
    skipped: tuple[str, ...] = ()
    #: How to remember the version, if it isn't yet.
    remember: str | None = None

    def __bool__(self) -> bool:
        return bool(self.statements)

    @property
    def script(self) -> str:
        """The statements as one text."""
        return script(self.statements)

    @property
    def statements(self) -> tuple[str, ...]:
        """What is run, in order, as the MongoDB shell would have it."""
        found = [
            f"db.createCollection({json.dumps(name)}{_options(self.options.get(name))})"
            for name in self.collections
        ]
        found += [_index_statement(index) for index in self.indexes]
        if self.remember is not None:
            found.append(self.remember)
        return tuple(found)


def plan_of_nothing(component: Component, names: Names) -> MigrationPlan:
    """Everything that an empty database needs, in order."""
    return MigrationPlan(
        found_version=0,
        target_version=component.version,
        collections=component.collections,
        indexes=component.indexes,
        options=component.options,
        remember=_remember(component, names),
    )


def _remember(component: Component, names: Names) -> str:
    return (
        f'db.{names(SCHEMA_VERSIONS)}.updateOne({{_id: "{component.name}"}}, '
        f"{{$set: {{version: {component.version}}}, $currentDate: {{updatedAt: true}}}}, "
        "{upsert: true})"
    )


def _index_statement(index: Index) -> str:
    keys = ", ".join(f"{json.dumps(name)}: {direction}" for name, direction in index.keys)
    return f"db.{index.collection}.createIndex({{{keys}}}{_options(index.options)})"


def _options(options: Mapping[str, Any] | None) -> str:
    return f", {_shell(options)}" if options else ""


def _shell(value: Any) -> str:
    """A value as the shell reads it."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(k)}: {_shell(v)}" for k, v in value.items()) + "}"
    if isinstance(value, datetime):
        return f'ISODate("{to_iso_ms(value)}")'
    return json.dumps(value)


# -- looking ----------------------------------------------------------------------------------


async def look(pool: MongoPool, component: Component, names: Names) -> MigrationPlan:
    """
    What is missing; changes nothing.

    Raises:
        StorageSchemaError: The database belongs to a newer version.
    """
    versions = pool.collection(names(SCHEMA_VERSIONS))
    at_once = asyncio.Semaphore(_LOOKS_AT_ONCE)
    stored, *known = await asyncio.gather(
        versions.find_one({"_id": component.name}),
        *(_indexes_of(pool, name, at_once) for name in component.collections),
    )
    found = stored.get("version", 0) if stored else 0
    if found > component.version:
        raise too_new(
            "The database",
            component.name,
            found=found,
            known=component.version,
            package="mastra-mongodb",
            error_id=error_id("init"),
        )
    catalogue = dict(zip(component.collections, known, strict=True))
    missing, skipped = _missing(component.indexes, catalogue)
    return MigrationPlan(
        found_version=found,
        target_version=component.version,
        collections=tuple(name for name, there in catalogue.items() if there is None),
        indexes=tuple(missing),
        options=component.options,
        skipped=tuple(skipped),
        remember=None if found == component.version else _remember(component, names),
    )


async def _indexes_of(
    pool: MongoPool, name: str, at_once: asyncio.Semaphore
) -> Sequence[Mapping[str, Any]] | None:
    """The indexes of a collection; None if it isn't there."""
    async with at_once:
        try:
            return [index async for index in await pool.collection(name).list_indexes()] or None
        except OperationFailure as exc:
            if exc.code == _NO_COLLECTION:
                return None
            raise


def _missing(
    indexes: Iterable[Index], catalogue: Mapping[str, Sequence[Mapping[str, Any]] | None]
) -> tuple[list[Index], list[str]]:
    missing: list[Index] = []
    skipped: list[str] = []
    for index in indexes:
        there = catalogue.get(index.collection) or ()
        same = [found for found in there if tuple(found["key"].items()) == index.keys]
        if not same:
            missing.append(index)
        elif index.unique and not any(found.get("unique") for found in same):
            skipped.append(
                f"{index.collection} {[name for name, _ in index.keys]}: "
                "an index that isn't unique stands there"
            )
    return missing, skipped


# -- changing ---------------------------------------------------------------------------------


async def apply_plan(
    pool: MongoPool, plan: MigrationPlan, component: Component, names: Names
) -> None:
    """Add what is missing."""
    for name in plan.collections:
        await _create_collection(pool, name, plan.options.get(name, {}))
    by_collection: dict[str, list[Index]] = {}
    for index in plan.indexes:
        by_collection.setdefault(index.collection, []).append(index)
    for indexes in by_collection.values():
        for index in indexes:
            await create_index(pool, index)
    if plan.remember is not None:
        await pool.collection(names(SCHEMA_VERSIONS)).update_one(
            {"_id": component.name},
            {"$max": {"version": component.version}, "$currentDate": {"updatedAt": True}},
            upsert=True,
        )


async def _create_collection(pool: MongoPool, name: str, options: Mapping[str, Any]) -> None:
    try:
        await pool.database.create_collection(name, check_exists=False, **options)
    except CollectionInvalid:
        return
    except OperationFailure as exc:
        if exc.code != _EXISTS:
            raise


async def create_index(pool: MongoPool, index: Index) -> None:
    """Create an index unless rows or another index stand in its way, which is reported."""
    try:
        await pool.collection(index.collection).create_index(list(index.keys), **index.options)
    except OperationFailure as exc:
        if exc.code not in _CONFLICTS and exc.code != _DUPLICATES:
            raise
        logger.warning(
            "index not created",
            extra={
                "collection": index.collection,
                "keys": [name for name, _ in index.keys],
                "reason": "duplicates stand" if exc.code == _DUPLICATES else "another is there",
            },
        )
