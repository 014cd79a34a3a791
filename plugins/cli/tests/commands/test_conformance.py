"""``mastra-py conformance`` hands everything to the suite."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.parametrize("command", ["run", "cases", "report"])
def test_the_help_is_that_of_the_suite(run_process: Any, command: str) -> None:
    ran = run_process("conformance", command, "--help")

    assert 0 == ran.code
    assert "mastra-conformance" in ran.out


def test_cases_of_one_spec(run_process: Any) -> None:
    ran = run_process("conformance", "cases", "--json", "--spec", "notifications")

    assert 0 == ran.code, ran.err
    assert {"cases", "proven", "open"} <= set(ran.json["notifications"])
