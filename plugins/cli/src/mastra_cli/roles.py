"""What ``doctor`` says about store, bus and leases of one URL together."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from mastra_cli.check import Check
from mastra_core.contracts.capabilities import (
    LEASE_CAPABILITIES,
    PUBSUB_CAPABILITIES,
    STORAGE_CAPABILITIES,
    lease_capability_names,
    pubsub_capability_names,
)
from mastra_core.contracts.storage.migrations import MigratableStorage
from mastra_core.errors import MastraError
from mastra_core.plugins.specs import Role

__all__ = ("capabilities_check", "shape_check")

_KNOWN: Final[Mapping[Role, frozenset[str]]] = MappingProxyType(
    {
        "storage": frozenset(STORAGE_CAPABILITIES),
        "pubsub": frozenset(PUBSUB_CAPABILITIES),
        "lease": frozenset(LEASE_CAPABILITIES),
    }
)


def capabilities_check(made: Mapping[Role, Any]) -> Check:
    """What each part can do, by what it can't."""
    told = "; ".join(f"{role} {_told(role, part)}" for role, part in made.items())
    return Check(name="capabilities", status="ok", summary=told)


def _told(role: Role, part: Any) -> str:
    names: frozenset[str] = frozenset(part.capabilities) if role == "storage" else frozenset()
    if role == "pubsub":
        names = pubsub_capability_names(part.capabilities)
    elif role == "lease":
        names = lease_capability_names(part.lease_capabilities)
    missing = sorted(_KNOWN[role] - names)
    return f"all but {', '.join(missing)}" if missing else "all"


async def shape_check(made: Mapping[Role, Any]) -> Check:
    """
    Whether tables, indexes and the like are those of this version.

    A bus or leases that were never used have none, and need none.
    """
    told: list[str] = []
    skipped: list[str] = []
    for role, part in made.items():
        if not isinstance(part, MigratableStorage):
            continue
        try:
            plan = await part.plan_migration()
        except MastraError as exc:
            return Check(name="shape", status="failed", summary=exc.message, fix=exc.hint)
        if role != "storage" and not plan.found_version:
            continue
        if plan.statements:
            return Check(
                name="shape",
                status="warning",
                summary=f"{role}: {len(plan.statements)} statements to do, version "
                f"{plan.found_version} → {plan.target_version}; opening it for an application "
                "does them",
                fix="mastra-py migrate --url …",
            )
        told.append(f"{role} {plan.target_version}")
        skipped += [reason for reason in plan.skipped if reason not in skipped]
    left_out = f"; left out: {'; '.join(skipped)}" if skipped else ""
    summary = f"versions: {', '.join(told)}{left_out}" if told else "nothing to migrate"
    return Check(name="shape", status="ok", summary=summary)
