"""Whether a JSON value fits a JSON schema, for schemas that no pydantic type stands for.

Looked at are type, required, properties, items, enum, const and anyOf at every depth; what else
a schema may say is left to whoever wrote it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

__all__ = ("schema_problems",)

_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,),
    "number": (int, float),
    "integer": (int,),
    "boolean": (bool,),
    "object": (dict, Mapping),
    "array": (list, tuple),
    "null": (type(None),),
}


def schema_problems(value: Any, schema: Mapping[str, Any]) -> dict[str, str]:
    """
    What doesn't fit, by the path of the member; the value itself is ``root``.

    Example::

        schema_problems({"n": "x"}, {"properties": {"n": {"type": "number"}}})
        # {"n": "expected number"}
    """
    return {path or "root": text for path, text in _problems(value, schema, "")}


def _problems(value: Any, schema: Mapping[str, Any], path: str) -> Iterator[tuple[str, str]]:
    choices = schema.get("anyOf")
    if isinstance(choices, Sequence) and choices:
        if not any(not any(_problems(value, choice, path)) for choice in choices):
            yield path, "fits none of the choices"
        return
    if not _has_type(value, schema.get("type")):
        yield path, f"expected {schema.get('type')}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield path, f"expected one of {', '.join(map(str, schema['enum']))}"
    if "const" in schema and value != schema["const"]:
        yield path, f"expected {schema['const']}"
    if isinstance(value, Mapping):
        yield from _member_problems(value, schema, path)
    elif isinstance(value, list | tuple) and isinstance(schema.get("items"), Mapping):
        for number, item in enumerate(value):
            yield from _problems(item, schema["items"], _below(path, number))


def _member_problems(
    value: Mapping[str, Any], schema: Mapping[str, Any], path: str
) -> Iterator[tuple[str, str]]:
    for name in schema.get("required") or ():
        if name not in value:
            yield _below(path, name), "is missing"
    for name, member in (schema.get("properties") or {}).items():
        if name in value and isinstance(member, Mapping):
            yield from _problems(value[name], member, _below(path, name))


def _below(path: str, name: object) -> str:
    return f"{path}.{name}" if path else str(name)


def _has_type(value: Any, expected: Any) -> bool:
    for name in expected if isinstance(expected, list) else [expected]:
        types = _TYPES.get(name) if name is not None else None
        if types is None:
            return True
        if isinstance(value, types) and (not isinstance(value, bool) or name == "boolean"):
            return True
    return False
