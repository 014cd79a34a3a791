"""The tiny language of the scenes: ``{"$input": "path"}`` and its like."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mastra_core.base.jsonjs import sanitize_copy

__all__ = ("UnknownVocabularyError", "camel_to_snake", "evaluate", "json_schema", "snake_members")

_TYPES: Final = ("string", "number", "boolean")


class UnknownVocabularyError(Exception):
    """A scene says something that the player doesn't know."""

    def __init__(self, what: str, word: object) -> None:
        super().__init__(f"Unknown {what} in a scene: {word!r}.")


def evaluate(value: Any, scope: Mapping[str, Any]) -> Any:
    """
    The value of an expression; plain values stand for themselves.

    Args:
        value: From the scene, such as ``{"deployed": {"$input": "env"}}``.
        scope: What the words mean here, such as ``{"$input": {"env": "prod"}}``.
    """
    if isinstance(value, list):
        return [evaluate(item, scope) for item in value]
    if not isinstance(value, Mapping):
        return value
    words = [name for name in value if name.startswith("$")]
    if not words:
        return {name: evaluate(member, scope) for name, member in value.items()}
    (word,) = words
    if word not in scope:
        raise UnknownVocabularyError("expression", word)
    return _at(scope[word], value[word])


def _at(root: Any, path: object) -> Any:
    found = root
    for step in str(path).split(".") if path else ():
        found = found[int(step)] if isinstance(found, list) else found[step]
    return sanitize_copy(found)


def json_schema(fields: Mapping[str, str] | None) -> dict[str, Any] | None:
    """``{field: "string"}`` as the JSON schema that the recorded tools had; None for none."""
    if fields is None:
        return None
    properties: dict[str, Any] = {}
    required = []
    for name, kind in fields.items():
        plain = kind.removesuffix("?")
        if plain not in (*_TYPES, "any"):
            raise UnknownVocabularyError("type", kind)
        properties[name] = {} if plain == "any" else {"type": plain}
        if plain == kind:
            required.append(name)
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def camel_to_snake(name: str) -> str:
    """``threadId`` as Python writes it."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


def snake_members(value: Mapping[str, Any]) -> dict[str, Any]:
    """The members under their Python names; values stay as they are."""
    return {camel_to_snake(name): member for name, member in value.items()}
