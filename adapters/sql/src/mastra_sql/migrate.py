"""Bringing a database to the shape that this version needs, whatever the dialect.

An adapter gives a program that looks what is missing and, if told so, adds it. What is known
here is when it is run, and what happens if it may not be.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeAlias

from mastra_core.rules.migrations import MigrationPlan, not_migrated
from mastra_sql.executor import Executor, Program, ProgramFactory, read_program

__all__ = ("Change", "Migration", "bring_up_to_date")

Change: TypeAlias = Callable[[str, ProgramFactory[MigrationPlan]], Awaitable[MigrationPlan]]
"""How a program that changes the database is run."""


class Migration(Protocol):
    """A program that looks what is missing and, if told so, adds it; one transaction."""

    def __call__(self, *, apply: bool) -> Program[MigrationPlan]: ...


async def bring_up_to_date(
    executor: Executor,
    where: str,
    migration: Migration,
    *,
    disable_init: bool,
    error_id: str,
    change: Change | None = None,
    allow_unprepared: bool = False,
) -> Sequence[str]:
    """
    Add what is missing; nothing is locked if nothing is.

    Args:
        executor: Looks first, without any lock.
        where: The database, for people.
        migration: What it needs.
        disable_init: Only look.
        error_id: The id of a refusal.
        change: Runs what changes the database, if not the executor as usual.
        allow_unprepared: With ``disable_init``: what is ours alone may be missing.

    Returns:
        The statements for what is missing still.

    Raises:
        StorageSchemaError: Something is missing and ``disable_init`` is set.
    """
    plan = await read_program(executor, "init", lambda: migration(apply=False))
    if plan and disable_init:
        if allow_unprepared and not plan.lacks_shared:
            return plan.statements
        raise not_migrated(where, plan.statements, error_id=error_id)
    if plan:
        await (change or executor.transact)("init", lambda: migration(apply=True))
    return ()
