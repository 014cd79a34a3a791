"""The hooks of one pytest run.

Only wiring: each hook hands over to the room that knows the answer.
"""

from __future__ import annotations

import json
from collections.abc import Generator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from mastra_conformance import collection, results
from mastra_conformance.cases import cases_of
from mastra_conformance.expectations import ExpectationError, Expectations, load_expectations
from mastra_conformance.faults.notebook import add_notes
from mastra_conformance.limits import limit_time
from mastra_conformance.matrix import parametrize, subjects_of
from mastra_conformance.naming import is_ours
from mastra_conformance.options import options_of
from mastra_conformance.recorder import Recorder

__all__ = ()

_EXPECTATIONS: pytest.StashKey[Expectations] = pytest.StashKey()


def pytest_configure(config: pytest.Config) -> None:
    """Read the known failures, and start to record."""
    options = options_of(config)
    try:
        known = load_expectations(options.expect) if options.expect else Expectations()
    except ExpectationError as exc:
        raise pytest.UsageError(str(exc)) from exc
    config.stash[_EXPECTATIONS] = known
    if not hasattr(config, "workerinput"):
        recorder = Recorder(
            options, subjects_of(config), narrowed=_is_narrowed(config), now=datetime.now(UTC)
        )
        config.pluginmanager.register(recorder, "mastra_recorder")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: object) -> None:
    """Tell an xdist worker which seed the run has."""
    config, worker_input = node.config, node.workerinput  # type: ignore[attr-defined]  # xdist's own class
    worker_input["mastra_seed"] = options_of(config).seed


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Say what is tested, and the seed that repeats the run."""
    options, subjects = options_of(config), subjects_of(config)
    if not subjects:
        return []
    lines = [f"mastra: seed {options.seed} (repeat with --mastra-seed={options.seed})"]
    lines.extend(f"mastra: {subject}" for subject in subjects)
    return lines


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test per adapter."""
    parametrize(metafunc)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Choose, announce known failures, and mix the order."""
    options, known = options_of(config), config.stash[_EXPECTATIONS]
    ours = [item for item in items if is_ours(item)]
    collection.check_ids(ours, known, options)
    collection.check_overrides(ours, known)
    left_out = {item for item in ours if not collection.is_selected(item, options)}
    for item in ours:
        collection.mark_expected(item, known)
    if left_out:
        config.hook.pytest_deselected(items=[item for item in ours if item in left_out])
    kept = [item for item in items if item not in left_out]
    items[:] = collection.shuffle(kept, options.seed)
    listing = config.getoption("--mastra-list-cases")
    if listing:
        _list_cases(Path(listing), items)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """No test of a suite may hang."""
    with limit_time(pyfuncitem):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Attach what the test says about the adapter."""
    report = yield
    results.describe_phase(item, call, report)
    add_notes(item, report)
    return report


def _is_narrowed(config: pytest.Config) -> bool:
    """Whether pytest itself was told to leave tests out."""
    get = config.getoption
    return bool(
        get("keyword", "")
        or get("markexpr", "")
        or get("deselect", None)
        or get("lf", default=False)
        or any("::" in argument for argument in config.args)
    )


def _list_cases(path: Path, items: list[pytest.Item]) -> None:
    """Write the cases of all collected tests, for ``mastra-conformance cases --collect``."""
    tags = {(spec, number, item.nodeid) for item in items for spec, number in cases_of(item)}
    path.write_text(json.dumps(sorted(tags)), "utf-8")
