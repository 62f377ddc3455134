"""A server can call any word a name. What are no common names of persons stays in what other servers show the model."""

from __future__ import annotations

from itertools import product

import pytest

from benchmarks.privacy.samples import LANGUAGES, Samples
from codemode_server.known_values import with_spans_replaced
from codemode_server.privacy.name_words import Reach, reach_of
from codemode_server.privacy.originals import Originals

WORDS = (
    *("OPEN", "ERROR", "True", "The", "Monday", "January", "Total", "PENDING", "DELETE", "HTTP", "Amount Due", "To Do"),
    *("Approval needed", "succeeded", "In Progress", "IN_PROGRESS", "Sign-in", "README.md", "Error 500", "HTTP_404"),
    *("will", "mark", "else", "may", "open issue", "Page", "Price", "May"),
)
"""The last ones, which are names, as they stand in the text: in other letter case."""
TEXT = """{"status":"OPEN","level":"ERROR","text":"The Amount Due on Monday 5 January is PENDING, Total 5 EUR/USD; HTTP
DELETE from Berlin. Approval needed","ok":"succeeded"}
OPEN,In Progress
IN_PROGRESS;To Do
Sign-in see README.md, Error 500, HTTP_404, 4 0 4, n-e-p-o, an open issue. It will or may, mark it or else. True, PAGE
or price"""
NAMES = (
    *(
        "Mark Young",
        "Grace Field",
        "MARK YOUNG",
        "mark young",
        "Mei Young",
        "Wang Wei",
        "Bo Qu",
        "Summer Rain",
        "J. Rain",
    ),
    *(
        "Young",
        "Field",
        "Grace",
        "Mark",
        "Baker",
        "Price",
        "YOUNG",
        "Kowalczyk",
        "kowalczyk",
        "Anna",
        "anna",
        "Mary Rain",
    ),
    *("Rain, Mary", "Иван Петров", "欧阳娜娜", "김 민수아", "Jean-Luc Rain", "O'Rain"),
)
SENTENCES = (
    *("{} called about the lamp yesterday.", "Please tell {} that the lamp is here.", "by {}, and others", "{}"),
    '{{"owner": "{}"}}',
)


def shown(text: str, *names: str) -> str:
    originals = Originals()
    for number, name in enumerate(names, 1):
        originals.add(name, f"<NAME_{number}>")
    return with_spans_replaced(text, originals.spans(text))


def test_words_that_are_no_common_names_stay_in_a_text() -> None:
    assert shown(TEXT, *WORDS) == TEXT


def test_ordinary_words_stay_however_many_spellings_of_them_are_names() -> None:
    """So many forms at one place are no longer compared one by one."""
    single = ["".join(it) for it in product("OÓÒÔ", "PP", "EÉÈ", "N")]
    double = [f"{one}mount {other}" for one in "AÁÀÂÄ" for other in map("".join, product("DĎ", "uúùûü", "eéèêëę"))]
    assert len({*double}) > 200
    assert shown("open OPEN, the Amount Due, amount, mount due", *single, *double) == (
        "open OPEN, the Amount Due, amount, mount due"
    )


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("sentence", SENTENCES)
def test_a_name_of_a_person_is_found_in_prose(name: str, sentence: str) -> None:
    assert shown(sentence.format(name), name) == sentence.format("<NAME_1>")


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        *(("for Mr Rain, today", True), ("Frau Rain", True), ("by J. Rain", True), ("Anna Rain", True)),
        *(("Rain is expected", False), ("the Rain", False), ("Mr rain", False), ("status Rain", False)),
    ],
)
def test_another_ordinary_word_counts_after_a_title_an_initial_or_a_given_name(text: str, is_found: bool) -> None:
    assert (shown(text, "Rain") != text) is is_found


@pytest.mark.parametrize("language", LANGUAGES)
def test_all_names_of_the_labelled_set_are_found_in_prose_and_their_surnames_too(language: str) -> None:
    import random

    samples = Samples(random.Random(5), language)
    names = {samples.name().value for _ in range(300)}
    surnames = {name.split(" ", 1)[1] for name in names}
    missed = [it for it in names | surnames if shown(f"Please tell {it} today.", it) != "Please tell <NAME_1> today."]
    assert len(names) > 30
    assert missed == []


def test_a_value_of_another_kind_counts_as_it_did() -> None:
    originals = Originals()
    originals.add("open sesame", "<CREDENTIAL_1>")
    assert originals.spans("a\nopen sesame\nb")
    assert not originals.spans("say open sesame")


def test_the_reach_of_a_name() -> None:
    assert [reach_of(it) for it in ("Mark", "young", "OPEN")] == [
        Reach.ANYWHERE,
        Reach.WHOLE_VALUES,
        Reach.BESIDE_TITLES,
    ]


def test_a_kind_of_your_own_is_no_name_though_its_label_begins_so() -> None:
    said = "the code is RAIN today"
    for token in ("<PROJECT_1>", "<NAME_TAG_1>"):
        originals = Originals()
        originals.add("RAIN", token)
        assert [put for _, _, put in originals.spans(said)] == [token]
    names = Originals()
    names.add("RAIN", "<NAME_1>")
    assert names.spans(said) == [], "control"
