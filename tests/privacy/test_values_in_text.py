"""Values in place of tokens within SQL and JSON: no value ends the string around it."""

from __future__ import annotations

import json
import sqlite3
from typing import Any

import pytest

from codemode_server.features.privacy.values_in_text import NotPlaceable, with_values

NAME = "<NAME_1>"
HOSTILE = "x'); DROP TABLE people; --"


def put(text: str, value: str | int | float, key: str = "query") -> Any:
    return with_values({key: text}, {NAME: value})[key]


def rows(statement: str) -> list[Any]:
    """What SQLite makes of a statement, beside a table of people."""
    with sqlite3.connect(":memory:") as database:
        database.executescript("CREATE TABLE people (name TEXT, note TEXT); INSERT INTO people VALUES ('O''Neil', '')")
        database.executescript(statement) if not statement.lower().startswith("select") else None
        asked = statement if statement.lower().startswith("select") else "SELECT name FROM people"
        return [row[0] for row in database.execute(asked)]


class TestSql:
    def test_an_apostrophe_in_a_value_ends_no_string(self) -> None:
        assert rows(put(f"SELECT note || name FROM people WHERE name = '{NAME}'", "O'Neil")) == ["O'Neil"]

    @pytest.mark.parametrize(
        "statement",
        [
            f"INSERT INTO people VALUES ('{NAME}', 'x')",
            f"-- 'new\nINSERT INTO people VALUES ('{NAME}', 'x')",
            f"INSERT INTO people (note, name) VALUES ('-- it''s new', '{NAME}')",
        ],
    )
    def test_a_hostile_value_is_stored_as_it_is(self, statement: str) -> None:
        assert rows(put(statement, HOSTILE)) == ["O'Neil", HOSTILE]

    def test_without_the_escape_the_value_would_be_a_statement(self) -> None:
        """The control of the tests above."""
        with pytest.raises(sqlite3.OperationalError, match="no such table: people"):
            rows(f"INSERT INTO people VALUES ('{NAME}', 'x')".replace(NAME, "x', ''); DROP TABLE people; --"))

    @pytest.mark.parametrize(
        "statement",
        [
            f"SELECT name n FROM people WHERE name = '{NAME}'",
            f"select note || name n from people where name like '%{NAME}%'",
        ],
    )
    def test_a_statement_is_known_by_what_it_compares_with_the_token(self, statement: str) -> None:
        assert "O''Neil" in put(statement, "O'Neil", "text")
        with pytest.raises(NotPlaceable, match="without quotation marks"):
            put(statement.replace(f"'{NAME}'", NAME).replace(f"'%{NAME}%'", NAME), "1 OR true", "text")

    @pytest.mark.parametrize("value", [HOSTILE, "Ann Lovelace", "1 OR true", "--", "name", "a.b", "1-1", "+49+30"])
    def test_without_quotation_marks_no_word_is_put_in_since_it_may_name_a_column(self, value: str) -> None:
        with pytest.raises(NotPlaceable, match="without quotation marks"):
            put(f"SELECT * FROM people WHERE name = {NAME}", value)

    def test_without_quotation_marks_a_number_is_put_in(self) -> None:
        assert put(f"SELECT * FROM people WHERE id = {NAME}", 4111) == "SELECT * FROM people WHERE id = 4111"

    @pytest.mark.parametrize("before", ["-- it's\n", '"it\'s" = 1 AND ', "/* don't */ "])
    def test_an_apostrophe_that_begins_no_string_puts_no_value_between_quotation_marks(self, before: str) -> None:
        with pytest.raises(NotPlaceable, match="without quotation marks"):
            put(f"SELECT * FROM people WHERE {before}id = {NAME}", "1 OR 1=1")

    def test_a_backslash_is_refused_since_databases_differ_about_it(self) -> None:
        with pytest.raises(NotPlaceable, match="not every database"):
            put(f"SELECT * FROM people WHERE name = '{NAME}'", "a\\")

    @pytest.mark.parametrize(
        "statement",
        [
            f"truncate t; select '{NAME}'",
            f"# c\nselect '{NAME}'",
            f"pragma x='{NAME}'",
            f"match (n {{a:'{NAME}'}}) return n",
        ],
    )
    def test_in_a_statement_of_another_language_a_value_with_marks_is_refused(self, statement: str) -> None:
        with pytest.raises(NotPlaceable, match="an argument of its own"):
            put(statement, HOSTILE)
        assert put(statement, "Ann Lovelace") == statement.replace(NAME, "Ann Lovelace"), "the control"

    @pytest.mark.parametrize(
        "statement",
        [
            f"select * from t # it's\n where b='{NAME}'",
            f"select '\\'', '{NAME}' from t",
            f"select $$it's$$, '{NAME}' from t",
            f"select [o'k], '{NAME}' from t",
        ],
    )
    def test_where_it_is_not_certain_that_a_string_has_ended_no_value_with_marks_is_put_in(
        self, statement: str
    ) -> None:
        with pytest.raises(NotPlaceable, match="an argument of its own"):
            put(statement, HOSTILE)

    @pytest.mark.parametrize(
        "statement",
        [
            f"SELECT t.* FROM t WHERE addr IN ('x', '{NAME}')",
            f"SELECT -1, '{NAME}'",
            f"SELECT * FROM t WHERE note = 'ask Mr {NAME}'",
            f"SELECT (SELECT id FROM t WHERE f(addr, '{NAME}'))",
            f"UPDATE \"my table\" SET a = upper('{NAME}')",
            f"BEGIN; DELETE FROM t WHERE lower(addr)=lower('{NAME}'); COMMIT",
            f"PRAGMA user_version; SELECT 1 FROM t WHERE f('{NAME}')",
            f"DO $$ begin delete from t where a = '{NAME}'; end $$",
            f"MATCH (n {{id: 1, name: '{NAME}'}}) DELETE n",
        ],
    )
    def test_no_statement_takes_a_value_that_would_end_its_string_whatever_the_argument_is_called(
        self, statement: str
    ) -> None:
        for key in ("text", "command", "sqlText"):
            try:
                assert HOSTILE not in put(statement, HOSTILE, key)
            except NotPlaceable:
                continue
        assert put(statement, "Ann Lee", "text") == statement.replace(NAME, "Ann Lee"), "the control"

    @pytest.mark.parametrize("key", ["sqlText", "queryString", "command", "q", "filterByFormula"])
    def test_in_arguments_that_are_read_by_machines_a_value_with_marks_in_quotes_is_refused(self, key: str) -> None:
        text = f"name contains '{NAME}' and trashed = false"
        with pytest.raises(NotPlaceable, match="an argument of its own"):
            put(text, "O'Neil", key)
        assert put(text, "O'Neil", "text") == text.replace(NAME, "O'Neil"), "the control"
        assert put(f"orders of {NAME}", "O'Neil", key) == "orders of O'Neil", "words to search for"
        with pytest.raises(NotPlaceable, match="an argument of its own"):
            with_values({key: [f"{{Name}} = '{NAME}'"]}, {NAME: HOSTILE})

    @pytest.mark.parametrize("key", ["q", "query"])
    def test_in_double_quotation_marks_a_search_takes_an_apostrophe(self, key: str) -> None:
        text = f'in:inbox from:"{NAME}"'
        assert put(text, "O'Neil", key) == text.replace(NAME, "O'Neil")
        for other, value in ((text, 'O"Neil'), (f"it's {text}", "O'Neil"), (f'a"{NAME}', "O'Neil")):
            with pytest.raises(NotPlaceable, match="an argument of its own"):
                put(other, value, key)

    @pytest.mark.parametrize("string", [f'{{"name": "{NAME}"}}', f' "{NAME}"', f'{{"a": "it\'\'s {NAME}"}}'])
    def test_in_json_within_sql_a_value_that_would_end_a_string_is_refused(self, string: str) -> None:
        statement = f"INSERT INTO t VALUES ('it''s', '{string}')"
        for value in ('x", "admin": true, "y": "z', "a\nb"):
            with pytest.raises(NotPlaceable, match="for JSON"):
                put(statement, value)
        assert put(statement, "O'Neil") == statement.replace(NAME, "O''Neil"), "the control"

    def test_a_token_in_a_comment_stays_one(self) -> None:
        assert put(f"SELECT * FROM people -- {NAME}", HOSTILE) == f"SELECT * FROM people -- {NAME}"

    def test_a_token_that_is_unknown_stays_one(self) -> None:
        statement = f"SELECT * FROM people WHERE name IN ('{NAME}', '<NAME_2>')"
        assert put(statement, "Ann") == "SELECT * FROM people WHERE name IN ('Ann', '<NAME_2>')"

    @pytest.mark.timeout(10)
    @pytest.mark.parametrize("text", ["/**/", "f('", "select (1,", "{a: '", "f( 'a' 'b ", "with f(\"'", "[a] "])
    def test_what_is_repeated_takes_no_long_time(self, text: str) -> None:
        assert put(f"select {text * 50_000} x '{NAME}'", "Ann", "q")


