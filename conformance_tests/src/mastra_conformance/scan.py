"""Which tests prove which cases, read from the source without running anything.

Marks whose numbers are computed can't be read this way; for those files pytest is
asked to collect, see ``collected``.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from mastra_conformance.cases import UnknownCaseError, case_index

__all__ = (
    "ScanResult",
    "Tag",
    "TagError",
    "collected_tags",
    "find_checkout",
    "scan",
    "scan_file",
    "test_folders",
)

_NO_TESTS = 5
"""How pytest ends where there was nothing to collect."""

_TEST_FOLDERS = ("tests", "adapters/*/tests", "plugins/*/tests", "examples/*/tests")


class TagError(ValueError):
    """A test carries a mark that means nothing."""


@dataclass(frozen=True, slots=True, order=True)
class Tag:
    """One test that proves one case."""

    spec: str
    number: int
    #: ``file::Class::function``, the file relative to where it was found.
    test: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanResult:
    """What a scan found."""

    tags: tuple[Tag, ...]
    #: Files with marks that have to be collected to be known.
    computed: tuple[Path, ...]
    #: Unknown specifications and numbers, each with its place.
    errors: tuple[str, ...]

    def proven(self) -> dict[str, list[int]]:
        """Specification to the cases that some test proves."""
        return {
            spec: sorted({tag.number for tag in self.tags if tag.spec == spec})
            for spec in case_index()
        }


def find_checkout(start: Path) -> Path | None:
    """The checkout of the project that a folder lies in; None outside of one."""
    for folder in (start, *start.parents):
        if (folder / "mastra_core/__init__.py").is_file() and (
            folder / "conformance_tests/pyproject.toml"
        ).is_file():
            return folder
    return None


def test_folders(checkout: Path | None) -> list[Path]:
    """Where tests stand: the suites of this package, and the test folders of a checkout."""
    package = Path(__file__).parent
    folders = [package / "suites", package / "wire", package / "faults"]
    folders.extend(sorted(package.glob("cases_t?")))
    if checkout is not None:
        folders.extend(found for glob in _TEST_FOLDERS for found in sorted(checkout.glob(glob)))
    return [folder for folder in folders if folder.is_dir()]


test_folders.__test__ = False  # type: ignore[attr-defined]  # pytest would collect it from a test module


def scan(folders: Iterable[Path]) -> ScanResult:
    """Read every Python file below the folders."""
    tags: list[Tag] = []
    computed: list[Path] = []
    errors: list[str] = []
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            found, is_computed, faults = scan_file(path, path.relative_to(folder.parent).as_posix())
            tags.extend(found)
            errors.extend(faults)
            if is_computed:
                computed.append(path)
    return ScanResult(tags=tuple(sorted(tags)), computed=tuple(computed), errors=tuple(errors))


def scan_file(path: Path, name: str) -> tuple[list[Tag], bool, list[str]]:
    """The tags of one file, whether some are computed, and what is wrong with others."""
    tree = ast.parse(path.read_text("utf-8"), str(path))
    aliases = _names_of_case(tree)
    if not aliases:
        return [], False, []
    tags: list[Tag] = []
    errors: list[str] = []
    is_computed = False
    for call, owner in _calls(tree, aliases):
        try:
            spec, numbers = _arguments(call)
        except TagError:
            is_computed = True
            continue
        try:
            case_index().check(spec, numbers)
        except UnknownCaseError as exc:
            errors.append(f"{name}:{call.lineno}: {exc}")
            continue
        tags.extend(Tag(spec, number, f"{name}::{owner}") for number in numbers)
    return tags, is_computed, errors


def collected_tags(paths: Sequence[Path]) -> list[Tag]:
    """
    Ask pytest which cases the tests of some files prove.

    Raises:
        TagError: The files can't be collected.
    """
    if not paths:
        return []
    with TemporaryDirectory() as folder:
        output = Path(folder) / "cases.json"
        command = [
            sys.executable,
            *("-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"),
            f"--mastra-list-cases={output}",
            *map(str, paths),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode not in {0, _NO_TESTS} or not output.exists():
            raise TagError(f"pytest can't collect: {(done.stdout + done.stderr).strip()[-500:]}")
        return [Tag(*entry) for entry in json.loads(output.read_text("utf-8"))]


def _names_of_case(tree: ast.Module) -> frozenset[str]:
    """Under which names a module imports our ``case``."""
    return frozenset(
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        and node.module in {"mastra_conformance", "mastra_conformance.cases"}
        for alias in node.names
        if alias.name == "case"
    )


def _calls(tree: ast.Module, aliases: frozenset[str]) -> Iterator[tuple[ast.Call, str]]:
    """Every call of ``case`` that marks something, with what it marks."""

    def visit(node: ast.AST, owner: str) -> Iterator[tuple[ast.Call, str]]:
        for child in ast.iter_child_nodes(node):
            name = owner
            if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                name = f"{owner}::{child.name}" if owner else child.name
            if (
                isinstance(child, ast.Call)
                and isinstance(child.func, ast.Name)
                and child.func.id in aliases
            ):
                yield child, owner or "*"
            yield from visit(child, name)

    yield from visit(tree, "")


def _arguments(call: ast.Call) -> tuple[str, tuple[int, ...]]:
    """The literal arguments of a call; ``*range(1, 4)`` counts as literal."""
    if call.keywords or not call.args:
        raise TagError("keywords")
    spec = _literal(call.args[0])
    numbers: list[object] = []
    for argument in call.args[1:]:
        if isinstance(argument, ast.Starred):
            numbers.extend(_sequence(argument.value))
        else:
            numbers.append(_literal(argument))
    if not isinstance(spec, str) or not numbers:
        raise TagError("no numbers")
    return spec, tuple(numbers)  # type: ignore[arg-type]  # the index checks what they are


def _sequence(node: ast.expr) -> Iterable[object]:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range":
        bounds = [_literal(argument) for argument in node.args]
        return range(*(bound for bound in bounds if isinstance(bound, int)))
    value = _literal(node)
    if not isinstance(value, tuple | list):
        raise TagError("not a sequence")
    return value


def _literal(node: ast.expr) -> object:
    try:
        return ast.literal_eval(node)
    except ValueError as exc:
        raise TagError("computed") from exc
