"""A libSQL server far away: 50 ms for each round trip, and no transaction that lasts several."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from mastra_conformance import case
from mastra_conformance.faults.proxy import Network

pytestmark = pytest.mark.anyio

_ONE_WAY_S = 0.025
#: What delivers, and what leases. How long bursts are held up has nothing to do with a server.
_SUITES = "TestGroups or TestSubscribing or TestPublishing or TestHistory or test_lease"
#: The test runs a hundred others, and all of them wait for the way.
_LONGEST_S = 1800


@pytest.fixture
async def far(local_server: Callable[[str], Any]) -> AsyncIterator[str]:
    """Host and port of the server at the end of a long way."""
    network = Network("127.0.0.1", urlsplit(local_server("sqld").url).port or 0)
    await network.open()
    network.delay(_ONE_WAY_S)
    yield f"127.0.0.1:{network.port}"
    await network.close()


@case("pubsub_and_lease", 85)
@pytest.mark.timeout(_LONGEST_S)
async def test_every_contract_of_bus_and_lease_holds(far: str, tmp_path: Path) -> None:
    """
    Their suites pass, none of their tests left out; interactive transactions are forbidden.

    Over a WebSocket, which could carry them; HTTP sends the same batches.
    """
    report = tmp_path / "report.json"
    judged = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "far_server"),
        *("--pyargs", "mastra_conformance"),
        f"--mastra-adapter=libsql+ws://{far}",
        *("--mastra-role", "pubsub,lease", "--mastra-tier", "1", "-k", _SUITES),
        f"--mastra-report={report}",
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
        stdout=PIPE,
        stderr=STDOUT,
    )
    output, _ = await judged.communicate()

    assert judged.returncode == 0, output.decode()
    capabilities = json.loads(report.read_text("utf-8"))["capabilities"]
    for name in ("pubsub.groups", "pubsub.history", "lease.fencing", "lease.watch"):
        assert capabilities[name]["passed"] > 0, name
    assert not any(one["failed"] + one["not_run"] for one in capabilities.values())
