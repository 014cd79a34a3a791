"""What a provider wants to see again with a part: ids and signatures.

Named as the TypeScript peer names them (``itemId``, ``reasoningEncryptedContent``,
``thoughtSignature``, ``signature``, ``redactedData``), so that a thread whose turns were made by
one can be continued by the other. What has no name there is kept under ``details`` or, the
member that an OpenAI-like server uses for reasoning, ``field``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic_ai.messages import TextPart, ThinkingPart, ToolCallPart

from mastra_core.contracts.model import ModelPart

__all__ = ("facts_from_options", "metadata_of")

#: pydantic-ai's id of reasoning that Anthropic encrypts.
_REDACTED: Final = "redacted_thinking"
_THOUGHT: Final = "thought_signature"
_ENCRYPTED: Final = "reasoningEncryptedContent"


def metadata_of(part: TextPart | ThinkingPart | ToolCallPart, system: str) -> ModelPart:
    """``{"providerMetadata": {system: ...}}``, or nothing."""
    facts: dict[str, Any] = {}
    details = dict(part.provider_details or {})
    if _THOUGHT in details:
        facts["thoughtSignature"] = details.pop(_THOUGHT)
    if isinstance(part, ThinkingPart) and part.id == _REDACTED:
        facts["redactedData"] = part.signature
    else:
        if part.id:
            # Reasoning of a chat protocol has no id; pydantic-ai notes the member it came in.
            is_field = isinstance(part, ThinkingPart) and not part.id.startswith("rs_")
            facts["field" if is_field else "itemId"] = part.id
        if isinstance(part, ThinkingPart) and part.signature:
            facts[_ENCRYPTED if system == "openai" else "signature"] = part.signature
    if details:
        facts["details"] = details
    return {"providerMetadata": {system: facts}} if facts else {}


def facts_from_options(options: Mapping[str, Any] | None, system: str) -> dict[str, Any]:
    """
    The members of pydantic-ai's part that a prompt part's ``providerOptions`` stand for.

    ``signature`` is among them only for reasoning; another provider's facts are left out.
    """
    known: Mapping[str, Any] = (options or {}).get(system) or {}
    facts: dict[str, Any] = {}
    if (redacted := known.get("redactedData")) is not None:
        facts["id"], facts["signature"] = _REDACTED, redacted
    else:
        item_id = known.get("itemId", known.get("field", known.get("id")))
        if item_id is not None:
            facts["id"] = item_id
        signature = known.get(_ENCRYPTED, known.get("signature"))
        if signature is not None:
            facts["signature"] = signature
    details = dict(known.get("details") or {})
    if (thought := known.get("thoughtSignature")) is not None:
        details[_THOUGHT] = thought
    if details:
        facts["provider_details"] = details
    if facts:
        facts["provider_name"] = system
    return facts
