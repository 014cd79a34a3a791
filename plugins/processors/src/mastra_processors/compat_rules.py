"""What providers refuse in histories that others have written, and how to mend it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from mastra_core.messages.message_list import ListedMessage, MessageList
from mastra_processors.options import Options

__all__ = ("DEFAULT_RULES", "CompatRule", "PromptChange")

_Prompt = Sequence[Mapping[str, Any]]
#: ``(prompt, model, message_list) -> prompt``, or None to leave it as it is.
PromptChange = Callable[[_Prompt, Any, MessageList], _Prompt | None]

_BAD_CALL_ID: Final = re.compile(r"[^a-zA-Z0-9_-]")
_RESPONSES: Final = ("openai", "azure")
_ITEM_IDS: Final = ("itemId", "resultItemId")


class CompatRule(Options):
    """
    One incompatibility.

    ``apply_to_prompt`` changes a request before it is sent, and nothing else. ``fix`` mends the
    messages of the run after a refusal whose words match ``error_patterns``, and returns whether
    there was something to mend.
    """

    #: What logs call it.
    name: str
    #: Found in the words of an error and its causes, all in lower case.
    error_patterns: tuple[re.Pattern[str], ...] = ()
    #: Mends the messages of the run; returns whether it has changed any.
    fix: Callable[[MessageList], bool] | None = None
    #: Gives the prompt for one request, or None to leave it.
    apply_to_prompt: PromptChange | None = None


# -- on the way out ----------------------------------------------------------------------------


def _is(model: Any, *names: str) -> bool:
    told = f"{getattr(model, 'provider', '')}/{getattr(model, 'model_id', '')}".lower()
    return any(name in told for name in names)


def _without(prompt: _Prompt, drops: Callable[[Mapping[str, Any]], bool]) -> _Prompt | None:
    """The prompt without some parts of the assistant; turns that are left empty go, too."""
    changed: list[Mapping[str, Any]] = []
    has_changed = False
    for turn in prompt:
        if turn["role"] != "assistant":
            changed.append(turn)
            continue
        kept = [part for part in turn["content"] if not drops(part)]
        has_changed = has_changed or len(kept) != len(turn["content"])
        if kept:
            changed.append({**turn, "content": kept})
    return changed if has_changed else None


def _options(part: Mapping[str, Any], provider: str) -> Mapping[str, Any]:
    options = (part.get("providerOptions") or {}).get(provider)
    return options if isinstance(options, Mapping) else {}


def _no_reasoning_for_cerebras(prompt: _Prompt, model: Any, _: MessageList) -> _Prompt | None:
    if not _is(model, "cerebras"):
        return None
    return _without(prompt, lambda part: part.get("type") == "reasoning")


def _no_empty_signed_reasoning(prompt: _Prompt, model: Any, _: MessageList) -> _Prompt | None:
    if not _is(model, "anthropic", "claude"):
        return None

    def is_hollow(part: Mapping[str, Any]) -> bool:
        options = _options(part, "anthropic")
        signed = "signature" in options and "redactedData" not in options
        return part.get("type") == "reasoning" and signed and not str(part.get("text", "")).strip()

    return _without(prompt, is_hollow)


def _no_foreign_reasoning(prompt: _Prompt, model: Any, _: MessageList) -> _Prompt | None:
    if not _is(model, "anthropic", "claude"):
        return None
    return _without(
        prompt,
        lambda part: part.get("type") == "reasoning" and not _options(part, "anthropic"),
    )


def _no_foreign_signatures(prompt: _Prompt, model: Any, messages: MessageList) -> _Prompt | None:
    """Several providers write ``anthropic`` signatures; only the one that signed accepts them."""
    provider = str(getattr(model, "provider", ""))
    foreign = _signatures_of_others(messages, provider)
    if not foreign:
        return None
    return _without(
        prompt,
        lambda part: (
            part.get("type") == "reasoning"
            and _options(part, "anthropic").get("signature") in foreign
        ),
    )


def _signatures_of_others(messages: MessageList, provider: str) -> set[str]:
    found: set[str] = set()
    for message in messages.messages:
        # The first step is noted at the message, later ones where they begin.
        author = (message.content.get("metadata") or {}).get("provider")
        for part in message.parts:
            if part.get("type") == "step-start":
                author = _author(part)
            signature = ((part.get("providerMetadata") or {}).get("anthropic") or {}).get(
                "signature"
            )
            if signature and author is not None and not _same(str(author), provider):
                found.add(signature)
    return found


def _author(step_start: Mapping[str, Any]) -> str | None:
    """Who was asked in this step: ``provider/model``; None if nobody has noted it."""
    name, slash, _ = str(step_start.get("model") or "").partition("/")
    return name if slash else None


def _same(author: str, provider: str) -> bool:
    """``anthropic.messages`` is ``anthropic``."""
    return author.partition(".")[0] == provider.partition(".")[0]


def _other_reminders_for_azure(prompt: _Prompt, model: Any, _: MessageList) -> _Prompt | None:
    """Azure's filter takes ``<system-reminder>`` in a user turn for an injection."""
    if not _is(model, "azure"):
        return None
    changed = [_renamed(turn) if turn["role"] == "user" else turn for turn in prompt]
    return changed if any(a is not b for a, b in zip(changed, prompt, strict=True)) else None


