"""Where a server is: a URL of the environment, PATH and the usual places, or a package."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from glob import glob
from pathlib import Path

from mastra_conformance.servers.product import (
    Found,
    Missing,
    Product,
    fits,
    installation_folder,
)

__all__ = ("find_server", "version_of")

_ASKING_SECONDS = 30


def find_server(
    product: Product, *, environ: Mapping[str, str] | None = None, start: Path | None = None
) -> Found | Missing:
    """
    Look in the order of the design: environment, PATH, usual places, installed package.

    A binary of another version than the wanted one is passed over.
    """
    environ = os.environ if environ is None else environ
    url = environ.get(product.variable)
    if url:
        return Found(url=url, source=product.variable)
    seen: list[str] = []
    for found in _binaries(product, environ, installation_folder(start or Path.cwd())):
        if fits(found.version, product.version):
            return found
        seen.append(f"{found.version} ({found.source})")
    return Missing(reason=_reason(product, seen), command=_fix(product))


def version_of(product: Product, binary: Path) -> str:
    """What the binary says about itself; empty if it doesn't, or nobody cares."""
    if not product.version_pattern:
        return ""
    try:
        told = subprocess.run(
            [str(binary), "--version"],
            capture_output=True,
            text=True,
            check=False,
            timeout=_ASKING_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    match = re.search(product.version_pattern, told.stdout)
    return match.group(1) if match else ""


def _binaries(product: Product, environ: Mapping[str, str], installed: Path) -> Iterator[Found]:
    for name in product.binaries:
        on_path = shutil.which(name, path=environ.get("PATH"))
        if on_path is not None:
            yield _found(product, Path(on_path), "PATH")
    for pattern in product.places:
        # The newest first, as far as names tell.
        for place in sorted(glob(pattern), reverse=True):  # noqa: PTH207 - absolute patterns
            if os.access(place, os.X_OK):
                yield _found(product, Path(place), str(Path(place).parent))
    for package in product.packages:
        binary = installed / package.binary
        if fits(package.version, product.version) and binary.is_file():
            home = installed / package.home if package.home is not None else None
            yield _found(product, binary, package.requirement, home)


def _found(product: Product, binary: Path, source: str, home: Path | None = None) -> Found:
    version = version_of(product, binary)
    return Found(binary=binary, source=source, version=version, home=home)


def _reason(product: Product, seen: list[str]) -> str:
    version = f" {product.version}" if product.version else ""
    others = f" Other versions are: {', '.join(seen)}." if seen else ""
    return (
        f"No {product.summary}{version} was found: {product.variable} isn't set, and "
        f"{', '.join(product.binaries)} is neither on PATH nor installed.{others}"
    )


def _fix(product: Product) -> str:
    if product.version and not any(fits(known, product.version) for known in product.versions):
        return f"export {product.variable}=<URL of a running server>"
    return f"mastra-conformance servers install {product.label}"
