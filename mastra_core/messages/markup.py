"""The XML that wraps a signal for the model (signals.md 3)."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from mastra_core.base.jsvalues import js_string
from mastra_core.errors import InvalidSignalError, shown

__all__ = (
    "check_attribute_names",
    "check_attributes",
    "check_tag_name",
    "clean_name",
    "has_attributes",
    "render_tag",
)

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_NOT_NAME = re.compile(r"[^A-Za-z0-9_.-]")


def check_tag_name(name: str) -> None:
    """
    Accept an XML tag name.

    Raises:
        InvalidSignalError: It doesn't match ``[A-Za-z_][A-Za-z0-9_.-]*``.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidSignalError(f"Invalid signal XML tag name: {name}")


def check_attribute_names(attributes: Mapping[str, Any] | None) -> None:
    """
    Accept the names of attributes, also of those whose value is null.

    Raises:
        InvalidSignalError: One doesn't match ``[A-Za-z_][A-Za-z0-9_.-]*``, or they are no
            mapping.
    """
    if attributes is not None and not isinstance(attributes, Mapping):
        raise InvalidSignalError(f"Signal attributes must be a mapping, not {shown(attributes)}.")
    for name in attributes or ():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise InvalidSignalError(f"Invalid signal XML attribute name: {name}")


def check_attributes(attributes: Mapping[str, Any] | None) -> None:
    """
    Accept attributes that can be rendered: legal names, and values that stand in one word.

    Raises:
        InvalidSignalError: A name or a value can't be.
    """
    check_attribute_names(attributes)
    for name, value in (attributes or {}).items():
        is_number = isinstance(value, int | float) and math.isfinite(value)
        if value is not None and not isinstance(value, str | bool) and not is_number:
            raise InvalidSignalError(
                f"The attribute {name!r} must be a text, a finite number, a boolean or None, "
                f"not {shown(value)}."
            )


def clean_name(name: str) -> str:
    """The nearest legal name, for rows that others stored with an illegal one."""
    cleaned = _NOT_NAME.sub("_", name)
    return cleaned if _NAME.fullmatch(cleaned) else f"_{cleaned}"


def has_attributes(attributes: Mapping[str, Any] | None) -> bool:
    """Is there at least one attribute that would be rendered?"""
    return any(value is not None for value in (attributes or {}).values())


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def render_tag(tag: str, attributes: Mapping[str, Any] | None, text: str) -> str:
    """
    ``<tag a="v">text</tag>``, or ``<tag a="v" />`` when the text is empty.

    Names come from stored rows too, so an illegal one is cleaned instead of failing.
    """
    name = clean_name(tag)
    rendered = "".join(
        f' {clean_name(key)}="{_escape(js_string(value)).replace(chr(34), "&quot;")}"'
        for key, value in (attributes or {}).items()
        if value is not None
    )
    if not text:
        return f"<{name}{rendered} />"
    return f"<{name}{rendered}>{_escape(text)}</{name}>"
