"""A standalone server, without change streams and transactions, delivers and leases all the same."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mastra_conformance import case
from mastra_mongodb import MongoSettings
from mastra_mongodb.pool import open_pool

pytestmark = pytest.mark.anyio


#: What delivers, and what leases; the main job judges the rest of the suite on it, too.
_SUITES = "TestGroups or TestSubscribing or TestHistory or test_lease"
#: The test runs a hundred others.
_LONGEST_S = 900


@case("pubsub_and_lease", 80)
@pytest.mark.timeout(_LONGEST_S)
async def test_every_contract_of_bus_and_lease_holds(
    local_server: Callable[[str], Any], tmp_path: Path
) -> None:
    """Their suites pass, none of their tests left out; hints come by a tailing cursor."""
    report = tmp_path / "report.json"
    judged = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
        *("--pyargs", "mastra_conformance"),
        f"--mastra-adapter={local_server('mongodb-standalone').url}",
        *("--mastra-role", "pubsub,lease", "--mastra-tier", "1", "-k", _SUITES),
        f"--mastra-report={report}",
        cwd=tmp_path,
        stdout=PIPE,
        stderr=STDOUT,
    )
    output, _ = await judged.communicate()

    assert judged.returncode == 0, output.decode()
    capabilities = json.loads(report.read_text("utf-8"))["capabilities"]
    for name in ("pubsub", "pubsub.groups", "pubsub.history", "lease", "lease.fencing"):
        assert capabilities[name]["declared"], name
    for name in ("pubsub.groups", "pubsub.history", "lease.fencing", "lease.watch"):
        assert capabilities[name]["passed"] > 0, name
    assert not any(one["failed"] + one["not_run"] for one in capabilities.values())


@pytest.mark.parametrize(("product", "repeats"), [("mongodb-standalone", False), ("mongodb", True)])
async def test_only_a_replica_set_is_asked_to_know_a_repeated_write(
    server: str, *, repeats: bool
) -> None:
    """
    A server alone refuses the number of such a write; the driver then raises the error of before.

    It takes that for one of the server that it has just found again, and lets all connections go,
    over and over: a process that was busy when its server restarted never came back to it.
    """
    async with open_pool(MongoSettings(url=server)) as pool:
        assert pool.client.options.retry_writes is repeats
        assert (await pool.collection("any").count_documents({})) == 0
