"""``mastra-py doctor``."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from mastra_cli.checks import _lease
from mastra_cli.stores import made_store
from mastra_core.config import AdapterSection, PluginsSection, Settings
from mastra_core.plugins import PluginManager, Registry


def checks_of(ran: Any) -> dict[str, dict[str, str]]:
    return {check["name"]: check for check in ran.json["checks"]}


def test_a_store_that_is_well(run: Any, seeded: Any) -> None:
    ran = run("doctor", "--url", seeded.url, "--json")

    checks = checks_of(ran)
    assert (0, True) == (ran.code, ran.json["ok"])
    assert ("ok", "ok") == (checks["storage"]["status"], checks["shape"]["status"])
    assert "wire 1.71" in checks["versions"]["summary"]
    assert "the arguments" in checks["settings"]["summary"]
    assert "local-model" in checks


def test_leases_go_with_a_store_that_has_them(run: Any, seeded: Any) -> None:
    lease = checks_of(run("doctor", "--url", seeded.url, "--json"))["lease"]

    assert ("ok", "goes with the store") == (lease["status"], lease["summary"])


def test_leases_that_others_do_not_see_are_a_warning(seeded: Any) -> None:
    """Every store of ours has leases, so the check is asked with an adapter switched off."""
    store, _ = made_store(seeded.url)
    options = PluginsSection(disable=["libsql"]).to_options()
    nobody = Registry(PluginManager(builtins=(), options=options))

    check = _lease(store, Settings(), nobody, "file", has_peers=False)

    assert "warning" == check.status
    assert "MASTRA_LEASE_URL" in str(check.fix)


def test_leases_where_the_other_system_does_not_look_are_a_warning(
    run: Any, tmp_path: Path
) -> None:
    """Its traces in the database are enough."""
    path = tmp_path / "shared.db"
    run("migrate", "--url", f"file:{path}")
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE mastra_agents (id TEXT)")
    database.close()

    checks = checks_of(run("doctor", "--url", f"file:{path}", "--json"))

    assert "mastra_agents" in checks["node peers"]["summary"]
    assert "warning" == checks["lease"]["status"]
    assert "where the TypeScript system doesn't look" in checks["lease"]["summary"]


def test_leases_in_redis_are_seen_by_both(seeded: Any) -> None:
    """The check alone: nothing is connected to. The password of the URL isn't shown."""
    store, _ = made_store(seeded.url)
    settings = Settings(lease=AdapterSection(url="redis://:secret@localhost:6379"))

    check = _lease(store, settings, Registry(PluginManager()), "file", has_peers=True)

    assert "ok" == check.status
    assert "secret" not in check.summary


def test_a_bus_that_has_to_be_migrated_is_a_warning(run: Any, tmp_path: Path) -> None:
    """One that was never used has nothing to migrate."""
    url, path = f"file:{tmp_path / 'app.db'}", tmp_path / "app.db"
    run("migrate", "--url", url)
    assert "pubsub 1" in checks_of(run("doctor", "--url", url, "--json"))["shape"]["summary"]
    with sqlite3.connect(path) as database:
        database.execute("DROP TABLE mastra_pubsub_dead")
    database.close()

    shape = checks_of(run("doctor", "--url", url, "--json"))["shape"]

    assert "warning" == shape["status"]
    assert "pubsub: 2 statements" in shape["summary"]


def test_what_a_backend_can_do_is_told_by_what_it_cannot(run: Any, seeded: Any) -> None:
    told = checks_of(run("doctor", "--url", seeded.url, "--json"))["capabilities"]["summary"]

    assert "storage all but " in told
    assert "lease all but lease.cross_host" in told


def test_no_store_is_a_warning(run: Any) -> None:
    ran = run("doctor", "--json")

    assert (0, "warning") == (ran.code, checks_of(ran)["storage"]["status"])


def test_a_store_that_does_not_open_is_a_failure(run: Any) -> None:
    ran = run("doctor", "--url", "file:nope.db", "--json")

    assert (1, False) == (ran.code, ran.json["ok"])
    assert "There is no database" in checks_of(ran)["storage"]["summary"]


def test_a_damaged_database_is_a_failure(run: Any, seeded: Any) -> None:
    """Wherever the damage is: a page that opening doesn't read is found too."""
    path = Path(seeded.url.removeprefix("file:"))
    whole = path.read_bytes()
    page = 4096
    assert "ok" == checks_of(run("doctor", "--url", seeded.url, "--json"))["integrity"]["status"]

    for number in (len(whole) // page // 2, len(whole) // page - 1):
        damaged = bytearray(whole)
        damaged[number * page : (number + 1) * page] = b"\xa5" * page
        path.write_bytes(damaged)

        ran = run("doctor", "--url", seeded.url, "--json")

        assert (1, False) == (ran.code, ran.json["ok"])
        assert "failed" in {check["status"] for check in ran.json["checks"]}


def test_looking_changes_nothing(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    sqlite3.connect(path).close()

    ran = run("doctor", "--url", f"file:{path}", "--json")

    assert "warning" == checks_of(ran)["shape"]["status"]
    assert "mastra-py migrate" in checks_of(ran)["shape"]["fix"]
    with sqlite3.connect(path) as database:
        assert [] == database.execute("SELECT name FROM sqlite_master").fetchall()
    database.close()


def test_a_store_without_leases_gets_none_by_looking(run: Any, tmp_path: Path) -> None:
    """Another adapter may keep them; checks of plugins get an application all the same."""
    path = tmp_path / "store.db"
    store, _ = made_store(f"file:{path}")

    async def prepare() -> None:
        async with store:
            pass

    asyncio.run(prepare())
    with closing(sqlite3.connect(path)) as database:
        before = database.execute("SELECT name FROM sqlite_master").fetchall()

    checks = checks_of(run("doctor", "--url", f"file:{path}", "--json"))

    assert "ok" == checks["storage"]["status"]
    assert "local-model" in checks
    with closing(sqlite3.connect(path)) as database:
        assert before == database.execute("SELECT name FROM sqlite_master").fetchall()


def test_people_see_a_table(run: Any, seeded: Any) -> None:
    ran = run("doctor", "--url", seeded.url)

    assert ran.out.startswith("CHECK")
    assert "storage" in ran.out
