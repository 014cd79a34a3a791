"""A user turn for providers that refuse a prompt which ends with the assistant's."""

from __future__ import annotations

import re
from typing import Any, Final

from mastra_core.processors import ProcessorArgs
from mastra_processors.built_in import BuiltIn
from mastra_processors.errors_of_models import words_of
from mastra_processors.options import Options

__all__ = ("PrefillErrorHandler", "is_prefill_error")

#: How providers say it.
_REFUSALS: Final = re.compile(
    r"assistant (?:message |response )?prefill"
    r"|prefill(?:ing)? (?:of )?(?:the )?assistant"
    r"|conversation must end with a user message"
    r"|final assistant content cannot"
    r"|ending with a model turn"
    r"|last message must (?:be|have) (?:a |role )?['\"]?user"
)


def is_prefill_error(error: BaseException) -> bool:
    """Whether a provider refused a prompt because of its last turn."""
    return _REFUSALS.search(words_of(error)) is not None


class PrefillErrorHandler(BuiltIn[Options]):
    """
    Lets a run go on whose prompt was refused because it ends with the assistant's turn.

    An input, output or error processor. Once per step, a reactive signal ``continue`` goes into
    the transcript, and the request is repeated. Needs ``max_processor_retries`` above 0.
    """

    id = "prefill-error-handler"

    async def process_api_error(self, args: ProcessorArgs) -> dict[str, Any] | None:
        """Hook 10."""
        if args.retry_count > 0 or args.error is None or not is_prefill_error(args.error):
            return None
        assert args.send_signal is not None
        await args.send_signal(
            {
                "type": "reactive",
                "contents": "continue",
                "attributes": {"type": "anthropic-prefill-processor-retry"},
            }
        )
        return {"retry": True}
