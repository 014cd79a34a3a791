"""Reading tags from sources."""

from __future__ import annotations

from pathlib import Path

import pytest

from mastra_conformance.coverage import coverage_json, coverage_lines, coverage_of, open_reasons
from mastra_conformance.scan import (
    TagError,
    collected_tags,
    find_checkout,
    scan,
    scan_file,
    test_folders,
)

__all__ = ()

SOURCE = """
import pytest
from mastra_conformance import case as proves
from other import case

pytestmark = [proves("workflows", 1)]

@proves("signals", 3, *range(5, 7))
async def test_one(): ...

class TestTwo:
    @proves("snapshots", *(8, 9))
    def test_two(self): ...

@pytest.mark.parametrize("x", [pytest.param(1, marks=proves("streaming", 4))])
def test_three(x): ...

@case("http", 1)
def test_foreign(): ...
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_tags.py").write_text(SOURCE, "utf-8")
    return tmp_path / "tests"


def test_tags_are_read_wherever_they_may_stand(folder: Path) -> None:
    """Decorators, module marks, parameters; whatever the name of the import, and only ours."""
    found = scan([folder])

    assert [
        ("signals", 3, "tests/test_tags.py::test_one"),
        ("signals", 5, "tests/test_tags.py::test_one"),
        ("signals", 6, "tests/test_tags.py::test_one"),
        ("snapshots", 8, "tests/test_tags.py::TestTwo::test_two"),
        ("snapshots", 9, "tests/test_tags.py::TestTwo::test_two"),
        ("streaming", 4, "tests/test_tags.py::test_three"),
        ("workflows", 1, "tests/test_tags.py::*"),
    ] == [(tag.spec, tag.number, tag.test) for tag in found.tags]
    assert found.computed == ()
    assert found.errors == ()


def test_unknown_cases_are_reported_with_their_place(tmp_path: Path) -> None:
    """File, line and what is wrong."""
    path = tmp_path / "test_wrong.py"
    path.write_text('from mastra_conformance import case\n@case("signals", 999)\ndef test(): ...\n')

    tags, is_computed, errors = scan_file(path, "tests/test_wrong.py")

    assert tags == []
    assert not is_computed
    assert errors[0].startswith("tests/test_wrong.py:2: Unknown case 999 of 'signals'")


def test_computed_tags_are_collected_by_pytest(tmp_path: Path) -> None:
    """Numbers that the source doesn't show are known after a collection."""
    path = tmp_path / "test_computed.py"
    path.write_text(
        "import pytest\nfrom mastra_conformance import case\n"
        "@pytest.mark.parametrize('n', [pytest.param(n, marks=case('http', n)) for n in (1, 2)])\n"
        "def test_it(n): ...\n"
    )

    found = scan([tmp_path])
    tags = collected_tags(found.computed)

    assert found.computed == (path,)
    assert [("http", 1), ("http", 2)] == [(tag.spec, tag.number) for tag in tags]


def test_what_can_not_be_collected_is_an_error(tmp_path: Path) -> None:
    """A file that doesn't import proves nothing."""
    path = tmp_path / "test_broken.py"
    path.write_text("import a_module_that_is_not_there\n")

    with pytest.raises(TagError, match="pytest can't collect"):
        collected_tags([path])


def test_coverage_counts_what_is_proven(folder: Path) -> None:
    """Every case is either proven or open, and a table says so."""
    coverage = coverage_of(scan([folder]))

    document = coverage_json(coverage)
    assert [3, 5, 6] == document["signals"]["proven"]
    assert 137 == len(document["signals"]["open"])
    assert {"cases": 64, "proven": []} == {
        name: document["http"][name] for name in ("cases", "proven")
    }
    lines = coverage_lines(coverage)
    assert any(line.startswith("signals 1-2, 4, 7-") and line.endswith(": open") for line in lines)
    explained = coverage["http"].reasons
    assert all(reason in "\n".join(lines) for reason in explained.values())


def test_reasons_name_existing_cases_once() -> None:
    """The shipped list of deliberately open cases can be read."""
    assert all(reason for reason in open_reasons().values())


def test_a_checkout_adds_its_test_folders(tmp_path: Path) -> None:
    """Inside a checkout all its tests count; outside, the packaged suites alone."""
    for name in ("mastra_core/__init__.py", "conformance_tests/pyproject.toml"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).touch()
    for name in ("tests", "adapters/a/tests", "plugins/b/tests", "adapters/a/src"):
        (tmp_path / name).mkdir(parents=True)

    checkout = find_checkout(tmp_path / "adapters" / "a")

    assert checkout == tmp_path
    inside = {path for path in test_folders(checkout) if path.is_relative_to(tmp_path)}
    assert {
        tmp_path / "tests",
        tmp_path / "adapters/a/tests",
        tmp_path / "plugins/b/tests",
    } == inside
    assert not [path for path in test_folders(None) if path.is_relative_to(tmp_path)]
