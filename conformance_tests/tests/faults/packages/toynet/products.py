"""The toy server as the suite starts it, right and wrong."""

from __future__ import annotations

import sys
from pathlib import Path

from mastra_conformance.servers import Product

__all__ = ("AMNESIAC", "FORGETFUL", "TOY")


def _product(*faults: str) -> Product:
    program = Path(__file__).with_name("server.py")
    return Product(
        name="toynet",
        summary="toy server",
        variable="MASTRA_TEST_TOYNET_URL",
        binaries=(sys.executable,),
        packages=(),
        arguments=lambda port, data: (str(program), str(port), str(data), *faults),
        url=lambda port: f"toynet://127.0.0.1:{port}",
    )


TOY = _product()
#: Confirms before it has written.
FORGETFUL = _product("forgetful")
#: Knows no lease and no fence of its former life.
AMNESIAC = _product("amnesiac")
