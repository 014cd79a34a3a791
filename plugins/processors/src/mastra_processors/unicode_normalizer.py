"""One way to write each character: the input in Unicode's compatible form."""

from __future__ import annotations

import re
import unicodedata
from typing import ClassVar, Final

from mastra_core.processors import ProcessorArgs
from mastra_processors.built_in import BuiltIn
from mastra_processors.off_loop import off_loop
from mastra_processors.options import Options
from mastra_processors.texts import change_texts, texts_of

__all__ = ("UnicodeNormalizer", "UnicodeNormalizerOptions")

#: Characters that the compatible form would spell out although they are shown as pictures:
#: those that ask for a picture (U+FE0F), keycaps, and squared letters and ideographs.
_EMOJI: Final = re.compile("(.\ufe0f\u20e3?|.\u20e3|[\U0001f100-\U0001f2ff])")
#: Letters of hidden tags are part of a flag, and otherwise nothing that a reader sees.
_FLAG: Final = re.compile("\U0001f3f4[\U000e0020-\U000e007f]+")
#: Joiners belong to emoji and to several scripts.
_JOINERS: Final = "\u200c\u200d"
_LINES: Final = re.compile(r"\r\n?")
_MANY_LINES: Final = re.compile(r"\n\s*\n")
_BLANKS: Final = re.compile(r"[^\S\n]+")


class UnicodeNormalizerOptions(Options):
    """Options of ``unicode-normalizer``."""

    #: Take out control characters, and invisible ones that steer how text is shown.
    strip_control_chars: bool = False
    #: Leave characters alone that are shown as emoji.
    preserve_emojis: bool = True
    #: One blank for many, one line end for many.
    collapse_whitespace: bool = True
    #: Nothing blank at both ends.
    trim: bool = True


class UnicodeNormalizer(BuiltIn[UnicodeNormalizerOptions]):
    """
    Normalises what users say (NFKC), so that later filters and the model see one spelling.

    An input processor; it never stops a run.
    """

    id = "unicode-normalizer"
    options_type: ClassVar[type[Options]] = UnicodeNormalizerOptions

    async def process_input(self, args: ProcessorArgs) -> None:
        """Hook 1: change the texts of the input in place."""
        for message in args.messages:
            changed = {
                index: await off_loop(text, self.normalized) for index, text in texts_of(message)
            }
            change_texts(message, changed)

    def normalized(self, text: str) -> str:
        """The text as the options want it."""
        options = self.options
        text = self._compatible(text)
        if options.strip_control_chars:
            text = _without_controls(text, keep_flags=options.preserve_emojis)
        if options.collapse_whitespace:
            text = _MANY_LINES.sub("\n", _LINES.sub("\n", text))
            text = _BLANKS.sub(" ", text)
        return text.strip() if options.trim else text

    def _compatible(self, text: str) -> str:
        if not self.options.preserve_emojis:
            return unicodedata.normalize("NFKC", text)
        # Odd places of the pieces are the emoji themselves.
        pieces = _EMOJI.split(text)
        pieces[::2] = [unicodedata.normalize("NFKC", piece) for piece in pieces[::2]]
        return "".join(pieces)


def _without_controls(text: str, *, keep_flags: bool) -> str:
    kept = _FLAG.findall(text) if keep_flags else []
    flags = iter(kept)
    pieces = [_plain(piece) for piece in (_FLAG.split(text) if keep_flags else [text])]
    return pieces[0] + "".join(next(flags) + piece for piece in pieces[1:])


def _plain(text: str) -> str:
    return "".join(
        character
        for character in text
        if character in "\t\n\r"
        or character in _JOINERS
        or unicodedata.category(character) not in ("Cc", "Cf")
    )
