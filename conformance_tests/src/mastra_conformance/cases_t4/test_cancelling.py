"""Binds the suites that cancel every operation everywhere."""

from __future__ import annotations

from mastra_conformance.suites.faults.cancelling import (
    LeaseCancelSuite,
    PubSubCancelSuite,
    StorageCancelSuite,
)

__all__ = ("TestLeaseCancel", "TestPubSubCancel", "TestStorageCancel")


class TestStorageCancel(StorageCancelSuite):
    """The adapters of the command line."""


class TestPubSubCancel(PubSubCancelSuite):
    """The adapters of the command line."""


class TestLeaseCancel(LeaseCancelSuite):
    """The adapters of the command line."""
