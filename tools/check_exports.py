"""Check that every module's ``__all__`` is complete and true; list what is longest.

Complete: each public function, class and constant that a module defines stands in it, except
what a decorator hands over to somebody else (hooks, commands, fixtures) and tests.
True: each name in it can be had from the module.
The longest modules and functions are places to look, never an error.
"""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ("main",)

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("mastra_core", "adapters/*/src/*", "plugins/*/src/*", "conformance_tests/src/*")
#: Last part of a decorator's name that hands a function over.
HANDED_OVER = {"hookimpl", "hookspec", "command", "callback", "fixture"}
#: Names that pytest and the plugin manager look for by themselves.
LOOKED_FOR = ("test_", "Test", "pytest_", "MASTRA_PLUGIN_API")
LONGEST = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """One module of ours, parsed."""

    name: str
    path: Path
    text: str
    tree: ast.Module


def modules() -> Iterator[Module]:
    """All modules of all our packages."""
    for pattern in FOLDERS:
        for package in sorted(
            path for path in ROOT.glob(pattern) if (path / "__init__.py").exists()
        ):
            for path in sorted(package.rglob("*.py")):
                parts = path.relative_to(package.parent).with_suffix("").parts
                name = ".".join(parts).removesuffix(".__init__")
                text = path.read_text()
                yield Module(name=name, path=path, text=text, tree=ast.parse(text))


def stated_exports(module: Module) -> tuple[str, ...] | None:
    """The module's ``__all__``; None if there is none, or it isn't a tuple of strings."""
    for node in module.tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id="__all__")], value=ast.Tuple() as names):
                return tuple(ast.literal_eval(names))
            case _:
                pass
    return None


def public_names(module: Module) -> Iterator[str]:
    """Public functions, classes and constants that the module itself defines."""
    for node in module.tree.body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                if not any(is_handed_over(decorator) for decorator in node.decorator_list):
                    yield node.name
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                if name[0].isupper() and not is_type_variable(node.value):
                    yield name
            case _:
                pass


def is_type_variable(value: ast.expr | None) -> bool:
    """Whether a value only serves signatures of its own module."""
    return isinstance(value, ast.Call) and ast.unparse(value.func) in {"TypeVar", "ParamSpec"}


def is_handed_over(decorator: ast.expr) -> bool:
    """Whether a decorator registers the function with somebody else."""
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return ast.unparse(called).rpartition(".")[2] in HANDED_OVER


def complaints(module: Module) -> Iterator[str]:
    """What is wrong with one module's ``__all__``."""
    stated = stated_exports(module)
    if stated is None:
        yield f"{module.name} has no __all__ that is a tuple of strings."
        return
    for name in public_names(module):
        if name not in stated and not name.startswith(("_", *LOOKED_FOR)):
            yield f"{module.name} defines {name}, which is not in its __all__."
    if module.name.endswith("__main__"):
        return
    try:
        loaded = importlib.import_module(module.name)
    except ImportError as exc:
        yield f"{module.name} can't be imported: {exc}."
        return
    for name in stated:
        if not hasattr(loaded, name):
            yield f"{module.name} promises {name}, which it doesn't have."


def functions_of(module: Module) -> Iterator[tuple[int, str]]:
    """Length and name of each function of a module."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno:
            yield node.end_lineno - node.lineno + 1, f"{module.name}:{node.name}"


def print_longest(title: str, lengths: list[tuple[int, str]]) -> None:
    """Print the longest few of something."""
    print(f"\nLongest {title} (places to look):")
    for length, name in sorted(lengths, reverse=True)[:LONGEST]:
        print(f"{length:6} {name}")


def main() -> int:
    """Print what is wrong and what is long; 1 if anything is wrong."""
    found = list(modules())
    wrong = [complaint for module in found for complaint in complaints(module)]
    print_longest("modules", [(len(module.text.splitlines()), module.name) for module in found])
    print_longest("functions", [entry for module in found for entry in functions_of(module)])
    print("\n" + ("\n".join(wrong) if wrong else f"{len(found)} modules export what they say."))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
