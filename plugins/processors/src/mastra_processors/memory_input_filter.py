"""Only what a request may add to a stored conversation (not what its client repeats)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final

from mastra_core.messages.message_list import ListedMessage, MessageList
from mastra_core.processors import ProcessorArgs
from mastra_processors.built_in import BuiltIn
from mastra_processors.options import Options

__all__ = ("MemoryInputFilter", "MemoryInputFilterOptions")

#: Outcomes that a client gives for a call that waits for it.
_OUTCOMES: Final = frozenset({"result", "output-error", "output-denied", "approval-responded"})
_OPEN: Final = frozenset({"call", "partial-call", "approval-requested"})
#: Metadata of providers on what the assistant said.
_PROVIDER_MEMBERS: Final = ("providerMetadata", "providerOptions")


class MemoryInputFilterOptions(Options):
    """Options of ``memory-input-filter``."""

    #: Take the input as it is.
    retain_full_input: bool = False


class MemoryInputFilter(BuiltIn[MemoryInputFilterOptions]):
    """
    For clients that send the whole conversation with each request; an input processor.

    On a thread that has messages, the request may add what the user says at its end, and the
    outcomes of calls that wait for the client. What it repeats of the assistant's is dropped:
    the stored copy is the truth. For a new thread, all of the input is taken, without what
    providers noted on the assistant's messages.
    """

    id = "memory-input-filter"
    options_type: ClassVar[type[Options]] = MemoryInputFilterOptions

    async def process_input(self, args: ProcessorArgs) -> None:
        """Hook 1."""
        if self.options.retain_full_input or args.thread_id is None:
            return
        messages = args.message_list
        given = [m for m in messages.of_source("input") if m.role in ("user", "assistant")]
        if not given:
            return
        if not await _has_stored(args, messages):
            for message in given:
                _forget_providers(message)
            return
        place = len(given)
        while place > 0 and given[place - 1].role == "user":
            place -= 1
        echoed, added = given[:place], given[place:]
        if not echoed:
            return
        last = echoed[-1]
        answers = _fill_open_calls(messages, last)
        known = await _known(args, messages, echoed)
        # What the assistant says at the end and nobody has stored is an instruction of the host.
        gone = [m for m in echoed if added or answers or m is not last or m.id in known]
        # Ids may repeat what is remembered: exactly these entries go, not their namesakes.
        messages.messages[:] = [m for m in messages.messages if not any(m is one for one in gone)]


async def _has_stored(args: ProcessorArgs, messages: MessageList) -> bool:
    if messages.of_source("memory"):
        return True
    memory = getattr(args.agent, "memory", None)
    if memory is None:
        return False
    page = await memory.store.list_messages(args.thread_id, per_page=1, include_total=False)
    return bool(page.messages)


async def _known(
    args: ProcessorArgs, messages: MessageList, echoed: Iterable[ListedMessage]
) -> set[str]:
    """Ids of the echoed messages that are stored."""
    known = {message.id for message in messages.of_source("memory")}
    unknown = [message.id for message in echoed if message.id not in known]
    memory = getattr(args.agent, "memory", None)
    if unknown and memory is not None:
        known |= {message.id for message in await memory.load(unknown)}
    return known


def _fill_open_calls(messages: MessageList, echo: ListedMessage) -> bool:
    """
    Give calls that the stored copy still waits for the outcomes that the echo has for them.

    Returns:
        Whether the echo speaks of stored calls at all.
    """
    answers = False
    for part in echo.parts:
        if part.get("type") != "tool-invocation" or _state(part) not in _OUTCOMES:
            continue
        invocation: Mapping[str, Any] = part["toolInvocation"]
        for stored in reversed(messages.of_source("memory")):
            own = stored.find_call(str(invocation.get("toolCallId")))
            if own is None:
                continue
            answers = True
            if _state(own) in _OPEN:
                # What was asked stays as it is stored; the client only says what came of it.
                asked = {
                    k: v for k, v in own["toolInvocation"].items() if k in ("args", "toolName")
                }
                own["toolInvocation"] = {**own["toolInvocation"], **invocation, **asked}
                stored.saved = False
            break
    return answers


def _state(part: Mapping[str, Any]) -> str:
    return str((part.get("toolInvocation") or {}).get("state"))


def _forget_providers(message: ListedMessage) -> None:
    """Ids that name items of a provider which this conversation never made."""
    if message.role != "assistant":
        return
    for place, part in enumerate(message.parts):
        if part.get("type") != "tool-invocation":
            message.parts[place] = {k: v for k, v in part.items() if k not in _PROVIDER_MEMBERS}
    for name in _PROVIDER_MEMBERS:
        message.content.pop(name, None)
