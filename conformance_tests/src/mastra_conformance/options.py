"""The options of a conformance run, as pytest gives them to us."""

from __future__ import annotations

import argparse
import re
import secrets
from dataclasses import dataclass
from pathlib import Path
from tempfile import gettempdir

import pytest

__all__ = ("DEFAULT_TIERS", "ROLES", "Options", "add_options", "options_of", "parse_tiers")

DEFAULT_TIERS = (0, 1, 2, 3)
"""Tiers that need nothing but the adapter and its server."""

ROLES = ("storage", "pubsub", "lease")
"""What an adapter can be asked for."""

_HISTORIES = Path(gettempdir()) / "mastra-histories"

_KEY: pytest.StashKey[Options] = pytest.StashKey()


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What was asked for on the command line."""

    adapters: tuple[str, ...] = ()
    #: Import strings of plugins that no installed distribution offers.
    plugins: tuple[str, ...] = ()
    roles: tuple[str, ...] = ROLES
    tiers: tuple[int, ...] = DEFAULT_TIERS
    only: tuple[str, ...] = ()
    expect: Path | None = None
    report: Path | None = None
    soak_seconds: float = 0.0
    seed: int = 0
    require: bool = False
    #: The server that fault tests start and break.
    own_server: str | None = None
    #: A revision of the checkout, or a folder of wheels, that runs beside this version.
    older: str | None = None
    #: Where the histories of failed tests are kept.
    histories: Path = _HISTORIES

    def narrows(self) -> bool:
        """Whether parts of the suite were left out, so that no level can be given."""
        return bool(self.only)


def add_options(parser: pytest.Parser) -> None:
    """Declare the ``--mastra-…`` options."""
    group = parser.getgroup("mastra", "conformance of mastra-core adapters")
    add = group.addoption
    add(
        "--mastra-adapter",
        action="append",
        default=[],
        metavar="URL",
        help="adapter under test; repeat for a matrix",
    )
    add(
        "--mastra-plugin",
        action="append",
        default=[],
        metavar="MODULE",
        help="plugin module to load beside the installed ones; repeatable",
    )
    add(
        "--mastra-role",
        default=",".join(ROLES),
        metavar="ROLES",
        help="roles to test, comma separated: storage, pubsub, lease",
    )
    add(
        "--mastra-tier",
        default="0-3",
        metavar="TIERS",
        help="tiers to run, such as 1 or 0-3 or 0,2 (default 0-3)",
    )
    add(
        "--mastra-only",
        action="append",
        default=[],
        metavar="CAPABILITY",
        help="run only the tests of this capability; repeatable",
    )
    add("--mastra-expect", default=None, metavar="FILE", help="file of known failures (TOML)")
    add("--mastra-report", default=None, metavar="PATH", help="write the report (JSON) here")
    add(
        "--mastra-soak",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="repeat the concurrency tests for so long",
    )
    add(
        "--mastra-seed",
        type=int,
        default=None,
        metavar="N",
        help="seed of the random order and of everything random in a test",
    )
    add(
        "--mastra-own-server",
        default=None,
        metavar="NAME[@VERSION]",
        help="server that fault tests start and break, such as postgres@18; "
        "or MODULE:PRODUCT (default: one for the adapter's URL)",
    )
    add(
        "--mastra-older",
        default=None,
        metavar="REVISION",
        help="earlier version of our own code that runs beside this one: a revision of "
        "the checkout or a folder of wheels (default: its newest tag)",
    )
    add(
        "--mastra-histories",
        default=str(_HISTORIES),
        metavar="FOLDER",
        help="where the histories of failed tests are kept",
    )
    add("--mastra-list-cases", default=None, metavar="FILE", help=argparse.SUPPRESS)
    add(
        "--mastra-require",
        action="store_true",
        help="count tests that this machine can't run as failures",
    )


def options_of(config: pytest.Config) -> Options:
    """
    The options of this run, read once.

    Raises:
        pytest.UsageError: A value makes no sense.
    """
    if _KEY not in config.stash:
        config.stash[_KEY] = _read(config)
    return config.stash[_KEY]


def parse_tiers(text: str) -> tuple[int, ...]:
    """
    Read ``1``, ``0-3`` or ``0,2-4``.

    Raises:
        ValueError: It is something else, or outside 0 … 6.
    """
    tiers: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*([0-6])(?:-([0-6]))?\s*", part)
        if match is None:
            raise ValueError(f"Tiers {text!r} are not like 1, 0-3 or 0,2 within 0 … 6.")
        first, last = int(match[1]), int(match[2] or match[1])
        tiers.update(range(first, last + 1))
    return tuple(sorted(tiers))


def _read(config: pytest.Config) -> Options:
    given = config.option
    roles = tuple(role.strip() for role in given.mastra_role.split(",") if role.strip())
    unknown = sorted(set(roles) - set(ROLES))
    if unknown or not roles:
        raise pytest.UsageError(f"--mastra-role knows {', '.join(ROLES)}, not {unknown}.")
    try:
        tiers = parse_tiers(given.mastra_tier)
    except ValueError as exc:
        raise pytest.UsageError(str(exc)) from exc
    return Options(
        adapters=tuple(given.mastra_adapter),
        plugins=tuple(given.mastra_plugin),
        roles=roles,
        tiers=tiers,
        only=tuple(given.mastra_only),
        expect=Path(given.mastra_expect) if given.mastra_expect else None,
        report=Path(given.mastra_report) if given.mastra_report else None,
        soak_seconds=given.mastra_soak,
        seed=_seed(config),
        require=given.mastra_require,
        own_server=given.mastra_own_server,
        older=given.mastra_older,
        histories=Path(given.mastra_histories),
    )


def _seed(config: pytest.Config) -> int:
    """The seed of the command line, of the xdist controller, or a new one."""
    given = config.getoption("--mastra-seed")
    if given is not None:
        return int(given)
    worker_input = getattr(config, "workerinput", None)
    if worker_input is not None:
        return int(worker_input["mastra_seed"])
    return secrets.randbelow(2**32)
