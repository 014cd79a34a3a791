"""Adapters that are wrong on purpose are caught, each by the test that is there for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from runs import Run

__all__ = ()

COMPOSITE = "storage.composite.CompositeSuite"
SIGNATURES = "t0.test_signatures.TestStorageSignatures"
REFUSALS = "refusals.StorageRefusalSuite.test_an_undeclared_capability_is_refused"


def test_a_right_adapter_passes_and_refuses(run: Run) -> None:
    """What it declares passes, what it doesn't is refused, and nothing else."""
    result = run.packaged("right", "--mastra-tier=1")

    assert result.ret == 0
    assert {"refused"} == set(run.outcomes().values())
    assert f"{REFUSALS}[memory]" in run.outcomes()
    assert run.report["capabilities"]["memory"]["declared"] is False
    assert run.report["capabilities"]["memory"]["refused"] == 1


def test_tiers_0_and_1_give_level_full(run: Run) -> None:
    """Everything that was declared was shown; the line at the end says so."""
    run.with_state_test()

    result = run.packaged("right", "--mastra-tier=0-1", "test_state.py")

    assert result.ret == 0
    assert ["full"] == run.report["levels"]
    assert "conformance: full" in result.stdout.str()


@pytest.mark.parametrize(
    ("variant", "test", "outcome"),
    [
        ("generous", f"{REFUSALS}[thread_state.compare_and_set]", "dishonest"),
        ("clumsy", f"{REFUSALS}[thread_state.compare_and_set]", "dishonest"),
        ("boastful", f"{COMPOSITE}.test_an_instance_never_widens_what_is_declared", "dishonest"),
        (
            "renaming",
            f"{SIGNATURES}.test_a_domain_looks_like_the_contract[thread_state]",
            "failed",
        ),
        ("leaky", f"{COMPOSITE}.test_initialising_twice_is_harmless", "failed"),
        ("threaded", f"{COMPOSITE}.test_initialising_twice_is_harmless", "failed"),
        ("hoarding", f"{COMPOSITE}.test_initialising_twice_is_harmless", "failed"),
        ("forgetful", f"{COMPOSITE}.test_clearing_removes_every_row", "failed"),
    ],
)
def test_a_wrong_adapter_is_caught(run: Run, variant: str, test: str, outcome: str) -> None:
    """The run fails, the named test says why, and no level is given."""
    name = test.partition("[")[0].rpartition(".")[2]

    result = run.packaged(variant, "--mastra-tier=0-1", "-k", f"{name}")

    assert result.ret == 1
    assert outcome == run.outcomes()[test]
    assert [] == run.report["levels"]


SWAP = """
    from mastra_conformance import Suite, requires

    class TestState(Suite):
        @requires("thread_state.compare_and_set")
        async def test_it(self, store):
            await store.thread_state.compare_and_set("t", "s", expected=None, value=1)
"""


@pytest.mark.parametrize(
    ("variant", "outcome", "code"), [("refusing", "dishonest", 1), ("narrowing", "refused", 0)]
)
def test_refusing_what_was_declared_is_dishonest(
    run: Run, variant: str, outcome: str, code: int
) -> None:
    """Unless the opened server says itself that it can do less than the descriptor."""
    run.pytester.makepyfile(test_state=SWAP)

    result = run.pytester.runpytest_inprocess(*run.options(variant), "test_state.py")

    assert code == result.ret
    assert [outcome] == list(run.outcomes().values())
