"""Finds names of persons in texts with Presidio and models of spaCy that are installed. Nothing is ever downloaded.

Presidio is imported when a `PresidioModels` is made, which takes about a second and 200 MB.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from codemode_server.privacy.free_text import Span

_PERSON = "PERSON"
_PERSON_LABELS = frozenset({"PERSON", "PER", "PRS", "persName"})
"""The labels that models have for names of persons, the Swedish and the Polish ones too."""
_UNUSED = (
    *("tagger", "parser", "senter", "attribute_ruler", "lemmatizer", "trainable_lemmatizer", "morphologizer"),
    *("experimental_arc_labeler", "experimental_arc_predicter"),
)
"""Components of models that names do not need, and that take most of the time."""


class NotUsable(Exception):
    """Raised when a model has no names of persons."""


class PresidioModels:
    """Models that were loaded. Not for two threads at once."""

    def __init__(self, models: Sequence[str]) -> None:
        """Loads the models.

        Raises:
            NotUsable: a model does not know persons.
            ImportError: Presidio or a model is not installed.
            OSError: a model is not complete.
            ValueError: a model is for another version of spaCy.
        """
        self._analyzers = [_analyzer(model) for model in models]

    def persons_in(self, texts: Sequence[str]) -> list[list[Span]]:
        """Start, end and confidence of the names in each text, as any of the models finds them."""
        by_model = [_found(*it, texts) for it in self._analyzers]
        return [[span for spans in found for span in spans] for found in zip(*by_model, strict=True)]


def _found(analyzer: Any, language: str, texts: Sequence[str]) -> list[list[Span]]:
    found: list[list[Span]] = []
    # Outside of a memory zone, spaCy remembers every word that it has ever read.
    with analyzer.nlp_engine.get_nlp(language).memory_zone():
        for text, read in analyzer.nlp_engine.process_batch(texts, language, batch_size=len(texts)):
            results = analyzer.analyze(text, language, entities=[_PERSON], nlp_artifacts=read)
            found.append([(it.start, it.end, min(1.0, float(it.score))) for it in results])
    return found


def _analyzer(model: str) -> tuple[Any, str]:
    """Presidio with this model as its only recognizer, and the language of the model."""
    import spacy
    from presidio_analyzer import AnalyzerEngine, RecognizerRegistry
    from presidio_analyzer.nlp_engine import NerModelConfiguration, SpacyNlpEngine
    from presidio_analyzer.predefined_recognizers import SpacyRecognizer

    nlp: Any = spacy.load(model, exclude=_UNUSED)
    labels = {label for known in nlp.pipe_labels.values() for label in known}
    if not labels & _PERSON_LABELS:
        raise NotUsable(f"the model {model} finds no names of persons")
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
