"""Tiny distributions on ``sys.path``, found by real entry points."""

from __future__ import annotations

import importlib
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from mastra_core.plugins.discovery import Candidate, scan_entry_points
from mastra_core.plugins.manager import PluginManager
from mastra_core.plugins.options import PluginOptions

__all__ = ("Site", "make_manager", "site")

GOOD_PLUGIN = """
    from mastra_core.plugins import StorageSpec, hookimpl

    MASTRA_PLUGIN_API = (1, 0)

    @hookimpl
    def mastra_storage_adapters():
        yield StorageSpec(name="{name}", schemes=({schemes},), factory="{package}.store:Store")
"""

STORE = """
    class Store:
        name = "{name}"
        capabilities = frozenset()
        volatile = False

        def __init__(self, settings, context):
            self.settings, self.context = settings, context
            self.is_open = False

        async def __aenter__(self):
            self.is_open = True
            return self

        async def __aexit__(self, *exc_info):
            self.is_open = False
"""


class Site:
    """A folder like ``site-packages`` that holds distributions made for one test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.distributions: set[str] = set()
        self.packages: set[str] = set()

    def add(
        self,
        distribution: str,
        entry_points: Mapping[str, str] | None = None,
        *,
        processors: Mapping[str, str] | None = None,
        version: str = "1.2.0",
        summary: str = "",
        **modules: str,
    ) -> None:
        """
        Install a distribution.

        ``modules`` are the files of its package, which is named after it; the entry point
        is its module ``plugin`` unless told otherwise.
        """
        package = distribution.replace("-", "_")
        short = package.removeprefix("mastra_")
        groups = {
            "mastra_core": {short: f"{package}.plugin"} if entry_points is None else entry_points,
            "mastra_core.processors": processors or {},
        }
        self._write(f"{package}/__init__.py", "")
        for module, text in modules.items():
            self._write(f"{package}/{module}.py", textwrap.dedent(text))
        info = f"{package}-{version}.dist-info"
        self._write(
            f"{info}/METADATA",
            f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\nSummary: {summary}\n",
        )
        lines = [
            line
            for group, points in groups.items()
            for line in (f"[{group}]", *(f"{name} = {value}" for name, value in points.items()))
        ]
        self._write(f"{info}/entry_points.txt", "\n".join(lines) + "\n")
        self.distributions.add(distribution)
        self.packages.add(package)
        importlib.invalidate_caches()

    def add_good(self, distribution: str = "mastra-good", *schemes: str, **modules: str) -> None:
        """Install a distribution whose plugin offers a store for these schemes."""
        package = distribution.replace("-", "_")
        name = package.removeprefix("mastra_")
        listed = ", ".join(repr(scheme) for scheme in schemes or (name,))
        plugin = GOOD_PLUGIN.format(name=name, package=package, schemes=listed)
        store = modules.pop("store", STORE.format(name=name))
        self.add(distribution, None, processors=None, plugin=plugin, store=store, **modules)

    def _write(self, path: str, text: str) -> None:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")

    def scan(self) -> list[Candidate]:
        """The real scan, without what the environment of the tests has installed."""
        return [item for item in scan_entry_points() if item.distribution in self.distributions]

    def imported(self) -> set[str]:
        """The packages of this site that somebody imported."""
        return {name.partition(".")[0] for name in sys.modules} & self.packages


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """An empty site on ``sys.path``; what was imported from it is forgotten afterwards."""
    site = Site(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    # Real adapters stand aside meanwhile; the core and what judges it stay.
    aside = {
        name: module
        for name, module in sys.modules.items()
        if re.match(r"mastra_(?!core\b|conformance\b)", name)
    }
    for name in aside:
        del sys.modules[name]
    yield site
    for name in [name for name in sys.modules if name.partition(".")[0] in site.packages]:
        del sys.modules[name]
    sys.modules.update(aside)


@pytest.fixture
def make_manager(site: Site) -> Callable[..., PluginManager]:
    """Make a manager that sees only the site and no environment variables."""

    def make(*plugins: object, builtins: tuple[str, ...] = (), **options: object) -> PluginManager:
        return PluginManager(
            plugins,
            builtins=builtins,
            options=PluginOptions(**options),  # type: ignore[arg-type]  # names are those of the class
            scan=site.scan,
        )

    return make
