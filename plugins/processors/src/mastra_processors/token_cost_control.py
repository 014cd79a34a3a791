"""No more money than a limit: per run, thread, user or organisation."""

from __future__ import annotations

import logging
import math
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Final, Literal

from pydantic import Field

from mastra_core.base.tasks import call_maybe_async
from mastra_core.processors import ProcessorArgs
from mastra_processors.built_in import BuiltIn
from mastra_processors.cost_ledger import CostEntry, CostLedger, InMemoryCostLedger
from mastra_processors.options import Options

__all__ = ("CostScope", "ModelPrice", "TokenCostControl", "TokenCostControlOptions")

logger = logging.getLogger(__name__)

CostScope = Literal["run", "resource", "thread", "user", "organization", "session"]

_MILLION: Final = 1_000_000
_UNITS: Final = {"h": 3_600_000, "d": 86_400_000}
_SHOWN_GROUPS: Final = 10


class ModelPrice(Options):
    """What a million tokens of a model cost, in any currency."""

    #: A million tokens of the prompt.
    input: float = Field(ge=0)
    #: A million tokens of the answer.
    output: float = Field(ge=0)
    #: Input that the provider had cached; as ``input`` if not given.
    cached_input: float | None = Field(default=None, ge=0)


class TokenCostControlOptions(Options):
    """Options of ``token-cost-control``."""

    #: The limit, or a function of the request context that gives it.
    max_cost: float | Callable[[Mapping[str, Any]], float | Awaitable[float]]
    #: ``provider/model`` or ``model`` → what it costs. A model without a price costs nothing.
    prices: Mapping[str, ModelPrice]
    #: Whose costs count together. ``user``, ``organization`` and ``session`` are named by
    #: ``userId``, ``organizationId`` and ``sessionId`` in the request context.
    scope: CostScope = "resource"
    #: How far back; of no meaning for a run.
    window: Literal["1h", "6h", "24h", "7d", "30d", "365d"] = "7d"
    #: Stop the run at the limit, or only warn.
    strategy: Literal["block", "warn"] = "block"
    #: Percent of the limit at which a warning comes.
    warn_at_percent: float | None = Field(default=None, gt=0, lt=100)
    #: Say with a violation which model has cost what.
    include_breakdown: bool = False
    #: What the run ends with; ``{usage}`` and ``{limit}`` are filled in.
    message: str = "The cost limit is reached: {usage} of {limit}."
    #: Where costs are noted; memory of this process if not given.
    ledger: CostLedger | None = None


