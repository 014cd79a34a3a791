"""What the author of a suite writes with: the base class and its marks.

A suite says what every backend must do. It knows no driver, no SQL and no
backend's name; what differs between backends goes through capabilities.
"""

from __future__ import annotations

from typing import ClassVar

import pytest

from mastra_conformance.marks import (
    NEEDS_FILE,
    NEEDS_SERVER,
    REQUIRES,
    SEVERAL_PROCESSES,
    TIER,
)
from mastra_core.contracts.capabilities import (
    LEASE_CAPABILITIES,
    PUBSUB_CAPABILITIES,
    STORAGE_CAPABILITIES,
)

__all__ = ("Suite", "needs_file", "needs_server", "requires", "several_processes", "tier")

_KNOWN = (STORAGE_CAPABILITIES, PUBSUB_CAPABILITIES, LEASE_CAPABILITIES)


class Suite:
    """Base of every suite class; tests are ``async def test_…`` methods with fixtures.

    A subclass binds a suite to an adapter: a test class of ``cases_t1`` for the
    adapters of the command line, or one in an adapter's own tests that sets
    ``adapter`` or overrides the ``store``, ``pubsub`` or ``lease`` fixture.
    """

    pytestmark: ClassVar[list[pytest.MarkDecorator]] = [pytest.mark.anyio]

    #: What the tests need opened: ``storage``, ``pubsub``, ``lease`` or ``runtime``.
    role: ClassVar[str] = "storage"
    #: Capabilities that every test of the class needs, such as ``notifications``.
    capabilities: ClassVar[tuple[str, ...]] = ()
    #: 1 contract, 2 concurrency, 3 wire, 4 faults, 5 live interop, 6 scale.
    tier: ClassVar[int] = 1
    #: Domains that the TypeScript system must have on this backend (tier 5).
    node_domains: ClassVar[tuple[str, ...]] = ()
    #: Seconds that one of its tests may take, if it isn't as long as any other's.
    seconds: ClassVar[float | None] = None
    #: URL of the adapter under test; None takes those of ``--mastra-adapter``.
    adapter: ClassVar[str | None] = None


def requires(*capabilities: str) -> pytest.MarkDecorator:
    """
    Run a test only for adapters that declare these capabilities.

    For an adapter that doesn't, the generated refusal test runs instead.

    Raises:
        ValueError: No name was given, or one that no adapter can declare.
    """
    if not capabilities:
        raise ValueError("requires() names no capability.")
    for name in capabilities:
        if not any(name in known for known in _KNOWN):
            raise ValueError(f"{name!r} is not a capability.")
    return getattr(pytest.mark, REQUIRES)(*capabilities)  # type: ignore[no-any-return]  # pytest builds marks by attribute


def several_processes() -> pytest.MarkDecorator:
    """Run a test only for adapters whose data other processes can reach."""
    return getattr(pytest.mark, SEVERAL_PROCESSES)  # type: ignore[no-any-return]  # pytest builds marks by attribute


def needs_server() -> pytest.MarkDecorator:
    """Run a test only for adapters whose URL names a server; it breaks one of our own."""
    return getattr(pytest.mark, NEEDS_SERVER)  # type: ignore[no-any-return]  # pytest builds marks by attribute


def needs_file() -> pytest.MarkDecorator:
    """Run a test only for adapters whose URL names a file; it breaks a file of our own."""
    return getattr(pytest.mark, NEEDS_FILE)  # type: ignore[no-any-return]  # pytest builds marks by attribute


def tier(number: int) -> pytest.MarkDecorator:
    """Put one test into another tier than the rest of its class."""
    if not 0 <= number <= 6:
        raise ValueError(f"Tier {number!r} is not in 0 … 6.")
    return getattr(pytest.mark, TIER)(number)  # type: ignore[no-any-return]  # pytest builds marks by attribute
