"""Judges the history of a lease key: at most one live term, and fences that only grow.

Works per key from recorded operations (pubsub_and_lease.md 6.5). An operation took
effect at some instant between its invocation and its return, nobody knows when; a fault is
reported only if no choice of instants is without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mastra_conformance.histories.recorder import Operation

__all__ = ("GuardedWrite", "Term", "check_guarded_writes", "check_leases", "terms_of")

#: L8: the client's clock may run so much faster, and so much is kept as a margin.
_RATE = 0.98
_MARGIN_S = 0.020
#: Databases count leases in whole milliseconds, so a term may begin in the middle of one.
_TICK_S = 0.001


@dataclass(slots=True)
class Term:
    """One ownership as the client may believe in it."""

    key: str
    owner: str
    fence: int
    invoked_at: float
    granted_at: float
    #: Until the release was asked for or the local deadline; the client must not act later.
    until: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardedWrite:
    """A write to a resource that checks fences, in the order in which it accepted them."""

    key: str
    fence: int


def check_leases(operations: Sequence[Operation], *, shares_clock: bool = True) -> list[str]:
    """
    The faults of a history, one sentence each; none if it keeps S1-S3 and S7.

    Args:
        operations: Calls of ``acquire_lease``, ``renew_lease``, ``transfer_lease`` and
            ``release_lease``, recorded under these names with their arguments.
        shares_clock: Whether client and server time are the same, so that S7 (nothing
            expires early) can be judged exactly.
    """
    terms = terms_of(operations)
    faults = _check_fences(terms)
    by_key: dict[str, list[Term]] = {}
    for term in terms:
        by_key.setdefault(term.key, []).append(term)
    for key, own in by_key.items():
        faults += _check_overlaps(key, own)
    if shares_clock:
        faults += _check_early_expiry(operations, terms)
    return faults


def check_guarded_writes(writes: Sequence[GuardedWrite]) -> list[str]:
    """S6: a resource never accepts an older fence after a newer one."""
    newest: dict[str, int] = {}
    faults = []
    for write in writes:
        if write.fence < newest.get(write.key, 0):
            faults.append(
                f"{write.key}: a write with fence {write.fence} was accepted "
                f"after {newest[write.key]}."
            )
        newest[write.key] = max(write.fence, newest.get(write.key, 0))
    return faults


def terms_of(operations: Sequence[Operation]) -> list[Term]:
    """The terms that clients were granted, in the order of the grants."""
    terms: dict[tuple[str, str, int], Term] = {}
    for one in sorted(operations, key=lambda operation: operation.returned_at):
        key = one.arguments.get("key", "")
        match one.name:
            case "acquire_lease" | "transfer_lease" if _granted(one):
                _end_former(terms, one, key)
                fence = one.result.fence
                owner = one.arguments.get("to_owner") or one.arguments["owner"]
                known = terms.get((key, owner, fence))
                if known is None:
                    terms[key, owner, fence] = Term(
                        key, owner, fence, one.invoked_at, one.returned_at, _deadline(one)
                    )
                else:
                    known.until = max(known.until, _deadline(one))
            case "renew_lease" if one.result is True:
                for term in terms.values():
                    if _is_of(one, term):
                        term.until = max(term.until, _deadline(one))
            case "release_lease" if one.result is True:
                for term in terms.values():
                    if _is_of(one, term):
                        term.until = min(term.until, one.invoked_at)
            case _:
                continue
    return list(terms.values())


def _is_of(one: Operation, term: Term) -> bool:
    arguments = one.arguments
    asked = (arguments["key"], arguments["owner"], arguments.get("fence"))
    return asked == (term.key, term.owner, term.fence)


def _granted(one: Operation) -> bool:
    return one.error is None and bool(getattr(one.result, "acquired", False))


def _end_former(terms: dict[tuple[str, str, int], Term], one: Operation, key: str) -> None:
    """A transfer ends the term of the one who gave it away, from when he asked for it."""
    if one.name != "transfer_lease":
        return
    for term in terms.values():
        if (
            term.key == key
            and term.owner == one.arguments.get("from_owner")
            and term.fence != one.result.fence
        ):
            term.until = min(term.until, one.invoked_at)


def _deadline(one: Operation) -> float:
    ttl_s: float = one.arguments["ttl_ms"] / 1000
    return one.invoked_at + ttl_s * _RATE - _MARGIN_S


def _check_fences(terms: Sequence[Term]) -> list[str]:
    """S2: a grant that began after another had returned has the larger fence."""
    by_key: dict[str, list[Term]] = {}
    for term in terms:
        by_key.setdefault(term.key, []).append(term)
    return [
        f"{key}: fence {later.fence} was issued after {earlier.fence}."
        for key, own in by_key.items()
        for earlier in own
        for later in own
        if earlier.granted_at < later.invoked_at and earlier.fence >= later.fence
    ]


def _check_overlaps(key: str, terms: Sequence[Term]) -> list[str]:
    """S1 and S3: what two clients may believe at once."""
    ordered = sorted(terms, key=lambda term: term.fence)
    return [
        f"{key}: {later.owner} (fence {later.fence}) was granted at {later.granted_at:.4f}, "
        f"but {earlier.owner} (fence {earlier.fence}) could act until {earlier.until:.4f}."
        for place, earlier in enumerate(ordered)
        for later in ordered[place + 1 :]
        # The same owner may start a new incarnation while the old one still believes.
        if earlier.owner != later.owner and later.granted_at < earlier.until
    ]


def _check_early_expiry(operations: Sequence[Operation], terms: Sequence[Term]) -> list[str]:
    """S7: a renewed lease isn't granted to others before its time."""
    renewals = [one for one in operations if one.name == "renew_lease" and one.result is True]
    return [
        f"{term.key}: renewed by {one.arguments['owner']} at {one.returned_at:.4f} for "
        f"{one.arguments['ttl_ms']} ms, but granted to {term.owner} at {term.granted_at:.4f}."
        for one in renewals
        for term in terms
        if _came_too_early(one, term, _given_up_at(operations, one.arguments))
    ]


def _came_too_early(renewal: Operation, term: Term, given_up_at: float | None) -> bool:
    arguments = renewal.arguments
    return (
        term.key == arguments["key"]
        and term.owner != arguments["owner"]
        and renewal.returned_at < term.invoked_at
        and term.granted_at < renewal.invoked_at + arguments["ttl_ms"] / 1000 - _TICK_S
        and (given_up_at is None or given_up_at > term.granted_at)
    )


def _given_up_at(operations: Sequence[Operation], renewal: dict[str, Any]) -> float | None:
    """When the renewed term was released, handed on or shortened by its own owner."""
    times = [
        other.invoked_at
        for other in operations
        if other.arguments.get("key") == renewal["key"]
        and (
            (other.name == "release_lease" and other.arguments.get("owner") == renewal["owner"])
            or (
                other.name == "transfer_lease"
                and other.arguments.get("from_owner") == renewal["owner"]
            )
        )
        and (other.arguments.get("fence") in {None, renewal.get("fence")})
    ]
    return min(times, default=None)
