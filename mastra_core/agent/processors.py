"""Which processors an agent runs with: its own, those it names, those plugins add."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Final

from mastra_core.contracts.processor import HOOKS, Processor
from mastra_core.errors import ConfigError, shown
from mastra_core.plugins import AdapterContext, PluginManager, Registry
from mastra_core.plugins.hookspecs import RunInfo
from mastra_core.plugins.making import create_processor
from mastra_core.plugins.specs import ERROR_SLOTS, INPUT_SLOTS, OUTPUT_SLOTS
from mastra_core.processors.placement import place
from mastra_core.processors.runner import ProcessorRunner, ProcessorWatch

__all__ = (
    "PluginProcessors",
    "ProcessorChoice",
    "ProcessorChoices",
    "check_choices",
    "given_processors",
)

#: A processor, the name of one that a plugin offers, or its name and options.
ProcessorChoice = Processor | str | tuple[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorChoices:
    """The three lists of an agent, or of one call of it."""

    input: Sequence[ProcessorChoice] = ()
    output: Sequence[ProcessorChoice] = ()
    error: Sequence[ProcessorChoice] = ()

    def given(self, *, timeout_ms: int | None) -> ProcessorRunner:
        """
        What runs for a standalone agent.

        Raises:
            ConfigError: One is named, which needs an application with plugins.
        """
        return ProcessorRunner(
            input_processors=given_processors(self.input),
            output_processors=given_processors(self.output),
            error_processors=given_processors(self.error),
            timeout_ms=timeout_ms,
        )


def check_choices(choices: Sequence[ProcessorChoice]) -> None:
    """
    Refuse what can't be a processor.

    Raises:
        ConfigError: It has no id, or none of the hooks.
    """
    if not isinstance(choices, Sequence) or isinstance(choices, str):
        raise ConfigError(f"Processors are given as a list, not as {shown(choices)}.")
    for choice in choices:
        match choice:
            case str() | (str(), Mapping()):
                continue
            case tuple():
                raise ConfigError(
                    f"A processor is named as (name, options), not as {shown(choice)}."
                )
            case _:
                pass
        _check_processor(choice)


def _check_processor(given: Any) -> None:
    if not isinstance(getattr(given, "id", None), str):
        raise ConfigError(f"{type(given).__name__} is no processor: it has no id.")
    if not any(callable(getattr(given, hook, None)) for hook in HOOKS):
        raise ConfigError(f"Processor {given.id!r} has none of the hooks: {', '.join(HOOKS)}.")


def given_processors(choices: Sequence[ProcessorChoice]) -> list[Processor]:
    """
    The processors among the choices of a standalone agent.

    Raises:
        ConfigError: One is named, which needs an application with plugins.
    """
    given: list[Processor] = []
    for choice in choices:
        if isinstance(choice, str | tuple):
            raise ConfigError(
                f"Processor {choice!r} can't be looked up: the agent isn't part of a Mastra "
                "application."
            )
        given.append(choice)
    return given


_SLOTS: Final = {"input": INPUT_SLOTS, "output": OUTPUT_SLOTS, "error": ERROR_SLOTS}


class _PluginWatch:
    """The observing hooks of plugins, for one run."""

    def __init__(self, manager: PluginManager, run: RunInfo) -> None:
        self._manager = manager
        self._run = run

    def failed(self, processor: Processor, phase: str, error: BaseException) -> None:
        """A hook raised."""
        self._manager.observe(
            "mastra_processor_error", processor=processor, phase=phase, error=error, run=self._run
        )

    def violated(self, processor: Processor, violation: Mapping[str, Any]) -> None:
        """A hook aborted or warned."""
        self._manager.observe(
            "mastra_processor_violation", processor=processor, violation=violation, run=self._run
        )

    def around(self, processor: Processor, phase: str) -> AbstractAsyncContextManager[Any]:
        """Stands around one call of a hook."""
        return self._manager.processor_call(processor, phase, self._run)


class PluginProcessors:
    """Processors of the agents of one application, named ones made once per agent."""

    def __init__(self, registry: Registry, context: AdapterContext) -> None:
        self._registry = registry
        self._context = context
        self._named: dict[tuple[str, str], Processor] = {}

    def runner_for(
        self,
        agent: Any,
        request_context: Mapping[str, Any],
        choices: ProcessorChoices,
    ) -> ProcessorRunner:
        """
        What runs for this agent and context.

        Raises:
            ConfigError: A name that nobody offers, or options that don't fit.
            PluginError: The plugin that has it can't be used.
        """
        return ProcessorRunner(
            input_processors=self._list("input", agent, request_context, choices.input),
            output_processors=self._list("output", agent, request_context, choices.output),
            error_processors=self._list("error", agent, request_context, choices.error),
            timeout_ms=agent.processor_timeout_ms,
        )

    def watch(self, run: RunInfo) -> ProcessorWatch:
        """Tells plugins what the processors of a run do."""
        return _PluginWatch(self._registry.manager, run)

    def _list(
        self,
        phase: Any,
        agent: Any,
        request_context: Mapping[str, Any],
        choices: Sequence[ProcessorChoice],
    ) -> list[Processor]:
        configured = [self._make(agent.id, choice) for choice in choices]
        placed = self._registry.placed(
            phase, agent=agent, request_context=request_context, configured=configured
        )
        processors = place(configured, placed, slots=_SLOTS[phase])
        last_word: list[Processor] | None = self._registry.manager.decide(
            "mastra_finalize_processors",
            phase=phase,
            processors=processors,
            agent=agent,
            request_context=request_context,
        )
        return processors if last_word is None else last_word

    def _make(self, agent_id: str, choice: ProcessorChoice) -> Processor:
        if not isinstance(choice, str | tuple):
            return choice
        name, options = (choice, {}) if isinstance(choice, str) else choice
        key = (agent_id, repr(choice))
        if key not in self._named:
            made = create_processor(self._registry, name, options, self._context)
            try:
                _check_processor(made)
            except ConfigError as exc:
                raise ConfigError(f"What plugins offer as {name!r} can't be used: {exc}") from exc
            self._named[key] = made
        return self._named[key]
