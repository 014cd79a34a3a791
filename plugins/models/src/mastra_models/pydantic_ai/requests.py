"""What we ask for beside the prompt: tools, output format and settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, cast

from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from mastra_core.contracts.model import ModelPart, ModelRequest, ToolChoice
from mastra_core.errors import ToolNotFoundError

__all__ = (
    "SETTINGS",
    "Asked",
    "asked_from_request",
)

#: Settings under their names there.
SETTINGS: Final[Mapping[str, str]] = {
    "maxOutputTokens": "max_tokens",
    "temperature": "temperature",
    "topP": "top_p",
    "topK": "top_k",
    "presencePenalty": "presence_penalty",
    "frequencyPenalty": "frequency_penalty",
    "stopSequences": "stop_sequences",
    "seed": "seed",
    "headers": "extra_headers",
    "parallelToolCalls": "parallel_tool_calls",
}

#: Settings of the runtime itself; the provider isn't told, and nobody is warned.
_OURS: Final = frozenset({"maxRetries", "timeoutMs"})


#: Options whose members have other names there, too.
_NESTED: Final = frozenset({"thinking"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request in pydantic-ai's terms, and what couldn't be said in them."""

    parameters: ModelRequestParameters
    settings: ModelSettings
    warnings: list[ModelPart] = field(default_factory=list)


def asked_from_request(request: ModelRequest, model: Model) -> Asked:
    """
    Tools, output format and settings of a request.

    Raises:
        ToolNotFoundError: ``tool_choice`` names a tool that isn't offered.
    """
    tools = [
        ToolDefinition(
            name=tool.name,
            description=tool.description,
            parameters_json_schema=dict(tool.input_schema) or {"type": "object", "properties": {}},
            strict=tool.strict,
        )
        for tool in request.tools
    ]
    mode, output = _output(request.response_format, model)
    settings, warnings = _settings(request, model)
    if tools:
        settings["tool_choice"] = _tool_choice(request.tool_choice, [tool.name for tool in tools])
    if request.include_raw_chunks:
        warnings.append({"type": "unsupported-setting", "setting": "includeRawChunks"})
    return Asked(
        parameters=ModelRequestParameters(
            function_tools=tools, output_mode=mode, output_object=output
        ),
        settings=settings,
        warnings=warnings,
    )


def _tool_choice(choice: ToolChoice, names: list[str]) -> Any:
    match choice:
        case {"type": "tool", "toolName": str(name)}:
            if name not in names:
                raise ToolNotFoundError(tool_name=name, available=names)
            return [name]
        case "none" | "required":
            return choice
        case _:
            return "auto"


def _output(
    form: Mapping[str, Any] | None, model: Model
) -> tuple[Literal["text", "native", "prompted"], OutputObjectDefinition | None]:
    if form is None or form.get("type") != "json":
        return "text", None
    wanted = OutputObjectDefinition(
        json_schema=dict(form.get("schema") or {"type": "object"}),
        name=form.get("name"),
        description=form.get("description"),
    )
    # A provider that can't be held to a schema is told about it in the prompt.
    return ("native" if model.profile.get("supports_json_schema_output") else "prompted"), wanted


def _settings(request: ModelRequest, model: Model) -> tuple[ModelSettings, list[ModelPart]]:
    ignored = _ignored_settings(model)
    told: dict[str, Any] = {}
    warnings: list[ModelPart] = []
    for name, value in request.settings.items():
        if value is None or name in _OURS:
            continue
        theirs = SETTINGS.get(name)
        if theirs is None or theirs in ignored:
            warnings.append({"type": "unsupported-setting", "setting": name})
        else:
            told[theirs] = value
    if limit_ms := request.settings.get("timeoutMs"):
        told["request_timeout" if "timeout" in ignored else "timeout"] = limit_ms / 1000
    if "max_retries" not in ignored:
        # Sent once by the client: who sends it again is up to us, alike for all providers.
        told["max_retries"] = 0
    system = model.system
    for name, value in (request.provider_options.get(system) or {}).items():
        key = f"{system.replace('-', '_')}_{_snake(name)}"
        told[key] = _with_snake_keys(value) if name in _NESTED else value
    # True: the keys are those of the TypedDict, or of one of its provider-specific children.
    return cast("ModelSettings", told), warnings


def _ignored_settings(model: Model) -> frozenset[str]:
    """Settings that would have no effect on this model."""
    of_model = cast("Mapping[str, Any]", model.profile).get("openai_unsupported_model_settings")
    # True: a profile is a TypedDict whose members depend on the provider.
    return frozenset({*model.unsupported_settings, *(of_model or ())})


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()


def _with_snake_keys(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {_snake(str(name)): member for name, member in value.items()}
    return value
