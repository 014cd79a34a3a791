"""
Settings: where they come from, which one wins, and which names exist.

Precedence: argument > environment > ``mastra.toml`` > ``[tool.mastra]`` in
``pyproject.toml`` > default. A name that nobody reads is an error that lists the known
ones. What the adapters do with their options is their own matter, see
``plugins.settings``.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from mastra_core.base.redact import REDACTED, is_secret_name, redact_url
from mastra_core.errors import ConfigError, UnknownSettingError
from mastra_core.plugins.options import PluginOptions

__all__ = (
    "FILES",
    "VARIABLES",
    "AdapterSection",
    "PluginsSection",
    "Settings",
    "TelemetrySection",
    "load_settings",
)

#: Read in this order; the earlier file wins.
FILES: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    ("mastra.toml", ()),
    ("pyproject.toml", ("tool", "mastra")),
)

#: Environment variables with a name of their own; the rest is ``MASTRA_<SECTION>__<KEY>``.
VARIABLES: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "MASTRA_STORAGE_URL": ("storage", "url"),
        "MASTRA_PUBSUB_URL": ("pubsub", "url"),
        "MASTRA_LEASE_URL": ("lease", "url"),
        "MASTRA_PLUGINS": ("plugins", "enable"),
        "MASTRA_PLUGINS_DISABLE": ("plugins", "disable"),
        "MASTRA_PLUGINS_STRICT": ("plugins", "strict"),
        "MASTRA_PLUGINS_TRACE": ("plugins", "trace"),
    }
)


def _names(value: object) -> object:
    """A list with commas, as the environment writes it, becomes a list."""
    if not isinstance(value, str):
        return value
    return [name for part in value.split(",") if (name := part.strip())]


def _pairs(value: object) -> object:
    """``a=b,c=d``, as the environment writes it, becomes a table."""
    if not isinstance(value, str):
        return value
    items = [part.partition("=") for part in value.split(",") if part.strip()]
    return {key.strip(): chosen.strip() for key, _, chosen in items}


class AdapterSection(BaseModel):
    """``[storage]``, ``[pubsub]`` and ``[lease]``: a URL, and options of its adapter."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow", frozen=True)

    #: Chooses the adapter; None leaves the choice to the runtime.
    url: str | None = None

    @property
    def options(self) -> dict[str, Any]:
        """What the adapter's own settings model checks."""
        return dict(self.model_extra or {})


class PluginsSection(BaseModel):
    """``[plugins]``: which plugins may be used."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True)

    #: Names of the only plugins that may be used; None for all.
    enable: Annotated[list[str] | None, BeforeValidator(_names)] = None
    #: Names of plugins that are never imported.
    disable: Annotated[list[str], BeforeValidator(_names)] = Field(default_factory=list)
    #: Broken and incompatible plugins are errors.
    strict: bool = False
    #: Log every hook call.
    trace: bool = False
    #: Scheme or name → distribution that wins a conflict.
    prefer: Annotated[dict[str, str], BeforeValidator(_pairs)] = Field(default_factory=dict)
    #: Seconds for each plugin to start and to stop.
    start_deadline: float = Field(default=10.0, gt=0)
    stop_deadline: float = Field(default=10.0, gt=0)
    #: Seconds for an authorisation.
    permit_deadline: float = Field(default=2.0, gt=0)
    #: Consecutive failures after which an observer is switched off.
    observer_failures: int = Field(default=10, ge=1)

    def to_options(self) -> PluginOptions:
        """What the plugin manager takes."""
        return PluginOptions(
            enable=None if self.enable is None else frozenset(self.enable),
            disable=frozenset(self.disable),
            strict=self.strict,
            trace=self.trace,
            prefer=MappingProxyType(dict(self.prefer)),
            start_deadline=self.start_deadline,
            stop_deadline=self.stop_deadline,
            permit_deadline=self.permit_deadline,
            observer_failures=self.observer_failures,
        )


class TelemetrySection(BaseModel):
    """``[telemetry]``: whether anything is measured, and a table of options per exporter."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow", frozen=True)

    #: Let installed plugins measure runs and send what they measure.
    enabled: bool = True

    @property
    def exporters(self) -> dict[str, dict[str, Any]]:
        """Options by the name of the exporter; ``{}`` for one that is only named."""
        return {
            name: dict(options) if isinstance(options, Mapping) else {}
            for name, options in (self.model_extra or {}).items()
        }


