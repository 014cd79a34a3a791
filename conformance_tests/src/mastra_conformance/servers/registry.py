"""The server products that the suite can run; a new one gets its module and a line here."""

from __future__ import annotations

from mastra_conformance.servers.mongodb import MONGODB, MONGODB_STANDALONE
from mastra_conformance.servers.postgres import POSTGRES
from mastra_conformance.servers.product import Product
from mastra_conformance.servers.redis import REDIS
from mastra_conformance.servers.sqld import SQLD

__all__ = ("PRODUCTS", "product_named")

PRODUCTS: tuple[Product, ...] = (POSTGRES, MONGODB, MONGODB_STANDALONE, REDIS, SQLD)


def product_named(name: str, *, version: str = "") -> Product:
    """
    The product of this name; ``redis@6.2`` and ``version="6.2"`` choose a version.

    Raises:
        LookupError: There is none.
    """
    stem, _, wanted = name.partition("@")
    for product in PRODUCTS:
        if product.name == stem:
            chosen = version or wanted
            return product.of_version(chosen) if chosen else product
    known = ", ".join(product.name for product in PRODUCTS)
    raise LookupError(f"Unknown server {stem!r}. Known: {known}.")
