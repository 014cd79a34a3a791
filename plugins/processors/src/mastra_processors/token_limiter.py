"""No more tokens than a limit: in the prompt, in what is remembered, in the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar, Final, Literal

from pydantic import Field

from mastra_core.base.jsonjs import encode
from mastra_core.base.tasks import call_maybe_async
from mastra_core.messages.message_list import ListedMessage, MessageList
from mastra_core.processors import ProcessorArgs
from mastra_processors.built_in import BuiltIn
from mastra_processors.options import Options
from mastra_processors.texts import change_texts, texts_of
from mastra_processors.tokens import (
    PER_TURN,
    TokenCounter,
    cut_to_tokens,
    estimate_tokens,
    tokens_of_turn,
)

__all__ = ("TokenLimiter", "TokenLimiterOptions")

_Turn = Mapping[str, Any]

#: Part of the limit that trimming memory frees if nothing else is said.
_FREED: Final = 0.25
#: What stands before a prompt that would begin with the model's own words.
_PLACEHOLDER_TURN: Final = {"role": "user", "content": [{"type": "text", "text": "."}]}


class TokenLimiterOptions(Options):
    """Options of ``token-limiter``."""

    #: Most tokens of a prompt, or of an answer.
    limit: int = Field(gt=0)
    #: What happens to an answer that is longer: cut it, or stop the run.
    strategy: Literal["truncate", "abort"] = "truncate"
    #: Count the whole answer, or each piece of it by itself.
    count_mode: Literal["cumulative", "part"] = "cumulative"
    #: ``best-fit`` keeps every turn that still fits, newest first; ``contiguous`` stops at the
    #: first that doesn't; ``memory-only`` takes remembered messages out of the run, oldest first.
    trim_mode: Literal["best-fit", "contiguous", "memory-only"] = "best-fit"
    #: How far below the limit ``memory-only`` goes; a quarter of it if not given.
    at_max_remove_tokens: int | None = Field(default=None, ge=0)
    #: Counts the tokens of a text; an estimate if not given.
    token_counter: TokenCounter | None = None
    #: Called with the messages that ``memory-only`` took out, and the request context.
    on_memory_trim: Callable[..., Awaitable[None] | None] | None = None


class TokenLimiter(BuiltIn[TokenLimiterOptions]):
    """
    As an input processor it trims the prompt of each request, as an output processor the answer.

    System messages always stay; a call and its result stay or go together. Nothing that is
    stored changes, except by ``trim_mode="memory-only"``, which only affects the run.
    """

    id = "token-limiter"
    options_type: ClassVar[type[Options]] = TokenLimiterOptions

    def _count(self, text: str) -> int:
        return (self.options.token_counter or estimate_tokens)(text)

    # -- what goes in ---------------------------------------------------------------------

    async def process_input(self, args: ProcessorArgs) -> None:
        """Hook 1: trim memory before other processors look at it."""
        await self._trim_memory(args)

    async def process_input_step(self, args: ProcessorArgs) -> None:
        """Hook 2: trim memory again if the run has grown meanwhile."""
        await self._trim_memory(args)

    async def process_llm_request(self, args: ProcessorArgs) -> dict[str, Any] | None:
        """Hook 4: leave turns out of this request."""
        if self.options.trim_mode == "memory-only":
            return None
        # Counting a long conversation takes time that others need.
        return await asyncio.to_thread(self._trimmed, args)

    def _trimmed(self, args: ProcessorArgs) -> dict[str, Any] | None:
        prompt = list(args.prompt)
        systems = [turn for turn in prompt if turn["role"] == "system"]
        turns = [turn for turn in prompt if turn["role"] != "system"]
        budget = self._budget(args, systems)
        groups = _groups(turns)
        kept = self._kept(groups, budget)
        if len(kept) == len(groups):
            return None
        if not kept:
            args.abort(
                "No message fits into the token limit.",
                metadata={
                    "systemTokens": self.options.limit - budget,
                    "limit": self.options.limit,
                    "remainingBudget": budget,
                    "messageCount": len(turns),
                },
            )
        rest = [turn for group in kept for turn in group]
        if rest[0]["role"] != "user" and turns[0]["role"] == "user":
            rest.insert(0, dict(_PLACEHOLDER_TURN))
        return {"prompt": [*systems, *rest]}

    def _budget(self, args: ProcessorArgs, systems: Sequence[_Turn]) -> int:
        """What is left for the conversation."""
        needed = sum(tokens_of_turn(turn, self._count) for turn in systems)
        if needed >= self.options.limit:
            args.abort(
                f"The system messages alone have {needed} tokens; the limit is "
                f"{self.options.limit}.",
                metadata={"systemTokens": needed, "limit": self.options.limit},
            )
        return self.options.limit - needed

    def _kept(self, groups: Sequence[list[_Turn]], budget: int) -> list[list[_Turn]]:
        kept: list[list[_Turn]] = []
        for group in reversed(groups):
            cost = sum(tokens_of_turn(turn, self._count) for turn in group)
            if cost <= budget:
                kept.append(group)
                budget -= cost
            elif self.options.trim_mode == "contiguous":
                break
        return kept[::-1]

    async def _trim_memory(self, args: ProcessorArgs) -> None:
        options, messages = self.options, args.message_list
        if options.trim_mode != "memory-only":
            return
        tokens, total = await asyncio.to_thread(self._tokens_of, messages)
        if total <= options.limit:
            return
        freed = options.at_max_remove_tokens
        goal = options.limit - (int(options.limit * _FREED) if freed is None else freed)
        gone: list[str] = []
        for message in messages.of_source("memory"):
            if total <= goal:
                break
            total -= tokens[message.id]
            gone.append(message.id)
        removed = messages.remove_by_ids(gone)
        if removed and options.on_memory_trim is not None:
            await call_maybe_async(options.on_memory_trim, removed, args.request_context)

    def _tokens_of(self, messages: MessageList) -> tuple[dict[str, int], int]:
        """The tokens of each message, and of all with the system messages."""
        tokens = {message.id: self._of_message(message) for message in messages.messages}
        systems = [*messages.system_messages]
        for tagged in messages.tagged_system_messages.values():
            systems += tagged
        return tokens, sum(
            [*tokens.values(), *(tokens_of_turn(turn, self._count) for turn in systems)]
        )

    def _of_message(self, message: ListedMessage) -> int:
        count = PER_TURN
        for part in message.parts:
            match part.get("type"):
                case "text":
                    count += self._count(str(part.get("text", "")))
                case "reasoning":
                    count += self._count(str(part.get("reasoning", "")))
                case "tool-invocation":
                    call = part["toolInvocation"]
                    count += self._count(str(call.get("toolName", "")))
                    count += self._count(encode(call.get("args")))
                    count += self._count(encode(call.get("result")))
                case _:
                    pass
        return count

    # -- what comes out -------------------------------------------------------------------

    def process_output_stream(self, args: ProcessorArgs) -> dict[str, Any] | None:
        """Hook 6: let text and objects pass as long as they fit."""
        part = args.part
        if part is None or part["type"] not in ("text-delta", "object"):
            return part
        state = args.state
        if part["type"] == "object":
            # Each one holds all of the former.
            used = state.get("streamed", 0) + self._count(encode(part.get("object")))
        else:
            used = state.get("streamed", 0) + self._count(part["payload"]["text"])
            if self.options.count_mode == "cumulative":
                state["streamed"] = used
        if used <= self.options.limit:
            return part
        self._abort_if_wanted(args, used)
        return None

    def process_output_result(self, args: ProcessorArgs) -> None:
        """Hook 9: cut the answer that wasn't streamed past hook 6."""
        left = self.options.limit

        def cut(text: str) -> str:
            nonlocal left
            used = self._count(text)
            if used > left:
                self._abort_if_wanted(args, self.options.limit - left + used)
                text = cut_to_tokens(text, left, self._count)
                used = left
            if self.options.count_mode == "cumulative":
                left -= used
            return text

        for message in args.messages:
            if message.role == "assistant":
                changed = {index: cut(text) for index, text in list(texts_of(message))}
                change_texts(message, changed)

    def _abort_if_wanted(self, args: ProcessorArgs, used: int) -> None:
        if self.options.strategy == "abort":
            args.abort(
                f"The answer is longer than {self.options.limit} tokens.",
                metadata={"limit": self.options.limit, "tokens": used},
            )


def _groups(turns: Sequence[_Turn]) -> list[list[_Turn]]:
    """Turns that stay or go together: a call and the results that follow it."""
    groups: list[list[_Turn]] = []
    for turn in turns:
        if turn["role"] == "tool" and groups:
            groups[-1].append(turn)
        else:
            groups.append([turn])
    return groups
