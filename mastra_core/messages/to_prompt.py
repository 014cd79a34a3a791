"""What the model is shown: the provider-neutral prompt of a message list."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mastra_core.base.clock import Clock
from mastra_core.messages.message_list import ListedMessage, MessageList, message_of
from mastra_core.messages.signals import prompt_parts, signal_from_message

__all__ = ("model_messages", "prompt_from_messages", "turns_by_origin")

#: What stands before a history that begins with an assistant turn (decisions.md 28).
_PLACEHOLDER_TURN = {"role": "user", "content": [{"type": "text", "text": "."}]}


def prompt_from_messages(
    messages: MessageList, *, clock: Clock, user_turn_first: bool = True
) -> list[dict[str, Any]]:
    """
    System messages, then one turn per message, tool results in turns of their own.

    Args:
        messages: The transcript.
        clock: Stamps the turns of signals, as peers do.
        user_turn_first: Put a user turn ``.`` before a history that starts with an assistant
            turn, since providers refuse it otherwise.
    """
    turns = _turns(messages, messages.messages, clock)
    if user_turn_first and turns and turns[0]["role"] != "user":
        turns.insert(0, dict(_PLACEHOLDER_TURN))
    return [*_system(messages), *turns]


def turns_by_origin(messages: MessageList, *, clock: Clock) -> dict[str, list[dict[str, Any]]]:
    """
    All turns, those that came in, and those of the run: what the end of a run tells clients.

    A client goes on from the last ones when it has run its tools (streaming.md 3.2).
    """
    return {
        "all": _turns(messages, messages.messages, clock),
        "user": _turns(messages, messages.of_source("input"), clock),
        "nonUser": model_messages(messages.of_source("response"), with_open_calls=True),
    }


def _turns(
    messages: MessageList, entries: Iterable[ListedMessage], clock: Clock
) -> list[dict[str, Any]]:
    turns: list[dict[str, Any]] = []
    for message in entries:
        if message.role == "signal":
            signal = signal_from_message(message_of(message, messages))
            turn: dict[str, Any] = {
                "role": "user",
                "content": prompt_parts(signal, stamp=clock.now()),
            }
            if signal.provider_options is not None:
                turn["providerOptions"] = signal.provider_options
            turns.append(turn)
        elif message.role == "user":
            turns.append({"role": "user", "content": _user_parts(message)})
        elif message.role == "assistant":
            turns.extend(_assistant_turns(message))
    return [turn for turn in turns if turn["content"]]


def model_messages(
    messages: Iterable[ListedMessage], *, with_open_calls: bool = False
) -> list[dict[str, Any]]:
    """The turns of answers: what was said and called, and the results."""
    return [
        turn
        for message in messages
        if message.role == "assistant"
        for turn in _assistant_turns(message, with_open_calls=with_open_calls)
    ]


def _system(messages: MessageList) -> list[dict[str, Any]]:
    tagged = [m for group in messages.tagged_system_messages.values() for m in group]
    return [{**message, "role": "system"} for message in (*messages.system_messages, *tagged)]


def _options(part: Mapping[str, Any]) -> dict[str, Any]:
    options = dict(part.get("providerMetadata") or {})
    if "createdAt" in part:
        options["mastra"] = {**options.get("mastra", {}), "createdAt": part["createdAt"]}
    return {"providerOptions": options} if options else {}


def _user_parts(message: ListedMessage) -> list[dict[str, Any]]:
    shown = []
    for part in message.parts:
        if part.get("type") == "text":
            shown.append({"type": "text", "text": part["text"], **_options(part)})
        elif part.get("type") == "file":
            shown.append(_file(part))
    return shown


def _file(part: Mapping[str, Any]) -> dict[str, Any]:
    filename = {"filename": part["filename"]} if part.get("filename") else {}
    return {
        "type": "file",
        "data": part.get("data", ""),
        "mediaType": part.get("mimeType", part.get("mediaType", "")),
        **filename,
        **_options(part),
    }


def _assistant_turns(
    message: ListedMessage, *, with_open_calls: bool = False
) -> Iterable[dict[str, Any]]:
    """One block per model step: its content, then its tool results."""
    content: list[dict[str, Any]] = []
    results: list[dict[str, Any]] = []
    for part in message.parts:
        kind = part.get("type")
        starts_block = kind == "step-start" or (results and kind in ("text", "reasoning"))
        if starts_block and (content or results):
            yield from _block(content, results)
            content, results = [], []
        if kind == "text":
            content.append({"type": "text", "text": part["text"], **_options(part)})
        elif kind == "reasoning":
            content.append(_reasoning(part))
        elif kind == "file":
            content.append(_file(part))
        elif kind == "tool-invocation":
            _invocation(part, content, results, with_open=with_open_calls)
    yield from _block(content, results)


def _block(
    content: list[dict[str, Any]], results: list[dict[str, Any]]
) -> Iterable[dict[str, Any]]:
    if content:
        yield {"role": "assistant", "content": content}
    if results:
        yield {"role": "tool", "content": results}


def _reasoning(part: Mapping[str, Any]) -> dict[str, Any]:
    details = part.get("details") or ()
    text = part.get("reasoning") or "".join(
        str(d.get("text", "")) for d in details if d.get("type") == "text"
    )
    return {"type": "reasoning", "text": text, **_options(part)}


def _invocation(
    part: Mapping[str, Any],
    content: list[dict[str, Any]],
    results: list[dict[str, Any]],
    *,
    with_open: bool,
) -> None:
    invocation = part["toolInvocation"]
    output = _output(part, invocation)
    if output is None and not with_open:
        return  # Open calls stay out of prompts (decisions.md 24).
    call = {
        "toolCallId": invocation["toolCallId"],
        "toolName": invocation["toolName"],
    }
    options = _call_options(part)
    content.append({"type": "tool-call", **call, "input": invocation.get("args", {}), **options})
    if output is None:
        return
    results.append(
        {
            "type": "tool-result",
            **call,
            "output": output,
            "input": invocation.get("args", {}),
            **options,
        }
    )


def _call_options(part: Mapping[str, Any]) -> dict[str, Any]:
    metadata = part.get("providerMetadata")
    return {"providerOptions": dict(metadata)} if metadata else {}


def _output(part: Mapping[str, Any], invocation: Mapping[str, Any]) -> dict[str, Any] | None:
    """The result in the form that providers take; None for a call without one."""
    match invocation.get("state"):
        case "result":
            mastra = (part.get("providerMetadata") or {}).get("mastra") or {}
            # Null says that there was one, which fits the result no more.
            if (shown := mastra.get("modelOutput")) is not None:
                return dict(shown) if isinstance(shown, Mapping) else _value(shown)
            return _value(invocation.get("result"))
        case "output-error":
            return {"type": "error-text", "value": str(invocation.get("errorText", ""))}
        case "output-denied":
            approval = invocation.get("approval") or {}
            return {"type": "text", "value": str(approval.get("reason", ""))}
        case _:
            return None


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        return {"type": "text", "value": value}
    return {"type": "json", "value": value}
