"""What the processors of this package have in common: options, clock, who listens."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar, Generic, TypeVar, cast

from mastra_core.base.clock import Clock
from mastra_core.base.ids import Ids
from mastra_core.base.tasks import call_maybe_async
from mastra_core.errors import ConfigError
from mastra_core.plugins import AdapterContext
from mastra_core.plugins.settings import options_instance
from mastra_processors.options import Options

__all__ = ("BuiltIn", "OnViolation", "Violation")

logger = logging.getLogger(__name__)

OptionsT = TypeVar("OptionsT", bound=Options)
#: ``{processorId, message, detail}``.
Violation = dict[str, Any]
OnViolation = Callable[[Violation], Awaitable[None] | None]


class BuiltIn(Generic[OptionsT]):
    """
    A processor with checked options; holds nothing about runs.

    Args:
        options: The options; or give their members by name.
        context: Clock, ids and logger of the application.
        id: Another id than the usual one, for two of a kind in one list.
        on_violation: Called with ``{processorId, message, detail}`` when the processor found
            something or stopped a run; what it raises is logged.
        members: Members of the options.

    Raises:
        UnknownSettingError: There is no such option.
        ConfigError: A value isn't allowed.
    """

    id: str = ""
    #: The model of the options.
    options_type: ClassVar[type[Options]] = Options

    def __init__(
        self,
        options: OptionsT | None = None,
        context: AdapterContext | None = None,
        *,
        id: str | None = None,
        on_violation: OnViolation | None = None,
        **members: Any,
    ) -> None:
        if id is not None:
            self.id = id
        if options is None:
            where = f"the options of {self.id!r}"
            options = cast(OptionsT, options_instance(self.options_type, members, where=where))
        elif members or not isinstance(options, self.options_type):
            raise ConfigError(
                f"{type(self).__name__} takes its options by name, or as one object of "
                f"{self.options_type.__name__}."
            )
        self.options: OptionsT = options
        context = context or AdapterContext()
        self.clock: Clock = context.clock
        self.ids: Ids = context.ids
        self.on_violation: OnViolation | None = on_violation

    async def report(self, message: str, detail: Any) -> None:
        """Tell ``on_violation`` what was found; the runner does so for aborts."""
        if self.on_violation is None:
            return
        violation = {"processorId": self.id, "message": message, "detail": detail}
        try:
            await call_maybe_async(self.on_violation, violation)
        except Exception:
            logger.exception("on_violation failed", extra={"processor": self.id})
