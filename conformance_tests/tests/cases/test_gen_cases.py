"""The script that makes the index."""

from __future__ import annotations

import json
from pathlib import Path

import gen_cases

__all__ = ()

PAGE = """# A page
## 2. Other
1. Not a case.
## 3. Conformance cases
Storage
1. Given this, then that.
2. [S] {long}
## 4. Decisions
1. Not a case either.
"""


def test_only_the_section_of_cases_counts(tmp_path: Path) -> None:
    """Long sentences are cut, other numbered lists are left alone."""
    (tmp_path / "page.md").write_text(PAGE.format(long="x" * 500), "utf-8")
    (tmp_path / "none.md").write_text("# Nothing", "utf-8")
    output = tmp_path / "cases.json"

    assert gen_cases.main([str(tmp_path), str(output)]) == 0

    index = json.loads(output.read_text("utf-8"))
    assert list(index) == ["page"]
    assert [1, 2] == [case["n"] for case in index["page"]]
    assert index["page"][0]["text"] == "Given this, then that."
    assert len(index["page"][1]["text"]) == gen_cases.MAX_TEXT


def test_wrong_usage_is_exit_code_2(tmp_path: Path) -> None:
    """No folder, or one that isn't there."""
    assert gen_cases.main([]) == 2
    assert gen_cases.main([str(tmp_path / "nowhere")]) == 2
