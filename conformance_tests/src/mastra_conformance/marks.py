"""Names of the pytest marks of the suite."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

__all__ = (
    "CASE",
    "DESCRIPTIONS",
    "NEEDS_FILE",
    "NEEDS_SERVER",
    "NOTHING_TO_REFUSE",
    "REQUIRES",
    "SEVERAL_PROCESSES",
    "TIER",
)

#: Carries ``(spec, *numbers)``.
CASE: Final = "mastra_case"
#: Carries names of capabilities.
REQUIRES: Final = "mastra_requires"
#: Moves a test to another tier than its class.
TIER: Final = "mastra_tier"
#: The test starts second processes.
SEVERAL_PROCESSES: Final = "mastra_several_processes"
#: The test breaks the server of the adapter, or the way to it.
NEEDS_SERVER: Final = "mastra_needs_server"
#: The test breaks the file of the adapter.
NEEDS_FILE: Final = "mastra_needs_file"
#: The one refusal test of an adapter that declares everything.
NOTHING_TO_REFUSE: Final = "mastra_nothing_to_refuse"

#: How ``pytest --markers`` shows them.
DESCRIPTIONS: Final = MappingProxyType(
    {
        f"{CASE}(spec, *numbers)": "proves cases of a specification",
        f"{REQUIRES}(*names)": "needs these capabilities",
        f"{TIER}(number)": "belongs to this tier",
        SEVERAL_PROCESSES: "starts second processes",
        NEEDS_SERVER: "breaks the server or the network",
        NEEDS_FILE: "breaks the file",
        NOTHING_TO_REFUSE: "an adapter that declares everything",
    }
)