class Settings(BaseModel):
    """All settings of one ``Mastra`` object."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True)

    storage: AdapterSection = Field(default_factory=AdapterSection)
    pubsub: AdapterSection = Field(default_factory=AdapterSection)
    lease: AdapterSection = Field(default_factory=AdapterSection)
    plugins: PluginsSection = Field(default_factory=PluginsSection)
    telemetry: TelemetrySection = Field(default_factory=TelemetrySection)

    #: ``section.key`` → where its value comes from, for ``doctor``; defaults aren't listed.
    sources: Mapping[str, str] = Field(default_factory=dict, exclude=True, repr=False)

    def describe(self) -> dict[str, tuple[Any, str]]:
        """``section.key`` → value without secrets, and where it comes from."""
        described: dict[str, tuple[Any, str]] = {}
        for section in _SECTIONS:
            for key, value in getattr(self, section).model_dump().items():
                name = f"{section}.{key}"
                shown = redact_url(value) if isinstance(value, str) else value
                if is_secret_name(key) and value is not None:
                    shown = REDACTED
                described[name] = (shown, self.sources.get(name, "default"))
        return described


_SECTIONS: Final[Mapping[str, type[BaseModel]]] = MappingProxyType(
    {
        "storage": AdapterSection,
        "pubsub": AdapterSection,
        "lease": AdapterSection,
        "plugins": PluginsSection,
        "telemetry": TelemetrySection,
    }
)


@dataclass(slots=True)
class _Merged:
    """Values by section and key, with the place that each one comes from."""

    values: dict[str, dict[str, Any]] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)

    def add_section(self, section: str, values: Mapping[str, tuple[object, str]]) -> None:
        """
        Take what one place says about a section; more important places were added before.

        Options belong to the URL that stands beside them. If a more important place chose
        another URL, they are left out with theirs.
        """
        is_other_url = "url" in values and f"{section}.url" in self.sources
        for key, (value, source) in values.items():
            if not is_other_url:
                self._add(section, key, value, source)

    def _add(self, section: str, key: str, value: object, source: str) -> None:
        name = f"{section}.{key}"
        if name not in self.sources:
            self.sources[name] = source
            self.values.setdefault(section, {})[key] = value


def load_settings(
    arguments: Mapping[str, Mapping[str, Any]] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    directory: str | os.PathLike[str] | None = None,
) -> Settings:
    """
    Put all settings together.

    Args:
        arguments: ``{"storage": {"url": …}}``; members that are None count as not given.
        environ: None reads the process's own environment; empty variables count as unset.
        directory: Where ``mastra.toml`` and ``pyproject.toml`` may be; None for the
            current one.

    Raises:
        UnknownSettingError: A section or key that nobody reads.
        ConfigError: A file can't be read, or a value doesn't fit.
    """
    merged = _Merged()
    _add_table(merged, arguments or {}, "the arguments")
    _add_environment(merged, os.environ if environ is None else environ)
    for file_name, path in FILES:
        table = _table(Path(directory or ".") / file_name, path)
        _add_table(merged, table, _place(file_name, path))
    try:
        return Settings.model_validate({**merged.values, "sources": merged.sources})
    except ValidationError as error:
        # The cause would show the values, and they may be secrets.
        raise _fault(error, merged) from None


def _add_table(merged: _Merged, table: Mapping[str, object], place: str) -> None:
    for section, values in table.items():
        if section not in _SECTIONS:
            raise _unknown(section, place, list(_SECTIONS))
        if not isinstance(values, Mapping):
            raise ConfigError(f"{section!r} in {place} is not a table.")
        for key in values:
            _check_key(section, str(key), place)
        merged.add_section(
            section,
            {str(key): (value, place) for key, value in values.items() if value is not None},
        )


def _check_key(section: str, key: str, place: str) -> None:
    model = _SECTIONS[section]
    if model.model_config.get("extra") != "allow" and key not in model.model_fields:
        raise _unknown(f"{section}.{key}", place, [f"{section}.{n}" for n in model.model_fields])


def _add_environment(merged: _Merged, environ: Mapping[str, str]) -> None:
    sections: dict[str, dict[str, tuple[object, str]]] = {}
    for variable in (*VARIABLES, *sorted(environ)):
        text = environ.get(variable)
        found = VARIABLES.get(variable) or _section_and_key(variable)
        if text and found is not None:
            section, key = found
            place = f"environment {variable}"
            _check_key(section, key, place)
            sections.setdefault(section, {}).setdefault(key, (_value_of(text), place))
    for section, values in sections.items():
        merged.add_section(section, values)


def _section_and_key(variable: str) -> tuple[str, str] | None:
    """``MASTRA_STORAGE__POOL_SIZE`` is ``storage``, ``pool_size``; None for foreign names."""
    if not variable.startswith("MASTRA_") or "__" not in variable:
        return None
    section, _, key = variable.removeprefix("MASTRA_").lower().partition("__")
    if not section or not key:
        return None
    if section not in _SECTIONS:
        known = [f"MASTRA_{name.upper()}__…" for name in _SECTIONS]
        raise _unknown(variable, "the environment", known)
    return section, key


def _value_of(text: str) -> object:
    """Lists and tables may be written as JSON; everything else stays text."""
    if text[:1] in "[{":
        try:
            return json.loads(text)
        except ValueError:
            return text
    return text


def _table(file: Path, path: tuple[str, ...]) -> Mapping[str, Any]:
    """The part of a TOML file that is ours; empty without the file or the part."""
    try:
        text = file.read_text("utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file.name} can't be read: {error}.") from error
    try:
        table: Any = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{file.name} is not valid TOML: {error}.") from error
    for name in path:
        table = table.get(name, {})
        if not isinstance(table, dict):
            raise ConfigError(f"{name!r} in {file.name} is not a table.")
    return dict(table)


def _place(file_name: str, path: tuple[str, ...]) -> str:
    return f"[{'.'.join(path)}] of {file_name}" if path else file_name


def _unknown(name: str, place: str, known: list[str]) -> UnknownSettingError:
    close = get_close_matches(name, known, n=1)
    hint = f"Did you mean {close[0]!r}?" if close else None
    return UnknownSettingError(name=name, where=place, known=known, hint=hint)


def _fault(error: ValidationError, merged: _Merged) -> ConfigError:
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    name = ".".join(str(part) for part in first["loc"][:2])
    place = merged.sources.get(name)
    where = f" in {place}" if place else ""
    return ConfigError(
        f"Setting {name!r}{where} is not valid: {first['msg']}.", details={"setting": name}
    )
