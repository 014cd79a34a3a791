"""Structured output: what the model is asked for, and what its text comes to (streaming.md 5.7)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json

from mastra_core.base.json_schema import schema_problems
from mastra_core.base.jsonjs import decode
from mastra_core.contracts.model import Model
from mastra_core.errors import (
    RunArgumentError,
    StructuredOutputError,
    WireDecodeError,
    reason_of,
    shown,
)

__all__ = (
    "ErrorStrategy",
    "ObjectSchema",
    "PartialObject",
    "StructuredOutput",
    "structured_output",
)

_DRAFT: Final = "http://json-schema.org/draft-07/schema#"
#: Up to here each delta is read, later only when the text has grown by a sixteenth: reading is
#: from the start each time, and a long answer must not cost its square.
_READ_EACH: Final = 4096
_MEMBERS: Final = frozenset(
    {
        "schema",
        "model",
        "instructions",
        "json_prompt_injection",
        "error_strategy",
        "fallback_value",
    }
)

ErrorStrategy = Literal["strict", "warn", "fallback"]


class ObjectSchema:
    """
    A type, or a JSON schema, that the answer has to fit.

    Lists and enumerations are wrapped for the model, which answers with objects only.

    Args:
        schema: A pydantic model, any type that pydantic can validate, or a JSON schema.
    """

    def __init__(self, schema: Any) -> None:
        self._adapter: TypeAdapter[Any] | None = None
        if isinstance(schema, Mapping):
            plain = dict(schema)
        else:
            self._adapter = TypeAdapter(schema)
            plain = {"$schema": _DRAFT, **self._adapter.json_schema()}
        self._plain = plain
        self._wrap: str | None = None
        if plain.get("type") == "array":
            self._wrap = "elements"
        elif "enum" in plain and plain.get("type") != "object":
            self._wrap = "result"

    @property
    def is_list(self) -> bool:
        """Whether the answer is a list."""
        return self._wrap == "elements"

    def for_model(self) -> dict[str, Any]:
        """The JSON schema that the model is given."""
        if self._wrap is None:
            return self._plain
        inner = {k: v for k, v in self._plain.items() if k not in ("$schema", "$defs")}
        return {
            "$schema": _DRAFT,
            "type": "object",
            "properties": {self._wrap: inner},
            "required": [self._wrap],
            "additionalProperties": False,
            **({"$defs": self._plain["$defs"]} if "$defs" in self._plain else {}),
        }

    def unwrap(self, value: Any) -> Any:
        """What the model said, without what it was wrapped in."""
        if self._wrap is None or not isinstance(value, Mapping):
            return value
        return value.get(self._wrap)

    def parse(self, text: str) -> tuple[Any, Any]:
        """
        The JSON value of a complete answer, and what the caller gets for it.

        Raises:
            StructuredOutputError: It is no JSON, or doesn't fit.
        """
        try:
            said = decode(_bare(text))
        except WireDecodeError as exc:
            raise _misfit(text, "it is no JSON") from exc
        value = self.unwrap(said)
        if self._adapter is None:
            if problems := schema_problems(value, self._plain):
                raise _misfit(text, "; ".join(f"{k}: {v}" for k, v in problems.items()))
            return value, value
        try:
            return value, self._adapter.validate_python(value)
        except ValidationError as exc:
            found = [
                f"{'.'.join(map(str, problem['loc'])) or 'root'}: {problem['msg']}"
                for problem in exc.errors(include_url=False)
            ]
            raise _misfit(text, "; ".join(found)) from exc
        except Exception as exc:
            # A validator of the type failed, in its own way.
            raise _misfit(text, f"{type(exc).__name__}: {reason_of(exc)}") from exc


def _bare(text: str) -> str:
    """The text without a fence of Markdown around it."""
    bare = text.strip()
    if bare.startswith("```") and bare.endswith("```"):
        bare = bare.removesuffix("```").partition("\n")[2]
    return bare


def _misfit(text: str, why: str) -> StructuredOutputError:
    return StructuredOutputError(
        f"Structured output validation failed: {why}.", details={"value": text}
    )


class PartialObject:
    """What can be seen of an object while its text is still coming."""

    def __init__(self, schema: ObjectSchema) -> None:
        self._schema = schema
        self._text = ""
        self._read_at = 0
        self._last: Any = None

    def feed(self, delta: str) -> Any:
        """The object as far as it is there now; None if nothing has changed."""
        self._text += delta
        length = len(self._text)
        if length > _READ_EACH and length - self._read_at < self._read_at // 16:
            return None
        self._read_at = length
        try:
            seen = from_json(self._text, allow_partial="trailing-strings")
        except ValueError:
            return None
        seen = self._schema.unwrap(seen)
        if seen is None or seen == self._last or not isinstance(seen, dict | list):
            return None
        self._last = seen
        return seen


@dataclass(frozen=True, slots=True, kw_only=True)
class StructuredOutput:
    """What a run is to end with."""

    schema: ObjectSchema
    #: Makes the object of the main model's text; None: the main model says it itself.
    model: Model | str | None = None
    #: What that model is told.
    instructions: str | None = None
    #: Tell the model by words, for providers without structured answers: in the system message
    #: (``True``, ``"system"``) or behind the last message (``"inline"``).
    json_prompt_injection: bool | Literal["system", "inline"] = False
    error_strategy: ErrorStrategy = "strict"
    fallback_value: Any = None

    @property
    def response_format(self) -> dict[str, Any] | None:
        """What the main model is asked to keep to."""
        if self.model is not None or self.json_prompt_injection:
            return None
        return {"type": "json", "schema": self.schema.for_model()}


def structured_output(given: Any) -> StructuredOutput:
    """
    Read the option ``structured_output``.

    Args:
        given: A type or pydantic model, or ``{schema, model?, instructions?,
            json_prompt_injection?, error_strategy?, fallback_value?}``.

    Raises:
        RunArgumentError: It is none of these, or a member can't be.
    """
    if not isinstance(given, Mapping):
        given = {"schema": given}
    if unknown := sorted(set(given) - _MEMBERS, key=str):
        raise _wrong(f"has no member {unknown[0]!r}; known are {', '.join(sorted(_MEMBERS))}")
    if given.get("schema") is None:
        raise _wrong("needs a schema")
    if given.get("error_strategy", "strict") not in ("strict", "warn", "fallback"):
        raise _wrong(
            f"has error_strategy strict, warn or fallback, not {shown(given['error_strategy'])}"
        )
    if given.get("error_strategy") == "fallback" and "fallback_value" not in given:
        raise _wrong("needs a fallback_value for error_strategy 'fallback'")
    if given.get("json_prompt_injection", False) not in (False, True, "system", "inline"):
        raise _wrong("has json_prompt_injection True, False, 'system' or 'inline'")
    try:
        schema = ObjectSchema(given["schema"])
    except Exception as exc:
        raise _wrong(f"has a schema that can't be used: {exc}") from exc
    rest = {name: value for name, value in given.items() if name != "schema"}
    return StructuredOutput(schema=schema, **rest)


def _wrong(text: str) -> RunArgumentError:
    return RunArgumentError(f"structured_output {text}.", id="AGENT_INVALID_OPTION")
