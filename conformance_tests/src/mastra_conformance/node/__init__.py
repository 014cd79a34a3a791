"""A real process of the TypeScript system beside ours, for tier 5.

``packages`` finds or installs Node 22 and the published packages, ``peer`` starts the program
``peer.mjs`` and talks to it, ``stores`` says how Node opens what we have open.
"""

from __future__ import annotations

from mastra_conformance.node.packages import (
    NODE_PACKAGES,
    PAGE_PACKAGES,
    NodePlace,
    find_node,
    find_pages,
    install_node,
)
from mastra_conformance.node.peer import NodePeer, NodePeerError, node_peer
from mastra_conformance.node.stores import node_store

__all__ = (
    "NODE_PACKAGES",
    "PAGE_PACKAGES",
    "NodePeer",
    "NodePeerError",
    "NodePlace",
    "find_node",
    "find_pages",
    "install_node",
    "node_peer",
    "node_store",
)
