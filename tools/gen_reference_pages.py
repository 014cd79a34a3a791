"""Write the pages of docs/reference that the code itself can tell; ``--check`` compares only."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any

from page_writer import RULE, Field, fields_of, finish, paragraphs, table
from pydantic import BaseModel
from sqlalchemy import Table

from mastra_core import errors
from mastra_core.agent.memory import MemoryOptions
from mastra_core.agent.options import RunOptions
from mastra_core.background.settings import BackgroundTaskSettings, Cleanup, Retries
from mastra_core.bus.options import BusOptions
from mastra_core.config import VARIABLES, AdapterSection, PluginsSection, TelemetrySection
from mastra_core.contracts import capabilities
from mastra_core.contracts.background import BackgroundPolicy
from mastra_core.contracts.processor import HOOKS
from mastra_core.errors import MastraError
from mastra_core.notifications import DeliveryDecision, NotificationSettings
from mastra_core.plugins import PluginManager, Registry
from mastra_core.plugins.loading import import_name
from mastra_core.plugins.specs import Role
from mastra_core.wire import tables as names
from mastra_core.wire.baseline import WIRE
from mastra_otel.options import OtelOptions
from mastra_processors.options import Options
from mastra_processors.plugin import mastra_processors
from mastra_sql.bus.tables import build_bus_tables
from mastra_sql.lease.tables import build_lease_tables
from mastra_sql.tables import ColumnKind, build_tables, column_kind

__all__ = ("pages",)

#: Plugins of the core, which have no entry point.
BUILTINS = ("mastra_core.inmemory.plugin",)
#: Heading → a scheme of the adapter.
ADAPTERS = {
    "libSQL": "file",
    "PostgreSQL": "postgresql",
    "MongoDB": "mongodb",
    "Redis": "redis",
    "In memory": "memory",
}
ROLES: tuple[Role, ...] = ("storage", "pubsub", "lease")

WRITTEN = "This page is written by `tools/gen_reference_pages.py`."

DECLARING = """
An adapter declares names in its descriptor. What it declares, the conformance suite proves; what it
doesn't declare, it refuses with `CapabilityNotSupportedError`, and the suite proves that, too.
*Origin* is the name that the TypeScript system has for it, `typescript` if it has the thing but no
name, or `ours`.
"""


# -- errors -----------------------------------------------------------------------------------------


def errors_page() -> str:
    """The tree, and what each class means."""
    tree = inspect.cleandoc((errors.__doc__ or "").partition("::")[2])
    return paragraphs(
        "# Errors",
        "Everything that goes wrong has a class of its own, under `MastraError`, in "
        "`mastra_core.errors`. Catch the class, or compare `error.id`, which is also the `code` "
        f"on the wire. {WRITTEN}",
        "An error says in one sentence what happened; `error.hint`, if there is one, says what to "
        "do. `error.details` are the facts as JSON values, without secrets. `error.retryable` is "
        "true only if repeating the same call is safe. `error.to_wire()` is its form outside the "
        "process.",
        "## The tree",
        "The number is the HTTP status; a class without one has that of its parent.",
        f"```\n{tree}\n```",
        "## One by one",
        table(("Class", "Id", "Means"), _error_rows(MastraError)),
    )


def _error_rows(owner: type[MastraError]) -> Iterator[tuple[str, str, str]]:
    if owner.__module__.startswith("mastra_core.errors") and not owner.__name__.startswith("_"):
        meaning = (inspect.getdoc(owner) or "").partition("\n\n")[0].replace("\n", " ")
        meaning = RULE.sub("", meaning).replace("``", "`")
        yield f"`{owner.__name__}`", f"`{owner.id}`", meaning
        for child in owner.__subclasses__():
            yield from _error_rows(child)


# -- settings ---------------------------------------------------------------------------------------


def settings_page() -> str:
    """Where settings come from, and all there are."""
    return paragraphs(
        "# Settings",
        f"{WRITTEN} [How to set them](../how-to/choose-a-store.md#put-it-into-settings).",
        "An argument wins over the environment, that over `mastra.toml`, that over `[tool.mastra]` "
        "in `pyproject.toml`, that over the default. A name that nobody reads is an error that "
        "lists the known ones.",
        "## Sections",
        "### storage, pubsub, lease",
        _fields(AdapterSection),
        "Any other member is an option of the adapter that the URL chooses, and is checked by it.",
        "### plugins",
        _fields(PluginsSection),
        "### telemetry",
        _fields(TelemetrySection),
        "Any other member is a table of options for the exporter of this name, such as "
        "`[telemetry.otel]`:",
        _fields(OtelOptions),
        "## Environment variables",
        table(
            ("Variable", "Setting"),
            [(f"`{name}`", f"`{section}.{key}`") for name, (section, key) in VARIABLES.items()],
        ),
        "Any other is `MASTRA_<SECTION>__<KEY>`, such as `MASTRA_STORAGE__BUSY_TIMEOUT_MS=2000`. "
        "Lists are separated by commas, or are JSON.",
        "## Options of adapters",
        "In a section, as an argument, or in the URL with `mastra_` before the name: "
        "`file:app.db?mastra_busy_timeout_ms=2000`.",
        *_adapters(),
        "### Every bus",
        "Options of the pubsub of all adapters.",
        _fields(BusOptions, without="url"),
        "## The inbox",
        '`Mastra(notifications={"poll_ms": 1000})`',
        _fields(NotificationSettings),
        "What a delivery policy decides, as a mapping or as `DeliveryDecision`:",
        _fields(DeliveryDecision),
        "## Background tasks",
        '`Mastra(background_tasks={"per_agent_concurrency": 2})`',
        _fields(BackgroundTaskSettings),
        "Members of `default_retries` and of `cleanup`:",
        _fields(Retries),
        _fields(Cleanup),
        "What a tool says, `@tool(background={...})`, or an agent about one of its tools:",
        _fields(BackgroundPolicy),
        "## Agents",
        "`Agent(memory=MemoryOptions(last_messages=10))`",
        _fields(MemoryOptions),
        "Options of one call, `agent.stream(..., max_steps=3)`, or of every call, "
        "`Agent(default_options={...})`:",
        _fields(RunOptions),
    )


def _adapters() -> Iterator[str]:
    """Options of each adapter, and the roles that take them."""
    registry = Registry(PluginManager(builtins=BUILTINS))
    for title, scheme in ADAPTERS.items():
        found: dict[str, list[Field]] = {}
        roles: dict[str, dict[Role, None]] = {}
        for role in ROLES:
            offer = registry.find_adapter(role, scheme)
            settings = offer.spec.settings if offer is not None else None
            if settings is None:
                continue
            for field in _all_fields(import_name(settings)):
                found.setdefault(field.name, []).append(field)
                roles.setdefault(field.name, {})[role] = None
        yield f"### {title}"
        rows = [
            (
                # One of the roles says what it means.
                *_cells(next((field for field in fields if field.comment), fields[0])),
                "all" if len(roles[name]) == len(ROLES) else ", ".join(roles[name]),
            )
            for name, fields in found.items()
        ]
        yield table(("Name", "Type", "Default", "Meaning", "Roles"), rows)


def _all_fields(owner: type[BaseModel]) -> Iterator[Field]:
    """Those of the bases first; without what every bus has."""
    for base in reversed(owner.__mro__):
        if base not in {BaseModel, BusOptions} and issubclass(base, BaseModel):
            yield from fields_of(base)


def _fields(owner: type, *, without: str = "") -> str:
    rows = [_cells(field) for field in fields_of(owner) if field.name != without]
    return table(("Name", "Type", "Default", "Meaning"), rows)


def _cells(field: Field) -> tuple[str, str, str, str]:
    default = field.default and f"`{field.default}`"
    return f"`{field.name}`", f"`{field.type}`", default, field.comment


# -- capabilities -----------------------------------------------------------------------------------


def capabilities_page() -> str:
    """Every name that an adapter may declare."""
    groups = (
        ("Storage", capabilities.STORAGE_CAPABILITIES),
        ("Pubsub", capabilities.PUBSUB_CAPABILITIES),
        ("Lease", capabilities.LEASE_CAPABILITIES),
    )
    parts = [
        "# Capabilities",
        f"What a backend may promise. {WRITTEN}",
        DECLARING,
    ]
    for title, known in groups:
        rows = [
            (
                f"`{item.name}`",
                item.summary,
                item.origin,
                ", ".join(f"`{name}`" for name in item.implies),
            )
            for item in known.values()
        ]
        parts += [f"## {title}", table(("Name", "Promise", "Origin", "Implies"), rows)]
    return paragraphs(*parts)


# -- tables -----------------------------------------------------------------------------------------


def tables_page() -> str:
    """Tables and columns of the SQL adapters."""
    built = build_tables()
    return paragraphs(
        "# Tables",
        f"What stands in an SQL database, wire baseline {WIRE}. {WRITTEN}",
        "Names and columns of the shared tables are those of the TypeScript system. We never add a "
        "column, change one, or write a status that it doesn't know. Columns and tables that we "
        "don't know are left alone. What is ours alone stands in tables that start with "
        "`mastra_py_`.",
        "In PostgreSQL each time column of a shared table has a twin of the same name with a `Z` at its "
        "end: the same instant with its zone, as the TypeScript store writes it.",
        "## Shared tables",
        *_tables(built.shared()),
        "## Tables of our own",
        "Delete them while nothing runs, and nothing that a peer knows is lost.",
        *_tables(built.own()),
        "### Tables of the bus",
        "Made when a bus is opened on the database.",
        *_tables(build_bus_tables().own()),
        "### Tables of leases",
        "Made when leases are opened on the database.",
        *_tables(build_lease_tables().own()),
        "## Names",
        table(("Constant in `mastra_core.wire.tables`", "Table"), _constants(names)),
    )


def _tables(tables: Iterable[Table]) -> Iterator[str]:
    for item in tables:
        yield f"### {item.name}"
        rows = [
            (
                f"`{column.name}`",
                str(column_kind(column)),
                "key" if column.primary_key else "" if column.nullable else "never null",
            )
            for column in item.columns
        ]
        yield table(("Column", "Holds", ""), rows)


def _constants(module: ModuleType) -> list[tuple[str, str]]:
    members: dict[str, Any] = vars(module)
    return [(f"`{name}`", f"`{members[name]}`") for name in sorted(module.__all__)]


# -- processors -------------------------------------------------------------------------------------


def processors_page() -> str:
    """What the distribution of processors offers, with all options."""
    return paragraphs(
        "# Processors",
        f"{WRITTEN} [How to use them](../how-to/use-built-in-processors.md).",
        "What `mastra-processors` offers. An agent of an application names one, "
        '`("token-limiter", {"limit": 4000})`, or is given an object, `TokenLimiter(limit=4000)`. '
        "Options may also have the names of the TypeScript system, such as `maxRetries`.",
        *_processors(),
    )


def _processors() -> Iterator[str]:
    for spec in mastra_processors():
        factory = import_name(str(spec.factory))
        module = import_name(str(spec.factory).partition(":")[0] + ":__name__")
        yield f"## {spec.name}"
        yield RULE.sub("", inspect.getdoc(factory) or "").replace("``", "`")
        hooks = ", ".join(f"`{hook}`" for hook in HOOKS if hook in spec.phases)
        yield f"`from mastra_processors import {factory.__name__}`. Hooks: {hooks}."
        options = import_name(str(spec.settings))
        if options.model_fields:
            yield _options(options)
            for name, inner in vars(sys.modules[module]).items():
                if _is_member(inner, options, module):
                    yield f"Members of a `{name}`:"
                    yield _options(inner)


def _is_member(value: object, options: type[Options], module: str) -> bool:
    """A model of the same module that isn't the options themselves."""
    is_model = isinstance(value, type) and issubclass(value, Options) and value is not options
    return is_model and getattr(value, "__module__", "") == module


def _options(model: type[BaseModel]) -> str:
    """Options under the names that Python's callers write."""
    names = {info.alias: name for name, info in model.model_fields.items()}
    rows = [
        (
            f"`{names.get(field.name, field.name)}`",
            f"`{field.type}`",
            f"`{field.default}`" if field.default else "",
            field.comment,
        )
        for field in fields_of(model)
    ]
    return table(("Option", "Type", "Default", "Meaning"), rows)


def pages() -> dict[str, str]:
    """Path → text."""
    assert set(ColumnKind) == {"text", "integer", "json", "time", "twin"}
    return {
        "docs/reference/errors.md": errors_page(),
        "docs/reference/settings.md": settings_page(),
        "docs/reference/capabilities.md": capabilities_page(),
        "docs/reference/tables.md": tables_page(),
        "docs/reference/processors.md": processors_page(),
    }


if __name__ == "__main__":
    sys.exit(finish(pages()))
