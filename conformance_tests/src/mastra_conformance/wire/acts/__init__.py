"""What an application can do in a scene, by the names of the recordings."""

from __future__ import annotations

__all__ = ()
