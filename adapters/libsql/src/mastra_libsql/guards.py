"""Optimistic transactions: statements that fail unless earlier reads still hold.

A server that takes only whole batches can't answer in the middle of a transaction. So a
program reads first, without any lock; its writes then go in one batch behind a guard per
read, which raises an error, and so rolls the batch back, if the rows are others by now.
"""

from __future__ import annotations

from typing import Any, Final

from mastra_core.base.jsonjs import encode
from mastra_sql.executor import Rows, Step

__all__ = ("STALE", "Bound", "guards")

#: A statement and its values.
Bound = tuple[str, tuple[Any, ...]]

STALE: Final = "malformed JSON"
"""What a failed guard makes SQLite say: no other function of it raises on demand."""

_RAISE: Final = "json('mastra: somebody else wrote')"


def guards(step: Step, rows: Rows) -> list[Bound]:
    """Statements that raise unless the read gives exactly these rows again, in any order."""
    width = len(step.statement.columns)
    names = [f"c{index}" for index in range(width)]
    again = f"WITH again({', '.join(names)}) AS ({step.statement.sql})"
    if any(isinstance(value, bytes) for row in rows for value in row):
        return _one_by_one(again, names, step, rows)
    members = ", ".join(f"value ->> {index}" for index in range(width))
    sql = (
        f"{again}, before AS (SELECT {members} FROM json_each(?)) "  # noqa: S608 - names of ours
        "SELECT CASE WHEN (SELECT count(*) FROM again) = ? "
        "AND NOT EXISTS (SELECT * FROM again EXCEPT SELECT * FROM before) "
        f"THEN 1 ELSE {_RAISE} END"
    )
    return [(sql, (*step.values, encode([list(row) for row in rows]), len(rows)))]


def _one_by_one(again: str, names: list[str], step: Step, rows: Rows) -> list[Bound]:
    """For rows with bytes, which JSON can't carry."""
    same = " AND ".join(f"{name} IS ?" for name in names)
    sql = (
        f"{again} SELECT CASE WHEN (SELECT count(*) FROM again) = ? "  # noqa: S608 - names of ours
        f"AND EXISTS (SELECT 1 FROM again WHERE {same}) THEN 1 ELSE {_RAISE} END"
    )
    return [(sql, (*step.values, len(rows), *row)) for row in rows]
