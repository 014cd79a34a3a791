"""Input in the languages that the agent speaks."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import BaseModel, Field

from mastra_core.messages.message_list import ListedMessage
from mastra_core.processors import ProcessorArgs
from mastra_processors.guard import Guard, GuardOptions
from mastra_processors.options import Options
from mastra_processors.texts import change_texts, texts_of

__all__ = ("LanguageDetector", "LanguageDetectorOptions")


class _Detected(BaseModel):
    """Which language it is, and the text in another one."""

    language: str = Field(description="name of the language in English")
    iso_code: str = Field(description="its code of two letters")
    confidence: float = Field(ge=0, le=1)
    translated: str | None = Field(default=None, description="the text in the wanted language")


class LanguageDetectorOptions(GuardOptions):
    """Options of ``language-detector``."""

    #: Names or codes of the languages that may pass; into the first one is translated.
    target_languages: tuple[str, ...] = ("English", "en")
    #: How sure the model must be.
    threshold: float = Field(default=0.7, ge=0, le=1)
    #: Note the language at the message, translate it, stop the run, or only report.
    strategy: Literal["detect", "translate", "block", "warn"] = "detect"
    #: Shorter texts aren't judged.
    min_text_length: int = Field(default=10, ge=0)
    #: Keep the text at the message when it is translated.
    preserve_original: bool = True


class LanguageDetector(Guard[LanguageDetectorOptions]):
    """
    Has a model say in which language input is; an input processor.

    What it finds is noted in the metadata of the message, under ``languageDetection``.
    """

    id = "language-detector"
    options_type: ClassVar[type[Options]] = LanguageDetectorOptions

    async def process_input(self, args: ProcessorArgs) -> None:
        """Hook 1."""
        options = self.options
        for message, text in list(self.judged(args)):
            if len(text.strip()) < options.min_text_length:
                continue
            instructions = "Say in which language the text is."
            if options.strategy == "translate":
                instructions += f" If it isn't {options.target_languages[0]}, translate it."
            found = await self.ask(args, text, _Detected, instructions)
            if found is None or found.confidence < options.threshold:
                continue
            wanted = {language.lower() for language in options.target_languages}
            is_target = not wanted.isdisjoint({found.language.lower(), found.iso_code.lower()})
            message.metadata["languageDetection"] = {
                "detectedLanguage": found.language,
                "isoCode": found.iso_code,
                "confidence": found.confidence,
                "isTargetLanguage": is_target,
            }
            message.saved = False
            if not is_target:
                await self._other_language(args, message, text, found)

    async def _other_language(
        self, args: ProcessorArgs, message: ListedMessage, text: str, found: _Detected
    ) -> None:
        detail: dict[str, Any] = {"language": found.language, "confidence": found.confidence}
        words = f"The input is in {found.language}."
        match self.options.strategy:
            case "block":
                args.abort(words, metadata={"processorId": self.id, **detail})
            case "warn":
                await self.warn(args, words, detail)
            case "translate" if found.translated:
                if self.options.preserve_original:
                    message.metadata["languageDetection"]["originalText"] = text
                places = [index for index, _ in texts_of(message)]
                blank = dict.fromkeys(places[1:], "")
                change_texts(message, {places[0]: found.translated, **blank})
            case _:
                pass
