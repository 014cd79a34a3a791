"""Leases as the server decides about them: expressions for pipeline updates (6.4, 8.4).

Time is ``$$NOW``, the clock of the primary. One command takes a key or leaves it as it is;
the document that comes back says which.
"""

from __future__ import annotations

from typing import Any, Final

__all__ = (
    "SIGHT",
    "Expression",
    "acquire_stages",
    "own_filter",
    "release_stages",
    "renew_stages",
    "transfer_stages",
)

Expression = Any

#: Fences must outlive their leases by this much (L4).
_PURGE_MS: Final = 8 * 24 * 3_600_000

SIGHT: Final = {
    "owner": 1,
    "holder": 1,
    "fence": 1,
    "origin": 1,
    "expiresAt": 1,
    "left": {"$subtract": ["$expiresAt", "$$NOW"]},
    "now": "$$NOW",
}
"""How a key looks; ``left`` is what remains of its time, by the server's clock."""


def _until(ttl_ms: int) -> Expression:
    return {"$add": ["$$NOW", ttl_ms]}


def _purge(ttl_ms: int) -> Expression:
    return {"$add": ["$$NOW", ttl_ms + _PURGE_MS]}


#: L4: above every fence of the key, and above those of a former life of the database.
_NEXT_FENCE: Final = {
    "$max": [
        {"$add": [{"$ifNull": ["$fence", 0]}, 1]},
        {"$multiply": [{"$toLong": "$$NOW"}, 1000]},
    ]
}


def acquire_stages(owner: str, holder: str, ttl_ms: int, *, lock_delay_ms: int) -> list[Expression]:
    """Take a free, expired or own key; the same owner and holder go on with their term."""
    wanted, mine = {"$literal": owner}, {"$literal": holder}
    has_owner = {"$ne": [{"$ifNull": ["$owner", None]}, None]}
    is_live = {"$and": [has_owner, {"$gt": ["$expiresAt", "$$NOW"]}]}
    is_other = {"$ne": ["$owner", wanted]}
    # It expired instead of being released: its holder may not know yet (L13).
    is_kept = {"$gt": [{"$add": ["$expiresAt", lock_delay_ms]}, "$$NOW"]}
    is_denied = {"$and": [has_owner, is_other, is_kept]}
    is_same = {
        "$and": [
            is_live,
            {"$not": [is_other]},
            # A term without a holder was handed over; the first who comes takes it up.
            {"$in": [{"$ifNull": ["$holder", None]}, [None, mine]]},
        ]
    }

    def granted(value: Expression, kept: str) -> Expression:
        return {"$cond": ["$_denied", {"$ifNull": [f"${kept}", None]}, value]}

    return [
        {"$set": {"_denied": is_denied, "_same": is_same}},
        {
            "$set": {
                "owner": granted(wanted, "owner"),
                "holder": granted(mine, "holder"),
                "fence": granted({"$cond": ["$_same", "$fence", _NEXT_FENCE]}, "fence"),
                "expiresAt": granted(_until(ttl_ms), "expiresAt"),
                "purgeAt": granted(_purge(ttl_ms), "purgeAt"),
                "origin": granted({"$cond": ["$_same", "$origin", "acquired"]}, "origin"),
            }
        },
        {"$unset": ["_denied", "_same"]},
    ]


def own_filter(key: str, owner: str, *, fence: int | None, holder: str | None) -> dict[str, Any]:
    """The live term of a caller."""
    wanted: dict[str, Any] = {
        "_id": key,
        "owner": owner,
        "$expr": {"$gt": ["$expiresAt", "$$NOW"]},
    }
    if holder is not None:
        wanted["holder"] = {"$in": [None, holder]}
    if fence is not None:
        wanted["fence"] = fence
    return wanted


def renew_stages(ttl_ms: int) -> list[Expression]:
    """Set the remaining time."""
    return [{"$set": {"expiresAt": _until(ttl_ms), "purgeAt": _purge(ttl_ms)}}]


def release_stages() -> list[Expression]:
    """Nobody's, with its fence."""
    return [{"$set": {"owner": None, "holder": None, "expiresAt": "$$NOW"}}]


def transfer_stages(
    from_owner: str, to_owner: str, to_holder: str | None, ttl_ms: int
) -> list[Expression]:
    """Hand the term on in one step; to oneself it is a renewal."""
    heir = {"$literal": to_holder}
    stays = {
        "$and": [
            to_owner == from_owner,
            {"$in": [heir, [None, {"$ifNull": ["$holder", None]}]]},
        ]
    }
    return [
        {"$set": {"_stays": stays}},
        {
            "$set": {
                "owner": {"$literal": to_owner},
                "holder": {"$cond": ["$_stays", "$holder", heir]},
                "fence": {"$cond": ["$_stays", "$fence", _NEXT_FENCE]},
                "origin": {"$cond": ["$_stays", "$origin", "transferred"]},
                "expiresAt": _until(ttl_ms),
                "purgeAt": _purge(ttl_ms),
            }
        },
        {"$unset": "_stays"},
    ]
