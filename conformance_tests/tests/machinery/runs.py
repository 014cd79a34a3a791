"""Runs the packaged suite against a toy adapter."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

__all__ = ("REFUSALS", "Run")

PACKAGES = Path(__file__).parent / "packages"

REFUSALS = "refusals.StorageRefusalSuite.test_an_undeclared_capability_is_refused"


class Run:
    """Runs pytest and reads the report that it wrote."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self.pytester = pytester
        pytester.syspathinsert(PACKAGES)
        self.path = pytester.path / "report.json"

    def packaged(self, variant: str, *options: str) -> pytest.RunResult:
        """Way B of the design: the packaged suite against one adapter."""
        return self.pytester.runpytest_inprocess(
            *("--pyargs", "mastra_conformance"), *self.options(variant), *options
        )

    def with_state_test(self) -> None:
        """Add a test of the toy's only domain, whatever the packaged suites hold."""
        self.pytester.makepyfile(
            test_state="""
            from mastra_conformance import Suite

            class TestState(Suite):
                capabilities = ("thread_state",)

                async def test_state(self, store):
                    assert await store.thread_state.get_state("t", "s") is None
            """
        )

    def options(self, variant: str) -> list[str]:
        """What names the adapter and the report, and keeps other plugins out."""
        return [
            f"--mastra-adapter=toy-{variant}:x",
            "--mastra-plugin=toy.plugin",
            f"--mastra-report={self.path}",
            *("-p", "no:cacheprovider", "-p", "no:asyncio", "-p", "no:randomly"),
            *("-p", "no:hypothesispytest", "--import-mode=importlib"),
        ]

    @property
    def report(self) -> dict[str, Any]:
        """The report of the last run."""
        document: dict[str, Any] = json.loads(self.path.read_text("utf-8"))
        return document

    def outcomes(self) -> dict[str, str]:
        """Test id → outcome, without the passed ones."""
        return {
            case["id"]: case["outcome"]
            for case in self.report["cases"]
            if case["outcome"] != "passed"
        }
