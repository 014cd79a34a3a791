"""Real servers for tests, without containers: found, started on loopback, stopped.

One module per product says where its binary comes from, how it is started and when
it answers; ``registry`` lists them. Only processes that were started here are stopped.
"""

from __future__ import annotations

from mastra_conformance.servers.find import find_server
from mastra_conformance.servers.local import RunningServer, ServerFailedError, start_server
from mastra_conformance.servers.product import Found, Missing, Product
from mastra_conformance.servers.registry import PRODUCTS, product_named

__all__ = (
    "PRODUCTS",
    "Found",
    "Missing",
    "Product",
    "RunningServer",
    "ServerFailedError",
    "find_server",
    "product_named",
    "start_server",
)
