"""What an adapter doesn't declare it refuses, by name; one test per capability."""

from __future__ import annotations

from typing import ClassVar

from mastra_conformance.outcomes import DishonestError
from mastra_conformance.refusals import Refusal
from mastra_conformance.suite import Suite
from mastra_core.contracts.lease import LeaseProvider
from mastra_core.contracts.pubsub import PubSub
from mastra_core.contracts.storage import Storage
from mastra_core.errors import CapabilityNotSupportedError

__all__ = (
    "LeaseRefusalSuite",
    "PubSubRefusalSuite",
    "StorageRefusalSuite",
    "expect_refusal",
)


class StorageRefusalSuite(Suite):
    """Undeclared capabilities of a store."""

    role: ClassVar[str] = "storage"

    async def test_an_undeclared_capability_is_refused(
        self, store: Storage, refusal: Refusal
    ) -> None:
        """The call raises ``CapabilityNotSupportedError`` that names the capability."""
        await expect_refusal(store, refusal)


class PubSubRefusalSuite(Suite):
    """Undeclared capabilities of a bus."""

    role: ClassVar[str] = "pubsub"

    async def test_an_undeclared_capability_is_refused(
        self, pubsub: PubSub, refusal: Refusal
    ) -> None:
        """The call raises ``CapabilityNotSupportedError`` that names the capability."""
        await expect_refusal(pubsub, refusal)


class LeaseRefusalSuite(Suite):
    """Undeclared capabilities of a lease provider."""

    role: ClassVar[str] = "lease"

    async def test_an_undeclared_capability_is_refused(
        self, lease: LeaseProvider, refusal: Refusal
    ) -> None:
        """The call raises ``CapabilityNotSupportedError`` that names the capability."""
        await expect_refusal(lease, refusal)


async def expect_refusal(opened: object, refusal: Refusal) -> None:
    """
    Make the call, and insist on a refusal.

    Raises:
        DishonestError: It did something else than refusing.
    """
    try:
        answer = await refusal.call(opened)
    except CapabilityNotSupportedError as exc:
        if exc.capability != refusal.capability:
            raise DishonestError(
                f"{refusal.capability!r} isn't declared, and the refusal names "
                f"{exc.capability!r} instead."
            ) from exc
        return
    except Exception as exc:
        raise DishonestError(
            f"{refusal.capability!r} isn't declared, but the call raised "
            f"{type(exc).__name__} instead of refusing: {exc}"
        ) from exc
    if refusal.answer is None or answer != refusal.answer:
        raise DishonestError(f"{refusal.capability!r} isn't declared, but the call worked.")
