"""Says in which spellings an original is searched for, and which of its parts tell something about it.

A form is compared by its letters and digits alone. Parts are found by windows of six characters, or of eight where all
are digits, since six digits are too often the number of something else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property, partial
from itertools import islice

from codemode_server.domain.privacy_tokens import label_of
from codemode_server.privacy.findings import Kind
from codemode_server.privacy.folding import INVISIBLE, SEPARATORS, fold
from codemode_server.privacy.given_names import begins_with_given_name
from codemode_server.privacy.name_words import Reach, reach_of
from codemode_server.privacy.ordinary_words import is_ordinary

MAX_ORIGINAL_CHARACTERS = 4_096
"""How much of an original is searched for."""
MIN_FREE = 10
"""Letters and digits from which on a match counts whatever separates them, and beside other letters."""
PART_CHARACTERS = 6
"""A shorter part tells too little to be looked for."""
PART_DIGITS = 8
SHORT_CHARACTERS = 4
"""By so many characters, with separators, forms of fewer than six letters and digits are found."""
_MAX_LITERAL_CHARACTERS, _MAX_LEAD_CHARACTERS = 16, 4
"""Of a form of fewer than six letters and digits that has more separators, only so many characters are searched for."""
_MAX_ANCHORS = 64
_MAX_WINDOWS = 64
"""Windows by which parts of one form are found, so that a long one takes as much memory as a shorter one."""
_MIN_LOCAL_CHARACTERS = 5
"""Characters of an e-mail address before the @ that a window of it must have."""
_MAX_HOUSE_DIGITS = 4
_MIN_WORD_LETTERS = 3
_MAX_COUNTRY_DIGITS = 3
_MIN_NATIONAL_DIGITS = 7
_MIN_DIFFERENT_DIGITS = 3
_WORDS = re.compile(rb"[a-z\x80-\xfd]+|[0-9]+")
_LETTERS = re.compile(rb"[a-z\x80-\xfd]+")
_TOKEN_OF_NAME = re.compile(f"<{label_of(Kind.NAME)}_[0-9]+>")
_DATE = re.compile(
    r"(?:19|20)\d\d[-./ ]?\d\d?[-./ ]?\d\d?(?:[T ].{4,30})?|\d\d?[-./ ]?\d\d?[-./ ]?(?:19|20)?\d\d"
    r"|\d{1,2}\.? (?:de )?[^\W\d_]{3,12}\.?,? (?:de )?\d{4}|[^\W\d_]{3,12}\.? \d{1,2}(?:st|nd|rd|th)?,? \d{4}"
)
_COMMON_NUMBER = re.compile(
    rb"(?:19|20)\d\d(?:0\d|1[0-2])[0-3]\d|[0-3]\d(?:0\d|1[0-2])(?:19|20)\d\d|(?:0\d|1[0-2])[0-3]\d(?:19|20)\d\d|.*0000.*"
    rb"|01234567|12345678|23456789|34567890|09876543|98765432|87654321|76543210"
)
"""Eight digits that may be a date, or are a round number or in order."""
_ADDRESS_OF_MACHINE = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}|[0-9a-fA-F]*:[0-9a-fA-F.]*:[0-9a-fA-F:.]*")


class Form:
    """One spelling of an original."""

    __slots__ = (
        "backwards",
        "characters",
        "gaps",
        "has_parts",
        "inner",
        "is_between_words",
        "is_digits",
        "is_name",
        "is_ordinary",
        "is_single_word",
        "lead",
        "reach",
        "token",
        "trail",
        "written",
    )

    def __init__(self, written: str, token: str, *, has_parts: bool = True, is_between_words: bool = False) -> None:
        """`is_between_words`: it counts only where no letter or digit is beside it."""
        self.written = written
        self.is_between_words = is_between_words
        self.token = token
        literal = fold(written).replace(bytes([INVISIBLE]), b"")
        self.inner = literal.strip(SEPARATORS) or literal
        """Folded, from its first letter or digit to its last, if it has any."""
        self.lead = literal[: literal.find(self.inner)]
        self.trail = literal[len(self.lead) + len(self.inner) :]
        self.characters = literal.translate(None, SEPARATORS)
        """Its letters and digits."""
        self.backwards = self.characters[::-1]
        self.gaps = _gaps(self.inner)
        """For each two neighbours of `characters`: 1 if separators are between them."""
        self.is_digits = self.characters.isdigit()
        self.is_name = written.replace(" ", "").isalpha()
        self.is_single_word = self.is_name and " " not in written
        self.is_ordinary = self.is_name and all(map(is_ordinary, _WORDS.findall(literal)))
        self.reach = self._reach()
        self.has_parts = (
            has_parts
            and self.reach is not Reach.BESIDE_TITLES
            and not _DATE.fullmatch(written)
            and not _ADDRESS_OF_MACHINE.fullmatch(written)
        )

    def _reach(self) -> Reach:
        """A server can call any words names, without a person of that name being there; what counts between words only
        was sent."""
        if _TOKEN_OF_NAME.fullmatch(self.token) and not self.is_between_words:
            words = _LETTERS.findall(self.inner)
            is_of_words = bool(words) and all(word.isascii() and is_ordinary(word) for word in words)
            return reach_of(self.written) if is_of_words else Reach.ANYWHERE
        is_in_small_letters = self.is_ordinary and self.written.islower() and not begins_with_given_name(self.written)
        return Reach.WHOLE_VALUES if is_in_small_letters else Reach.ANYWHERE

    @property
    def literal(self) -> bytes:
        return self.lead + self.inner + self.trail

    @property
    def is_free(self) -> bool:
        """Whether it counts within longer words too, however it is separated."""
        return len(self.characters) >= MIN_FREE and not self.is_single_word


class Windows:
    """The windows of a form that tell something. `canonical` ones are the same forwards and backwards."""

    def __init__(self, form: Form) -> None:
        self.all: list[bytes] = []
        self.parts: list[bytes] = []
        """Each is a match if it stands alone."""
        self.weak: list[bytes] = []
        """They tell something in a match of `MIN_FREE` characters."""
        self._form = form
        self._step = max(1, -(-(len(form.characters) - PART_CHARACTERS + 1) // _MAX_WINDOWS))
        self._words = _words_by_position(form)
        self._fill()

    def _fill(self) -> None:
        characters = self._form.characters
        last = self._last_place
        for at in range(0, len(characters) - PART_CHARACTERS + 1, self._step):
            window = window_at(characters, at)
            if window.isdigit() and len(window) < PART_DIGITS:
                continue
            self.all.append(window)
            if not self._form.has_parts or at > last:
                continue
            if window.isdigit():
                if not _COMMON_NUMBER.fullmatch(window) and len(set(window)) >= _MIN_DIFFERENT_DIGITS:
                    self.parts.append(window)
                continue
            within = self._words[at : at + PART_CHARACTERS]
            if not self._is_email and all(word.is_ordinary for word in within):
                if any(word.is_number for word in within):
                    self.weak.append(window)
            else:
                self.parts.append(window)

    @property
    def are_sparse(self) -> bool:
        """Whether they are some of many, at equal distances."""
        return self._step > 1

    @cached_property
    def _is_email(self) -> bool:
        return b"@" in self._form.inner

    @cached_property
    def _last_place(self) -> int:
        """Where the last window may begin that is a part: not in the domain of an e-mail address."""
        if not self._is_email:
            return len(self._form.characters)
        local = self._form.inner[: self._form.inner.rindex(b"@")].translate(None, SEPARATORS)
        return len(local) - _MIN_LOCAL_CHARACTERS

    @property
    def literal_parts(self) -> Iterator[bytes]:
        """Parts of six characters, of which one is a separator. With an @ only that with which an address begins."""
        return islice(self._all_literal_parts(), _MAX_WINDOWS)

    def _all_literal_parts(self) -> Iterator[bytes]:
        if not self._form.has_parts or self._form.is_digits:
            return
        inner, seen = self._form.inner, 0
        for at in range(len(inner) - PART_CHARACTERS + 1):
            window = inner[at : at + PART_CHARACTERS]
            letters = window.translate(None, SEPARATORS)
            if (
                len(letters) == PART_CHARACTERS - 1
                and b" " not in window
                and (at == 0 if b"@" in window else seen <= self._last_place)
                and sum(not character.isdigit() for character in map(chr, letters)) >= _MIN_WORD_LETTERS
                and any(not word.is_ordinary and not word.is_number for word in self._words[seen : seen + len(letters)])
                and not all(map(is_ordinary, _WORDS.findall(window)))
            ):
                yield window
            seen += inner[at] not in SEPARATORS


def anchors_of(form: Form) -> list[bytes]:
    """The windows of which one finds the whole form, in no certain order; only some of a long one."""
    characters = form.characters
    windows = [window_at(characters, at) for at in range(min(len(characters) - PART_CHARACTERS + 1, _MAX_ANCHORS))]
    return [it for it in windows if not it.isdigit() or len(it) == PART_DIGITS] or windows[:1]


class _Word:
    __slots__ = ("is_number", "is_ordinary")

    def __init__(self, text: bytes, *, in_address: bool) -> None:
        self.is_number = text.isdigit()
        self.is_ordinary = len(text) <= _MAX_HOUSE_DIGITS and in_address if self.is_number else is_ordinary(text)


def _words_by_position(form: Form) -> list[_Word]:
    """The word of each letter and digit."""
    words = _WORDS.findall(form.inner)
    in_address = b" " in form.inner and any(len(it) >= _MIN_WORD_LETTERS and not it.isdigit() for it in words)
    found: list[_Word] = []
    for text in words:
        found += [_Word(text, in_address=in_address)] * len(text)
    return found


def window_at(characters: bytes, at: int) -> bytes:
    window = characters[at : at + PART_DIGITS]
    return window if len(window) == PART_DIGITS and window.isdigit() else window[:PART_CHARACTERS]


def canonical(window: bytes) -> bytes:
    return min(window, window[::-1])


def forms_of(original: str, token: str, *, only_wholes: bool = False) -> Iterator[Form]:
    """The spellings that are searched for; with `only_wholes`, no parts of them, and they count between words only."""
    make = partial(Form, token=token, is_between_words=only_wholes)
    original = original[:MAX_ORIGINAL_CHARACTERS]
    form = _shortened(make(original, has_parts=not only_wholes))
    yield form
    if "ß" in original:
        yield make(original.replace("ß", "ss"), has_parts=not only_wholes)
    if form.is_digits and original.startswith("+"):
        for count in range(1, _MAX_COUNTRY_DIGITS + 1):
            if len(form.characters) - count >= _MIN_NATIONAL_DIGITS:
                yield make(f"0{form.characters[count:].decode()}", has_parts=False)


def _shortened(form: Form) -> Form:
    """The form, or its beginning if nearly all of it is separators."""
    if len(form.characters) >= PART_CHARACTERS or len(form.literal) <= _MAX_LITERAL_CHARACTERS:
        return form
    visible = "".join(character for character in form.written if fold(character) != bytes([INVISIBLE]))
    start = max(0, len(form.lead) - _MAX_LEAD_CHARACTERS)
    written, is_between_words = visible[start : start + _MAX_LITERAL_CHARACTERS], form.is_between_words
    return Form(written, form.token, has_parts=form.has_parts, is_between_words=is_between_words)


def _gaps(inner: bytes) -> bytes:
    gaps = bytearray()
    is_apart = False
    for character in inner[1:]:
        if character in SEPARATORS:
            is_apart = True
        else:
            gaps.append(is_apart)
            is_apart = False
    return bytes(gaps)
