"""Write generated pages, or check that those in the repository are what would be written."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

__all__ = ("ROOT", "RULE", "Field", "fields_of", "finish", "paragraphs", "table")

ROOT = Path(__file__).resolve().parent.parent


#: Where a comment says which rule of the specifications it follows; readers don't have those.
RULE = re.compile(r" \((?:[\w ]+\.md )?[A-Z]?\d[^)]*\)| \([\w ]+\.md[^)]*\)")


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a settings class, as its source says."""

    name: str
    type: str
    default: str
    comment: str


def fields_of(owner: type) -> Iterator[Field]:
    """The fields of a class with the ``#:`` comment above each; only those of the class itself."""
    source = inspect.cleandoc(f"if True:\n{inspect.getsource(owner)}").partition("\n")[2]
    lines = source.splitlines()
    (body,) = (node for node in ast.parse(source).body if isinstance(node, ast.ClassDef))
    defaults = dict(defaults_of(owner))
    for node in body.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            name = node.target.id
            if name in defaults:
                comment = comment_above(lines, node.lineno - 2)
                yield Field(
                    given_name(owner, name), type_text(node.annotation), defaults[name], comment
                )


def given_name(owner: Any, name: str) -> str:
    """What callers write: the alias of a pydantic field, if it has one."""
    alias = owner.model_fields[name].alias if issubclass(owner, BaseModel) else None
    return alias or name


def comment_above(lines: Sequence[str], number: int) -> str:
    """The ``#:`` lines that end at this one."""
    above: list[str] = []
    while number >= 0 and lines[number].strip().startswith("#:"):
        above.insert(0, lines[number].strip()[2:].strip())
        number -= 1
    return RULE.sub("", " ".join(above)).replace("``", "`")


def type_text(node: ast.expr) -> str:
    """A type as people read it: without what is only for machines."""
    if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "Annotated":
        assert isinstance(node.slice, ast.Tuple)
        return ast.unparse(node.slice.elts[0])
    return ast.unparse(node)


def defaults_of(owner: Any) -> Iterator[tuple[str, str]]:
    """The defaults of a pydantic model or dataclass; "" for none."""
    if issubclass(owner, BaseModel):
        for name, field in owner.model_fields.items():
            if field.exclude:
                continue
            shown = "" if field.default_factory else repr(field.default)
            yield name, "" if field.is_required() else shown
        return
    for item in dataclasses.fields(owner):
        yield item.name, "" if item.default is dataclasses.MISSING else repr(item.default)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for row in rows:
        cells = [cell.replace("|", "\\|") for cell in row]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def paragraphs(*parts: str) -> str:
    """A page of these parts, with blank lines between them."""
    return "\n\n".join(part.strip("\n") for part in parts if part) + "\n"


def finish(pages: Mapping[str, str]) -> int:
    """
    Write the pages (path in the repository → text); with ``--check`` compare only.

    Returns the exit code: 1 if a page isn't as it should be.
    """
    stale = [
        path
        for path, text in pages.items()
        if not (ROOT / path).exists() or (ROOT / path).read_text() != text
    ]
    if "--check" in sys.argv[1:]:
        for path in stale:
            print(f"{path} is out of date; run: python {sys.argv[0]}")
        return 1 if stale else 0
    for path in stale:
        (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / path).write_text(pages[path])
        print(f"wrote {path}")
    return 0
