"""Bringing a database to the shape of this version: what is planned, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mastra_core.errors import StorageSchemaError

__all__ = ("MigrationPlan", "not_migrated", "script", "too_new")


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationPlan:
    """What has to be done to a database; nothing, if there are no statements."""

    #: Version that the database holds; 0 for one that we never touched.
    found_version: int
    target_version: int
    statements: tuple[str, ...] = ()
    #: Indexes that can't be, with the reason; the store works without them, but slower.
    skipped: tuple[str, ...] = ()
    #: Is something missing that both systems have? Then there is nothing to read, either.
    lacks_shared: bool = False

    def __bool__(self) -> bool:
        return bool(self.statements)


def script(statements: Sequence[str]) -> str:
    """Statements as one text, for whoever may run them."""
    return "".join(f"{statement};\n" for statement in statements)


def not_migrated(where: str, statements: Sequence[str], *, error_id: str) -> StorageSchemaError:
    """What to raise if something is missing in a database that may not be changed."""
    count = len(statements)
    missing = "1 statement is" if count == 1 else f"{count} statements are"
    return StorageSchemaError(
        f"{where} has to be migrated first: {missing} missing, and disable_init is set.",
        id=error_id,
        hint="Run: mastra-py migrate",
        details={"statements": count},
    )


def too_new(
    where: str, component: str, *, found: int, known: int, package: str, error_id: str
) -> StorageSchemaError:
    """What to raise for a database that a newer version of the package has changed."""
    return StorageSchemaError(
        f"{where} was made by a newer version of {package}: it has version {found} of "
        f"{component!r}, this one knows {known}.",
        id=error_id,
        hint=f"Upgrade with: pip install --upgrade {package}",
        details={"found": found, "known": known},
    )
