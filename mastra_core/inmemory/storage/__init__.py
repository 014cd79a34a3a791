"""Storage without any server: for tests, demos, and as the reference of what a store does.

Nothing survives the process. Handles of one ``AdapterContext`` that name the same store
(``memory:name``) share its data.
"""

from __future__ import annotations

from mastra_core.inmemory.storage.store import InMemoryStorage

__all__ = ("InMemoryStorage",)
