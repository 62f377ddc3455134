"""Reads which names in a query stand for which columns: `SELECT name AS who`, `{who: name}`. Pure.

No grammar of any database is followed. A query is cut at the words that begin a clause and at commas; what is left of
an alias is its expression, and every column in that counts. Aliases of all parts of a query are put together, whatever
their scope. So a name may be read as one of more columns than it is one of, seldom of fewer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from codemode_server.privacy.query_clauses import (
    FROM,
    NO_ALIASES,
    PROJECTIONS,
    RELATIONS,
    SETS,
    STEPS,
    aliased,
    clauses,
    is_name,
    is_query,
    is_star,
    lower,
    operand,
    path_at,
    path_of,
    split,
    tables_in,
    without_modifiers,
)
from codemode_server.privacy.query_tokens import (
    Group,
    Node,
    Token,
    TokenKind,
    grouped,
    is_group,
    is_mark,
    is_word,
    strings_in,
)
from codemode_server.privacy.statements import SELECTS

_MAX_SOURCES = 20_000
"""Columns of all expressions of a query together; nested ones are counted again at each level."""
_INDEXING = re.compile(r"json|get|extract|field|struct|element", re.IGNORECASE)
"""In names of functions whose strings may be names of fields."""
_ARROWS = ("->", "->>", "#>", "#>>")
_MAX_STRINGS_DEPTH = 2
_PATH_NAME = re.compile(r"[^\W\d]\w*")
ANY = "*"


class Source(NamedTuple):
    """A column of an expression."""

    column: str
    """`ANY` if it is not known which."""
    table: str = ""
    """The name before it, if there is one."""
    is_computed: bool = False
    """Whether values of the column are changed."""


class Item(NamedTuple):
    """What a query selects as one column."""

    name: str
    """Its alias, or that of its column, or one that was made for it."""
    sources: tuple[Source, ...]


class TooManySources(ValueError):
    """Raised when a query has more than `_MAX_SOURCES`."""


@dataclass
class Renames:
    """What was read of queries. Names are in small letters."""

    sources: dict[str, set[Source]] = field(default_factory=dict)
    """By alias."""
    relations: dict[str, set[str]] = field(default_factory=dict)
    """The tables and subqueries that an alias in `FROM` stands for."""
    tables: set[str] = field(default_factory=set)
    columns_read: set[Source] = field(default_factory=set)
    """All columns of expressions."""
    unnamed: set[Source] = field(default_factory=set)
    """Of expressions without an alias, for which databases make a name."""
    columns: tuple[str, ...] = ()
    """Names of the columns of the last statement, in order; empty if they are not known."""

    def note(self, name: str, sources: Iterable[Source]) -> None:
        """A name stands for these columns."""
        self.sources.setdefault(name, set()).update(sources)

    def add(self, text: str, *, depth: int = 0) -> bool:
        """Read a query, also one in a string, as in a command. Returns False if it can't be read with certainty."""
        whole = grouped(text)
        if whole is None:
            return False
        try:
            reader = _Reader(self)
            self.columns = _columns(reader.statements(whole)) or self.columns
            reader.pairs(whole)
        except TooManySources:
            return False
        is_read = True
        for inner in strings_in(whole) if depth < _MAX_STRINGS_DEPTH else ():
            if SELECTS.search(inner.text):
                is_read &= self.add(inner.text, depth=depth + 1)
        return is_read


