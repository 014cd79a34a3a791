"""Tables of adapters, made from reports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gen_matrix
import pytest

__all__ = ()

USUAL = ["full", "concurrent", "wire-1.71"]


def report(version: str, *levels: str, python: str = "3.11.7") -> dict[str, Any]:
    return {
        "schema": "mastra-conformance/1",
        "suite": {},
        "core": {},
        "adapter": {"name": "redis", "roles": ["storage", "lease"], "url_redacted": "redis://x"},
        "server": {"product": "Redis", "version": version},
        "environment": {"python": python},
        "tiers": [0, 1, 2, 3],
        "levels": list(levels),
        "counts": {"passed": 5},
        "capabilities": {
            "memory": {"declared": True, "passed": 5, "failed": 0, "refused": 0},
            "lease": {"declared": False, "passed": 0, "failed": 0, "refused": 1},
        },
    }


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where reports are kept, with two versions of one server and what else was run on them."""
    folder = tmp_path / "kept"
    monkeypatch.setattr(gen_matrix, "REPORTS", folder)
    monkeypatch.setattr(gen_matrix, "ROOT", tmp_path)
    made = {
        "conformance/redis-7.0-python3.13": report("7.0.15", *USUAL, python="3.13.0"),
        "conformance/redis-6.2": report("6.2.14", *USUAL),
        "conformance/redis-7.0": report("7.0.15", *USUAL),
        "faults/redis-7.0": report("7.0.15", "fault-tolerant"),
    }
    paths = [tmp_path / f"{name}.json" for name in made]
    for path, content in zip(paths, made.values(), strict=True):
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(content), "utf-8")
    gen_matrix.take(paths)
    return folder


def test_what_says_where_a_report_was_made_is_left_out(kept: Path) -> None:
    """Neither URL nor machine."""
    document = json.loads((kept / "redis-7.0.json").read_text("utf-8"))

    assert "environment" not in document
    assert "url_redacted" not in document["adapter"]
    assert document["pythons"] == {"3.11": USUAL, "3.13": USUAL}
    assert not list(kept.glob("*python*"))


def test_one_adapter_is_one_row_with_what_holds_on_all_versions(kept: Path) -> None:
    """A level that was tested on some of them names those."""
    (row,) = gen_matrix.summary(prefix="").splitlines()[2:]

    assert "Redis 6.2.14, 7.0.15" in row
    assert "full · concurrent · wire-1.71 · fault-tolerant (7.0.15)" in row


def test_each_version_has_a_row_with_its_own_levels(kept: Path) -> None:
    """All runs together, and the Pythons that came to the same."""
    old, new = gen_matrix.by_version().splitlines()[2:]

    assert "| Redis 6.2.14 | full · concurrent · wire-1.71 | 3.11 | 5 |" in old
    expected = "| Redis 7.0.15 | full · concurrent · wire-1.71 · fault-tolerant | 3.11, 3.13 | 10 |"
    assert expected in new


def test_the_matrix_has_a_column_per_version(kept: Path) -> None:
    """Numbers, and what is refused."""
    head, _, lease, memory = gen_matrix.matrix().splitlines()

    assert head == "| Capability | Redis 6.2.14 | Redis 7.0.15 |"
    assert lease == "| `lease` | refused | refused |"
    assert memory == "| `memory` | 5 | 5 |"
