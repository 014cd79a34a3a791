"""Who gets a scheme or name that several plugins claim. Pure functions (design 4.4.4-5)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from mastra_core.errors import ConfigError, PluginConflictError
from mastra_core.plugins.records import PluginRecord
from mastra_core.plugins.specs import (
    AdapterSpec,
    Descriptor,
    ModelProviderSpec,
    ProcessorSpec,
)

__all__ = ("Offer", "choose", "conflicts_of", "keys_of")

T = TypeVar("T", bound=Descriptor)

#: Hooks whose descriptors claim names, and what such a name is called.
_CLAIMS: Final[tuple[tuple[str, str], ...]] = (
    ("mastra_storage_adapters", "storage scheme"),
    ("mastra_pubsub_adapters", "pubsub scheme"),
    ("mastra_lease_adapters", "lease scheme"),
    ("mastra_processors", "processor"),
    ("mastra_model_providers", "model prefix"),
    ("mastra_signal_providers", "signal provider"),
    ("mastra_cli_commands", "command"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer(Generic[T]):
    """A descriptor and the plugin that it comes from."""

    spec: T
    record: PluginRecord


def keys_of(spec: Descriptor) -> tuple[str, ...]:
    """The names that a descriptor claims among its kind."""
    if isinstance(spec, AdapterSpec):
        return spec.schemes
    if isinstance(spec, ModelProviderSpec):
        return spec.all_prefixes
    return (spec.name,)


def choose(
    what: str, key: str, offers: Sequence[Offer[T]], prefer: Mapping[str, str]
) -> Offer[T] | None:
    """
    The offer that gets the key; None if nobody claims it.

    Handed-in plugins come before the setting ``[plugins.prefer]``, that before the core's
    own plugins, and those before the rest.

    Args:
        what: What the key is, for messages.
        key: A scheme, prefix or name.
        offers: What active plugins offer; those that don't claim the key are passed over.
        prefer: Key → plugin or distribution.

    Raises:
        PluginConflictError: Several plugins of one stage claim it.
        ConfigError: The preferred plugin doesn't claim it.
    """
    claiming = [offer for offer in offers if key in keys_of(offer.spec)]
    by_stage: dict[str, list[Offer[T]]] = defaultdict(list)
    for offer in claiming:
        by_stage[offer.record.origin].append(offer)
    if by_stage["instance"]:
        return _only(what, key, by_stage["instance"])
    if claiming and (preferred := prefer.get(key)) is not None:
        return _preferred(what, key, claiming, preferred)
    for stage in ("builtin", "entry_point"):
        if by_stage[stage]:
            return _only(what, key, by_stage[stage])
    return None


def _only(what: str, key: str, offers: list[Offer[T]]) -> Offer[T]:
    replacing = [
        item for item in offers if isinstance(item.spec, ProcessorSpec) and item.spec.replace
    ]
    offers = replacing or offers
    if len(offers) == 1:
        return offers[0]
    raise PluginConflictError(what=what, name=key, distributions=_labels(offers))


def _labels(offers: Sequence[Offer[T]]) -> list[str]:
    """Distributions; names of plugins where those of one distribution differ."""
    labels = [offer.record.label for offer in offers]
    if len(set(labels)) == len(labels):
        return labels
    return [offer.record.name for offer in offers]


def _preferred(what: str, key: str, offers: list[Offer[T]], preferred: str) -> Offer[T]:
    for offer in offers:
        if preferred in offer.record.names:
            return offer
    labels = " and ".join(offer.record.label for offer in offers)
    raise ConfigError(
        f'[plugins.prefer] {key} = "{preferred}", but this {what} is offered by {labels}.'
    )


def conflicts_of(
    records: Iterable[PluginRecord], prefer: Mapping[str, str]
) -> dict[PluginRecord, list[str]]:
    """For each plugin that claims what it can't have alone: one note per name."""
    notes: dict[PluginRecord, list[str]] = defaultdict(list)
    for hook, what in _CLAIMS:
        claims: dict[str, list[Offer[Descriptor]]] = defaultdict(list)
        for record in records:
            for spec in _descriptors(record, hook):
                for key in keys_of(spec):
                    claims[key].append(Offer(spec=spec, record=record))
        for key, offers in claims.items():
            if len(offers) > 1:
                _note_conflict(notes, what, key, offers, prefer)
    return dict(notes)


def _descriptors(record: PluginRecord, hook: str) -> list[Descriptor]:
    offered = record.offers.get(hook, ()) if record.is_usable else ()
    return [spec for spec in offered if isinstance(spec, Descriptor)]


def _note_conflict(
    notes: dict[PluginRecord, list[str]],
    what: str,
    key: str,
    offers: list[Offer[Descriptor]],
    prefer: Mapping[str, str],
) -> None:
    try:
        winner = choose(what, key, offers, prefer)
    except (PluginConflictError, ConfigError):
        winner = None
    for offer in offers:
        others = [item.record.label for item in offers if item is not offer]
        if winner is None:
            notes[offer.record].append(f"{what} {key!r} is also claimed by {', '.join(others)}")
        elif offer is not winner and key not in prefer:
            notes[offer.record].append(f"{what} {key!r} belongs to {winner.record.label}")
