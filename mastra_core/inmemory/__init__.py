"""What works without any server: storage, bus and leases in this process's memory."""

from __future__ import annotations

__all__ = ()
