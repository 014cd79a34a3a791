"""The server products that the suite can run; a new one gets its module and a line here."""

from __future__ import annotations

from mastra_conformance.servers.product import Product
from mastra_conformance.servers.sqld import SQLD

__all__ = ("PRODUCTS", "product_named")

PRODUCTS: tuple[Product, ...] = (SQLD,)


def product_named(name: str) -> Product:
    """
    The product of this name.

    Raises:
        LookupError: There is none.
    """
    for product in PRODUCTS:
        if product.name == name:
            return product
    known = ", ".join(product.name for product in PRODUCTS)
    raise LookupError(f"Unknown server {name!r}. Known: {known}.")
