"""What is said of a database that has another shape than this version needs."""

from __future__ import annotations

import pytest

from mastra_core.rules.migrations import MigrationPlan, not_migrated, script, too_new


def test_a_plan_without_statements_is_empty() -> None:
    assert not MigrationPlan(found_version=1, target_version=1)
    assert MigrationPlan(found_version=0, target_version=1, statements=("CREATE x",))


def test_a_script_ends_each_statement() -> None:
    assert "CREATE x;\nCREATE y;\n" == script(["CREATE x", "CREATE y"])


@pytest.mark.parametrize(
    ("statements", "said"), [(["x"], "1 statement is"), (["x", "y"], "2 statements are")]
)
def test_what_is_missing_is_counted(statements: list[str], said: str) -> None:
    error = not_migrated("db:5432/app", statements, error_id="MASTRA_X")

    assert f"db:5432/app has to be migrated first: {said} missing" in str(error)
    assert ("MASTRA_X", {"statements": len(statements)}) == (error.id, error.details)


def test_a_newer_database_names_the_package_to_upgrade() -> None:
    error = too_new(
        "The database", "bus", found=9, known=1, package="mastra-postgres", error_id="MASTRA_X"
    )

    assert "newer version of mastra-postgres: it has version 9 of 'bus'" in str(error)
    assert ("MASTRA_X", {"found": 9, "known": 1}) == (error.id, error.details)
