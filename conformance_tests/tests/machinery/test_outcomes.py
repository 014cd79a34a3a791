"""How a test can end, and what a run makes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from runs import Run

__all__ = ()

SUITE = """
    import asyncio
    import pytest
    from mastra_conformance import Suite, case, not_run

    class TestThings(Suite):
        @case("signals", 3, 4)
        async def test_good(self, store):
            pass

        async def test_bad(self, store):
            assert False, "bad luck"

        async def test_absent(self):
            not_run("There is no server.", command="mastra-conformance servers install x")
"""


def outcome_of(run: Run, name: str) -> str:
    return next(
        str(case["outcome"]) for case in run.report["cases"] if case["id"].endswith(f".{name}")
    )


def run_suite(run: Run, *options: str, expect: str | None = None) -> pytest.RunResult:
    run.pytester.makepyfile(test_things=SUITE)
    if expect is not None:
        run.pytester.makefile(".toml", expect=expect)
        options = (*options, "--mastra-expect=expect.toml")
    return run.pytester.runpytest_inprocess(*run.options("right"), "test_things.py", *options)


def test_outcomes_reach_the_report_with_reasons_and_cases(run: Run) -> None:
    """Passed, failed and not-run are three different things."""
    result = run_suite(run)

    by_name = {case["id"].rpartition(".")[2]: case for case in run.report["cases"]}
    assert result.ret == 1
    assert [["signals", 3], ["signals", 4]] == by_name["test_good"]["proves"]
    assert "bad luck" in by_name["test_bad"]["reason"]
    assert by_name["test_absent"]["outcome"] == "not-run"
    assert "Try: mastra-conformance servers install x" in by_name["test_absent"]["reason"]
    assert "not-run:" in result.stdout.str()


def test_not_run_is_a_failure_when_it_is_required(run: Run) -> None:
    """``--mastra-require`` turns what can't run here red."""
    result = run_suite(run, "--mastra-require", "-k", "test_absent")

    assert result.ret == 1
    assert outcome_of(run, "test_absent") == "not-run"


ENTRY = """
    [[expect]]
    case = "test_things.TestThings.{name}"
    kind = "not_yet"
    reason = "Comes later."
"""


def test_a_known_failure_is_expected(run: Run) -> None:
    """It is shown as such and isn't a failure of the run."""
    result = run_suite(run, "-k", "test_bad", expect=ENTRY.format(name="test_bad"))

    assert result.ret == 0
    assert outcome_of(run, "test_bad") == "expected-failure"


def test_a_known_failure_that_passes_is_a_failure(run: Run) -> None:
    """The file stays honest."""
    result = run_suite(run, "-k", "test_good", expect=ENTRY.format(name="test_good"))

    assert result.ret == 1
    assert outcome_of(run, "test_good") == "failed"


def test_an_unknown_id_of_a_known_failure_is_an_error(run: Run) -> None:
    """A misspelt id doesn't hide anything."""
    result = run_suite(run, expect=ENTRY.format(name="test_gone"))

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "test_things.TestThings.test_gone" in result.stderr.str()


def test_results_survive_other_processes(run: Run) -> None:
    """With pytest-xdist the report holds what it holds without."""
    pytest.importorskip("xdist", reason="only then there are other processes")
    run.pytester.makepyfile(test_things=SUITE)

    # In a process of its own, since xdist's workers get the path that it was imported with.
    result = run.pytester.runpytest_subprocess(*run.options("right"), "test_things.py", "-n", "2")

    assert result.ret == 1
    assert {"failed": 1, "not-run": 1, "passed": 1} == {
        name: count for name, count in run.report["counts"].items() if count
    }


def test_a_hanging_test_fails_in_time(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test waits for ever."""
    monkeypatch.setattr("mastra_conformance.limits.TEST_SECONDS", 0.05)
    run.pytester.makepyfile(
        test_things="""
        import asyncio
        from mastra_conformance import Suite

        class TestThings(Suite):
            async def test_hanging(self, store):
                await asyncio.Event().wait()
        """
    )

    result = run.pytester.runpytest_inprocess(*run.options("right"), "test_things.py")

    assert result.ret == 1
    assert "was not done after 0.05 s" in run.report["cases"][0]["reason"]


@pytest.mark.parametrize("mode", ["strict", "auto"])
def test_the_suite_runs_beside_pytest_asyncio(run: Run, mode: str) -> None:
    """Nothing changes where pytest-asyncio is installed, in either of its modes."""
    pytest.importorskip("pytest_asyncio", reason="only then there is something to run beside")
    options = run.options("right")
    place = options.index("no:asyncio")
    del options[place - 1 : place + 1]

    run.with_state_test()

    result = run.pytester.runpytest_subprocess(
        *("--pyargs", "mastra_conformance", "test_state.py", *options, "--mastra-tier=0-1"),
        *("-o", f"asyncio_mode={mode}", "-o", "asyncio_default_fixture_loop_scope=function"),
    )

    assert result.ret == 0
    assert ["full"] == run.report["levels"]
