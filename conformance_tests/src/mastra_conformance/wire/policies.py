"""Delivery policies that a scene describes as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mastra_conformance.wire.expressions import UnknownVocabularyError
from mastra_core.notifications import DeliveryInput

__all__ = ("ScriptedFailureError", "policy_from_data")


class ScriptedFailureError(Exception):
    """What a policy of a scene raises."""


def policy_from_data(data: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """A delivery policy that decides as the scene says."""
    if data is None:
        return None
    policy = dict(data)
    if "decide" in policy:
        rules = policy["decide"]

        def decide(_: DeliveryInput) -> Any:
            return _first_rule(rules)

        policy["decide"] = decide
    return policy


def _first_rule(rules: Sequence[Mapping[str, Any]]) -> Any:
    for rule in rules:
        if "when" in rule:
            raise UnknownVocabularyError("condition of a policy", rule["when"])
        if "throw" in rule:
            raise ScriptedFailureError(rule["throw"])
        return rule.get("decision")
    return None
