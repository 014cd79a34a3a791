"""Reading and changing the texts of messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mastra_core.messages.message_list import ListedMessage

__all__ = ("change_texts", "text_of", "texts_of")


def texts_of(message: ListedMessage) -> Iterator[tuple[int, str]]:
    """The texts of a message, each with the place of its part."""
    for index, part in enumerate(message.parts):
        if part.get("type") == "text" and isinstance(part.get("text"), str):
            yield index, part["text"]


def text_of(message: ListedMessage) -> str:
    """All texts of a message, one below the other."""
    return "\n".join(text for _, text in texts_of(message))


def change_texts(message: ListedMessage, texts: Mapping[int, str]) -> None:
    """Put other texts into a message, in place; by the place of their part."""
    has_changed = False
    for index, old in list(texts_of(message)):
        new = texts.get(index, old)
        if new != old:
            message.parts[index] = {**message.parts[index], "text": new}
            has_changed = True
    if has_changed:
        message.saved = False
        if isinstance(message.content.get("content"), str):
            message.content["content"] = text_of(message)
