"""``mastra-conformance servers``: which real servers can this machine test with?"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from mastra_conformance.commands.exits import CommandError, Exit, print_json, print_lines
from mastra_conformance.report.table import align
from mastra_conformance.servers.find import find_server
from mastra_conformance.servers.install import InstallError, install_server
from mastra_conformance.servers.product import Found, Missing, Product
from mastra_conformance.servers.registry import PRODUCTS, product_named

__all__ = ("add_parser", "install", "list_servers")


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    servers = commands.add_parser("servers", help="find or install servers for tests")
    kinds = servers.add_subparsers(metavar="list|install", required=True)
    parser = kinds.add_parser("list", help="what is found, and where")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(command=list_servers)
    parser = kinds.add_parser("install", help="fetch the binary of a server")
    parser.add_argument("name", metavar="NAME[@VERSION]", help=_choices())
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(command=install)


def list_servers(arguments: argparse.Namespace) -> Exit:
    """Print one row per product."""
    rows = [_row(product) for product in _in_all_versions()]
    if arguments.json:
        print_json(rows)
    else:
        names = ("name", "version", "found", "source", "fix")
        print_lines(align([names, *([row[name] or "–" for name in names] for row in rows)]))
    return Exit.DONE


def install(arguments: argparse.Namespace) -> Exit:
    """Fetch one server and say where it is now."""
    try:
        product = product_named(arguments.name)
    except LookupError as exc:
        raise CommandError(str(exc.args[0]), Exit.USAGE) from exc
    try:
        binary = install_server(product)
    except InstallError as exc:
        raise CommandError(str(exc), Exit.ENVIRONMENT) from exc
    if arguments.json:
        print_json({"name": product.label, "binary": str(binary)})
    else:
        print_lines([f"{product.label}: {binary}"])
    return Exit.DONE


def _in_all_versions() -> Iterator[Product]:
    for product in PRODUCTS:
        yield product
        yield from map(product.of_version, product.versions)


def _choices() -> str:
    names = (
        f"{product.name}@{'|'.join(product.versions)}" if product.versions else product.name
        for product in PRODUCTS
    )
    return f"one of {', '.join(names)}"


def _row(product: Product) -> dict[str, str | None]:
    row: dict[str, str | None] = {"name": product.label, "found": None, "source": None}
    match find_server(product):
        case Found(url=url, binary=binary, source=source, version=version):
            place = "url" if url else str(binary)
            return row | {"version": version or None, "found": place, "source": source, "fix": None}
        case Missing(command=command):
            return row | {"version": None, "fix": command}
