"""Badges: the level of a report as endpoint JSON or as a picture."""

from __future__ import annotations

from html import escape

from mastra_conformance.report.levels import CORE, FULL
from mastra_conformance.report.model import Report

__all__ = ("badge_json", "badge_svg")

_LABEL = "conformance"
_COLOURS = {"brightgreen": "#2f7d32", "yellow": "#8a6d00", "red": "#b3261e", "lightgrey": "#6b6b6b"}
_CHARACTER_WIDTH = 6.6
_PADDING = 10


def badge_json(report: Report) -> dict[str, object]:
    """The document that badge services read from an endpoint."""
    return {
        "schemaVersion": 1,
        "label": _LABEL,
        "message": _message(report),
        "color": _colour(report),
    }


def badge_svg(report: Report) -> str:
    """The same as a picture that needs no service."""
    message = escape(_message(report))
    left, right = _width(_LABEL), _width(_message(report))
    total = left + right
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{total}" height="20" role="img" '
        f'aria-label="{_LABEL}: {message}">\n'
        f"  <title>{_LABEL}: {message}</title>\n"
        f'  <rect width="{left}" height="20" fill="#444"/>\n'
        f'  <rect x="{left}" width="{right}" height="20" fill="{_COLOURS[_colour(report)]}"/>\n'
        '  <g fill="#fff" font-family="Verdana,Geneva,sans-serif" font-size="11" '
        'text-anchor="middle">\n'
        f'    <text x="{left / 2}" y="14">{_LABEL}</text>\n'
        f'    <text x="{left + right / 2}" y="14">{message}</text>\n'
        "  </g>\n"
        "</svg>\n"
    )


def _message(report: Report) -> str:
    return " · ".join(report.levels) or "none"


def _colour(report: Report) -> str:
    if report.problems():
        return "red"
    if FULL in report.levels:
        return "brightgreen"
    return "yellow" if CORE in report.levels else "lightgrey"


def _width(text: str) -> int:
    return round(len(text) * _CHARACTER_WIDTH) + _PADDING
