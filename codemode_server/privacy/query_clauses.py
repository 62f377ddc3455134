"""Cuts a query into its clauses and columns, by the words that all databases use. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

from codemode_server.privacy.query_tokens import Group, Node, Token, TokenKind, is_group, is_mark, is_word

PROJECTIONS = ("select", "returning", "return", "output")
RELATIONS = ("from", "join", "into", "update", "using")
_CONDITIONS = ("where", "having", "qualify")
SETS = ("union", "except", "intersect", "minus")
_ORDERS = ("group", "order", "partition", "cluster", "distribute", "sort")
STEPS = ("project", "extend", "rename", "eval", "derive", "summarize", "stats", "fields", "table")
"""Words after `|` in languages that work in steps."""
_MODIFIERS = ("distinct", "all", "top", "lateral", "only")
NO_ALIASES = (*SETS, "left", "right", "inner", "outer", "cross", "full", "natural", "limit", "set", "values", "default")
_OPERATORS = (
    *("and", "or", "not", "is", "in", "like", "ilike", "between", "collate", "div", "mod", "over", "escape", "similar"),
    *("to", "at", "zone", "from", "by", "else", "then", "when", "case", "distinct"),
)
"""What an alias does not follow."""
_ALIAS_KINDS = (TokenKind.WORD, TokenKind.QUOTED, TokenKind.STRING)
FROM = Token(TokenKind.WORD, "from")


def lower(text: str) -> str:
    return text.casefold()


def is_name(node: Node) -> TypeGuard[Token]:
    return isinstance(node, Token) and node.is_name


def is_star(nodes: Sequence[Node]) -> bool:
    """Whether an item of a projection is all columns: `*`, `p.*`, `* EXCEPT (name)`."""
    at = 2 if len(nodes) > 2 and is_name(nodes[0]) and is_mark(nodes[1], ".") else 0
    return len(nodes) > at and is_mark(nodes[at], "*")


def is_query(group: Group) -> bool:
    if not group.nodes:
        return False
    first = group.nodes[0]
    is_alone = len(group.nodes) == 1 or is_word(group.nodes[1], *SETS, "order", "limit")
    is_nested = isinstance(first, Group) and is_alone and is_query(first)
    return is_nested or any(is_word(node, "select", "returning") for node in group.nodes)


def split(nodes: Sequence[Node], mark: str) -> list[list[Node]]:
    """The parts between marks, those that are empty aside."""
    parts: list[list[Node]] = [[]]
    for node in nodes:
        if is_mark(node, mark):
            parts.append([])
        else:
            parts[-1].append(node)
    return [part for part in parts if part]


def clauses(nodes: Sequence[Node]) -> list[tuple[str, list[Node]]]:
    """The parts of a statement, each with the word that begins it."""
    parts: list[tuple[str, list[Node]]] = [("", [])]
    for at, node in enumerate(nodes):
        before = nodes[at - 1] if at else None
        after = nodes[at + 1] if at + 1 < len(nodes) else None
        if keyword := _keyword(node, before, after, parts[-1][0]):
            parts.append((keyword, []))
        else:
            parts[-1][1].append(node)
    return parts


def _keyword(node: Node, before: Node | None, after: Node | None, clause: str) -> str:
    """The word if it begins a clause; `clause` is the one before it."""
    if not isinstance(node, Token) or node.kind is not TokenKind.WORD or is_mark(before, "."):
        return ""
    word = lower(node.text)
    if is_word(before, "as"):  # a name, but not in `CREATE TABLE w AS SELECT …`
        return word if word == "select" and clause not in PROJECTIONS else ""
    if word in SETS:
        begins = is_word(after, "all", "distinct", "select", "by", "from") or (
            isinstance(after, Group) and is_query(after)
        )
    elif word in _ORDERS:
        begins = is_word(after, "by", "all")
    elif word == "on":
        begins = clause in RELATIONS
    elif word == "from":
        begins = not is_word(before, "distinct")
    elif word in STEPS:
        begins = is_mark(before, "|")
    else:
        begins = word in PROJECTIONS or word in RELATIONS or word in _CONDITIONS
    return word if begins else ""


def without_modifiers(nodes: Sequence[Node]) -> Sequence[Node]:
    """Without the words between `SELECT` and the first column: `DISTINCT ON (id)`, `TOP 10`."""
    at = 0
    while at < len(nodes) - 1 and is_word(nodes[at], *_MODIFIERS):
        is_on = is_word(nodes[at], "distinct") and is_word(nodes[at + 1], "on")
        is_top = is_word(nodes[at], "top")
        if is_top and not (is_group(nodes[at + 1]) or _is_number(nodes[at + 1])):
            break
        at += 3 if is_on else 2 if is_top else 1
    return nodes[at:]


def _is_number(node: Node) -> bool:
    return isinstance(node, Token) and node.kind is TokenKind.NUMBER


def aliased(nodes: Sequence[Node]) -> tuple[Sequence[Node], str]:
    """The expression and the alias of a column; the alias is empty if it has none."""
    for at in range(len(nodes) - 2, 0, -1):
        if is_word(nodes[at], "as") and isinstance(alias := nodes[at + 1], Token) and alias.kind in _ALIAS_KINDS:
            return nodes[:at], lower(alias.text)
    if len(nodes) > 1:
        last, before = nodes[-1], nodes[-2]
        can_follow = not isinstance(before, Token) or before.kind is not TokenKind.MARK
        if (
            isinstance(last, Token)
            and last.kind in _ALIAS_KINDS
            and can_follow
            and not is_word(last, "end", "null", "true", "false")
            and not is_word(before, *_OPERATORS)
        ):
            return nodes[:-1], lower(last.text)
    return nodes, ""


def path_at(nodes: Sequence[Node], at: int) -> tuple[list[str], int]:
    """The names with dots between them that begin here, and where what follows them is."""
    path: list[str] = []
    while at < len(nodes) and is_name(node := nodes[at]):
        path.append(lower(node.text))
        at += 1
        if not (at + 1 < len(nodes) and is_mark(nodes[at], ".") and is_name(nodes[at + 1])):
            break
        at += 1
    return path, at


def path_of(nodes: Sequence[Node]) -> list[str] | None:
    """The names of a column, if an expression is nothing else: `p.name`, or `.name`."""
    nodes = nodes[1:] if nodes and is_mark(nodes[0], ".") else nodes
    path, end = path_at(nodes, 0)
    return path if path and end == len(nodes) else None


def tables_in(group: Group) -> set[str]:
    """The tables that a subquery reads."""
    names = set[str]()
    for keyword, clause in clauses([FROM, *group.nodes]):
        if keyword in RELATIONS:
            for it in map(without_modifiers, split(clause, ",")):
                if it and isinstance(it[0], Group):
                    names |= tables_in(it[0])
                elif path := path_at(it, 0)[0]:
                    names.add(path[-1])
    return names


def operand(nodes: Sequence[Node]) -> Sequence[Node]:
    """The value of a pair, up to the next one; none if it is an object of fields with names of their own."""
    value = (split(nodes, ",") or [[]])[0]
    if not value:
        return []
    first = value[0]
    if isinstance(first, Token) and first.kind is TokenKind.QUOTED:
        return [Token(TokenKind.STRING, first.text)] if first.text.startswith("$") else []
    if any(isinstance(node, Token) and node.kind is TokenKind.MARK and node.text != "." for node in value):
        return value
    begin = 1 if is_mark(first, ".") else 0
    _, end = path_at(value, begin)
    if end == begin:
        return value if isinstance(first, Group) and first.opening != "{" else []
    end += end < len(value) and is_group(value[end])
    return [] if end < len(value) and is_group(value[end], "{") else value[:end]
