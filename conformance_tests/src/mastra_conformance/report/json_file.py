"""Reports as files."""

from __future__ import annotations

import json
from pathlib import Path

from mastra_conformance.report.model import Report

__all__ = ("path_for", "read_report", "write_report")


def write_report(report: Report, path: Path) -> None:
    """Write the report, complete or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.part")
    draft.write_text(json.dumps(report.to_json(), indent=2, ensure_ascii=False) + "\n", "utf-8")
    draft.replace(path)


def read_report(path: Path) -> Report:
    """
    Read a report.

    Raises:
        ValueError: There is none, or it isn't one of ours.
    """
    try:
        value = json.loads(path.read_text("utf-8"))
    except OSError as exc:
        raise ValueError(f"Can't read {str(path)!r}: {exc.strerror}.") from exc
    except json.JSONDecodeError as exc:
        raise ValueError(f"{str(path)!r} is not JSON: {exc}.") from exc
    if not isinstance(value, dict):
        raise ValueError(f"{str(path)!r} is not a report.")
    return Report.from_json(value)


def path_for(path: Path, label: str, *, several: bool) -> Path:
    """Where the report of one adapter goes; the label joins the name if there are several."""
    return path.with_name(f"{path.stem}-{label}{path.suffix or '.json'}") if several else path
