"""What a row of a lease says."""

from __future__ import annotations

from mastra_core.bus.lease_watching import NOTHING
from mastra_sql.lease.provider import sight_of


def test_a_key_without_a_row_is_nobodys() -> None:
    """And a row says whose it is."""
    assert sight_of([]) is NOTHING
    seen = sight_of([("a", "h", 5, "transferred", -3, 0)])
    assert ("a", "h", 5, "transferred", 0, False) == (
        seen.owner,
        seen.holder,
        seen.fence,
        seen.origin,
        seen.left_ms,
        seen.lives,
    )
