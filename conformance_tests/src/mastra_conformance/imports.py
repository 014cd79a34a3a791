"""What the import of a plugin costs and drags in, measured in an interpreter of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass

__all__ = ("ImportCost", "child_environment", "measure_plugin")

_CORE = frozenset(
    {
        "mastra_core",
        "annotated_types",
        "pluggy",
        "pydantic",
        "pydantic_core",
        "typing_extensions",
        "typing_inspection",
    }
)
"""The core and what it needs itself; no driver is among them."""

_PROGRAM = """
import importlib, json, sys, time
import mastra_core.plugins.manager, mastra_core.plugins.registry, mastra_core.plugins.specs
import mastra_core.contracts.lease, mastra_core.contracts.pubsub, mastra_core.plugins.markers
import pluggy, pydantic, pydantic_core, pydantic.deprecated.class_validators
before = set(sys.modules)
start = time.perf_counter()
plugin = importlib.import_module(sys.argv[1])
for hook in ("mastra_storage_adapters", "mastra_pubsub_adapters", "mastra_lease_adapters"):
    if hasattr(plugin, hook):
        list(getattr(plugin, hook)())
seconds = time.perf_counter() - start
new = {name.partition(".")[0] for name in set(sys.modules) - before}
new -= sys.stdlib_module_names
print(json.dumps({"seconds": seconds, "packages": sorted(new)}))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportCost:
    """What one import did."""

    seconds: float
    #: Top-level packages that came with it, without the standard library, the core and its own.
    packages: frozenset[str]


def measure_plugin(module: str, *, rounds: int = 3) -> ImportCost:
    """
    Import a plugin module and ask what it offers; the fastest of some rounds.

    Raises:
        RuntimeError: The import fails in a fresh interpreter.
    """
    costs = [_measure(module) for _ in range(rounds)]
    return min(costs, key=lambda cost: cost.seconds)


def child_environment() -> dict[str, str]:
    """Environment of an interpreter that can import whatever this one can."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def _measure(module: str) -> ImportCost:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, module],
        env=child_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        raise RuntimeError(f"{module} can't be imported: {lines[-1] if lines else 'no reason'}")
    value = json.loads(done.stdout.splitlines()[-1])
    packages = {name for name in value["packages"] if not name.startswith("_sysconfigdata")}
    return ImportCost(seconds=value["seconds"], packages=frozenset(packages - _CORE))
