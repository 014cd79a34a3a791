"""Deleting old rows in bounded portions (snapshots.md 5.8)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Table

from mastra_core.contracts.storage import PruneOptions, PrunePolicy, PruneResult
from mastra_core.rules import pruning as rules
from mastra_sql.executor import Program, Step
from mastra_sql.statement import Statement
from mastra_sql.statements.base import StatementSet
from mastra_sql.storage.host import SqlHost

__all__ = ("Prunable", "prune")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prunable:
    """One table that a policy may name."""

    table: Table
    #: The column that says how old a row is.
    anchor: str
    #: Which rows may go at all; None for all of them.
    condition: ColumnElement[bool] | None = None
    #: What goes with a batch, before it, with the same parameters.
    children: tuple[Statement, ...] = ()
    #: What cleans up after a batch, in the same transaction.
    leftovers: tuple[Statement, ...] = ()
    #: A table of ours is small, and shared tables get an index when somebody prunes them.
    is_indexed: bool = True


async def prune(
    host: SqlHost,
    statements: StatementSet,
    known: Mapping[str, Prunable],
    policies: Sequence[PrunePolicy],
    options: PruneOptions | None,
) -> list[PruneResult]:
    """
    Delete what the policies allow, one batch per transaction, in the order given.

    Raises:
        StorageArgumentError: A policy names a table that this domain doesn't have, or a
            portion makes no sense; nothing was deleted.
    """
    limits = rules.check_policies(policies, options, known.keys())
    return [
        await _prune_table(host, statements, known[policy.table], policy, limits)
        for policy in policies
    ]


async def _prune_table(
    host: SqlHost,
    statements: StatementSet,
    target: Prunable,
    policy: PrunePolicy,
    limits: PruneOptions,
) -> PruneResult:
    before = {"before": host.dialect.time_value(rules.cutoff(policy, host.clock.now()))}
    shape = (target.table, target.anchor, target.condition, policy.table)
    if target.is_indexed and not limits.dry_run:
        await host.retention_index(target.table.name, target.anchor)

    async def count() -> int:
        step = Step.of(statements.count_old(*shape), before)
        [[(found,)]] = await host.executor.read("prune", step)
        return int(found)

    async def delete(wanted: int) -> int:
        values = {**before, "batch": wanted}
        deleting = Step.of(statements.prune(*shape), values)
        if not target.children and not target.leftovers:
            return len(await host.executor.write("prune", deleting))

        def program() -> Program[int]:
            children = [Step.of(statement, values) for statement in target.children]
            leftovers = [Step(statement) for statement in target.leftovers]
            results = yield (*children, deleting, *leftovers)
            return len(results[len(children)])

        return await host.executor.transact("prune", program)

    return await rules.prune_table(
        policy,
        limits,
        domain=statements.domain,
        count=count,
        delete=delete,
        sleep=host.clock.sleep,
    )
