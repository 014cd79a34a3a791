"""An adapter with one domain, in variants that are wrong on purpose.

``toy:<variant>`` is opened as the variant; all of them use one class each, so that a
test reads which fault the suite is expected to see.
"""

from __future__ import annotations

import asyncio
import threading
from types import TracebackType
from typing import Any, ClassVar, NoReturn, Self

from mastra_core.base.jsonjs import decode, encode
from mastra_core.errors import CapabilityNotSupportedError, StorageError, UnknownSettingError
from mastra_core.plugins import AdapterContext, AdapterUrl
from mastra_core.rules.arguments import check_text

__all__ = ("ToyStorage", "ToyThreadState")


class ToyThreadState:
    """Thread state in a dictionary."""

    def __init__(self, rows: dict[tuple[str, str], str]) -> None:
        self._rows = rows

    async def get_state(self, thread_id: str, state_type: str) -> Any:
        row = self._rows.get((thread_id, state_type))
        return None if row is None else decode(row)

    async def set_state(self, thread_id: str, state_type: str, value: Any) -> None:
        key = check_text(thread_id, "thread_id"), check_text(state_type, "state_type")
        self._rows[key] = encode(value)

    async def compare_and_set(
        self, thread_id: str, state_type: str, *, expected: Any, value: Any
    ) -> bool:
        raise CapabilityNotSupportedError(adapter="toy", capability="thread_state.compare_and_set")

    async def delete_state(self, thread_id: str, state_type: str) -> bool:
        return self._rows.pop((thread_id, state_type), None) is not None

    async def list_states(self, thread_id: str) -> dict[str, Any]:
        return {
            kind: decode(row) for (owner, kind), row in self._rows.items() if owner == thread_id
        }

    async def dangerously_clear_all(self) -> None:
        self._rows.clear()


class ToyStorage:
    """A right adapter: what it has works, what it hasn't it refuses."""

    name = "toy"
    volatile = True
    state_class: ClassVar[type[ToyThreadState]] = ToyThreadState

    def __init__(self, settings: AdapterUrl, context: AdapterContext) -> None:
        self.capabilities = frozenset({"thread_state"})
        self._rows: dict[tuple[str, str], str] = {}
        self._is_open = False
        if settings.options:
            raise UnknownSettingError(name=next(iter(settings.options)), where="toy", known=[])

    def _refuse(self, domain: str) -> NoReturn:
        raise CapabilityNotSupportedError(adapter="toy", capability=domain)

    @property
    def memory(self) -> NoReturn:
        self._refuse("memory")

    @property
    def workflows(self) -> NoReturn:
        self._refuse("workflows")

    @property
    def notifications(self) -> NoReturn:
        self._refuse("notifications")

    @property
    def thread_state(self) -> ToyThreadState:
        if not self._is_open:
            raise StorageError("The toy is closed.")
        return self.state_class(self._rows)

    @property
    def background_tasks(self) -> NoReturn:
        self._refuse("background_tasks")

    @property
    def schedules(self) -> NoReturn:
        self._refuse("schedules")

    async def init(self) -> None:
        """Nothing to create."""

    async def aclose(self) -> None:
        self._is_open = False

    async def dangerously_clear_all(self) -> None:
        self._rows.clear()

    async def __aenter__(self) -> Self:
        self._is_open = True
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()


class _GenerousState(ToyThreadState):
    async def compare_and_set(
        self, thread_id: str, state_type: str, *, expected: Any, value: Any
    ) -> bool:
        await self.set_state(thread_id, state_type, value)
        return True


class GenerousStorage(ToyStorage):
    """Does what it doesn't declare."""

    state_class = _GenerousState


class _ClumsyState(ToyThreadState):
    async def compare_and_set(
        self, thread_id: str, state_type: str, *, expected: Any, value: Any
    ) -> bool:
        raise RuntimeError("not written yet")


class ClumsyStorage(ToyStorage):
    """Fails where it should refuse."""

    state_class = _ClumsyState


class BoastfulStorage(ToyStorage):
    """Claims more once it is open than its descriptor did."""

    def __init__(self, settings: AdapterUrl, context: AdapterContext) -> None:
        super().__init__(settings, context)
        self.capabilities = frozenset({"thread_state", "memory"})


class _RenamingState(ToyThreadState):
    async def delete_state(self, thread_id: str, kind: str = "") -> bool:  # type: ignore[override]  # the fault
        return await super().delete_state(thread_id, kind)


class RenamingStorage(ToyStorage):
    """Calls a parameter something else than the contract."""

    state_class = _RenamingState


class LeakyStorage(ToyStorage):
    """Leaves a task behind for each opening."""

    async def __aenter__(self) -> Self:
        self.task = asyncio.create_task(asyncio.Event().wait(), name="toy-forever")
        return await super().__aenter__()


class ThreadedStorage(ToyStorage):
    """Leaves a thread behind for each opening."""

    async def __aenter__(self) -> Self:
        stop = threading.Event()
        threading.Thread(target=stop.wait, name="toy-thread", daemon=True).start()
        return await super().__aenter__()


class HoardingStorage(ToyStorage):
    """Says itself that it still holds a connection after it was closed."""

    def open_resources(self) -> dict[str, int]:
        return {"connections": 1, "transactions": 0}


class ForgetfulStorage(ToyStorage):
    """Says that it cleared everything and didn't."""

    async def __aenter__(self) -> Self:
        self._rows["nobody", "left"] = "1"
        return await super().__aenter__()

    async def dangerously_clear_all(self) -> None:
        """Nothing happens."""


class RefusingStorage(ToyStorage):
    """Declares what it then refuses, also once it is open."""

    def __init__(self, settings: AdapterUrl, context: AdapterContext) -> None:
        super().__init__(settings, context)
        self.capabilities |= {"thread_state.compare_and_set"}
