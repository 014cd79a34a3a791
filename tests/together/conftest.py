"""An environment of its own, with what third parties have installed into it."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import pytest

__all__ = ("Place", "place")

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
THIRD_PARTIES = ("json_file_adapter", "redaction_processor")


@dataclass(frozen=True, slots=True)
class Place:
    """A virtual environment."""

    folder: Path

    @property
    def python(self) -> str:
        return str(self.folder / "bin" / "python")

    def run(self, *arguments: str, code: int = 0) -> str:
        """Run its Python in an empty folder; what it printed."""
        work = self.folder / "work"
        work.mkdir(exist_ok=True)
        done = subprocess.run(
            [self.python, "-W", "error", *arguments],
            cwd=work,
            env={**os.environ, "NO_COLOR": "1", "COLUMNS": "100"},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert code == done.returncode, f"{done.stdout}{done.stderr}"
        return done.stdout


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Sees our distributions, and has the third parties' installed with pip as wheels."""
    folder = tmp_path_factory.mktemp("third-parties")
    wheels = folder / "wheels"
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    build = ["wheel", "--no-deps", "--no-index", "--no-build-isolation", "-w", str(wheels)]
    sources = [str(EXAMPLES / name) for name in THIRD_PARTIES]
    subprocess.run([*pip, *build, *sources], check=True)
    environment = folder / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    made = Place(environment)
    ours = sysconfig.get_path("purelib")
    site = made.run("-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    Path(site, "ours.pth").write_text(f"import site; site.addsitedir({ours!r})\n")
    install = ["install", "--no-deps", "--no-index", *map(str, sorted(wheels.glob("*.whl")))]
    subprocess.run([*pip, "--python", made.python, *install], check=True)
    return made
