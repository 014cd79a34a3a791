"""What commands print: results to stdout, talk to stderr.

On a terminal a table has colours and fits the width; elsewhere it is plain columns that
``cut`` and ``grep`` understand. ``NO_COLOR`` is respected by rich.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

__all__ = ("print_json", "print_piece", "print_table", "print_text", "say", "short", "shown_time")

#: Longest cell outside a terminal.
_MAX_CELL: Final = 100

_STYLES: Final[Mapping[str, str]] = {
    "urgent": "bold red",
    "high": "red",
    "medium": "yellow",
    "low": "dim",
    "failed": "bold red",
    "broken": "bold red",
    "conflict": "yellow",
    "incompatible": "red",
    "blocked": "dim",
    "pending": "yellow",
    "delivered": "green",
    "active": "green",
    "ok": "green",
    "warning": "yellow",
}


def print_json(value: Any) -> None:
    """One JSON document; readable on a terminal, one line elsewhere."""
    indent = 2 if sys.stdout.isatty() else None
    separators = None if indent else (",", ":")
    # Lone surrogates of stored texts have no UTF-8 form; their escapes do.
    text = json.dumps(value, ensure_ascii=False, indent=indent, separators=separators)
    try:
        text.encode()
    except UnicodeEncodeError:
        text = json.dumps(value, indent=indent, separators=separators)
    print_text(text)


def print_text(text: str = "") -> None:
    """A line of the result."""
    _write(f"{text}\n")


def print_piece(text: str) -> None:
    """A part of a line of the result, shown at once."""
    _write(text)
    sys.stdout.flush()


def _write(text: str) -> None:
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "replace").decode(encoding))


def say(text: str) -> None:
    """A line for the person who watches."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Any]], *, empty: str) -> None:
    """
    Rows under column names.

    Args:
        columns: Their headings.
        rows: One cell for each column; None is shown as nothing.
        empty: What to tell the person if there are no rows.
    """
    if not rows:
        say(empty)
        return
    cells = [["" if cell is None else short(str(cell)) for cell in row] for row in rows]
    if sys.stdout.isatty():
        _print_rich(columns, cells)
    else:
        _print_plain(columns, cells)


def _print_plain(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    widths = [
        max(len(name), *(len(row[index]) for row in rows)) for index, name in enumerate(columns)
    ]
    for row in (columns, *rows):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print_text("  ".join(cells).rstrip())


def _print_rich(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in columns:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell, style=_STYLES.get(cell, "")) for cell in row))
    Console().print(table)


def short(text: str, limit: int = _MAX_CELL) -> str:
    """One line of at most ``limit`` characters."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def shown_time(value: Any) -> str:
    """A wire time without its fraction, as people read it."""
    text = str(value or "")
    return text[:19].replace("T", " ") if text else ""
