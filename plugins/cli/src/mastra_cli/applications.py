"""Finding the user's agents: ``--app module:name``."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mastra_core.errors import ConfigError

if TYPE_CHECKING:
    from mastra_core.agent.agent import Agent
    from mastra_core.mastra import Mastra

__all__ = ("load_application", "load_object")


def load_object(name: str) -> Any:
    """
    The object behind ``module:name``; modules of the current folder are found, too.

    Raises:
        ConfigError: There is no such module or name, or importing it failed.
    """
    module_name, _, attribute = name.partition(":")
    if not module_name or not attribute:
        raise ConfigError(f"--app {name!r} is not of the form 'module:name'.")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Any = import_module(module_name)
        for step in attribute.split("."):
            found = getattr(found, step)
    except AttributeError as exc:
        raise ConfigError(f"Module {module_name!r} has no {attribute!r}.") from exc
    except ModuleNotFoundError as exc:
        raise ConfigError(
            f"Module {exc.name!r}, which --app {name!r} needs, was not found.",
            hint="Run the command in the folder of your application.",
        ) from exc
    except Exception as exc:
        raise ConfigError(
            f"Importing --app {name!r} failed: {type(exc).__name__}: {exc}",
            hint="--debug shows where.",
        ) from exc
    return found


def load_application(name: str, url: str | None) -> Mastra:
    """
    The application behind ``--app``, not open.

    An ``Agent`` is put into an application on the store that ``--url`` or the settings
    name; a ``Mastra`` has its own store. A function without arguments may make either.

    Raises:
        ConfigError: It is neither, or both it and ``--url`` name a store.
    """
    from mastra_core.agent.agent import Agent
    from mastra_core.mastra import Mastra

    found = load_object(name)
    if callable(found) and not isinstance(found, Agent | Mastra):
        found = found()
    if isinstance(found, Agent):
        found = _application_of(found, url)
    elif isinstance(found, Mastra) and url is not None:
        raise ConfigError(f"--app {name!r} has its own store; leave --url out.")
    if not isinstance(found, Mastra):
        raise ConfigError(
            f"--app {name!r} is of type {type(found).__name__}, neither an Agent nor a Mastra."
        )
    return found


def _application_of(agent: Agent, url: str | None) -> Mastra:
    from mastra_cli.stores import chosen_settings, refuse_absent_file, store_url
    from mastra_core.mastra import Mastra
    from mastra_core.plugins import parse_adapter_url

    settings = chosen_settings(url)
    refuse_absent_file(parse_adapter_url(store_url(settings)))
    return Mastra(settings=settings, agents=[agent])
