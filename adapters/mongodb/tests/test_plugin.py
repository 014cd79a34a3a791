"""What the plugin says, and that asking costs no driver."""

from __future__ import annotations

import subprocess
import sys

from mastra_core.contracts.capabilities import inconsistencies
from mastra_mongodb.capabilities import (
    LEASE_CAPABILITIES,
    PUBSUB_CAPABILITIES,
    STORAGE_CAPABILITIES,
)
from mastra_mongodb.plugin import (
    mastra_lease_adapters,
    mastra_pubsub_adapters,
    mastra_storage_adapters,
)


def test_one_scheme_gives_storage_bus_and_leases() -> None:
    [storage] = mastra_storage_adapters()
    [pubsub] = mastra_pubsub_adapters()
    [lease] = mastra_lease_adapters()

    assert 1 == len({storage.schemes, pubsub.schemes, lease.schemes})
    assert ("mongodb", "mongodb+srv") == storage.schemes
    assert STORAGE_CAPABILITIES == storage.capabilities
    assert PUBSUB_CAPABILITIES == pubsub.capabilities
    assert LEASE_CAPABILITIES == lease.capabilities
    assert () == inconsistencies(storage.capabilities)


def test_asking_what_is_offered_imports_no_driver() -> None:
    code = (
        "import sys, mastra_mongodb.plugin as p;"
        "list(p.mastra_storage_adapters()), list(p.mastra_pubsub_adapters());"
        "print([m for m in ('pymongo', 'bson', 'pydantic') if m in sys.modules])"
    )

    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "[]" == said.stdout.strip()
