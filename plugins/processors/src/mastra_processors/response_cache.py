"""Answers that were given before, given again without asking the model."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Final

from pydantic import Field

from mastra_core.base.jsonjs import encode
from mastra_core.base.tasks import call_maybe_async
from mastra_core.bus.cache import ServerCache
from mastra_core.inmemory.cache import InMemoryCache
from mastra_core.processors import ProcessorArgs
from mastra_processors.built_in import BuiltIn
from mastra_processors.options import Options

__all__ = ("CacheKeyFacts", "KeyMaker", "ResponseCache", "ResponseCacheOptions", "cache_key")

logger = logging.getLogger(__name__)

#: Chunks that belong to a request, not to the answer.
_NOT_KEPT: Final = frozenset({"raw"})


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheKeyFacts:
    """What makes two requests the same one."""

    agent_id: str
    scope: str | None
    #: ``{provider, modelId, specVersion}``.
    model: Mapping[str, Any]
    prompt: Sequence[Mapping[str, Any]]
    step_number: int


KeyMaker = Callable[[CacheKeyFacts], "str | Awaitable[str]"]


class ResponseCacheOptions(Options):
    """Options of ``mastra/response-cache``."""

    #: Where answers are kept; memory of this process if not given.
    cache: ServerCache | None = None
    #: Seconds for which an answer is kept.
    ttl: int = Field(default=300, gt=0)
    #: Who shares answers: a name, None for everybody; the resource of the run if not given.
    scope: str | None = None
    #: A key, or a function that makes one of `CacheKeyFacts`.
    key: str | KeyMaker | None = None
    #: Ask the model in any case, and keep the new answer.
    bust: bool = False
    #: The agent that an answer belongs to; the one that runs if not given.
    agent_id: str | None = None


class ResponseCache(BuiltIn[ResponseCacheOptions]):
    """
    Keeps each answer under what was asked; an input processor, best the last one.

    A call says otherwise through its request context:
    ``agent.stream(..., request_context=ResponseCache.context(bust=True))``.
    """

    id = "mastra/response-cache"
    options_type: ClassVar[type[Options]] = ResponseCacheOptions
    #: Where the request context holds what one call says.
    CONTEXT_KEY: ClassVar[str] = "mastra__response_cache_context"

    @classmethod
    def context(
        cls, request_context: Mapping[str, Any] | None = None, **members: Any
    ) -> dict[str, Any]:
        """
        A request context that says ``key``, ``scope`` or ``bust`` for one call.

        Args:
            request_context: What else it holds.
            members: ``key``, ``scope``, ``bust``.
        """
        return {**(request_context or {}), cls.CONTEXT_KEY: members}

    @cached_property
    def cache(self) -> ServerCache:
        """Where answers are kept."""
        # An empty cache may well be falsy.
        cache = self.options.cache
        return InMemoryCache(clock=self.clock) if cache is None else cache

    async def process_llm_request(self, args: ProcessorArgs) -> dict[str, Any] | None:
        """Hook 4: a kept answer, if there is one."""
        said = self._said(args)
        key = args.state["key"] = await self._key(args, said)
        if said.get("bust", self.options.bust):
            return None
        try:
            kept = await self.cache.get(key)
        except Exception:
            logger.warning("cache can't be read", exc_info=True, extra={"run_id": args.run_id})
            return None
        if not isinstance(kept, Mapping) or not kept.get("chunks"):
            return None
        return {"response": {"chunks": kept["chunks"], "warnings": kept.get("warnings") or []}}

    async def process_llm_response(self, args: ProcessorArgs) -> None:
        """Hook 5: keep the answer of the model."""
        key = args.state.pop("key", None)
        if args.from_cache or key is None:
            return
        answer = {
            "chunks": [dict(chunk) for chunk in args.chunks if chunk["type"] not in _NOT_KEPT],
            "warnings": list(args.warnings),
        }
        if not any(chunk["type"] == "finish" for chunk in answer["chunks"]):
            answer["chunks"].append(_finish(args))
        try:
            await self.cache.set(key, answer, ttl_ms=self.options.ttl * 1000)
        except Exception:
            logger.warning("cache can't be written", exc_info=True, extra={"run_id": args.run_id})

    def _said(self, args: ProcessorArgs) -> Mapping[str, Any]:
        said = args.request_context.get(self.CONTEXT_KEY)
        return said if isinstance(said, Mapping) else {}

    async def _key(self, args: ProcessorArgs, said: Mapping[str, Any]) -> str:
        options = self.options
        if "scope" in said:
            scope = said["scope"]
        elif "scope" in options.model_fields_set:
            scope = options.scope
        else:
            scope = args.resource_id
        facts = CacheKeyFacts(
            agent_id=options.agent_id or args.agent_id,
            scope=scope,
            model={
                "provider": getattr(args.model, "provider", None),
                "modelId": getattr(args.model, "model_id", None),
                "specVersion": getattr(args.model, "specification", None),
            },
            prompt=args.prompt,
            # A step that was repeated is the same step.
            step_number=sum(step.get("finishReason") != "retry" for step in args.steps),
        )
        wanted = said.get("key", options.key)
        if isinstance(wanted, str):
            return wanted
        if callable(wanted):
            try:
                return str(await call_maybe_async(wanted, facts))
            except Exception:
                logger.warning("key of an answer can't be made", exc_info=True)
        return cache_key(facts)


def cache_key(facts: CacheKeyFacts) -> str:
    """The key under which an answer is kept unless somebody says otherwise."""
    told = {
        "agentId": facts.agent_id,
        "scope": facts.scope,
        "model": facts.model,
        "prompt": [_timeless(turn) for turn in facts.prompt],
        "stepNumber": facts.step_number,
    }
    digest = hashlib.sha256(encode(told).encode()).hexdigest()
    return f"mastra:response-cache:{facts.agent_id}:{digest}"


def _timeless(value: Any) -> Any:
    """The same without our notes for peers: when a part was said doesn't change the answer."""
    if isinstance(value, Mapping):
        return {k: _timeless(v) for k, v in value.items() if k != "providerOptions"} | _options(
            value
        )
    if isinstance(value, list | tuple):
        return [_timeless(item) for item in value]
    return value


def _options(value: Mapping[str, Any]) -> dict[str, Any]:
    options = value.get("providerOptions")
    if not isinstance(options, Mapping):
        return {} if options is None else {"providerOptions": options}
    kept = {name: given for name, given in options.items() if name != "mastra"}
    return {"providerOptions": kept} if kept else {}


def _finish(args: ProcessorArgs) -> dict[str, Any]:
    """How the answer ended, which a run keeps to itself unless somebody looks at its stream."""
    calls = any(chunk["type"] == "tool-call" for chunk in args.chunks)
    return {
        "type": "finish",
        "payload": {
            "stepResult": {"reason": "tool-calls" if calls else "stop"},
            "output": {"usage": dict(args.usage)},
        },
    }
