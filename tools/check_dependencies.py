"""Check that each package imports only what its distribution asks for.

The core may need pluggy and pydantic and nothing else; an adapter its driver. Imports inside
functions count, too.
"""

from __future__ import annotations

import ast
import importlib.metadata
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

__all__ = ("main",)

ROOT = Path(__file__).resolve().parent.parent
#: Import names that come with a requirement under another name.
COMES_WITH = {"pydantic": {"pydantic_core", "annotated_types"}}


def import_names(requirement: str) -> set[str]:
    """The top-level names that a required distribution installs."""
    name = re.split(r"[^\w.-]", requirement, maxsplit=1)[0]
    if name.startswith("mastra-"):
        return {name.replace("-", "_")}
    installed = importlib.metadata.packages_distributions()
    wanted = name.lower().replace("_", "-")
    return {
        module
        for module, owners in installed.items()
        if wanted in {owner.lower().replace("_", "-") for owner in owners}
    } | COMES_WITH.get(name, set())


def imported_names(tree: ast.Module) -> Iterator[str]:
    """The top-level names that a module imports, anywhere in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module.partition(".")[0]


def distributions() -> Iterator[tuple[Path, str, set[str]]]:
    """Package folder, distribution and the names it may import, for each of ours."""
    patterns = (
        "pyproject.toml",
        "*/pyproject.toml",
        "adapters/*/pyproject.toml",
        "plugins/*/pyproject.toml",
    )
    for path in sorted(path for pattern in patterns for path in ROOT.glob(pattern)):
        project = tomllib.loads(path.read_text())["project"]
        package = project["name"].replace("-", "_")
        extras = project.get("optional-dependencies", {}) if path.parent != ROOT else {}
        asked: Iterable[str] = [*project["dependencies"], *(r for e in extras.values() for r in e)]
        allowed = {package}.union(*(import_names(requirement) for requirement in asked))
        folder = path.parent / "src" / package
        yield folder if folder.exists() else path.parent / package, project["name"], allowed


def complaints(folder: Path, name: str, allowed: set[str]) -> Iterator[str]:
    """Imports of one distribution that it doesn't ask for."""
    for path in sorted(folder.rglob("*.py")):
        imported = set(imported_names(ast.parse(path.read_text())))
        for module in sorted(imported - allowed - sys.stdlib_module_names):
            yield f"{path.relative_to(ROOT)} imports {module}; {name} doesn't ask for it."


def main() -> int:
    """Print imports that nothing asks for; 1 if there are any."""
    wrong = [
        complaint for distribution in distributions() for complaint in complaints(*distribution)
    ]
    print("\n".join(wrong) if wrong else "Every import is asked for.")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