class TokenCostControl(BuiltIn[TokenCostControlOptions]):
    """
    Notes what each answer costs and looks at the sum before each request.

    The answer that passes the limit is still given; the next request isn't sent. Whoever can't
    be named (a run without a resource, a context without ``userId``) isn't limited.
    """

    id = "token-cost-control"
    options_type: ClassVar[type[Options]] = TokenCostControlOptions

    @cached_property
    def ledger(self) -> CostLedger:
        """Where costs are noted."""
        given = self.options.ledger
        return InMemoryCostLedger() if given is None else given

    # -- noting ---------------------------------------------------------------------------

    async def process_llm_response(self, args: ProcessorArgs) -> None:
        """Hook 5: note what the answer has cost."""
        if args.from_cache:
            return
        provider = str(getattr(args.model, "provider", ""))
        model = str(getattr(args.model, "model_id", ""))
        price = self.options.prices.get(f"{provider}/{model}") or self.options.prices.get(model)
        if price is None:
            logger.debug("model has no price", extra={"model": f"{provider}/{model}"})
            return
        entry = CostEntry(
            at_ms=self.clock.now_ms(),
            provider=provider,
            model=model,
            cost=_cost(args.usage, price),
            tokens=_tokens(args.usage, "inputTokens") + _tokens(args.usage, "outputTokens"),
        )
        if self.options.scope == "run":
            args.state.setdefault("entries", []).append(entry)
        elif (key := self._key(args)) is not None:
            try:
                await self.ledger.add(key, entry)
            except Exception:
                logger.warning("cost can't be noted", exc_info=True, extra={"run_id": args.run_id})

    # -- checking -------------------------------------------------------------------------

    async def process_input_step(self, args: ProcessorArgs) -> None:
        """Hook 2: stop, or warn, once the limit is reached."""
        limit = await self._limit(args)
        entries = await self._entries(args)
        if limit is None or entries is None:
            return
        used = sum(entry.cost for entry in entries)
        if used >= limit:
            detail = self._detail(args, entries, used=used, limit=limit, threshold="hard")
            words = self.options.message.format(usage=_number(used), limit=_number(limit))
            if self.options.strategy == "block":
                args.abort(words, metadata=detail)
            await self._warn(args, words, detail)
        elif self.options.warn_at_percent and used >= limit * self.options.warn_at_percent / 100:
            detail = self._detail(args, entries, used=used, limit=limit, threshold="soft")
            words = f"{_number(used)} of {_number(limit)} are spent."
            await self._warn(args, words, detail)

    async def _limit(self, args: ProcessorArgs) -> float | None:
        given = self.options.max_cost
        limit = await call_maybe_async(given, args.request_context) if callable(given) else given
        if isinstance(limit, int | float) and math.isfinite(limit) and limit > 0:
            return float(limit)
        logger.warning("cost limit is no number above 0", extra={"run_id": args.run_id})
        return None

    async def _entries(self, args: ProcessorArgs) -> Sequence[CostEntry] | None:
        if self.options.scope == "run":
            entries: Sequence[CostEntry] = args.state.get("entries", ())
            return entries
        key = self._key(args)
        if key is None:
            return None
        window = self.options.window
        since = self.clock.now_ms() - int(window[:-1]) * _UNITS[window[-1]]
        try:
            return await self.ledger.entries(key, since_ms=since)
        except Exception:
            logger.warning("costs can't be read", exc_info=True, extra={"run_id": args.run_id})
            return None

    def _key(self, args: ProcessorArgs) -> str | None:
        """Whose costs they are; None if nobody is named."""
        match self.options.scope:
            case "resource":
                name = args.resource_id
            case "thread":
                name = args.thread_id
            case "run":
                name = args.run_id
            case scope:
                name = args.request_context.get(f"{scope}Id")
        return None if name is None else f"{self.options.scope}:{name}"

    def _detail(
        self,
        args: ProcessorArgs,
        entries: Sequence[CostEntry],
        *,
        used: float,
        limit: float,
        threshold: str,
    ) -> dict[str, Any]:
        detail: dict[str, Any] = {
            "processorId": self.id,
            "usage": used,
            "limit": limit,
            "scope": self.options.scope,
            "threshold": threshold,
        }
        key = self._key(args)
        if self.options.scope != "run" and key is not None:
            detail["scopeKey"] = key.partition(":")[2]
        if self.options.include_breakdown:
            detail["breakdown"] = _breakdown(entries)
        return detail

    async def _warn(self, args: ProcessorArgs, words: str, detail: Mapping[str, Any]) -> None:
        """Once per run and threshold."""
        if detail["threshold"] in args.state.setdefault("warned", []):
            return
        args.state["warned"].append(detail["threshold"])
        logger.warning(
            "cost limit is near or reached",
            extra={"run_id": args.run_id, "threshold": detail["threshold"]},
        )
        await self.report(words, detail)


def _tokens(usage: Mapping[str, Any], name: str) -> int:
    count = usage.get(name)
    return count if isinstance(count, int) else 0


def _cost(usage: Mapping[str, Any], price: ModelPrice) -> float:
    cached = _tokens(usage, "cachedInputTokens")
    fresh = max(0, _tokens(usage, "inputTokens") - cached)
    cached_price = price.input if price.cached_input is None else price.cached_input
    output = _tokens(usage, "outputTokens") * price.output
    return (fresh * price.input + cached * cached_price + output) / _MILLION


def _breakdown(entries: Sequence[CostEntry]) -> list[dict[str, Any]]:
    sums: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
    for entry in entries:
        sums[entry.provider, entry.model][0] += entry.cost
        sums[entry.provider, entry.model][1] += entry.tokens
    groups = sorted(sums.items(), key=lambda item: -item[1][0])[:_SHOWN_GROUPS]
    return [
        {"provider": provider, "model": model, "estimatedCost": cost, "tokens": int(tokens)}
        for (provider, model), (cost, tokens) in groups
    ]


def _number(value: float) -> str:
    """No more than six decimals, and none that say nothing."""
    return f"{value:.6f}".rstrip("0").rstrip(".")
