"""Where things are measured: files of our own, and the servers that this machine has."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from driver import Driver
from driver_apsw import open_apsw
from driver_psycopg import open_psycopg, with_option
from driver_pymongo import open_pymongo
from driver_redis import open_redis

from mastra_conformance.servers import Missing, find_server, product_named, start_server
from mastra_libsql import LibSQLStorage
from mastra_mongodb import MongoStorage
from mastra_postgres import PostgresStorage
from mastra_redis import RedisStorage

__all__ = ("BACKENDS", "Place", "find_place")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A database to measure in; for the measurement alone."""

    backend: str
    #: URL of the server, or of a folder of files.
    url: str
    #: Ours and the plain driver.
    open: Callable[[], AbstractAsyncContextManager[Driver]]
    #: Our store at a URL.
    open_store: Callable[[str], AbstractAsyncContextManager[Any]]

    def url_of(self, part: str) -> str:
        """URL of a store that one part has for itself."""
        match self.backend:
            case "libsql file":
                return f"file:{self.folder / part}.db"
            case "redis":
                return with_option(self.url, prefix=f"{part}:")
            case _:
                return with_option(self.url, prefix=f"{part}_")

    @property
    def folder(self) -> Path:
        """The folder of files."""
        return Path(self.url.removeprefix("file:"))


_SERVERS: dict[str, tuple[Any, Any]] = {
    "postgres": (open_psycopg, PostgresStorage),
    "mongodb": (open_pymongo, MongoStorage),
    "redis": (open_redis, RedisStorage),
}

BACKENDS: tuple[str, ...] = ("libsql file", *_SERVERS)
"""Everything that has an operation to measure."""


@contextmanager
def find_place(backend: str) -> Iterator[Place | Missing]:
    """A place for the length of the block; what is missing if there is none."""
    if backend not in _SERVERS:
        with tempfile.TemporaryDirectory(prefix="mastra-bench-") as folder:
            yield Place(
                backend=backend,
                url=f"file:{folder}",
                open=lambda: open_apsw(Path(folder)),
                open_store=LibSQLStorage,
            )
        return
    product = product_named(backend)
    found = find_server(product)
    if isinstance(found, Missing):
        yield found
        return
    with start_server(product, found) as server:
        open_driver, open_store = _SERVERS[backend]
        yield Place(
            backend=backend,
            url=server.url,
            open=lambda: open_driver(server.url),
            open_store=open_store,
        )
