"""The conformance suite: what a backend is worth, shown by tests."""

from __future__ import annotations

from mastra_conformance.cases import case
from mastra_conformance.outcomes import not_run
from mastra_conformance.suite import Suite, requires, tier

__all__ = ("Suite", "__version__", "case", "not_run", "requires", "tier")

__version__ = "0.1.0"
