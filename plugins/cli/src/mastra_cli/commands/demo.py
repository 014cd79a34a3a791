"""``mastra-py demo``: the whole job on real events."""

from __future__ import annotations

import typer

__all__ = ("app",)

app = typer.Typer(add_completion=False, rich_markup_mode=None)
