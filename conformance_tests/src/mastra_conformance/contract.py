"""Compares what an adapter's classes look like with the contracts, name by name."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from inspect import Parameter, Signature

__all__ = ("contract_methods", "signature_faults")


def contract_methods(protocol: type) -> Iterator[tuple[str, Signature]]:
    """The public methods that a protocol itself demands."""
    for name, member in sorted(vars(protocol).items()):
        if inspect.isfunction(member) and not name.startswith("_"):
            yield name, inspect.signature(member)


def signature_faults(protocol: type, implementation: object) -> list[str]:
    """
    What differs, as sentences; empty if callers of the contract can't tell.

    An implementation may take more parameters than the contract, as long as they are
    optional and keyword-only.
    """
    faults: list[str] = []
    for name, wanted in contract_methods(protocol):
        method = getattr(implementation, name, None)
        if not callable(method):
            faults.append(f"{protocol.__name__}.{name} is missing.")
            continue
        label = f"{type(implementation).__name__}.{name}"
        faults.extend(_parameter_faults(label, wanted, inspect.signature(method)))
        if _is_async(getattr(protocol, name)) != _is_async(method):
            faults.append(
                f"{label} must {'' if _is_async(getattr(protocol, name)) else 'not '}be awaited."
            )
    return faults


def _parameter_faults(label: str, wanted: Signature, found: Signature) -> Iterator[str]:
    expected = [item for item in wanted.parameters.values() if item.name != "self"]
    actual = found.parameters
    positions = [name for name, item in actual.items() if item.kind is not Parameter.KEYWORD_ONLY]
    for position, parameter in enumerate(expected):
        match = actual.get(parameter.name)
        if match is None:
            yield f"{label} has no parameter {parameter.name!r}."
            continue
        if match.kind is not parameter.kind:
            yield f"{label}: {parameter.name!r} is {_kind(match)}, not {_kind(parameter)}."
        elif parameter.kind is not Parameter.KEYWORD_ONLY and (
            position >= len(positions) or positions[position] != parameter.name
        ):
            yield f"{label}: {parameter.name!r} isn't at position {position + 1}."
        if _shown(match) != _shown(parameter):
            yield (
                f"{label}: {parameter.name!r} has the default {_shown(match)}, "
                f"not {_shown(parameter)}."
            )
    known = {parameter.name for parameter in expected}
    for name, parameter in actual.items():
        is_harmless = parameter.kind is Parameter.KEYWORD_ONLY and parameter.default is not (
            Parameter.empty
        )
        if name not in known and not is_harmless:
            yield f"{label} has a parameter {name!r} that the contract doesn't know."


def _kind(parameter: Parameter) -> str:
    return parameter.kind.description


def _shown(parameter: Parameter) -> str:
    return "required" if parameter.default is Parameter.empty else repr(parameter.default)


def _is_async(function: object) -> bool:
    return inspect.iscoroutinefunction(function)
