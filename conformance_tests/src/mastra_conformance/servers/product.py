"""What the suite must know about a server product to test with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from platform import system

from mastra_conformance.scan import find_checkout

__all__ = ("Found", "Missing", "Product", "WheelOrPackage", "installation_folder")


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The server is there: running at a URL, or as a binary that can be started."""

    #: Set when somebody else runs the server; nothing is started or stopped then.
    url: str | None = None
    binary: Path | None = None
    #: Where it was found, for people.
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """The server isn't there."""

    reason: str
    #: What would provide it.
    command: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelOrPackage:
    """A package of a public registry that contains the binary; a test dependency only."""

    registry: str
    requirement: str
    #: Path of the binary below the installation folder.
    binary: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """One server product."""

    name: str
    summary: str
    #: Environment variable with the URL of a running server.
    variable: str
    #: Names of the binary on PATH.
    binaries: tuple[str, ...]
    package: WheelOrPackage
    #: Port and data folder → arguments of the binary.
    arguments: Callable[[int, Path], Sequence[str]]
    #: Port → URL for ``--mastra-adapter``.
    url: Callable[[int], str]
    #: Port → path that answers over HTTP once the server is ready; None waits for the port.
    health_path: str | None = None
    #: Arguments that make the binary print its version.
    version_arguments: tuple[str, ...] = ("--version",)


def installation_folder(start: Path) -> Path:
    """Where ``servers install`` puts things: in the checkout, else in the user's cache."""
    checkout = find_checkout(start) or find_checkout(Path(__file__).parent)
    if checkout is not None:
        return checkout / "tools" / ".servers"
    cache = "Library/Caches" if system() == "Darwin" else ".cache"
    return Path.home() / cache / "mastra-conformance" / "servers"