class _Reader:
    def __init__(self, renames: Renames) -> None:
        self._to = renames
        self._read: dict[int, list[Item]] = {}
        self._count = 0

    def statements(self, group: Group) -> list[Item]:
        """What a group selects, read once: the items of its last statement, with those of all branches of a union."""
        if id(group) in self._read:
            return self._read[id(group)]
        items: list[Item] = []
        for statement in split(group.nodes, ";"):
            items = self._statement(statement) or items
        self._read[id(group)] = items
        return items

    def _statement(self, nodes: Sequence[Node]) -> list[Item]:
        self._named_subqueries(nodes)
        branches, is_new = list[list[Item]](), True
        for keyword, clause in clauses(nodes):
            if keyword in PROJECTIONS:
                items = [self._item(it) for it in split(without_modifiers(clause), ",")]
                if is_new:
                    branches.append(items)
                else:
                    branches[-1] += items
                is_new = False
            elif keyword in RELATIONS:
                for it in split(clause, ","):
                    self._relation(it)
            elif keyword in ("", *SETS):
                is_new = True
                rest = without_modifiers(clause)
                if rest and isinstance(rest[0], Group) and is_query(rest[0]):
                    branches.append(self.statements(rest[0]))
                elif len(rest) > 1 and is_word(rest[0], "values") and isinstance(rest[1], Group):
                    branches.append([self._item(it) for it in split(rest[1].nodes, ",")])
            else:  # an alias in a condition is one in a language that we don't know
                for it in split(clause, ","):
                    if keyword in STEPS or any(is_word(node, "as") for node in it):
                        self._item(it)
                    else:
                        self._sources_of(it)
        if not branches:
            return []
        first, *others = branches
        return [self._united(at, item, branches, others) for at, item in enumerate(first)]

    def _united(self, at: int, item: Item, branches: list[list[Item]], others: list[list[Item]]) -> Item:
        """A column of a union, with what the other branches have in its place."""
        if not others:
            return item
        is_known = not any(it.name == ANY for branch in branches for it in branch)
        sources = {*item.sources}
        for branch in others:
            sources.update(branch[at].sources if is_known and at < len(branch) else (Source(ANY),))
        self._note(item.name, sources)
        self._to.unnamed |= sources
        return Item(item.name, tuple(sources))

    def _note(self, name: str, sources: set[Source]) -> None:
        self._count += len(sources)
        if self._count > _MAX_SOURCES:
            raise TooManySources
        self._to.note(name, sources)

    def _item(self, nodes: Sequence[Node]) -> Item:
        """A column of a query."""
        expression, alias = aliased(nodes)
        if not alias and len(nodes) > 2 and is_name(nodes[0]) and is_mark(nodes[1], "="):
            expression, alias = nodes[2:], lower(nodes[0].text)
        if is_star(expression):
            for group in expression:
                if isinstance(group, Group):  # `* REPLACE (name AS who)`
                    for it in split(group.nodes, ","):
                        self._item(it)
            return Item(ANY, (Source(ANY),))
        sources = self._sources_of(expression)
        if alias:
            self._note(alias, sources)
            return Item(alias, tuple(sources))
        if (path := path_of(expression)) is not None:
            return Item(path[-1], tuple(sources))
        self._to.unnamed |= sources
        first = expression[0]
        if isinstance(first, Token) and len(expression) == 1:
            return Item(lower(first.text), tuple(sources))  # a value, by which SQLite calls the column
        if is_name(first) and (is_word(first, "case") or is_group(expression[1])):
            self._note(lower(first.text), sources)  # PostgreSQL calls it by the function
        made = f"column {len(self._to.sources)}"
        self._note(made, sources)
        return Item(made, tuple(sources))

    def _sources_of(self, nodes: Sequence[Node]) -> set[Source]:
        is_computed = path_of(nodes) is None
        found = {it._replace(is_computed=is_computed or it.is_computed) for it in self._walk(nodes, False)}
        self._count += len(found)
        if self._count > _MAX_SOURCES:
            raise TooManySources
        return found

    def _walk(self, nodes: Sequence[Node], is_indexed: bool) -> Iterator[Source]:
        """The columns in an expression. `is_indexed`: strings in it are names of fields."""
        at, is_condition = 0, False
        while at < len(nodes):
            node, before = nodes[at], nodes[at - 1] if at else None
            at += 1
            if is_word(node, "case", "when"):
                is_condition = True
            elif is_word(node, "then", "else", "end"):
                is_condition = False
            elif is_condition:
                continue
            elif isinstance(node, Group):
                yield from self._group(node, before)
            elif node.kind is TokenKind.STRING:
                if is_indexed or node.text.startswith("$") or is_mark(before, ".", *_ARROWS):
                    for name in _PATH_NAME.findall(node.text):
                        yield self._column([lower(name)])
            elif node.is_name:
                path, at = path_at(nodes, at - 1)
                is_function = at < len(nodes) and is_group(nodes[at])
                if not is_function and not is_mark(before, "::"):
                    yield self._column(path)

    def _group(self, group: Group, before: Node | None) -> Iterator[Source]:
        if is_word(before, "over", "filter", "exists"):
            return
        if is_query(group):
            for item in self.statements(group):
                yield from item.sources
            return
        is_indexed = group.opening == "[" or (isinstance(before, Token) and bool(_INDEXING.search(before.text)))
        yield from self._walk(group.nodes, is_indexed)

    def _column(self, path: Sequence[str]) -> Source:
        source = Source(path[-1], path[-2] if len(path) > 1 else "")
        self._to.columns_read.add(source)
        return source

    def _relation(self, nodes: Sequence[Node]) -> None:
        """A table or subquery in `FROM`, with its alias and new names for its columns."""
        nodes = without_modifiers(nodes)
        if not nodes:
            return
        names, items, at = set[str](), list[Item](), 1
        first = nodes[0]
        if isinstance(first, Group):
            if is_query(first):
                items = self.statements(first)
            else:
                self._statement([FROM, *first.nodes])
            names = tables_in(first)
        elif is_name(first):
            path, at = path_at(nodes, 0)
            names = {path[-1]}
            self._to.tables |= names
            if at < len(nodes) and isinstance(inner := nodes[at], Group) and not is_query(inner):
                at += 1  # arguments of a function, or the columns of an INSERT
        if at < len(nodes) and is_word(nodes[at], "as"):
            at += 1
        if at < len(nodes) and is_name(alias := nodes[at]) and not is_word(alias, *NO_ALIASES):
            name = lower(alias.text)
            self._to.relations.setdefault(name, set()).update(names)
            self._note(name, {Source(it) for it in names})
            if at + 1 < len(nodes) and isinstance(columns := nodes[at + 1], Group) and columns.opening == "(":
                self._renamed_columns(columns, items)

    def _named_subqueries(self, nodes: Sequence[Node]) -> None:
        """`WITH who (a, b) AS (SELECT …)`, wherever it stands."""
        for at, node in enumerate(nodes):
            if not isinstance(node, Group) or not is_query(node):
                continue
            begin = at - 1
            while begin >= 0 and is_word(nodes[begin], "materialized", "not"):
                begin -= 1
            if begin < 1 or not is_word(nodes[begin], "as"):
                continue
            items, columns = self.statements(node), nodes[begin - 1]
            if isinstance(columns, Group):
                self._renamed_columns(columns, items)
            name = nodes[begin - 2] if isinstance(columns, Group) and begin > 1 else columns
            if isinstance(name, Token) and name.is_name:
                self._to.relations.setdefault(lower(name.text), set()).update(tables_in(node))

    def _renamed_columns(self, columns: Group, items: list[Item]) -> None:
        names = [lower(it[0].text) for it in split(columns.nodes, ",") if it and isinstance(it[0], Token)]
        is_known = len(names) == len(items) and not any(it.name == ANY for it in items)
        for at, name in enumerate(names):
            self._note(name, {*items[at].sources} if is_known else {Source(ANY)})

    def pairs(self, group: Group) -> None:
        """`{who: name}`, at any depth of a query that is no SQL."""
        waiting = [group]
        while waiting:
            group = waiting.pop()
            waiting += [it for it in group.nodes if isinstance(it, Group)]
            if group.opening == "{":
                self._pairs(group.nodes)
                following = [*group.nodes[1:], None]
                self._to.tables |= {
                    lower(it.text)
                    for it, after in zip(group.nodes, following, strict=False)
                    if is_name(it) and isinstance(after, Group)
                }

    def _pairs(self, nodes: Sequence[Node]) -> None:
        places = [at for at, node in enumerate(nodes) if is_mark(node, ":", "=") and 0 < at < len(nodes) - 1]
        for place, following in zip(places, [*places[1:], len(nodes) + 1], strict=False):
            key = nodes[place - 1]
            if isinstance(key, Group) and len(key.nodes) == 1:
                key = key.nodes[0]
            if not isinstance(key, Token) or key.kind in (TokenKind.MARK, TokenKind.NUMBER):
                continue
            if sources := self._sources_of(operand(nodes[place + 1 : following - 1])):
                self._note(lower(key.text), sources)


def _columns(items: Sequence[Item]) -> tuple[str, ...]:
    return () if any(item.name == ANY for item in items) else tuple(item.name for item in items)
