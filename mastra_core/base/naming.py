"""Spelling of names: snake_case here, camelCase on the wire, and what plugins and XML allow."""

from __future__ import annotations

import hashlib
import re
from typing import Final

from mastra_core.errors.base import camel

__all__ = (
    "PLUGIN_ID",
    "XML_NAME",
    "clean_xml_name",
    "is_id",
    "is_plugin_id",
    "is_xml_name",
    "prefix_of",
    "to_camel",
    "to_snake",
)

#: Ids of plugins, adapters and descriptors (design.md 4.3).
PLUGIN_ID: Final = re.compile(r"[a-z][a-z0-9_]*")
#: Names of signal tags and attributes (signals.md 3.3).
XML_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")

_NOT_IN_IDS: Final = re.compile("[\0\ud800-\udfff]")
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def to_camel(name: str) -> str:
    """``thread_id`` as ``threadId``."""
    return camel(name)


def to_snake(name: str) -> str:
    """``threadId`` as ``thread_id``; ``HTTPStatus`` as ``http_status``."""
    return _HUMP.sub("_", name).lower()


def is_id(value: object) -> bool:
    """
    True if something may be known by this: a text that isn't empty. No store and no peer has to
    know NUL or half a character in a key (field report P3).
    """
    return isinstance(value, str) and value != "" and _NOT_IN_IDS.search(value) is None


def is_plugin_id(name: str) -> bool:
    """True if a plugin may be called this."""
    return PLUGIN_ID.fullmatch(name) is not None


def is_xml_name(name: str) -> bool:
    """True if a tag or attribute may be called this."""
    return XML_NAME.fullmatch(name) is not None


def clean_xml_name(name: str) -> str:
    """The nearest allowed name, for rows that others stored with a bad one (signals.md 3.3)."""
    cleaned = re.sub(r"[^A-Za-z0-9_.-]", "_", name) or "_"
    return cleaned if is_xml_name(cleaned) else f"_{cleaned}"


def prefix_of(namespace: str, *, longest: int | None = None) -> str:
    """
    A prefix of the names of tables for a namespace; equal namespaces have equal prefixes.

    Args:
        namespace: Any text; without one there is no prefix.
        longest: What is longer is cut, and told apart by a digest.
    """
    if not namespace:
        return ""
    plain = re.sub(r"[^A-Za-z0-9]", "_", namespace)
    if longest is not None and len(plain) > longest:
        digest = hashlib.sha256(namespace.encode()).hexdigest()[:8]
        plain = f"{plain[: longest - 9]}_{digest}"
    return f"_{plain}_" if plain[0].isdigit() else f"{plain}_"
