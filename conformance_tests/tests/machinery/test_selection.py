"""Which tests run, in which order, and what an author may change."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from runs import Run

__all__ = ()

QUIET = ("-p", "no:asyncio", "-p", "no:randomly", "-p", "no:hypothesispytest")
"""Plugins of others that these runs don't need."""

SUITE = """
    import pytest
    from mastra_conformance import Suite, case, not_run, requires, tier

    class StateSuite(Suite):
        capabilities = ("thread_state",)

        async def test_state(self, store):
            assert await store.thread_state.get_state("t", "s") is None

        @requires("thread_state.compare_and_set")
        async def test_swap(self, store):
            assert False

        @tier(2)
        async def test_race(self, store):
            pass
"""


def ids_of(run: Run) -> list[str]:
    return sorted(case["id"].rpartition(".")[2] for case in run.report["cases"])


def run_suite(run: Run, *options: str, more: str = "") -> pytest.RunResult:
    body = f"{SUITE}\n    class TestState(StateSuite):\n        '''Bound.'''\n{more}"
    run.pytester.makepyfile(test_state=body)
    return run.pytester.runpytest_inprocess(*run.options("right"), "test_state.py", *options)


def test_tests_of_undeclared_capabilities_are_not_selected(run: Run) -> None:
    """They are left out, not skipped; the refusal tests stand for them."""
    result = run_suite(run)

    result.assert_outcomes(passed=2, deselected=1)
    assert ["test_race", "test_state"] == ids_of(run)


def test_a_tier_selects(run: Run) -> None:
    """``@tier`` moves one test; the option chooses."""
    run_suite(run, "--mastra-tier=2")

    assert ["test_race"] == ids_of(run)


def test_a_role_that_is_not_asked_for_is_left_out(run: Run) -> None:
    """``--mastra-role lease`` runs no test of a store."""
    result = run_suite(run, "--mastra-role=lease")

    result.assert_outcomes(deselected=3)


def test_only_one_capability(run: Run) -> None:
    """``--mastra-only`` runs its tests, and such a run gives no level."""
    run_suite(run, "--mastra-only=thread_state")

    assert ["test_race", "test_state"] == ids_of(run)
    assert run.report["partial"] is True


@pytest.mark.parametrize(
    "option", ["--mastra-role=disk", "--mastra-tier=9", "--mastra-expect=nowhere.toml"]
)
def test_wrong_options_are_usage_errors(run: Run, option: str) -> None:
    """One sentence, exit code of wrong usage."""
    result = run_suite(run, option)

    assert result.ret == pytest.ExitCode.USAGE_ERROR


def test_a_suite_without_an_adapter_says_what_to_do(run: Run) -> None:
    """No adapter named and none on the class: an error with both ways out."""
    run.pytester.makepyfile(test_state=SUITE + "\n    class TestState(StateSuite): pass\n")

    result = run.pytester.runpytest_inprocess("test_state.py", *QUIET)

    assert result.ret != 0
    assert "--mastra-adapter URL" in result.stdout.str() + result.stderr.str()


def test_a_class_may_name_its_adapter(run: Run) -> None:
    """``adapter = URL`` binds a suite in an adapter's own tests."""
    run.pytester.makepyfile(
        test_state=SUITE + "\n    class TestState(StateSuite):\n        adapter = 'toy-right:y'\n"
    )

    result = run.pytester.runpytest_inprocess("test_state.py", *QUIET, "--mastra-plugin=toy.plugin")

    result.assert_outcomes(passed=2, deselected=1)


def test_a_class_may_open_its_own_store(run: Run) -> None:
    """Way C of the design: a fixture instead of a URL."""
    run.pytester.makepyfile(
        test_state=SUITE
        + """
    class TestState(StateSuite):
        @pytest.fixture
        async def store(self):
            from mastra_core.plugins import AdapterContext, parse_adapter_url
            from toy.storage import ToyStorage
            async with ToyStorage(parse_adapter_url("toy-right:z"), AdapterContext()) as store:
                yield store
"""
    )

    result = run.pytester.runpytest_inprocess("test_state.py", *QUIET)

    result.assert_outcomes(passed=2, failed=1)


def test_an_unknown_case_is_an_error(run: Run) -> None:
    """A number that no specification has stops the collection."""
    result = run_suite(
        run, more="\n    @case('signals', 100000)\n    def test_nothing():\n        pass\n"
    )

    assert result.ret != 0
    assert "Unknown case 100000 of 'signals'" in result.stdout.str()


def test_replacing_a_packaged_test_needs_an_entry(run: Run) -> None:
    """A subclass can't make a test of the suite easier without saying so."""
    body = """
    from mastra_conformance.suites.storage.composite import CompositeSuite

    class TestComposite(CompositeSuite):
        test_clearing_removes_every_row = None
    """
    run.pytester.makepyfile(test_composite=body)
    run.pytester.makefile(
        ".toml",
        expect="""
        [[expect]]
        case = "storage.composite.CompositeSuite.test_closing_twice_is_harmless"
        kind = "never"
        reason = "another test"
        override = true
        """,
    )

    refused = run.pytester.runpytest_inprocess(*run.options("right"), "test_composite.py")
    allowed = run.pytester.runpytest_inprocess(
        *run.options("right"), "test_composite.py", "--mastra-expect=expect.toml"
    )

    assert refused.ret == pytest.ExitCode.USAGE_ERROR
    assert "CompositeSuite.test_clearing_removes_every_row" in refused.stderr.str()
    assert allowed.ret == pytest.ExitCode.USAGE_ERROR


def test_the_order_is_random_and_repeats_with_its_seed(run: Run) -> None:
    """The seed is printed; the same seed gives the same order."""
    many = "\n".join(f"        async def test_{n:02}(self, store): pass" for n in range(20))
    first = run_suite(run, "-v", "--mastra-seed=1", more=many)
    second = run_suite(run, "-v", "--mastra-seed=1", more=many)
    third = run_suite(run, "-v", "--mastra-seed=2", more=many)

    orders = [re.findall(r"TestState::(\w+)", r.stdout.str()) for r in (first, second, third)]
    assert "seed 1" in first.stdout.str()
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) == sorted(orders[2])
