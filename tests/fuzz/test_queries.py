"""Queries by rule, on SQLite: however one renames the columns, what it answers with of a person is found.

And any text is read as a query without an error.
"""

from __future__ import annotations

import random
import sqlite3

from hypothesis import given
from hypothesis import strategies as st

from codemode_server.privacy.detector import Detector
from codemode_server.privacy.queries import renamed_by
from tests.fuzz.strategies import texts, values

DETECTOR = Detector()
COLUMNS = ("id", "name", "first_name", "last_name", "born", "city")
PERSON = (1, "Xqaru Zedvik", "Xqaru", "Zedvik", "1987-03-14", "Lisbon")
PERSONAL = ("xqaru", "zedvik", "1987-03-14")
ALIASES = ("a", "b", "x", "y", "z", "label", "key", "val", "offset", "date", "text", "left_", "the one")
FUNCTIONS = ("upper({})", "coalesce({}, 'n/a')", "CAST({} AS TEXT)", "({})", "substr({}, 1, 30)", "(SELECT {})")
PIECES = st.sampled_from(
    [
        *(
            "SELECT ",
            " FROM ",
            " AS ",
            ",",
            "(",
            ")",
            "[",
            "]",
            "{",
            "}",
            ":",
            "=",
            ".",
            "'",
            '"',
            "`",
            "--",
            "/*",
            "*/",
        ),
        *(" UNION ", " WITH ", " VALUES ", " JOIN ", " ON ", " CASE ", " WHEN ", " END ", "*", "|", "->>", "::", "$"),
        *("name", "born", "people", "a", "1", "\\", "#", " ", "\n", "\x00", "é"),
    ]
)


class Queries:
    """Makes queries from one source of randomness."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def quoted(self, name: str) -> str:
        if " " in name or self.rng.random() < 0.25:
            return self.rng.choice(('"{}"', "[{}]", "`{}`")).format(name)
        return name

    def expression(self, columns: list[str], depth: int = 0) -> str:
        pick = self.rng.random()
        if pick < 0.5 or depth > 2:
            return self.rng.choice(columns)
        inner = self.expression(columns, depth + 1)
        if pick < 0.8:
            return self.rng.choice(FUNCTIONS).format(inner)
        if pick < 0.9:
            return f"CASE WHEN {self.rng.choice(columns)} IS NULL THEN 'x' ELSE {inner} END"
        return f"{inner} || ', ' || {self.expression(columns, depth + 1)}"

    def source(self, depth: int) -> tuple[str, str, list[str]]:
        """What goes before the query, what it reads, and the columns of that."""
        pick = self.rng.random()
        if depth > 2 or pick < 0.35:
            table = self.rng.choice(("people", "people p", "people AS p", "main.people", '"people" p'))
            prefix = "p." if table.endswith(" p") and self.rng.random() < 0.5 else ""
            return "", table, [prefix + column for column in COLUMNS]
        text, names = self.query(depth + 1)
        if pick < 0.7:
            return "", f"({text}) {self.rng.choice(('', f't{depth}', f'AS t{depth}'))}", [*map(self.quoted, names)]
        columns = ""
        if self.rng.random() < 0.6:
            names = self.rng.sample(ALIASES, len(names))
            columns = f"({', '.join(map(self.quoted, names))})"
        return f"WITH w{depth}{columns} AS ({text}) ", f"w{depth}", [*map(self.quoted, names)]

    def query(self, depth: int = 0) -> tuple[str, list[str]]:
        """A query, and the names of its columns."""
        before, source, columns = self.source(depth)
        names = self.rng.sample(ALIASES, self.rng.randint(1, 3))
        items = [
            f"{self.expression(columns)}{self.rng.choice((' AS ', ' as ', ' '))}{self.quoted(name)}" for name in names
        ]
        text = f"{before}SELECT {self.rng.choice(('', 'DISTINCT ', 'ALL '))}{', '.join(items)} FROM {source}"
        if self.rng.random() < 0.2:
            text += f" UNION ALL SELECT {', '.join(self.rng.choice(columns) for _ in names)} FROM {source}"
        return text + self.rng.choice(("", " LIMIT 5", " /* all */ LIMIT 3", " -- done\n")), names


def database() -> sqlite3.Connection:
    opened = sqlite3.connect(":memory:")
    opened.execute(f"CREATE TABLE people ({', '.join(COLUMNS)})")
    opened.execute("INSERT INTO people VALUES (?, ?, ?, ?, ?, ?)", PERSON)
    return opened


DATABASE = database()


@given(st.integers(0, 2**32))
def test_what_a_query_answers_with_of_a_person_is_found(seed: int) -> None:
    """In rows with names and in rows without."""
    query, names = Queries(seed).query()
    rows = DATABASE.execute(query).fetchall()
    fields = renamed_by({"sql": query})
    personal = {str(cell) for row in rows for cell in row if any(it in str(cell).casefold() for it in PERSONAL)}
    for value in ([dict(zip(names, row, strict=True)) for row in rows], [list(row) for row in rows]):
        found = [it.value for it in DETECTOR.in_value(value, None, fields).found]
        for cell in personal:
            for one in sorted(found, key=len, reverse=True):
                cell = cell.replace(one, "")
            assert not any(it in cell.casefold() for it in PERSONAL), query


@given(st.lists(PIECES).map("".join) | texts)
def test_any_text_is_read_as_a_query(text: str) -> None:
    fields = renamed_by({"query": text, "sql": f"SELECT {text} FROM people", "graph": f"{{{text}}}"})
    for name in ("a", "name", "", text[:20]):
        fields.of(name)


@given(values)
def test_any_arguments_are_searched_for_queries(value: object) -> None:
    renamed_by({"a": value})