def _renamed(turn: Mapping[str, Any]) -> Mapping[str, Any]:
    if not any("system-reminder" in str(part.get("text", "")) for part in turn["content"]):
        return turn
    content = [
        {**part, "text": re.sub(r"(</?)system-reminder\b", r"\1context-note", part["text"])}
        if part.get("type") == "text"
        else part
        for part in turn["content"]
    ]
    return {**turn, "content": content}


# -- after a refusal ---------------------------------------------------------------------------


def _plain_call_ids(messages: MessageList) -> bool:
    """Ids of finished calls without characters that Anthropic refuses."""
    has_changed = False
    for message in messages.messages:
        for part in message.parts:
            if part.get("type") != "tool-invocation":
                continue
            call = part["toolInvocation"]
            old = str(call.get("toolCallId"))
            new = _BAD_CALL_ID.sub("_", old)
            if new != old and call.get("state") not in ("call", "partial-call"):
                part["toolInvocation"] = {**call, "toolCallId": new}
                message.saved = False
                has_changed = True
    return has_changed


def _no_orphaned_items(messages: MessageList) -> bool:
    """OpenAI's ids of items that it only takes back together with their reasoning."""
    has_changed = False
    previous: ListedMessage | None = None
    for message in messages.messages:
        if message.role != "assistant":
            previous = None
            continue
        covered = _has(message, "reasoning") or (
            previous is not None and _has(previous, "reasoning") and not _has(previous, "text")
        )
        previous = message
        if not covered and any([_forget_item(part) for part in message.parts]):  # noqa: C419 – all of them
            message.saved = False
            has_changed = True
    return has_changed


def _has(message: ListedMessage, kind: str) -> bool:
    return any(part.get("type") == kind for part in message.parts)


def _forget_item(part: dict[str, Any]) -> bool:
    metadata = part.get("providerMetadata")
    if not isinstance(metadata, Mapping):
        return False
    changed = {
        provider: {k: v for k, v in noted.items() if k not in _ITEM_IDS}
        if provider in _RESPONSES and isinstance(noted, Mapping)
        else noted
        for provider, noted in metadata.items()
    }
    if changed == metadata:
        return False
    part["providerMetadata"] = changed
    return True


#: In this order.
DEFAULT_RULES: Final = (
    CompatRule(
        name="anthropic-tool-id-format",
        error_patterns=(
            re.compile(r"tool_use[._]id.{0,80}(?:pattern|match)", re.DOTALL),
            re.compile(r"pattern.{0,40}\[a-za-z0-9_-\]", re.DOTALL),
        ),
        fix=_plain_call_ids,
    ),
    CompatRule(name="cerebras-strip-reasoning-content", apply_to_prompt=_no_reasoning_for_cerebras),
    CompatRule(
        name="anthropic-strip-empty-signed-reasoning-content",
        apply_to_prompt=_no_empty_signed_reasoning,
    ),
    CompatRule(
        name="anthropic-strip-foreign-reasoning-content", apply_to_prompt=_no_foreign_reasoning
    ),
    CompatRule(
        name="anthropic-strip-foreign-signed-reasoning", apply_to_prompt=_no_foreign_signatures
    ),
    CompatRule(name="azure-system-reminder-transform", apply_to_prompt=_other_reminders_for_azure),
    CompatRule(
        name="openai-orphan-item-id",
        error_patterns=(
            re.compile(r"of type 'message'.{0,60}without its required 'reasoning' item", re.DOTALL),
        ),
        fix=_no_orphaned_items,
    ),
)
