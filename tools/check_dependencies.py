"""Check what our packages import.

A package imports only what its distribution asks for, or one of ours that it asks for: the core
pluggy and pydantic and nothing else, an adapter its driver. Imports inside functions count. And a plugin that says what it
offers brings no driver along: each entry point is really loaded, in a process of its own.
"""

from __future__ import annotations

import ast
import importlib.metadata
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ("main",)

ROOT = Path(__file__).resolve().parent.parent
PROJECTS = (".", "*", "adapters/*", "plugins/*")
#: Import names that come with a requirement under another name.
COMES_WITH = {"pydantic": {"pydantic_core", "annotated_types"}}
LOAD = "import sys, importlib; importlib.import_module({module!r}); print(*sys.modules)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """One distribution of ours."""

    name: str
    package: Path
    #: Top-level names that its requirements and extras install.
    asked: frozenset[str]
    #: Modules that its entry points of the group ``mastra_core`` name.
    plugins: tuple[str, ...]


def distributions() -> Iterator[Distribution]:
    """All distributions of this repository."""
    for path in sorted(p for folder in PROJECTS for p in ROOT.glob(f"{folder}/pyproject.toml")):
        project = tomllib.loads(path.read_text())["project"]
        name = project["name"]
        package = path.parent / "src" / name.replace("-", "_")
        requirements = [*project["dependencies"]]
        if path.parent != ROOT:  # the core's extras are our own distributions
            for extra in project.get("optional-dependencies", {}).values():
                requirements += extra
        yield Distribution(
            name=name,
            package=package if package.exists() else path.parent / name.replace("-", "_"),
            asked=frozenset().union(*map(import_names, requirements)),
            plugins=tuple(project.get("entry-points", {}).get("mastra_core", {}).values()),
        )


def import_names(requirement: str) -> set[str]:
    """The top-level names that a required distribution installs."""
    name = re.split(r"[^\w.-]", requirement, maxsplit=1)[0].lower().replace("_", "-")
    if name.startswith("mastra-"):
        return {name.replace("-", "_")}
    installed = importlib.metadata.packages_distributions()
    return {
        module
        for module, owners in installed.items()
        if name in {owner.lower().replace("_", "-") for owner in owners}
    } | COMES_WITH.get(name, set())


def imported_names(tree: ast.Module) -> Iterator[str]:
    """The top-level names that a module imports, anywhere in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module.partition(".")[0]


def all_asked(ours: Distribution, found: list[Distribution]) -> frozenset[str]:
    """What a distribution asks for, itself or through others of ours."""
    through = (all_asked(other, found) for other in found if other.package.name in ours.asked)
    return ours.asked.union(*through)


def unasked_imports(ours: Distribution, asked: frozenset[str]) -> Iterator[str]:
    """Imports of a distribution that it doesn't ask for."""
    allowed = asked | {ours.package.name} | sys.stdlib_module_names
    for path in sorted(ours.package.rglob("*.py")):
        for module in sorted(set(imported_names(ast.parse(path.read_text()))) - allowed):
            yield f"{path.relative_to(ROOT)} imports {module}; {ours.name} doesn't ask for it."


def drivers_loaded(ours: Distribution, drivers: frozenset[str]) -> Iterator[str]:
    """Drivers that come along when a plugin of a distribution is loaded."""
    for module in ours.plugins:
        done = subprocess.run(
            [sys.executable, "-c", LOAD.format(module=module)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            yield f"{module} can't be loaded: {done.stderr.strip().splitlines()[-1]}"
        for driver in sorted(drivers & set(done.stdout.split())):
            yield f"{module} loads {driver}."


def main() -> int:
    """Print what is wrong; 1 if anything."""
    found = list(distributions())
    core = next(ours.asked for ours in found if ours.name == "mastra-core")
    packages = {ours.package.name for ours in found}
    wrong: list[str] = []
    for ours in found:
        asked = all_asked(ours, found)
        wrong += unasked_imports(ours, asked)
        wrong += drivers_loaded(ours, asked - core - packages)
    print("\n".join(wrong) if wrong else "Every import is asked for; no plugin loads a driver.")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
