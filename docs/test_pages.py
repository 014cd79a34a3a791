"""Every page keeps its promises: code blocks run, outputs are the printed ones, links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from doc_blocks import run_page

ROOT = Path(__file__).resolve().parent.parent
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted(ROOT.glob("docs/**/*.md")),
    *sorted(ROOT.glob("adapters/*/README.md")),
    *sorted(ROOT.glob("plugins/*/README.md")),
    *sorted(ROOT.glob("conformance_tests/README.md")),
    *sorted(ROOT.glob("examples/**/README.md")),
    *sorted(ROOT.glob("benchmarks/README.md")),
]
LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?P<target>[^)\s]+)\)")
FENCED = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ +(.*)$", re.MULTILINE)


def page_id(page: Path) -> str:
    return str(page.relative_to(ROOT))


def anchor_of(heading: str) -> str:
    """The anchor under which a heading can be reached."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_code_blocks_do_what_the_page_says(page: Path) -> None:
    run_page(page, ROOT)


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_links_lead_somewhere(page: Path) -> None:
    """Each relative link leads to a file of the repository, and its anchor to a heading."""
    lost = []
    for link in LINK.finditer(FENCED.sub("", page.read_text())):
        path, _, anchor = link["target"].partition("#")
        if re.match(r"[a-z]+:", path):
            continue
        target = (page.parent / path).resolve() if path else page
        if not target.exists():
            lost.append(link["target"])
        elif anchor and target.suffix == ".md":
            headings = map(anchor_of, HEADING.findall(FENCED.sub("", target.read_text())))
            if anchor not in headings:
                lost.append(link["target"])

    assert lost == []
