"""What lies beside Node, and what is missing."""

from __future__ import annotations

from pathlib import Path

from mastra_conformance.node import PAGE_PACKAGES, NodePlace, find_pages


def test_each_package_of_pages_is_looked_for(tmp_path: Path) -> None:
    """The first that is missing is named, with the command that fetches it."""
    place = NodePlace(node=tmp_path / "node", folder=tmp_path, version="Node 22")

    for name in PAGE_PACKAGES:
        missing = find_pages(place)
        assert missing is not None
        assert repr(name) in missing.reason
        assert "servers install node" in missing.command
        package = tmp_path / "node_modules" / name / "package.json"
        package.parent.mkdir(parents=True)
        package.write_text("{}", "utf-8")

    assert find_pages(place) is None
