"""``mastra-conformance servers``: which real servers can this machine test with?"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Final

from mastra_conformance.commands.exits import CommandError, Exit, print_json, print_lines
from mastra_conformance.node.packages import find_node, find_pages, install_node
from mastra_conformance.report.table import align
from mastra_conformance.servers.find import find_server
from mastra_conformance.servers.install import InstallError, install_server
from mastra_conformance.servers.product import Found, Missing, Product
from mastra_conformance.servers.registry import PRODUCTS, product_named

__all__ = ("NODE", "add_parser", "install", "list_servers")

NODE: Final = "node"
"""No server, but found and fetched in the same way: Node with the TypeScript packages."""

_COLUMNS: Final = ("name", "version", "found", "source", "fix")


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    servers = commands.add_parser("servers", help="find or install servers for tests")
    kinds = servers.add_subparsers(metavar="list|install", required=True)
    parser = kinds.add_parser("list", help="what is found, and where")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(command=list_servers)
    parser = kinds.add_parser("install", help="fetch the binaries of servers")
    parser.add_argument("names", nargs="+", metavar="NAME[@VERSION]", help=_choices())
    parser.add_argument("--if-missing", action="store_true", help="only those that aren't found")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(command=install)


def list_servers(arguments: argparse.Namespace) -> Exit:
    """Print one row per product and version."""
    rows = [*map(_row, _in_all_versions()), _row_of_node()]
    if arguments.json:
        print_json(rows)
    else:
        print_lines(align([_COLUMNS, *([row[name] or "–" for name in _COLUMNS] for row in rows)]))
    return Exit.DONE


def install(arguments: argparse.Namespace) -> Exit:
    """Fetch servers and say where they are now; goes on after one that can't be fetched."""
    done: list[dict[str, str]] = []
    failed: list[str] = []
    for name in arguments.names:
        try:
            binary = _install(name, if_missing=arguments.if_missing)
        except LookupError as exc:
            raise CommandError(str(exc.args[0]), Exit.USAGE) from exc
        except InstallError as exc:
            failed.append(str(exc))
            continue
        done.append({"name": name, "binary": binary})
    if arguments.json:
        print_json(done[0] if len(arguments.names) == 1 and done else done)
    else:
        print_lines([f"{item['name']}: {item['binary']}" for item in done])
    if failed:
        raise CommandError(" ".join(failed), Exit.ENVIRONMENT)
    return Exit.DONE


def _install(name: str, *, if_missing: bool) -> str:
    if name == NODE:
        place = find_node() if if_missing else None
        if place is None or isinstance(place, Missing) or find_pages(place) is not None:
            place = install_node()
        return str(place.node)
    product = product_named(name)
    found = find_server(product) if if_missing else None
    if isinstance(found, Found):
        return found.source if found.binary is None else str(found.binary)
    return str(install_server(product))


def _in_all_versions() -> Iterator[Product]:
    for product in PRODUCTS:
        yield product
        yield from map(product.of_version, product.versions)


def _choices() -> str:
    names = [
        f"{product.name}@{'|'.join(product.versions)}" if product.versions else product.name
        for product in PRODUCTS
    ]
    return f"one of {', '.join([*names, NODE])}"


def _row(product: Product) -> dict[str, str | None]:
    match find_server(product):
        case Found(url=url, binary=binary, source=source, version=version):
            place = "url" if url else str(binary)
            return _cells(product.label, version or None, place, source, None)
        case Missing(command=command):
            return _cells(product.label, None, None, None, command)


def _row_of_node() -> dict[str, str | None]:
    place = find_node()
    if isinstance(place, Missing):
        return _cells(NODE, None, None, None, place.command)
    return _cells(NODE, place.version, str(place.node), str(place.folder), None)


def _cells(*cells: str | None) -> dict[str, str | None]:
    return dict(zip(_COLUMNS, cells, strict=True))
