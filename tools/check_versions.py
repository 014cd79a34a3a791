"""Check that all our distributions carry one version and ask each other for it."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

__all__ = ("main",)

ROOT = Path(__file__).resolve().parent.parent


def projects() -> dict[str, tuple[Path, dict[str, Any]]]:
    """Each distribution of the workspace with its folder and ``[project]`` table."""
    root = tomllib.loads((ROOT / "pyproject.toml").read_text())
    patterns = root["tool"]["uv"]["workspace"]["members"]
    folders = [ROOT, *(path for pattern in patterns for path in sorted(ROOT.glob(pattern)))]
    found = {}
    for folder in folders:
        if (folder / "pyproject.toml").exists():
            project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
            found[project["name"]] = (folder, project)
    return found


def version_in_code(folder: Path, name: str) -> str | None:
    """``__version__`` of the import package of a distribution."""
    package = name.replace("-", "_")
    module = next(path for path in (folder / package, folder / "src" / package) if path.exists())
    for node in ast.parse((module / "__init__.py").read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__version__":
            return str(ast.literal_eval(node.value))
    return None


def split_requirement(requirement: str) -> tuple[str, str]:
    """Name and version range of a requirement, without its extras."""
    plain = re.sub(r"\[.*?\]", "", requirement)
    name = re.split(r"[^\w.-]", plain, maxsplit=1)[0]
    return name, plain.removeprefix(name)


def accepted_ranges(version: str) -> tuple[str, str]:
    """How a member asks for another (``>=``), and how an extra of the core pins it (``~=``)."""
    major, minor, *_ = map(int, version.split("."))
    if major == 0:
        return f">=0.{minor},<0.{minor + 1}", f"~=0.{minor}.0"
    return f">={major}.{minor},<{major + 1}", f"~={major}.{minor}.0"


def complaints() -> list[str]:
    """Everything that doesn't fit, one sentence each."""
    found = projects()
    version = found["mastra-core"][1]["version"]
    accepted = accepted_ranges(version)
    wrong = []
    for name, (folder, project) in found.items():
        if project["version"] != version:
            wrong.append(f"{name} is {project['version']}, mastra-core is {version}.")
        if (stated := version_in_code(folder, name)) != version:
            wrong.append(f"{name}: __version__ is {stated!r}, the distribution is {version}.")
        extras = project.get("optional-dependencies", {}).values()
        for requirement in [*project.get("dependencies", ()), *(r for e in extras for r in e)]:
            other, asked = split_requirement(requirement)
            if other in found and other != name and asked not in accepted:
                wrong.append(f"{name} asks for {requirement}, not for {other}{accepted[0]}.")
    return wrong


def main() -> int:
    """Print what doesn't fit; 1 if anything."""
    wrong = complaints()
    print("\n".join(wrong) if wrong else f"{len(projects())} distributions have one version.")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
