"""Changes to snapshots as the server makes them: expressions for pipeline updates.

Every value of a caller's stands inside ``$literal``, and every name inside ``$setField`` or
``$getField``, so that nothing of it is taken for an expression or a path (snapshots.md 6).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

__all__ = ("Expression", "change", "later", "merge_results", "merge_state", "persist", "replace")

Expression = Any

_PENDING: Final = {"__mastra_pending__": True}


def later(now: datetime) -> Expression:
    """``max(now, stored + 1 ms)``, so that no row goes back in time (G14)."""
    return {"$max": [now, {"$add": ["$updatedAt", 1]}]}


def persist(
    snapshot: Mapping[str, Any],
    *,
    resource_id: str | None,
    created_at: datetime,
    updated_at: datetime,
) -> list[Expression]:
    """Put the whole document there; creation time and a known resource stay (5.1)."""
    known = {"$ifNull": ["$resourceId", None]}
    return [
        {
            "$set": {
                "snapshot": {"$literal": snapshot},
                "resourceId": known if resource_id is None else {"$literal": resource_id},
                "createdAt": {"$ifNull": ["$createdAt", created_at]},
                "updatedAt": later(updated_at),
            }
        }
    ]


def merge_state(opts: Mapping[str, Any], now: datetime) -> list[Expression]:
    """Replace top-level members (5.4)."""
    merged = {"$mergeObjects": ["$snapshot", {"$literal": opts}]}
    return [{"$set": {"snapshot": merged, "updatedAt": later(now)}}]


def replace(snapshot: Mapping[str, Any], now: datetime) -> list[Expression]:
    """Another document in the same row."""
    return [{"$set": {"snapshot": {"$literal": snapshot}, "updatedAt": later(now)}}]


def change(members: Mapping[str, Any], removed: Iterable[str], now: datetime) -> list[Expression]:
    """Other values for some top-level members, and others gone."""
    stages = merge_state(members, now)
    for name in removed:
        gone = {"$unsetField": {"field": {"$literal": name}, "input": "$snapshot"}}
        stages.append({"$set": {"snapshot": gone}})
    return stages


def merge_results(
    step_id: str,
    result: Mapping[str, Any],
    request_context: Mapping[str, Any] | None,
    empty: Mapping[str, Any],
    now: datetime,
) -> list[Expression]:
    """Merge one step result by the rule of snapshots.md 6 into the document, or an empty one."""
    context = "$snapshot.context"
    merged = {
        "$let": {
            "vars": {"old": _member(step_id, context)},
            "in": _merged_step("$$old", result),
        }
    }
    known = {
        "$cond": [
            {"$eq": [{"$type": "$snapshot.requestContext"}, "object"]},
            "$snapshot.requestContext",
            {},
        ]
    }
    changes = {
        "context": _with_member(step_id, context, merged),
        "requestContext": {"$mergeObjects": [known, {"$literal": dict(request_context or {})}]},
    }
    return [
        {
            "$set": {
                "snapshot": {"$ifNull": ["$snapshot", {"$literal": dict(empty)}]},
                "resourceId": {"$ifNull": ["$resourceId", None]},
                "createdAt": {"$ifNull": ["$createdAt", now]},
                "updatedAt": later(now),
            }
        },
        {"$set": {"snapshot": {"$mergeObjects": ["$snapshot", changes]}}},
    ]


def _member(name: str, container: Expression) -> Expression:
    return {"$getField": {"field": {"$literal": name}, "input": container}}


def _with_member(name: str, container: Expression, value: Expression) -> Expression:
    return {"$setField": {"field": {"$literal": name}, "input": container, "value": value}}


def _merged_step(old: str, new: Mapping[str, Any]) -> Expression:
    """``rules.snapshots.merge_step_result``: lists of outputs are composed, the rest replaced."""
    output = new.get("output")
    if not isinstance(output, list):
        return {"$literal": new}
    has_marker = any(value == _PENDING for value in output)
    if has_marker:
        members: Expression = old
        merged = _marked_output(f"{old}.output", output)
    else:
        members = {"$mergeObjects": [old, {"$literal": new}]}
        merged = _filled_output(f"{old}.output", output)
    return {
        "$cond": [
            {"$isArray": [f"{old}.output"]},
            {"$mergeObjects": [members, {"output": merged}]},
            {"$literal": new},
        ]
    }


def _filled_output(old: str, output: list[Any]) -> Expression:
    """Each value that is given replaces; a null leaves what stands there."""
    given = {"$literal": output}
    return {
        "$concatArrays": [
            {
                "$map": {
                    "input": {"$range": [0, {"$size": old}]},
                    "as": "i",
                    "in": {
                        "$ifNull": [
                            {"$arrayElemAt": [given, "$$i"]},
                            {"$arrayElemAt": [old, "$$i"]},
                        ]
                    },
                }
            },
            {
                "$map": {
                    "input": {"$range": [{"$size": old}, len(output)]},
                    "as": "i",
                    "in": {"$arrayElemAt": [given, "$$i"]},
                }
            },
        ]
    }


def _marked_output(old: str, output: list[Any]) -> Expression:
    """Markers empty what is open; everything else stays; what is beyond is empty."""
    marked = [value == _PENDING for value in output]
    current = {"$arrayElemAt": [old, "$$i"]}
    return {
        "$concatArrays": [
            {
                "$map": {
                    "input": {"$range": [0, {"$size": old}]},
                    "as": "i",
                    "in": {
                        "$let": {
                            "vars": {"value": current},
                            "in": {
                                "$cond": [
                                    {
                                        "$and": [
                                            {"$arrayElemAt": [marked, "$$i"]},
                                            _is_open("$$value"),
                                        ]
                                    },
                                    None,
                                    "$$value",
                                ]
                            },
                        }
                    },
                }
            },
            {
                "$map": {
                    "input": {"$range": [{"$size": old}, len(output)]},
                    "as": "i",
                    "in": None,
                }
            },
        ]
    }


def _is_open(value: str) -> Expression:
    """No output yet: nothing, a marker, or a suspended iteration."""

    def is_there(name: str) -> Expression:
        return {"$ne": [{"$type": f"{value}.{name}"}, "missing"]}

    suspended = {
        "$and": [
            {"$eq": [{"$type": value}, "object"]},
            {"$eq": [f"{value}.status", "suspended"]},
            {"$or": [is_there("suspendPayload"), is_there("suspendedAt")]},
        ]
    }
    return {
        "$or": [
            {"$eq": [{"$ifNull": [value, None]}, None]},
            {"$eq": [value, {"$literal": _PENDING}]},
            suspended,
        ]
    }
