"""Run a command against a real server: ``on_server.py sqld COMMAND…``.

``{url}`` in the command becomes the server's URL. The server is found as the conformance suite
finds it, started for the length of the command, and stopped. Ends with 3 if there is none.
"""

from __future__ import annotations

import subprocess
import sys

from mastra_conformance.servers import product_named, start_server
from mastra_conformance.servers.find import find_server
from mastra_conformance.servers.product import Missing

__all__ = ("main",)

NO_SERVER = 3


def main(name: str, *command: str) -> int:
    """Run the command; its exit code, or 3 if there is no such server here."""
    product = product_named(name)
    found = find_server(product)
    if isinstance(found, Missing):
        print(f"not-run: {found.reason} Fix: {found.command}", file=sys.stderr)
        return NO_SERVER
    with start_server(product, found) as server:
        arguments = [part.replace("{url}", server.url) for part in command]
        return subprocess.run(arguments, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
