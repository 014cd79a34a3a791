"""Entry points are found without importing anything, also beside damaged ones."""

from __future__ import annotations

import importlib
import importlib.metadata
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mastra_core.plugins.discovery import scan_entry_points


def found(site: Any) -> list[tuple[str, str | None, str | None]]:
    return [(item.name, item.distribution, item.version) for item in site.scan()]


def test_both_groups_are_found_in_order(site: Any) -> None:
    """By group, then name, then distribution; nothing is imported."""
    site.add("mastra-b", entry_points={"x": "mastra_b.plugin"}, summary="B.")
    site.add("mastra-a", entry_points={"x": "mastra_a.plugin"}, processors={"a": "mastra_a:p"})

    assert [
        ("x", "mastra-a", "1.2.0"),
        ("x", "mastra-b", "1.2.0"),
        ("a", "mastra-a", "1.2.0"),
    ] == found(site)
    assert ["", "B.", ""] == [item.summary for item in site.scan()]
    assert set() == site.imported()


def test_first_distribution_of_a_name_counts(
    site: Any, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for imports: the first folder on the path."""
    site.add("mastra-a", version="2.0")
    later = tmp_path_factory.mktemp("later")
    info = later / "mastra_a-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mastra-a\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[mastra_core]\na = mastra_a.plugin\n")
    monkeypatch.setattr(sys, "path", [*sys.path, str(later)])
    importlib.invalidate_caches()

    assert [("a", "mastra-a", "2.0")] == found(site)


def test_unreadable_metadata_stops_nobody_else(
    site: Any, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the library does about it: the healthy ones are found."""
    site.add("mastra-a")

    site.add("mastra-b", version="2.0")
    copy = shutil.copytree(site.folder, tmp_path_factory.mktemp("copy") / "later")
    monkeypatch.setattr(sys, "path", [*sys.path, str(copy)])

    class Damaged(importlib.metadata.Distribution):
        def read_text(self, filename: str) -> str | None:
            raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "damaged")

        def locate_file(self, path: Any) -> Path:
            return Path(path)

    class Finder(importlib.metadata.DistributionFinder):
        def find_distributions(self, context: Any = None) -> Any:
            return [Damaged()]

        def find_spec(self, *args: Any) -> None:
            return None

    monkeypatch.setattr(sys, "meta_path", [Finder(), *sys.meta_path])

    assert [("a", "mastra-a", "1.2.0"), ("b", "mastra-b", "2.0")] == found(site)


def test_entry_point_without_readable_distribution_is_still_found(site: Any) -> None:
    """Only its name in messages is lost."""
    site.add("mastra-a")
    (site.folder / "mastra_a-1.2.0.dist-info" / "METADATA").unlink()
    importlib.invalidate_caches()

    (candidate,) = [item for item in scan_entry_points() if item.value == "mastra_a.plugin"]

    assert "a" == candidate.name
    assert candidate.distribution is None


def test_plugins_room_imports_nothing_heavy() -> None:
    """Neither pluggy nor pydantic nor metadata before somebody asks."""
    code = (
        "import sys, mastra_core.plugins\n"
        "heavy = {'pluggy', 'pydantic', 'importlib.metadata', 'asyncio'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "from mastra_core.plugins import StorageSpec, parse_adapter_url\n"
        "assert 'pydantic' not in sys.modules\n"
        "assert 'StorageSpec' in dir(mastra_core.plugins)\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )

    assert "" == done.stderr


def test_public_names_are_there() -> None:
    """Each comes from its module on first use; others are errors."""
    import mastra_core.plugins as room

    assert set(room.__all__) <= set(dir(room))
    assert all(getattr(room, name) is not None for name in room.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nope'"):
        _ = room.nope
