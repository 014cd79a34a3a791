"""The composite store: opening, closing, what it declares (contract ``Storage``)."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from inspect import getattr_static
from typing import TYPE_CHECKING

from mastra_conformance.outcomes import DishonestError
from mastra_conformance.suite import Suite
from mastra_core.contracts.capabilities import STORAGE_DOMAINS
from mastra_core.contracts.storage import Storage
from mastra_core.errors import MastraError

if TYPE_CHECKING:
    from collections.abc import Callable

    from mastra_conformance.subject import Subject

__all__ = ("CompositeSuite",)


class CompositeSuite(Suite):
    """What every store does, whatever its domains are."""

    role = "storage"

    async def test_the_opened_store_fulfils_the_protocol(self, store: Storage) -> None:
        """Everything of the contract is there, and the name is a short identifier."""
        names = [name for name in dir(Storage) if not name.startswith("_")]

        # Looked up on the class: asking the object for an undeclared domain raises.
        assert [] == [name for name in names if getattr_static(store, name, None) is None]
        assert store.name.isidentifier()
        assert isinstance(store.volatile, bool)

    async def test_an_instance_never_widens_what_is_declared(
        self, store: Storage, subject: Subject
    ) -> None:
        """A server may lack something; it can't have more than the descriptor says."""
        more = sorted(store.capabilities - subject.capabilities)

        if more:
            raise DishonestError(f"The opened store also claims {', '.join(more)}.")

    async def test_every_declared_domain_is_there(self, store: Storage) -> None:
        """A declared domain answers when it is asked for."""
        declared = [domain for domain in STORAGE_DOMAINS if domain in store.capabilities]

        domains = [getattr(store, domain) for domain in declared]

        assert declared
        assert None not in domains

    async def test_initialising_twice_is_harmless(self, store: Storage) -> None:
        """The second ``init`` changes nothing and raises nothing."""
        await store.init()
        await store.init()

    async def test_opening_twice_is_harmless(self, store: Storage) -> None:
        """An opened store can be entered once more and is still usable afterwards."""
        async with store as again:
            assert again is store

    async def test_closing_twice_is_harmless(
        self, open_store: Callable[[], AbstractAsyncContextManager[Storage]]
    ) -> None:
        """``aclose`` is idempotent."""
        async with open_store() as other:
            await other.aclose()
            await other.aclose()

    async def test_a_closed_store_raises_a_typed_error(
        self, open_store: Callable[[], AbstractAsyncContextManager[Storage]], store: Storage
    ) -> None:
        """Using a closed store is answered by an error of ours, not of the driver."""
        async with open_store() as other:
            await other.aclose()
            for domain, ask in _QUESTIONS.items():
                if domain not in store.capabilities:
                    continue
                try:
                    await ask(other)
                except MastraError:
                    continue
                raise AssertionError(f"{domain} of the closed store still answers.")

    async def test_clearing_removes_every_row(self, store: Storage) -> None:
        """After ``dangerously_clear_all`` every declared domain is empty and usable."""
        await store.dangerously_clear_all()

        for domain, ask in _QUESTIONS.items():
            if domain in store.capabilities:
                assert not await ask(store)


async def _threads(store: Storage) -> object:
    return (await store.memory.list_threads()).threads


async def _runs(store: Storage) -> object:
    return (await store.workflows.list_workflow_runs()).runs


async def _inbox(store: Storage) -> object:
    return await store.notifications.list_notifications("nobody")


async def _states(store: Storage) -> object:
    return await store.thread_state.list_states("nobody")


async def _tasks(store: Storage) -> object:
    return (await store.background_tasks.list_tasks()).tasks


async def _schedules(store: Storage) -> object:
    return await store.schedules.list_schedules()


_QUESTIONS = {
    "memory": _threads,
    "workflows": _runs,
    "notifications": _inbox,
    "thread_state": _states,
    "background_tasks": _tasks,
    "schedules": _schedules,
}
