"""Histories that one provider has written, shown to another one."""

from __future__ import annotations

import logging
from typing import Any, ClassVar

from mastra_core.processors import ProcessorArgs
from mastra_processors.built_in import BuiltIn
from mastra_processors.compat_rules import DEFAULT_RULES, CompatRule
from mastra_processors.errors_of_models import words_of
from mastra_processors.options import Options

__all__ = ("ProviderHistoryCompat", "ProviderHistoryCompatOptions")

logger = logging.getLogger(__name__)


class ProviderHistoryCompatOptions(Options):
    """Options of ``provider-history-compat``."""

    #: Further rules, behind those of the package.
    additional_rules: tuple[CompatRule, ...] = ()


class ProviderHistoryCompat(BuiltIn[ProviderHistoryCompatOptions]):
    """
    Changes prompts so that the model accepts them, and mends messages after a refusal.

    An input processor. Each mend is tried once per run; what is mended is stored.
    """

    id = "provider-history-compat"
    options_type: ClassVar[type[Options]] = ProviderHistoryCompatOptions

    def process_llm_request(self, args: ProcessorArgs) -> dict[str, Any] | None:
        """Hook 4: change the prompt of this request."""
        prompt = None
        for rule in self._rules():
            if rule.apply_to_prompt is not None:
                changed = rule.apply_to_prompt(
                    args.prompt if prompt is None else prompt, args.model, args.message_list
                )
                prompt = prompt if changed is None else changed
        return None if prompt is None else {"prompt": prompt}

    def process_api_error(self, args: ProcessorArgs) -> dict[str, Any] | None:
        """Hook 10: mend the messages, and have the request repeated."""
        assert args.error is not None
        words = words_of(args.error)
        done: list[str] = args.state.setdefault("mended", [])
        for rule in self._rules():
            if rule.fix is None or rule.name in done:
                continue
            if any(pattern.search(words) for pattern in rule.error_patterns):
                done.append(rule.name)
                if rule.fix(args.message_list):
                    logger.info(
                        "messages are mended", extra={"rule": rule.name, "run_id": args.run_id}
                    )
                    return {"retry": True}
        return None

    def _rules(self) -> tuple[CompatRule, ...]:
        return (*DEFAULT_RULES, *self.options.additional_rules)
