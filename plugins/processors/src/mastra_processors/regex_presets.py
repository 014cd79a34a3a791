"""Patterns of things that often mustn't get in or out, by kind."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

__all__ = ("PRESETS", "Preset", "Rule")

Preset = Literal["pii", "secrets", "urls"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A pattern with a name, and what stands in place of what it matches."""

    name: str
    pattern: re.Pattern[str]
    replacement: str = "[REDACTED]"


def _rule(name: str, pattern: str, flags: int = 0) -> Rule:
    label = name.upper().replace("-", "_")
    return Rule(name=name, pattern=re.compile(pattern, flags), replacement=f"[{label}]")


#: No pattern backtracks over what it has matched, so a long text costs no more than its length.
PRESETS: Final[Mapping[Preset, tuple[Rule, ...]]] = MappingProxyType(
    {
        "pii": (
            _rule("email", r"\b[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63})+"),
            _rule("credit-card", r"\b\d(?:[ -]?\d){12,18}\b"),
            _rule("ssn", r"\b\d{3}-\d{2}-\d{4}\b"),
            _rule(
                "phone",
                r"(?<![\w-])(?:\+\d{1,3}[ .-]?)?(?:\(\d{3}\) ?|\d{3}[ .-])\d{3}[ .-]?\d{4}\b",
            ),
        ),
        "secrets": (
            _rule(
                "private-key",
                r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----[^-]*(?:-----END [A-Z ]{0,30}PRIVATE KEY-----)?",
            ),
            _rule("jwt", r"\beyJ[\w-]{8,2048}\.eyJ[\w-]{4,8192}\.[\w-]{8,}"),
            _rule("aws-key", r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
            _rule(
                "api-key", r"\b(?:sk|pk|rk|ghp|gho|ghs|ghu|glpat|xox[abpr])[-_][A-Za-z0-9_-]{16,}"
            ),
            _rule("github-token", r"\bgithub_pat_\w{22,}"),
            _rule("bearer-token", r"\bbearer +[A-Za-z0-9._~+/-]{16,}=*", re.IGNORECASE),
            _rule(
                "password",
                r"\b(?:password|passwd|pwd|secret|api[_-]?key)[\"']? *[:=] *[\"']?[^\s\"',;]{6,}",
                re.IGNORECASE,
            ),
        ),
        "urls": (_rule("url", r"\bhttps?://[^\s<>\"')\]]+", re.IGNORECASE),),
    }
)
