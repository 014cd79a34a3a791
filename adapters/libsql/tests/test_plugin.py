"""What the plugin says, and that asking costs no driver."""

from __future__ import annotations

import subprocess
import sys

from mastra_core.contracts.capabilities import inconsistencies
from mastra_libsql.capabilities import STORAGE_CAPABILITIES
from mastra_libsql.plugin import mastra_storage_adapters


def test_one_adapter_answers_to_files_and_servers() -> None:
    [spec] = mastra_storage_adapters()

    assert ("file", "libsql") == spec.schemes
    assert STORAGE_CAPABILITIES == spec.capabilities
    assert () == inconsistencies(spec.capabilities)


def test_asking_what_is_offered_imports_no_driver() -> None:
    code = (
        "import sys, mastra_libsql.plugin as p; list(p.mastra_storage_adapters());"
        "print([m for m in ('apsw', 'libsql_client', 'sqlalchemy', 'aiohttp') if m in sys.modules])"
    )

    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "[]" == said.stdout.strip()
