"""The runner of code blocks catches pages that promise too much."""

from __future__ import annotations

from pathlib import Path

import pytest
from doc_blocks import DocError, blocks_of, matches, run_page


def page(folder: Path, text: str) -> Path:
    path = folder / "page.md"
    path.write_text(text)
    return path


def test_a_block_knows_its_language_title_and_line() -> None:
    (block,) = blocks_of('Hello\n\n```python title="app.py"\nx = 1\n```\n')

    assert (
        block.language,
        block.title,
        block.line,
        block.text,
    ) == ("python", "app.py", 3, "x = 1")


def test_a_block_in_a_list_loses_its_indent() -> None:
    (block,) = blocks_of("1. Do\n\n   ```console\n   $ true\n   ```\n")

    assert block.text == "$ true"


@pytest.mark.parametrize(
    ("expected", "printed", "fits"),
    [
        ("a\nb", "a  \nb\n\n", True),
        ("a ... c", "a b\nb c", True),
        ("a", "b", False),
        ("a.c", "abc", False),
    ],
)
def test_an_output_fits_its_promise(expected: str, printed: str, fits: bool) -> None:
    assert fits == matches(expected, printed)


def test_blocks_of_a_page_share_a_folder(tmp_path: Path) -> None:
    text = '```python title="app.py"\nprint("hi")\n```\n\n```console\n$ python app.py\nhi\n```\n'

    assert run_page(page(tmp_path, text), tmp_path) == 1


@pytest.mark.parametrize(
    "text",
    [
        "```python\nraise SystemExit(3)\n```\n",
        "```python\nprint(1)\n```\n\n```text\n2\n```\n",
        "```console\n$ false\n```\n",
        "```console\n$ echo a\nb\n```\n",
        "<!-- run-by: other -->\n```console\n$ make\n```\n",
        "<!-- from: other -->\n```python\nsomething\n```\n",
    ],
    ids=["error", "other output", "failing command", "other line", "not run there", "no part"],
)
def test_a_page_that_promises_too_much_fails(tmp_path: Path, text: str) -> None:
    (tmp_path / "other").write_text("nothing")

    with pytest.raises(DocError, match=r"page\.md:\d+: "):
        run_page(page(tmp_path, text), tmp_path)


def test_a_part_of_a_file_is_compared_and_not_run(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("def f():\n    return 1\n\nraise\n")
    text = "<!-- from: other -->\n```python\n    return 1\n```\n"

    assert run_page(page(tmp_path, text), tmp_path) == 0


def test_commands_find_the_repository(tmp_path: Path) -> None:
    text = '```console\n$ cat "$CLONE/other"\nnothing\n```\n'
    (tmp_path / "other").write_text("nothing")

    assert run_page(page(tmp_path, text), tmp_path) == 1
