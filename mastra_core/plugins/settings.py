"""Options of a descriptor → an instance of its settings model; unknown ones are errors."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from mastra_core.errors import ConfigError, UnknownSettingError
from mastra_core.plugins.urls import OPTION_PREFIX, AdapterUrl

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

__all__ = ("adapter_settings", "check_known", "known_options", "options_instance")

#: Members of an adapter's model that come from the URL itself.
_FROM_URL = frozenset({"url", "driver"})


def adapter_settings(
    model: type[BaseModel] | None,
    url: AdapterUrl,
    *,
    options: Mapping[str, Any] | None = None,
    only_known: bool = False,
) -> BaseModel | AdapterUrl:
    """
    What the factory of an adapter gets.

    Args:
        model: The model that the descriptor names; without one the URL itself is given.
        url: Fills ``url``, and ``driver`` if the model has it; its options win.
        options: More options, from the configuration.
        only_known: Leave options that the model doesn't know out, instead of raising. Used
            for a role that the user didn't ask for but that shares another one's URL.

    Raises:
        UnknownSettingError: An option that the model doesn't have.
        ConfigError: A value that the model refuses.
    """
    given: dict[str, Any] = {**(options or {}), **url.options}
    known = known_options(model) - _FROM_URL if model is not None else frozenset()
    if only_known:
        given = {name: value for name, value in given.items() if name in known}
    for name in given:
        label = OPTION_PREFIX + name if name in url.options else name
        prefix = OPTION_PREFIX if name in url.options else ""
        check_known(label, {prefix + item for item in known}, where=repr(url.redacted))
    if model is None:
        return url
    given["url"] = url.driver_url
    if "driver" in known_options(model):
        given["driver"] = url.driver
    return _instance(model, given, where=repr(url.redacted), prefixed=url.options)


def options_instance(
    model: type[BaseModel] | None, options: Mapping[str, Any], *, where: str
) -> BaseModel | dict[str, Any]:
    """
    What the factory of a processor, signal provider or exporter gets.

    Returns:
        An instance of the model; a plain dict if there is no model.

    Raises:
        UnknownSettingError: An option that the model doesn't have.
        ConfigError: A value that the model refuses.
    """
    if model is None:
        return dict(options)
    known = known_options(model)
    for name in options:
        check_known(name, known, where=where)
    return _instance(model, options, where=where)


def known_options(model: type[BaseModel]) -> frozenset[str]:
    """The names that a model reads, with its aliases."""
    config = model.model_config
    reads_names = bool(config.get("populate_by_name") or config.get("validate_by_name"))
    names: set[str] = set()
    for name, info in model.model_fields.items():
        aliases = _aliases(info.validation_alias)
        names |= aliases
        if reads_names or not aliases:
            names.add(name)
    return frozenset(names)


def _aliases(alias: object) -> set[str]:
    """The plain names among the aliases of a field; paths into other values are none."""
    choices = getattr(alias, "choices", [alias])
    return {choice for choice in choices if isinstance(choice, str)}


def check_known(name: str, known: frozenset[str] | set[str], *, where: str) -> None:
    """
    Refuse a name that nobody reads.

    Raises:
        UnknownSettingError: With the known names, and the one that was probably meant.
    """
    if name in known:
        return
    close = get_close_matches(name, known, n=1)
    raise UnknownSettingError(
        name=name,
        where=where,
        known=sorted(known),
        hint=f"Did you mean {close[0]!r}?" if close else None,
    )


def _instance(
    model: type[BaseModel],
    given: Mapping[str, Any],
    *,
    where: str,
    prefixed: Collection[str] = (),
) -> BaseModel:
    from pydantic import ValidationError

    try:
        return model.model_validate(dict(given))
    except ValidationError as error:
        # The cause would show the values, and they may be secrets.
        raise _fault(error, where=where, prefixed=prefixed) from None


def _fault(error: ValidationError, *, where: str, prefixed: Collection[str]) -> ConfigError:
    """The first thing that a model refused, without the value."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    name = ".".join(str(part) for part in first["loc"])
    if name in prefixed:
        name = OPTION_PREFIX + name
    said = first["msg"]
    return ConfigError(
        f"Setting {name!r} in {where} is not valid: {said}.",
        details={"setting": name, "errors": error.error_count()},
    )
