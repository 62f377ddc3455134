"""Finds names of persons in free text with models of spaCy that are installed; nothing is downloaded.

Names in structured data have the evidence of their fields. So a single word is no free text, and a text that is nothing
but what a model found counts only if it begins with a given name: `Desk Lamp` does not, `Ann Lee` does.

The models are used in one thread, one search after the other. spaCy is imported when they are loaded, which takes about
a second and 200 MB.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import anyio
import anyio.from_thread
import anyio.to_thread

from codemode_server.features.privacy.findings import Kind, RecognizerFailed
from codemode_server.features.privacy.given_names import is_person
from codemode_server.features.privacy.walk import SearchedText

logger = logging.getLogger(__name__)

MAX_PIECE_CHARACTERS = 2_000
"""The text that a model reads at once. It needs memory and time for each, and can be stopped only between two."""
MAX_CHARACTERS = 1_000_000
"""Maximum of free text in one value; one with more is withheld."""
_BATCH = 16
"""Pieces that are read together; a search whose call is cancelled ends after its batch."""
_CONFIDENCE = 0.85
_PERSON_LABELS = frozenset({"PERSON", "PER", "PRS", "persName"})
"""The labels that models have for names of persons, the Swedish and the Polish ones too."""
_UNUSED = (
    *("tagger", "parser", "senter", "attribute_ruler", "lemmatizer", "trainable_lemmatizer", "morphologizer"),
    *("experimental_arc_labeler", "experimental_arc_predicter"),
)
"""Components of models that names do not need, and that take most of the time."""
_TWO_WORDS = re.compile(r"\S\s+\S")
_ENDS = (re.compile(r"\n"), re.compile(r"[.!?…]\s"), re.compile(r"\s"))
"""Where a piece may end, the best places first."""
_NAME = re.compile(r"[^\W\d_](?:[^\W\d_]|['’.\u00b7-](?=[^\W\d_])|\.?\s{1,2}(?=[^\W\d_]))*")
"""Words of letters: what a model takes for a part of a name beside them is none."""
_WORD = re.compile(r"\S+")
_POSSESSIVE = re.compile(r"['’]s\Z")
_MIN_CHARACTERS = 2
Span = tuple[int, int]
"""Start and end of what a model takes for a name of a person."""


class NameRecognizer:
    """One set of models, loaded when `load` or the first search asks for them. Used on the event loop."""

    def __init__(self, models: tuple[str, ...]) -> None:
        self.models = models
        self._loaded: list[Any] | None = None
        self._loading = threading.Lock()
        """For a thread that nobody waits for any more, and the next one."""

    @cached_property
    def _thread(self) -> anyio.CapacityLimiter:
        """For one thread; belongs to the event loop that asks first."""
        return anyio.CapacityLimiter(1)

    async def load(self) -> None:
        """Load the models, so that the first search does not wait. Raises `RecognizerFailed` if they can't be
        loaded."""
        if self._loaded is None:
            await anyio.to_thread.run_sync(self._models, limiter=self._thread, abandon_on_cancel=True)

    async def persons_in(self, texts: Sequence[str]) -> list[list[Span]]:
        """The names in each text, as any of the models finds them. Raises `RecognizerFailed` if one can't be
        searched."""
        if not texts:
            return []
        await self.load()
        return await anyio.to_thread.run_sync(self._persons_in, texts, limiter=self._thread)

    def _persons_in(self, texts: Sequence[str]) -> list[list[Span]]:
        models, found = self._models(), list[list[Span]]()
        for start in range(0, len(texts), _BATCH):
            anyio.from_thread.check_cancelled()
            batch = texts[start : start + _BATCH]
            try:
                by_model = [_found(nlp, batch) for nlp in models]
            except Exception as error:  # noqa: BLE001 - whatever fails there, the text is not searched
                # Neither the message nor the traceback is shown: they may have parts of the text.
                logger.warning("privacy.name_models: the search for names failed: %s", type(error).__name__)
                raise RecognizerFailed(type(error).__name__) from None
            found += [[span for spans in one for span in spans] for one in zip(*by_model, strict=True)]
        return found

    def _models(self) -> list[Any]:
        with self._loading:
            if self._loaded is None:
                try:
                    self._loaded = [_loaded(model) for model in self.models]
                except Exception as error:
                    logger.warning("privacy.name_models: %s", error)
                    raise RecognizerFailed(str(error)) from error
            return self._loaded


def _found(nlp: Any, texts: Sequence[str]) -> list[list[Span]]:
    # Outside of a memory zone, spaCy remembers every word that it has ever read.
    with nlp.memory_zone():
        return [
            [(it.start_char, it.end_char) for it in read.ents if it.label_ in _PERSON_LABELS]
            for read in nlp.pipe(texts, batch_size=len(texts))
        ]


def _loaded(model: str) -> Any:
    import spacy

    nlp: Any = spacy.load(model, exclude=_UNUSED)
    if _PERSON_LABELS.isdisjoint(label for labels in nlp.pipe_labels.values() for label in labels):
        raise ValueError(f"the model {model} finds no names of persons")
    return nlp


class Piece(NamedTuple):
    """A part of free text that is read at once."""

    start: int
    """Where it begins in the searched text."""
    text: str
    is_whole: bool
    """True if it is a whole text of the value, its white space aside."""


def is_free(text: str) -> bool:
    """True if names can stand in it that no field tells of."""
    return _TWO_WORDS.search(text) is not None


def free_pieces(searched: SearchedText) -> list[Piece] | None:
    """The free text of a value; None if there is too much of it."""
    pieces: list[Piece] = []
    length = 0
    for part in searched.parts:
        if part.is_key or part.is_number:
            continue
        text = searched.text[part.start : part.end]
        if not is_free(text):
            continue
        if (length := length + len(text)) > MAX_CHARACTERS:
            return None
        pieces += _pieces(text, part.start)
    return pieces


def _pieces(text: str, start: int) -> Iterator[Piece]:
    """Long text in parts that end, if possible, with a line, a sentence or a word in their second half."""
    at = 0
    while len(text) - at > MAX_PIECE_CHARACTERS:
        half, most = at + MAX_PIECE_CHARACTERS // 2, at + MAX_PIECE_CHARACTERS
        ends = ([found.end() for found in end.finditer(text, half, most)] for end in _ENDS)
        end = next((places[-1] for places in ends if places), most)
        yield Piece(start + at, text[at:end], False)
        at = end
    if at < len(text):
        yield Piece(start + at, text[at:], not at)


def names_in(piece: Piece, spans: Iterable[Span]) -> Iterator[tuple[int, int, Kind, float]]:
    """The names among the spans that models have found in a piece; places are those of the searched text."""
    whole = piece.text.strip() if piece.is_whole else None
    for start, end in spans:
        for name in _NAME.finditer(piece.text, start, end):
            first, last = _whole_words(piece.text, *name.span())
            if possessive := _POSSESSIVE.search(piece.text, first, last):
                last = possessive.start()
            value = piece.text[first:last]
            if last - first >= _MIN_CHARACTERS and (value != whole or is_person(value)):
                yield piece.start + first, piece.start + last, Kind.NAME, _CONFIDENCE


def _whole_words(text: str, start: int, end: int) -> tuple[int, int]:
    """Without words at the ends that are parts of an identifier, an address or a token: `NAME` of `<NAME_1>`."""
    words = [*_WORD.finditer(text, start, end)]
    if words and start and _is_joined(text[start - 1]):
        del words[0]
    if words and end < len(text) and _is_joined(text[end]):
        del words[-1]
    return (words[0].start(), words[-1].end()) if words else (start, start)


def _is_joined(neighbour: str) -> bool:
    return neighbour.isalnum() or neighbour in ("_", "@")
