"""``mastra-py migrate``: add what a database lacks, or say what that would be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from mastra_cli.exits import wrong_usage
from mastra_cli.options import JsonOption, UrlOption
from mastra_cli.render import print_json, print_text, say
from mastra_cli.running import waiting
from mastra_cli.stores import made_roles
from mastra_core.contracts.storage.migrations import MigratableStorage, MigrationPlan
from mastra_core.errors import CapabilityNotSupportedError
from mastra_core.plugins.specs import Role

__all__ = ("app",)

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
@waiting
async def migrate(
    *,
    url: UrlOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the statements; change nothing.")
    ] = False,
    sql: Annotated[
        bool,
        typer.Option("--sql", help="Print all statements that an empty database needs."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Bring a database to the shape this version needs; nothing is ever dropped or renamed."""
    if dry_run and sql:
        raise wrong_usage("--dry-run and --sql exclude each other.")
    made = made_roles(url, in_memory=dry_run or sql)
    parts: dict[Role, MigratableStorage] = {
        role: part for role, part in made.items() if isinstance(part, MigratableStorage)
    }
    if not parts:
        raise CapabilityNotSupportedError(
            adapter=made["storage"].name,
            capability="storage.migrations",
            hint="There is nothing to migrate: it has no shape of its own.",
        )
    if sql:
        _print_sql("".join(part.export_ddl() for part in parts.values()), as_json=as_json)
        return
    # All before any, since parts have some tables in common.
    plans: dict[Role, MigrationPlan] = {
        role: await part.plan_migration() for role, part in parts.items()
    }
    for role in parts if not dry_run else ():
        # Opening is what migrates: under a lock, all or nothing.
        async with made[role]:
            pass
    _print_plans(plans, applied=not dry_run, as_json=as_json)


def _print_sql(ddl: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"sql": ddl})
    else:
        print_text(ddl.rstrip())


def _print_plans(plans: Mapping[Role, MigrationPlan], *, applied: bool, as_json: bool) -> None:
    statements = list(dict.fromkeys(text for plan in plans.values() for text in plan.statements))
    skipped = list(dict.fromkeys(reason for plan in plans.values() for reason in plan.skipped))
    if as_json:
        versions = {role: _versions(plan) for role, plan in plans.items()}
        rest = {"statements": statements, "skipped": skipped, "applied": applied}
        print_json({**next(iter(versions.values())), **rest, "parts": versions})
        return
    for reason in skipped:
        say(f"Left out: {reason}")
    if not statements:
        told = _each(plans, lambda plan: f"{plan.target_version}")
        say(f"Nothing to do: the versions are {told}.")
        return
    for statement in statements:
        print_text(f"{statement.strip().rstrip(';')};")
    done = "Done" if applied else "Would be done"
    told = _each(plans, lambda plan: f"{plan.found_version} → {plan.target_version}")
    count = "1 statement" if len(statements) == 1 else f"{len(statements)} statements"
    say(f"{done}: {count}; versions: {told}.")


def _each(plans: Mapping[Role, MigrationPlan], tell: Callable[[MigrationPlan], str]) -> str:
    return ", ".join(f"{role} {tell(plan)}" for role, plan in plans.items())


def _versions(plan: MigrationPlan) -> dict[str, Any]:
    return {"foundVersion": plan.found_version, "targetVersion": plan.target_version}
