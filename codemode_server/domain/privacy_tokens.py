"""Privacy tokens: what stands for personal data, such as `<EMAIL_1>`, and the contract of their store. No I/O."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

TOKEN = re.compile(r"<([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*)_([1-9][0-9]{0,8})>")
TOKEN_IN_ANY_CASE = re.compile(TOKEN.pattern, re.IGNORECASE | re.ASCII)
DEFAULT_MAX_TOKENS = 50_000
_MAX_LABEL_CHARACTERS = 40
_WITH_VALUE = re.compile(rf"({TOKEN.pattern} \([^)\n]*\)) is .*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class PersonalValue:
    kind: str
    normal: str
    """The value in the form in which equal values are equal: an e-mail address in lower case."""
    original: str
    is_number: bool = False
    """True if it is a number in JSON, written as its decimal digits."""


@dataclass(frozen=True, slots=True)
class KnownToken:
    token: str
    kind: str
    original: str | None
    """As it was seen first; None once it was forgotten or has expired."""
    is_number: bool = False
    made_at: float = 0.0
    used_at: float = 0.0
    """When a result last had the value, seconds since 1970."""
    server: str = ""
    """The one whose result had the value first; empty if that is not known."""

    @property
    def value(self) -> str | int | float | None:
        if self.original is None or not self.is_number:
            return self.original
        return float(self.original) if {".", "e", "E"} & {*self.original} else int(self.original)


@dataclass(frozen=True, slots=True)
class TokenChanges:
    tokens: Sequence[KnownToken]
    """New ones, and those that stand for nothing any more."""
    number: int
    """Number of the last change, for the next time."""
    are_all: bool = False
    """True if the tokens are all those that stand for something."""


@dataclass(frozen=True, slots=True)
class TokenLimits:
    """Configured limits of the tokens of each principal."""

    tokens: int = DEFAULT_MAX_TOKENS
    """How many may stand for something."""
    expire_seconds: float | None = None
    """How long one stands for its value after the last use; None: for ever."""


def label_of(kind: str) -> str:
    """How the tokens of a kind begin: `NATIONAL_ID`."""
    label = re.sub(r"[^A-Z0-9]+", "_", kind.upper()[:_MAX_LABEL_CHARACTERS]).strip("_")
    return label if label[:1].isalpha() else f"KIND_{label}".rstrip("_")


def line_with_value(token: str, kind: str, original: str | None) -> str:
    """Line about a token in a question to the person."""
    return f"{token} ({kind}) is {original!r}"


def without_value(line: str) -> str:
    """A line of a question, without the value that `line_with_value` has put there."""
    found = _WITH_VALUE.fullmatch(line)
    return line if found is None else found[1]


def first_of_its_kind(token: str) -> str:
    """The token of the same kind that was made first: `<NAME_1>` for `<NAME_999>`."""
    return f"{token[: token.rindex('_')]}_1>"


def holds_token(text: str) -> bool:
    """True if a text has something in it that looks like a privacy token."""
    return "<" in text and TOKEN.search(text) is not None


def revealed_line(token: KnownToken) -> str:
    """The line for the person at the terminal; other outputs must not have it."""
    return f"{token.token} ({token.kind}) stands for {token.original!r}"
