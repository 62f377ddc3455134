"""Runs in Presidio's environment: a JSON list of texts on stdin, its findings of each on stdout.

No model is loaded: a blank spaCy pipeline gives tokens alone, so that Presidio's patterns, checksums and context words
are compared, and names and places are not.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from importlib.metadata import version
from typing import Any

_KINDS = {
    "EMAIL_ADDRESS": "email",
    "PHONE_NUMBER": "phone",
    "CREDIT_CARD": "card",
    "IBAN_CODE": "iban",
    "IP_ADDRESS": "ip",
    "US_SSN": "national_id",
    "US_ITIN": "national_id",
    "ES_NIF": "national_id",
    "ES_NIE": "national_id",
    "IT_FISCAL_CODE": "national_id",
    "IT_VAT_CODE": "national_id",
    "DE_TAX_ID": "national_id",
    "FR_NIR": "national_id",
    "BR_CPF": "national_id",
    "PT_NIF": "national_id",
    "CRYPTO": "credential",
}


def _analyzer() -> Any:
    import spacy  # type: ignore[import-not-found, unused-ignore]
    from presidio_analyzer import AnalyzerEngine, RecognizerRegistry  # type: ignore[import-not-found, unused-ignore]
    from presidio_analyzer.nlp_engine import SpacyNlpEngine  # type: ignore[import-not-found, unused-ignore]
    from presidio_analyzer.predefined_recognizers import (  # type: ignore[import-not-found, unused-ignore]
        EsNieRecognizer,
        EsNifRecognizer,
        ItFiscalCodeRecognizer,
    )

    class Blank(SpacyNlpEngine):  # type: ignore[misc, unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.nlp: Any = {"en": spacy.blank("en")}

    registry = RecognizerRegistry(supported_languages=["en"])
    registry.load_predefined_recognizers(languages=["en"])
    for made in (EsNieRecognizer, EsNifRecognizer, ItFiscalCodeRecognizer):
        registry.add_recognizer(made(supported_language="en"))
    return AnalyzerEngine(registry=registry, nlp_engine=Blank(), supported_languages=["en"])


def main() -> None:
    logging.disable(logging.CRITICAL)
    texts = json.load(sys.stdin)
    analyzer = _analyzer()
    wanted = [kind for kind in _KINDS if kind in analyzer.get_supported_entities("en")]
    answers = []
    began = time.perf_counter()
    for text in texts:
        found = analyzer.analyze(text=text, language="en", entities=wanted, score_threshold=0.35)
        found.sort(key=lambda one: -one.score)
        taken: list[Any] = []
        for one in found:
            if all(one.end <= other.start or other.end <= one.start for other in taken):
                taken.append(one)
        answers.append([(_KINDS[one.entity_type], text[one.start : one.end]) for one in taken])
    seconds = time.perf_counter() - began
    json.dump({"version": version("presidio-analyzer"), "answers": answers, "seconds": seconds}, sys.stdout)


if __name__ == "__main__":
    main()
