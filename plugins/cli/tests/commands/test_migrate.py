"""``mastra-py migrate``."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any


def test_a_dry_run_shows_everything_and_creates_nothing(run: Any, tmp_path: Path) -> None:
    ran = run("migrate", "--url", f"file:{tmp_path}/new.db", "--dry-run", "--json")

    assert 0 == ran.code
    assert (0, False) == (ran.json["foundVersion"], ran.json["applied"])
    assert any("mastra_threads" in statement for statement in ran.json["statements"])
    assert not (tmp_path / "new.db").exists()


def test_the_sql_makes_the_same_database(run: Any, tmp_path: Path) -> None:
    sql = run("migrate", "--url", f"file:{tmp_path}/other.db", "--sql").out
    with sqlite3.connect(tmp_path / "new.db") as database:
        database.executescript(sql)
    database.close()

    plan = run("migrate", "--url", f"file:{tmp_path}/new.db", "--dry-run", "--json").json

    assert [] == plan["statements"]
    assert not (tmp_path / "other.db").exists()


def test_migrating_twice_does_something_once(run: Any, tmp_path: Path) -> None:
    url = f"file:{tmp_path}/new.db"

    first = run("migrate", "--url", url, "--json").json
    second = run("migrate", "--url", url, "--json").json

    assert first["statements"]
    assert [] == second["statements"]
    assert second["foundVersion"] == second["targetVersion"]


def test_bus_and_leases_are_prepared_with_the_store(run: Any, tmp_path: Path) -> None:
    """So that an application may open all three without any right to change tables."""
    url = f"file:{tmp_path}/new.db"

    ran = run("migrate", "--url", url)

    assert "mastra_pubsub_events" in ran.out
    assert "versions: storage 0 → 1, pubsub 0 → 1, lease 0 → 1" in ran.err
    plan = run("migrate", "--url", url, "--json", "--dry-run").json
    assert {"storage", "pubsub", "lease"} == set(plan["parts"])
    assert {"foundVersion": 1, "targetVersion": 1} == plan["parts"]["pubsub"]
    assert "versions are storage 1, pubsub 1, lease 1" in run("migrate", "--url", url).err


def test_a_bus_of_a_newer_version_leaves_the_store_alone(run: Any, tmp_path: Path) -> None:
    """All parts are asked before any is changed."""
    path = tmp_path / "new.db"
    run("migrate", "--url", f"file:{path}")
    with closing(sqlite3.connect(path)) as database:
        database.execute("UPDATE mastra_py_schema SET version = 999 WHERE component = 'bus'")
        database.execute("DROP INDEX mpy_threads_resource_idx")
        database.commit()

    ran = run("migrate", "--url", f"file:{path}")

    assert (1, True) == (ran.code, "999" in ran.err)
    with closing(sqlite3.connect(path)) as database:
        names = [name for (name,) in database.execute("SELECT name FROM sqlite_master")]
    assert "mpy_threads_resource_idx" not in names


def test_a_newer_database_is_left_alone(run: Any, tmp_path: Path) -> None:
    url = f"file:{tmp_path}/new.db"
    run("migrate", "--url", url)
    with sqlite3.connect(tmp_path / "new.db") as database:
        database.execute("UPDATE mastra_py_schema SET version = 999")
    database.close()

    ran = run("migrate", "--url", url)

    assert 1 == ran.code
    assert "999" in ran.err


def test_a_file_that_is_no_database_is_left_alone(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("my precious notes, long enough to have a header")

    ran = run("threads", "list", "--url", f"file:{path}")

    assert 1 == ran.code
    assert "not a SQLite database" in ran.err
    assert path.read_text().startswith("my precious notes")
