"""What the plugin says, and that asking costs no driver."""

from __future__ import annotations

import subprocess
import sys

from mastra_core.contracts.capabilities import inconsistencies
from mastra_postgres.capabilities import STORAGE_CAPABILITIES
from mastra_postgres.plugin import mastra_storage_adapters


def test_one_adapter_answers_to_both_schemes() -> None:
    [spec] = mastra_storage_adapters()

    assert ("postgresql", "postgres") == spec.schemes
    assert ("psycopg",) == spec.drivers
    assert STORAGE_CAPABILITIES == spec.capabilities
    assert () == inconsistencies(spec.capabilities)


def test_asking_what_is_offered_imports_no_driver() -> None:
    code = (
        "import sys, mastra_postgres.plugin as p; list(p.mastra_storage_adapters());"
        "print([m for m in ('psycopg', 'sqlalchemy') if m in sys.modules])"
    )

    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "[]" == said.stdout.strip()
