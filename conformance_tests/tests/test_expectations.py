"""The file of known failures."""

from __future__ import annotations

from pathlib import Path

import pytest

from mastra_conformance.expectations import ExpectationError, in_range, load_expectations

__all__ = ()

ENTRY = """
[[expect]]
case = "storage.memory.ThreadSuite.test_x"
kind = "upstream"
reason = "The server rounds."
"""


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "expect.toml"
    path.write_text(text, "utf-8")
    return path


def test_an_entry_is_found_for_its_test(tmp_path: Path) -> None:
    """Without limits it speaks about every adapter and version."""
    known = load_expectations(write(tmp_path, ENTRY))

    assert known.find("storage.memory.ThreadSuite.test_x", "acme", "1.0") is not None
    assert known.find("storage.memory.ThreadSuite.test_y", "acme", "1.0") is None


@pytest.mark.parametrize(
    ("version", "expected"), [("1.4", True), ("2.0", False), ("1.3.9", False), (None, True)]
)
def test_an_entry_may_be_limited(tmp_path: Path, version: str | None, *, expected: bool) -> None:
    """To an adapter and to a range of its versions."""
    text = f'{ENTRY}adapter = "acme"\nversions = ">=1.4,<2"\n'
    known = load_expectations(write(tmp_path, text))

    assert expected is (
        known.find("storage.memory.ThreadSuite.test_x", "acme", version) is not None
    )
    assert known.find("storage.memory.ThreadSuite.test_x", "other", version) is None


def test_ids_without_a_test_are_named(tmp_path: Path) -> None:
    """A file that speaks of nothing can't be right."""
    known = load_expectations(write(tmp_path, ENTRY))

    assert ["storage.memory.ThreadSuite.test_x"] == known.unknown({"another"})
    assert [] == known.unknown({"storage.memory.ThreadSuite.test_x"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[expect", "is not TOML"),
        ("x = 1", r"something else than \[\[expect\]\]"),
        ('[[expect]]\ncase = "a"', "lacks its 'kind'"),
        (ENTRY.replace("upstream", "someday"), "'someday' is not one of not_yet, upstream, never"),
        (f"{ENTRY}colour = 1", r"Unknown members \['colour'\]"),
        (f'{ENTRY}versions = "1.0"', "starts with no comparison"),
        (f'{ENTRY}versions = ">=x"', "has no number"),
    ],
)
def test_faults_of_the_file_are_errors(tmp_path: Path, text: str, message: str) -> None:
    """Each with what is wrong and what is known."""
    with pytest.raises(ExpectationError, match=message):
        load_expectations(write(tmp_path, text))


@pytest.mark.parametrize(
    ("version", "wanted", "expected"),
    [
        ("1.2.0", "==1.2", True),
        ("1.10", ">1.9", True),
        ("1.2rc1", "<=1.2", True),
        ("3", "!=3.0.0", False),
    ],
)
def test_versions_compare_by_number(version: str, wanted: str, *, expected: bool) -> None:
    """Not as texts, and missing parts are zero."""
    assert expected is in_range(version, wanted)
