"""Which model a request is worth."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal, Self

from pydantic import BaseModel, Field, model_validator

from mastra_core.base.tasks import call_maybe_async
from mastra_core.contracts.model import Model
from mastra_core.processors import ProcessorArgs, StepPatch
from mastra_processors.built_in import BuiltIn
from mastra_processors.classifier import Classify
from mastra_processors.judging import judgement
from mastra_processors.options import Options
from mastra_processors.texts import text_of

__all__ = ("ModelChoice", "ModelDecision", "ModelSelection", "ModelSelectionOptions")

logger = logging.getLogger(__name__)

_OBJECTIVE: Final = "Choose the least capable one that can answer the request correctly."


class ModelChoice(Options):
    """A model, and what it is good for."""

    #: The model, or its name in an application.
    model: Model | str
    #: The kind of request that it should answer.
    criteria: str
    #: What it is called; the name of the model if not given.
    name: str | None = None

    @property
    def label(self) -> str:
        """What the judging model and decisions call it."""
        model: Any = self.model
        return self.name or (
            model if isinstance(model, str) else f"{model.provider}/{model.model_id}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDecision:
    """What was decided about a run."""

    #: None: the agent's own model stays.
    model: Model | str | None = None
    choice: str | None = None
    probability: float | None = None
    abstained: Literal["below-threshold", "no-model-for-choice", "no-text", "error"] | None = None


class _Chosen(BaseModel):
    choice: str
    probability: float | None = Field(default=None, ge=0, le=1)


class ModelSelectionOptions(Options):
    """Options of ``model-selection``: ``choices`` and ``model``, or ``classifier`` and ``select``."""

    #: The models to choose from, two or more.
    choices: tuple[ModelChoice, ...] = ()
    #: Who chooses; a model, or its name in an application.
    model: Model | str | None = None
    #: What the choice is to achieve.
    instructions: str = _OBJECTIVE
    #: How sure the choosing model must be; a choice without a probability doesn't count then.
    min_probability: float | None = Field(default=None, ge=0, le=1)
    #: Gives answers about the request.
    classifier: Classify | None = None
    #: ``(answers) -> model``; None leaves the agent's own.
    select: Callable[[Mapping[str, Any]], Any] | None = None
    #: For all steps of the run, or only for the first.
    scope: Literal["run", "first-step"] = "run"
    #: Called once per run with the decision.
    on_decision: Callable[[ModelDecision], Awaitable[None] | None] | None = None

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        by_choices = bool(self.choices) or self.model is not None
        by_classifier = self.classifier is not None or self.select is not None
        if by_choices == by_classifier:
            raise ValueError("give choices and model, or classifier and select")
        if by_choices and (len(self.choices) < 2 or self.model is None):  # noqa: PLR2004 – a choice
            raise ValueError("choices needs two or more, and the model that chooses")
        if by_classifier and (self.classifier is None or self.select is None):
            raise ValueError("classifier and select need each other")
        return self


class ModelSelection(BuiltIn[ModelSelectionOptions]):
    """
    Decides once per run, by what the user has said last, who answers it; an input processor.

    Whatever goes wrong leaves the agent's own model, with a warning. A run that goes on after a
    suspension is decided anew.
    """

    id = "model-selection"
    options_type: ClassVar[type[Options]] = ModelSelectionOptions

    async def process_input_step(self, args: ProcessorArgs) -> StepPatch | None:
        """Hook 2."""
        if self.options.scope == "first-step" and args.step_number > 0:
            return None
        if "decision" not in args.state:
            args.state["decision"] = await self._decide(args)
            await self._tell(args, args.state["decision"])
        decision: ModelDecision = args.state["decision"]
        return None if decision.model is None else StepPatch(model=decision.model)

    async def _decide(self, args: ProcessorArgs) -> ModelDecision:
        users = [m for m in args.message_list.messages if m.role == "user"]
        text = text_of(users[-1]) if users else ""
        if not text.strip():
            return ModelDecision(abstained="no-text")
        try:
            if self.options.classifier is not None:
                assert self.options.select is not None
                answers = await call_maybe_async(self.options.classifier, text)
                return ModelDecision(model=await call_maybe_async(self.options.select, answers))
            return await self._choose(args, text)
        except Exception:
            logger.warning("no model was selected", exc_info=True, extra={"run_id": args.run_id})
            return ModelDecision(abstained="error")

    async def _choose(self, args: ProcessorArgs, text: str) -> ModelDecision:
        options = self.options
        listed = "\n".join(f"- {choice.label}: {choice.criteria}" for choice in options.choices)
        model: Any = options.model
        said = await judgement(
            args.agent.host.resolve_model(model) if isinstance(model, str) else model,
            instructions=(
                f"Choose who answers a request. {options.instructions} Say how probable it is "
                f"that the choice is right.\n{listed}"
            ),
            text=text,
            answer=_Chosen,
            abort=args.abort_signal,
        )
        chosen = next((c for c in options.choices if c.label == said.choice), None)
        if chosen is None:
            return ModelDecision(choice=said.choice, abstained="no-model-for-choice")
        least = options.min_probability
        if least is not None and (said.probability is None or said.probability < least):
            return ModelDecision(
                choice=said.choice, probability=said.probability, abstained="below-threshold"
            )
        return ModelDecision(model=chosen.model, choice=said.choice, probability=said.probability)

    async def _tell(self, args: ProcessorArgs, decision: ModelDecision) -> None:
        if self.options.on_decision is None:
            return
        try:
            await call_maybe_async(self.options.on_decision, decision)
        except Exception:
            logger.exception("on_decision failed", extra={"run_id": args.run_id})
