"""What client and server of the toy say to each other: pickled values with a length before them."""

from __future__ import annotations

import pickle
import struct
from asyncio import StreamReader
from typing import Any

__all__ = ("pack", "unpack")

_LENGTH = struct.Struct(">I")


def pack(value: Any) -> bytes:
    """One frame."""
    body = pickle.dumps(value)
    return _LENGTH.pack(len(body)) + body


async def unpack(reader: StreamReader) -> Any:
    """
    The next frame.

    Raises:
        OSError, EOFError: The connection ended.
    """
    (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
    return pickle.loads(await reader.readexactly(length))
