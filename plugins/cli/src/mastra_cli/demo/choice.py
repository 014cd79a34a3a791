"""Which model the demo uses, and a plain word on why it isn't the one that was asked for."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from mastra_cli.demo.guided import GuidedModel
from mastra_cli.demo.scripted import ScriptedTriage
from mastra_core.contracts.model import Model
from mastra_core.errors import MastraError, ModelNotFoundError

__all__ = ("LOCAL", "SCRIPTED", "Choice", "choose_model", "demo_model")

LOCAL: Final = "local/smollm2"
SCRIPTED: Final = "scripted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The model that will be used."""

    #: ``scripted`` or ``provider/model``.
    name: str
    #: Why it isn't the one that was asked for; None if it is.
    fallback: str | None = None


def choose_model(asked: str) -> Choice:
    """
    The model to use; weights are pulled if need be, with a progress bar.

    Only the local model falls back to the scripted one: who names a hosted model wants it.

    Raises:
        MastraError: A hosted model can't be used; the message says why.
    """
    if asked in {SCRIPTED, "scripted/triage"}:
        return Choice(name=SCRIPTED)
    if asked in {"local", LOCAL} or asked.startswith("local/"):
        return _local_choice(LOCAL if asked == "local" else asked)
    from mastra_cli.commands.models import require_models

    require_models()
    from mastra_models import model_from_name

    model_from_name(asked)
    return Choice(name=asked)


def _local_choice(name: str) -> Choice:
    """The local model if it is here and runs; the script, and why, otherwise."""
    from mastra_cli.commands.models import pull_with_progress

    try:
        pull_with_progress(name.removeprefix("local/"))
        asyncio.run(_try_engine(name))
    except ModelNotFoundError:
        raise
    except MastraError as exc:
        return Choice(name=SCRIPTED, fallback=exc.message)
    return Choice(name=name)


async def _try_engine(name: str) -> None:
    """Load the weights once: an engine may be missing, or not made for this processor."""
    from mastra_models.router import local_model

    model = local_model(name.removeprefix("local/"))
    try:
        await model.start()
    finally:
        await model.aclose()


def demo_model(name: str, is_settled: asyncio.Event) -> Model:
    """The model of a choice; small ones are led step by step."""
    if name == SCRIPTED:
        return ScriptedTriage(is_settled)
    from mastra_models import model_from_name

    model = model_from_name(name)
    return GuidedModel(model, is_settled) if name.startswith("local/") else model