class TestJson:
    def test_quotation_marks_and_line_breaks_end_no_string(self) -> None:
        value = 'Ann "A"\nLovelace\\'
        assert json.loads(put(json.dumps({"to": f"Dear {NAME}"}), value)) == {"to": f"Dear {value}"}

    def test_sql_within_json_is_escaped_too(self) -> None:
        text = json.dumps({"query": f"SELECT * FROM people WHERE name = '{NAME}'"})
        assert json.loads(put(text, "x' OR '1'='1", "body"))["query"].endswith("name = 'x'' OR ''1''=''1'")

    def test_a_text_that_needs_no_escape_stays_as_it_is_written(self) -> None:
        assert put(f'{{ "to" :  "{NAME}" }}', "O'Neil") == '{ "to" :  "O\'Neil" }'

    @pytest.mark.parametrize("end", ["", "\n", "\r\n"])
    def test_each_line_of_json_lines_is_escaped(self, end: str) -> None:
        value = 'x", "admin": true, "a": "'
        text = f'{{"to": "{NAME}"}}\n{{ "to":  "b" }}\n\n{{"to": "{NAME}!"}}{end}'
        made = put(text, value, "body")
        assert [json.loads(line) for line in made.splitlines() if line] == [
            *({"to": value}, {"to": "b"}, {"to": f"{value}!"})
        ]
        assert made.endswith(f'!"}}{end}')
        assert '\n{ "to":  "b" }\n\n' in made, "what needs no escape stays as it is written"

    @pytest.mark.parametrize("text", [f'"{NAME}"', f'\ufeff{{"to": "{NAME}"}}', f'[1]\n"{NAME}"'])
    def test_other_json_is_escaped(self, text: str) -> None:
        assert '\\"' in put(text, 'a"b', "body")

    @pytest.mark.parametrize(
        "text",
        [
            f'{{"to": "Dear {NAME}",}}',
            f'{{"to": "{NAME}"',
            f"{{'to': '{NAME}'}}",
            f'{{to: "{NAME}"}}',
            f'[{{"to": "{NAME}"}},\n // twice\n {{"to": "{NAME}"}}]',
            f'{{"to": "{NAME}"}}\nand so on',
        ],
    )
    def test_in_what_is_nearly_json_a_value_that_may_end_a_string_is_refused(self, text: str) -> None:
        for value in ("a\"b'c", "a\\", "a\nb"):
            with pytest.raises(NotPlaceable, match="write valid JSON"):
                put(text, value, "body")
        assert put(text, "Ann Lee", "body") == text.replace(NAME, "Ann Lee"), "the control"

    def test_two_keys_that_would_be_one_are_refused(self) -> None:
        with pytest.raises(NotPlaceable, match="two keys"):
            with_values({NAME: 1, "Ann": 2}, {NAME: "Ann"})
        assert with_values({NAME: 1, "Ann": 2}, {NAME: "Bob"}) == {"Bob": 1, "Ann": 2}, "the control"


class TestOtherTexts:
    @pytest.mark.parametrize(
        "text",
        [
            f"Dear '{NAME}', select a gift from the list",
            f"Update '{NAME}' about the set",
            f"[{NAME}]",
            f"[draft] Don't forget {NAME}",
            f"Select a gift, '{NAME}'",
            f"{{{{ name }}}} is '{NAME}'",
            f"Update on orders, customer: '{NAME}'",
            f'From "{NAME}": set up a call',
        ],
    )
    def test_in_prose_a_value_stands_as_it_is(self, text: str) -> None:
        assert put(text, "O'Neil", "text") == text.replace(NAME, "O'Neil")

    def test_a_text_that_is_a_token_becomes_the_value_as_json_has_it(self) -> None:
        assert put(NAME, 4111.0) == 4111.0
