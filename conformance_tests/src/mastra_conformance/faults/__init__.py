"""What tier 4 breaks: the network, the server, processes, clocks, disks, and the order of events."""

from __future__ import annotations

__all__ = ()
