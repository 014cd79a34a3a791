"""``migrate`` and ``doctor`` on real servers."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest

PRODUCTS = ["postgres", "mongodb", "redis", "sqld"]


@pytest.fixture(params=PRODUCTS)
def url(request: pytest.FixtureRequest, local_server: Callable[[str], Any]) -> str:
    """A server, with tables, collections or keys that only this test has."""
    address: str = local_server(request.param).url
    sign = "&" if "?" in address else "?"
    return f"{address}{sign}mastra_prefix=t{uuid.uuid4().hex[:8]}_"


def test_a_server_is_prepared_once(run: Any, url: str) -> None:
    """A dry run changes nothing; the second time there is nothing to do."""
    planned = run("migrate", "--url", url, "--dry-run", "--json").json
    again = run("migrate", "--url", url, "--dry-run", "--json").json
    done = run("migrate", "--url", url, "--json").json
    after = run("migrate", "--url", url, "--dry-run", "--json").json

    assert planned["statements"]
    assert planned == again
    assert (True, []) == (done["applied"], after["statements"])
    assert after["foundVersion"] == after["targetVersion"]


def test_the_statements_can_be_had_for_others_to_run(run: Any, url: str) -> None:
    ran = run("migrate", "--url", url, "--sql")

    assert 0 == ran.code
    assert "mastra_py_schema" in ran.out


def test_doctor_tells_how_the_server_is(run: Any, url: str) -> None:
    """A database that isn't prepared is looked at all the same, and left as it is."""
    before = run("doctor", "--url", url, "--json")
    run("migrate", "--url", url)

    after = run("doctor", "--url", url, "--json")

    unprepared = {check["name"]: check for check in before.json["checks"]}
    assert "warning" == unprepared["shape"]["status"]
    checks = {check["name"]: check for check in after.json["checks"]}
    assert (0, True) == (after.code, after.json["ok"])
    told = {"capabilities", "server", "latency", "clock", "pool", "node peers"}
    assert told <= set(unprepared)
    assert told <= set(checks)
    assert all(f"{role} all" in checks["capabilities"]["summary"] for role in ("storage", "pubsub"))
    assert "versions: storage 1" in checks["shape"]["summary"]
    assert "no traces" in checks["node peers"]["summary"]
    assert "ok" == checks["shape"]["status"]


def test_a_server_that_is_not_there_is_a_failure_with_a_sentence(run: Any, url: str) -> None:
    """No traceback, no password."""
    scheme, _, rest = url.partition("://")
    nobody = f"{scheme}://127.0.0.1:1/{rest.partition('/')[2].partition('?')[0]}"

    ran = run("doctor", "--url", nobody, "--json")

    failed = [check for check in ran.json["checks"] if check["status"] == "failed"]
    assert 1 == ran.code
    assert failed
    assert "Traceback" not in ran.out + ran.err
