"""Binds the suites of two versions at once."""

from __future__ import annotations

from mastra_conformance.suites.faults.versions import (
    LeaseVersionSuite,
    PubSubVersionSuite,
    StorageVersionSuite,
)

__all__ = ("TestLeaseVersions", "TestPubSubVersions", "TestStorageVersions")


class TestStorageVersions(StorageVersionSuite):
    """The adapters of the command line."""


class TestPubSubVersions(PubSubVersionSuite):
    """The adapters of the command line."""


class TestLeaseVersions(LeaseVersionSuite):
    """The adapters of the command line."""
