"""Binds the suite of notification ingress."""

from __future__ import annotations

from mastra_conformance.suites.runtime.notification_ingress import IngressSuite

__all__ = ("TestIngress",)


class TestIngress(IngressSuite):
    """The adapters of the command line."""
