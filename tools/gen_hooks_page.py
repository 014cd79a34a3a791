"""Write docs/reference/hooks.md from the hook specifications; ``--check`` compares only."""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Callable, Iterator
from typing import Any

from page_writer import RULE, finish, paragraphs, table

from mastra_core.plugins import API, hookspecs, specs
from mastra_core.plugins.markers import policy_of

__all__ = ("page",)

INTRODUCTION = """
# Hooks

A plugin is a module, named by an entry point of the group `mastra_core`, with functions marked
`hookimpl`. An implementation names only the arguments that it wants. This page is written by
`tools/gen_hooks_page.py` from the specifications in `mastra_core/plugins/hookspecs.py`.
"""

POLICIES = """
| Policy | Meaning |
|---|---|
| collect | Called alone, without I/O; what it yields is read completely. If it raises, that plugin is put aside and nothing of the hook is kept. |
| gather | May be `async`. All run at once, with a deadline. A plugin that can't start is put aside; one that can't stop is logged. |
| decide | The first answer that isn't None counts; one that raises is passed over. |
| permit | Everybody must agree. An exception, or no answer in time, means no. |
| observe | Results are ignored and exceptions counted; after ten in a row the observer is switched off, with one warning. |
"""

NOT_ASKED = " Nothing in this version asks for it; it waits for {}."

_PEERS = "agents that find each other across processes (`plugins/cross_agent`)"
UNUSED = {
    "mastra_http_routes": "the HTTP server (`plugins/server`)",
    "mastra_wire_codecs": "the tagged values of workflow events",
    "mastra_peer_sources": _PEERS,
    "mastra_peer_directory": _PEERS,
    "mastra_authorize_peer": _PEERS,
    "mastra_peer_event": _PEERS,
}
"""Hooks that plugins may implement already, and the part of the product that will ask them."""


def hooks() -> Iterator[tuple[str, Callable[..., Any]]]:
    """The specifications, in the order of their module."""
    for name, member in vars(hookspecs).items():
        if name.startswith("mastra_") and inspect.isfunction(member):
            yield name, member


def section(name: str, hook: Callable[..., Any]) -> str:
    """What one hook is for, and its example."""
    text, _, example = (inspect.getdoc(hook) or "").partition("Example::")
    signature = str(inspect.signature(hook)).replace("'", "")
    parts = [
        f"### {name}",
        f"`{name}{signature}`",
        f"Policy: {policy_of(hook)}.{NOT_ASKED.format(UNUSED[name]) if name in UNUSED else ''}",
        RULE.sub("", text).replace("``", "`"),
    ]
    if example:
        # Not "python": the packages of these examples don't exist, so nothing could run them.
        parts.append(f"```py\n{inspect.cleandoc(example)}\n```")
    return paragraphs(*parts)


def descriptor(name: str, spec: type[Any]) -> tuple[str, str, str]:
    """A row about what a collecting hook yields."""
    summary = (inspect.getdoc(spec) or "").partition("\n\n")[0].replace("\n", " ")
    fields = ", ".join(f"`{field.name}`" for field in dataclasses.fields(spec))
    return f"`{spec.__name__}` ({name})", RULE.sub("", summary).replace("``", "`"), fields


def page() -> str:
    """The whole page."""
    rows = [
        (f"[`{name}`](#{name})", policy_of(hook), "no" if name in UNUSED else "yes")
        for name, hook in hooks()
    ]
    yields = [descriptor(f"`{name}`", spec) for name, spec in specs.DESCRIPTORS.items()]
    return paragraphs(
        INTRODUCTION,
        f"A plugin may say which plugin API it was written for: `MASTRA_PLUGIN_API = {API}`. It is "
        "used if the first number is ours and the second isn't larger than ours.",
        "## Policies",
        POLICIES,
        "## All hooks",
        "A hook that isn't asked is checked and kept, but nothing in this version calls it.",
        table(("Hook", "Policy", "Asked"), rows),
        "## What they yield",
        "Descriptors are frozen values; a wrong one is refused with a sentence that names the "
        "field. A factory is named as `package.module:name`, so asking what exists imports "
        "nothing.",
        table(("Descriptor", "Is", "Fields"), yields),
        "## One by one",
        *(section(name, hook) for name, hook in hooks()),
    )


if __name__ == "__main__":
    sys.exit(finish({"docs/reference/hooks.md": page()}))
