"""Recorded webhook deliveries, to try things with."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path

from mastra_core.errors import ConfigError
from mastra_github.mapping import Delivery

__all__ = ("load_deliveries", "packaged_deliveries")


def packaged_deliveries() -> list[Delivery]:
    """The deliveries that ship with this package."""
    text = files("mastra_github").joinpath("data/deliveries.jsonl").read_text("utf-8")
    return _deliveries_from(text, "the packaged deliveries")


def load_deliveries(path: Path) -> list[Delivery]:
    """
    Deliveries from a file of the same form, one JSON object ``{event, payload}`` a line.

    Raises:
        ConfigError: The file can't be read, or a line isn't a delivery.
    """
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigError(f"The deliveries in {str(path)!r} can't be read: {exc}.") from exc
    return _deliveries_from(text, str(path))


def _deliveries_from(text: str, where: str) -> list[Delivery]:
    # Not splitlines: JSON text may hold separators that only Python takes for line ends.
    lines = [line for line in text.split("\n") if line.strip()]
    return [_delivery_from(line, number, where) for number, line in enumerate(lines, 1)]


def _delivery_from(line: str, number: int, where: str) -> Delivery:
    try:
        value = json.loads(line)
        return Delivery(event=str(value["event"]), payload=dict(value["payload"]))
    except (ValueError, KeyError, TypeError) as exc:
        raise ConfigError(
            f"Line {number} of {where} is no delivery: it needs 'event' and 'payload'."
        ) from exc
