"""What pytest loads when it judges a server that is far away: time for the way, and no transaction.

Tests of the suite that let a lease or a claim expire would take the way for an expiry; those that
publish hundreds of events one by one need half a minute for the way alone.
"""

from __future__ import annotations

from typing import NoReturn

from libsql_client.hrana import HranaClient

from mastra_conformance import limits
from mastra_conformance.suites.lease import support as leases
from mastra_conformance.suites.pubsub import support as events

__all__ = ()

limits.TEST_SECONDS = 600.0
leases.TTL_MS = 2_000
events.ACK_WAIT_MS = 2_000


def _refuse(_: HranaClient) -> NoReturn:
    raise AssertionError("Something began an interactive transaction.")


HranaClient.transaction = _refuse
