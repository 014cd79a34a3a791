"""``mastra-py migrate``: add what a database lacks, or say what that would be."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from mastra_cli.exits import wrong_usage
from mastra_cli.options import JsonOption, UrlOption
from mastra_cli.render import print_json, print_text, say
from mastra_cli.running import waiting
from mastra_cli.stores import made_store
from mastra_core.contracts.storage.migrations import MigratableStorage, MigrationPlan
from mastra_core.errors import CapabilityNotSupportedError

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
    store, _ = made_store(url, in_memory=dry_run or sql)
    if not isinstance(store, MigratableStorage):
        raise CapabilityNotSupportedError(
            adapter=store.name,
            capability="storage.migrations",
            hint="There is nothing to migrate: it has no shape of its own.",
        )
    if sql:
        _print_sql(store.export_ddl(), as_json=as_json)
        return
    plan = await store.plan_migration()
    if not dry_run:
        async with store:
            await store.init()
    _print_plan(plan, applied=not dry_run, as_json=as_json)


def _print_sql(ddl: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"sql": ddl})
    else:
        print_text(ddl.rstrip())


def _print_plan(plan: MigrationPlan, *, applied: bool, as_json: bool) -> None:
    if as_json:
        print_json(_wire_from_plan(plan, applied=applied))
        return
    for reason in plan.skipped:
        say(f"Left out: {reason}")
    if not plan.statements:
        say(f"Nothing to do: the database has version {plan.target_version}.")
        return
    for statement in plan.statements:
        print_text(f"{statement.strip().rstrip(';')};")
    done = "Done" if applied else "Would be done"
    count = len(plan.statements)
    say(f"{done}: {count} statements, version {plan.found_version} → {plan.target_version}.")


def _wire_from_plan(plan: MigrationPlan, *, applied: bool) -> dict[str, Any]:
    return {
        "foundVersion": plan.found_version,
        "targetVersion": plan.target_version,
        "statements": list(plan.statements),
        "skipped": list(plan.skipped),
        "applied": applied,
    }
