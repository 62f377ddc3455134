"""Finds names of persons in free text with Presidio and models of spaCy that are installed; nothing is downloaded.

The models are used in one thread, one search after the other. Presidio is imported when the models are loaded, which
takes about a second and 200 MB.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import anyio
import anyio.from_thread
import anyio.to_thread

from codemode_server.privacy.findings import RecognizerFailed
from codemode_server.privacy.free_text import Span

logger = logging.getLogger(__name__)

_BATCH = 16
"""Texts that are read together; a search whose call is cancelled ends after its batch."""
_PERSON = "PERSON"
_PERSON_LABELS = frozenset({"PERSON", "PER", "PRS", "persName"})
"""The labels that models have for names of persons, the Swedish and the Polish ones too."""
_UNUSED = (
    *("tagger", "parser", "senter", "attribute_ruler", "lemmatizer", "trainable_lemmatizer", "morphologizer"),
    *("experimental_arc_labeler", "experimental_arc_predicter"),
)
"""Components of models that names do not need, and that take most of the time."""


class NameRecognizer:
    """One set of models, loaded when `load` or the first search asks for them. Used on the event loop."""

    def __init__(self, models: tuple[str, ...]) -> None:
        self.models = models
        self._loaded: list[tuple[Any, str]] | None = None
        self._loading = threading.Lock()
        """For a thread that nobody waits for any more, and the next one."""

    @cached_property
    def _thread(self) -> anyio.CapacityLimiter:
        """For one thread; belongs to the event loop that asks first."""
        return anyio.CapacityLimiter(1)

    async def load(self) -> None:
        """Load the models, so that the first search does not wait.

        Raises:
            RecognizerFailed: they can't be loaded.
        """
        if self._loaded is None:
            await anyio.to_thread.run_sync(self._analyzers, limiter=self._thread, abandon_on_cancel=True)

    async def persons_in(self, texts: Sequence[str]) -> list[list[Span]]:
        """Start, end and confidence of the names in each text, as any of the models finds them.

        Raises:
            RecognizerFailed: one can't be searched.
        """
        if not texts:
            return []
        await self.load()
        return await anyio.to_thread.run_sync(self._persons_in, texts, limiter=self._thread)

    def _persons_in(self, texts: Sequence[str]) -> list[list[Span]]:
        analyzers, found = self._analyzers(), list[list[Span]]()
        for start in range(0, len(texts), _BATCH):
            anyio.from_thread.check_cancelled()
            batch = texts[start : start + _BATCH]
            try:
                by_model = [_found(*it, batch) for it in analyzers]
            except Exception as error:  # noqa: BLE001 - whatever fails there, the text is not searched
                # Neither the message nor the traceback is shown: they may have parts of the text.
                logger.warning("privacy.recognizer: the search for names failed: %s", type(error).__name__)
                raise RecognizerFailed(type(error).__name__) from None
            found += [[span for spans in one for span in spans] for one in zip(*by_model, strict=True)]
        return found

    def _analyzers(self) -> list[tuple[Any, str]]:
        with self._loading:
            if self._loaded is None:
                try:
                    self._loaded = [_analyzer(model) for model in self.models]
                except Exception as error:
                    logger.warning("privacy.recognizer: %s", error)
                    raise RecognizerFailed(str(error)) from error
            return self._loaded


def _found(analyzer: Any, language: str, texts: Sequence[str]) -> list[list[Span]]:
    found: list[list[Span]] = []
    # Outside of a memory zone, spaCy remembers every word that it has ever read.
    with analyzer.nlp_engine.get_nlp(language).memory_zone():
        for text, read in analyzer.nlp_engine.process_batch(texts, language, batch_size=len(texts)):
            results = analyzer.analyze(text, language, entities=[_PERSON], nlp_artifacts=read)
            found.append([(it.start, it.end, min(1.0, float(it.score))) for it in results])
    return found


def _analyzer(model: str) -> tuple[Any, str]:
    import spacy
    from presidio_analyzer import AnalyzerEngine, RecognizerRegistry
    from presidio_analyzer.nlp_engine import NerModelConfiguration, SpacyNlpEngine
    from presidio_analyzer.predefined_recognizers import SpacyRecognizer

    nlp: Any = spacy.load(model, exclude=_UNUSED)
    labels = {label for known in nlp.pipe_labels.values() for label in known}
    if not labels & _PERSON_LABELS:
        raise ValueError(f"the model {model} finds no names of persons")
    language = str(nlp.lang)
    engine: Any = SpacyNlpEngine(
        models=[{"lang_code": language, "model_name": model}],
        ner_model_configuration=NerModelConfiguration(
            model_to_presidio_entity_mapping=dict.fromkeys(_PERSON_LABELS, _PERSON),
            labels_to_ignore=sorted(labels - _PERSON_LABELS),
        ),
    )
    engine.nlp = {language: nlp}  # its own `load` would download a model that is missing
    registry = RecognizerRegistry(supported_languages=[language])
    registry.add_recognizer(SpacyRecognizer(supported_language=language, supported_entities=[_PERSON]))
    return AnalyzerEngine(registry=registry, nlp_engine=engine, supported_languages=[language]), language
