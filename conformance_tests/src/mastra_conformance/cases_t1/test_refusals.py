"""Binds the refusal tests."""

from __future__ import annotations

from mastra_conformance.suites.refusals import (
    LeaseRefusalSuite,
    PubSubRefusalSuite,
    StorageRefusalSuite,
)

__all__ = ("TestLeaseRefusals", "TestPubSubRefusals", "TestStorageRefusals")


class TestStorageRefusals(StorageRefusalSuite):
    """The adapters of the command line."""


class TestPubSubRefusals(PubSubRefusalSuite):
    """The adapters of the command line."""


class TestLeaseRefusals(LeaseRefusalSuite):
    """The adapters of the command line."""
