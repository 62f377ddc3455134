"""Cuts the text of a query into words, marks and groups in brackets, whatever its language is: SQL of any database,
GraphQL, JMESPath. Pure, and linear in the length of the text.

Databases differ in where some strings and comments end: what one takes for a string is code for another. Where a text
has such a place, it is not cut.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

MAX_DEPTH = 60
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_PIECE = re.compile(
    r"--[^\n]*|\s+|(?P<comment>/\*.*?(?:\*/|\Z))"
    r"|(?P<string>'(?:[^']|'')*(?:'|\Z))"
    r"|(?P<quoted>\"(?:[^\"]|\"\")*(?:\"|\Z)|`[^`]*(?:`|\Z)|(?<![\w)\]'\"])\[[^\W\d][\w ]*\])"
    r"|(?P<word>[?$@]?[^\W\d][\w$]*)"
    r"|(?P<number>\d[\w.]*)"
    r"|(?P<mark>->>|->|#>>|#>|::|\|\||.)",
    re.DOTALL,
)
_UNCERTAIN = re.compile(
    r"\\['\"`]|\$\w*\$|--\S|#(?![>-])|\bq'|/\*[!+]|\"\"\"|'''|\bu&|(?<=[^\w)\]'\"])\[[^\]]{0,128}['\"`]"
    r"|\b(?:exec|execute|prepare|sp_executesql|unpivot)\b",
    re.IGNORECASE,
)
"""Escapes, strings, names and comments of some databases only, and what runs a text as a statement
or puts several columns into one."""


class TokenKind(Enum):
    WORD = "word"
    QUOTED = "quoted"
    """A name in quotation marks."""
    STRING = "string"
    NUMBER = "number"
    MARK = "mark"


class Token(NamedTuple):
    kind: TokenKind
    text: str

    @property
    def is_name(self) -> bool:
        return self.kind in (TokenKind.WORD, TokenKind.QUOTED)


@dataclass(eq=False)
class Group:
    """What is between two brackets; the whole text is one too."""

    opening: str = ""
    nodes: list[Token | Group] = field(default_factory=list)


Node = Token | Group


def grouped(text: str) -> Group | None:
    """The text in brackets; None if it is not certain how a database reads it, or if it is nested too deep."""
    if _UNCERTAIN.search(text):
        return None
    whole = Group()
    open_groups = [whole]
    for token in _tokens(text):
        if token is None:
            return None
        if is_mark(token, *_CLOSING):
            group = Group(token.text)
            open_groups[-1].nodes.append(group)
            open_groups.append(group)
            if len(open_groups) > MAX_DEPTH:
                return None
        elif is_mark(token, *_CLOSING.values()):
            if _CLOSING.get(open_groups[-1].opening) == token.text:
                open_groups.pop()
        else:
            open_groups[-1].nodes.append(token)
    return whole if len(open_groups) == 1 else None


def is_word(node: Node | None, *words: str) -> bool:
    """Whether it is one of these words, in any case and without quotation marks."""
    return isinstance(node, Token) and node.kind is TokenKind.WORD and node.text.casefold() in words


def is_mark(node: Node | None, *marks: str) -> bool:
    return isinstance(node, Token) and node.kind is TokenKind.MARK and node.text in marks


def is_group(node: Node | None, opening: str = "(") -> bool:
    return isinstance(node, Group) and node.opening == opening


def strings_in(group: Group) -> Iterator[Token]:
    """What stands in quotation marks, at any depth."""
    waiting = [group]
    while waiting:
        for node in waiting.pop().nodes:
            if isinstance(node, Group):
                waiting.append(node)
            elif node.kind in (TokenKind.STRING, TokenKind.QUOTED):
                yield node


def _tokens(text: str) -> Iterator[Token | None]:
    """The pieces without comments; None in place of one that has no end, and of a comment within another."""
    for found in _PIECE.finditer(text):
        if (kind := found.lastgroup) is None:
            continue
        piece = found[0]
        if kind == "comment":
            if "/*" in piece[2:] or not piece.endswith("*/"):
                yield None
        elif kind in ("string", "quoted"):
            mark = "]" if piece[0] == "[" else piece[0]
            if len(piece) < 2 or piece[-1] != mark:
                yield None
            yield Token(TokenKind(kind), piece[1:-1].replace(mark + mark, mark))
        else:
            yield Token(TokenKind(kind), piece.lstrip("?$@") if kind == "word" else piece)
