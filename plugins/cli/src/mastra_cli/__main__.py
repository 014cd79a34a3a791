"""``python -m mastra_cli`` is ``mastra-py``, where that isn't on the PATH."""

from __future__ import annotations

from mastra_cli.app import main

__all__ = ()

if __name__ == "__main__":
    main()
