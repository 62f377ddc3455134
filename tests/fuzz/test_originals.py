"""Known originals in any text: spans are in order, and what was replaced is not there as it was written."""

from __future__ import annotations

import base64

from hypothesis import example, given
from hypothesis import strategies as st

from codemode_server.domain.privacy_tokens import whole_of
from codemode_server.known_values import with_spans_replaced
from codemode_server.privacy.folding import CLASS, fold
from codemode_server.privacy.ordinary_words import is_ordinary
from codemode_server.privacy.originals import Originals
from tests.fuzz.strategies import texts

ORIGINALS = st.one_of(
    st.sampled_from(
        ("j.lovelace@x.org", "4111 1111 1111 1111", "+49 30 901820", "12 rue de la Paix", "Zoë Whitmarsh", "#?!")
    ),
    st.text(min_size=4, max_size=30),
)
DISGUISES = st.sampled_from(
    (
        str,
        str.upper,
        lambda it: it[::-1],
        "-".join,
        lambda it: base64.b64encode(it.encode("utf-8", "surrogatepass")).decode(),
        lambda it: it.encode("utf-8", "surrogatepass").hex(),
        lambda it: "".join(f"%{one:02X}" for one in it.encode("utf-8", "surrogatepass")),
        lambda it: it[:6],
    )
)
PUT = "\ue000"
"""Stands for a token; a letter of no alphabet."""


@example(["  caracter"], [])
@example(["00:AAB"], ["BAA:00"])
@given(st.lists(ORIGINALS, max_size=6), st.lists(st.one_of(texts, st.tuples(ORIGINALS, DISGUISES)), max_size=6))
def test_spans_are_in_order_and_nothing_is_left_as_it_was_written(
    known: list[str], pieces: list[str | tuple[str, object]]
) -> None:
    originals = Originals()
    for number, original in enumerate(known):
        originals.add(original, f"<KEY_{number}>")
    text = " ".join(it if isinstance(it, str) else it[1](it[0]) for it in (*pieces, *known))  # type: ignore[operator]
    spans = originals.spans(text)
    ends = [0, *(end for _, end, _ in spans)]
    assert all(ends[at] <= start < end <= len(text) for at, (start, end, _) in enumerate(spans))
    assert {whole_of(put) for _, _, put in spans} <= {f"<KEY_{number}>" for number in range(len(known))}
    left = with_spans_replaced(text, [(start, end, PUT) for start, end, _ in spans])
    for original in known:
        if _is_found_anywhere(original):
            assert original not in left


def _is_found_anywhere(original: str) -> bool:
    """Names of one word and short numbers have to stand alone, ordinary words in small letters be a whole value; what
    is invisible is not there."""
    folded = fold(original).replace(b"\0", b"")
    if original.islower() and all(word.isalpha() and is_ordinary(word) for word in folded.split()):
        return False
    has_signs = any(not CLASS[one] for one in folded.strip())
    return len(folded) >= 4 and (has_signs or (len(folded) >= 10 and not original.isalpha()))


@given(st.lists(ORIGINALS, min_size=1, max_size=6), texts)
def test_what_is_discarded_is_not_found(known: list[str], text: str) -> None:
    originals = Originals()
    for number, original in enumerate(known):
        originals.add(original, f"<KEY_{number}>")
    for number in range(len(known)):
        originals.discard(f"<KEY_{number}>")
    assert originals.spans(" ".join((text, *known))) == []


WORDS = ["Old", "Grace", "Mark", "Young", "Whit", "Pemberly", "Quilliam", "12"]
NAMES = st.tuples(st.integers(0, len(WORDS) - 2), st.integers(2, 4)).map(lambda it: " ".join(WORDS[it[0] :][: it[1]]))


@given(st.lists(st.tuples(NAMES, st.booleans()), min_size=1, max_size=12, unique_by=lambda it: it[0]), st.booleans())
def test_each_name_is_replaced_as_a_whole_whatever_else_was_known_and_forgotten(
    names: list[tuple[str, bool]], is_long: bool
) -> None:
    """They begin and end within one another."""
    originals, beside = Originals(), "nothing of that kind; " * 20 * is_long
    for number, (name, _) in enumerate(names):
        originals.add(name, f"<NAME_{number}>")
    for number, (_, is_forgotten) in enumerate(names):
        if is_forgotten:
            originals.discard(f"<NAME_{number}>")
    for name, is_forgotten in names:
        if not is_forgotten:
            ((start, end, _),) = originals.spans(f"{beside}It: {name}. {beside}")
            assert start <= len(beside) + 4
            assert end >= len(beside) + 4 + len(name)
