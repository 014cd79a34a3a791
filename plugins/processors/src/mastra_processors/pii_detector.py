"""Personal data, found by a model where no pattern finds it."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from mastra_core.processors import ProcessorArgs
from mastra_processors.detector import (
    Detector,
    DetectorOptions,
    Finding,
    RedactionMethod,
    covered,
)
from mastra_processors.options import Options

__all__ = ("PIIDetector", "PIIDetectorOptions")

_TYPES: Final = (
    *("email", "phone", "credit-card", "ssn", "api-key", "ip-address", "name", "address"),
    *("date-of-birth", "url", "uuid", "crypto-wallet", "iban"),
)


class PIIDetectorOptions(DetectorOptions):
    """Options of ``pii-detector``."""

    #: What is looked for.
    detection_types: tuple[str, ...] = _TYPES
    #: Stars, a hash (equal values stay recognisable), nothing, or the type in brackets.
    redaction_method: RedactionMethod = "mask"
    #: A mask leaves the last characters, and what stands between letters and digits.
    preserve_format: bool = True


class PIIDetector(Detector[PIIDetectorOptions]):
    """Has a model look for personal data; in either list, or in both. See also ``regex-filter``."""

    id = "pii-detector"
    options_type: ClassVar[type[Options]] = PIIDetectorOptions

    async def process_input(self, args: ProcessorArgs) -> None:
        """Hook 1."""
        await self.check_messages(args)

    async def process_output_stream(self, args: ProcessorArgs) -> dict[str, Any] | None:
        """Hook 6."""
        return await self.check_chunk(args)

    async def process_output_result(self, args: ProcessorArgs) -> None:
        """Hook 9."""
        await self.check_messages(args)

    def question(self) -> str:
        """What the model is asked."""
        return (
            "Find personal data in the text. List each value once, exactly as it stands there, "
            f"with its type, one of: {', '.join(self.options.detection_types)}."
        )

    def replacement(self, finding: Finding) -> str:
        """What stands in place of a value."""
        label = finding.type.upper().replace("-", "_")
        options = self.options
        return covered(
            finding.value,
            options.redaction_method,
            label=label,
            keeps_form=options.preserve_format,
        )
