"""What a query calls a column counts as the name of its field: the names of the columns that it has read are evidence.

Values are none that the detection knows without a field. Each test has a control: the same value where the query reads
another column, or without the query.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from codemode_server.privacy.detector import Detector
from codemode_server.privacy.findings import Kind
from codemode_server.privacy.queries import MAX_CHARACTERS, renamed_by
from codemode_server.privacy.renames import Renames
from tests.work import seconds_of

DETECTOR = Detector()
NAMES, DATES = ("Xqaru Zedvik", "Oblix Ferrun"), ("1987-03-14", "1990-12-01")
ROWS = [*zip(NAMES, DATES, strict=True)]
QUERY, NEUTRAL = "SELECT name AS a, born AS b FROM people", "SELECT city AS a, seen AS b FROM people"
FORMS: dict[str, Callable[[], Any]] = {
    "rows": lambda: [{"a": name, "b": date} for name, date in ROWS],
    "rows in an object": lambda: {"rows": [{"a": name, "b": date} for name, date in ROWS], "count": 2},
    "columns": lambda: {"a": [*NAMES], "b": [*DATES]},
    "lists below a header": lambda: [["a", "b"], *map(list, ROWS)],
    "lists beside columns": lambda: {"columns": ["a", "b"], "rows": [*map(list, ROWS)]},
    "lists without names": lambda: {"rows": [*map(list, ROWS)]},
    "pairs": lambda: [[{"name": "a", "value": name}, {"name": "b", "value": date}] for name, date in ROWS],
    "JSON": lambda: json.dumps([{"a": name, "b": date} for name, date in ROWS]),
    "repr": lambda: f"rows: {[{'a': name, 'b': date} for name, date in ROWS]}",
    "CSV": lambda: "a,b\n" + "".join(f"{name},{date}\n" for name, date in ROWS),
    "Markdown": lambda: "| a | b |\n|---|---|\n" + "".join(f"| {name} | {date} |\n" for name, date in ROWS),
    "escaped": lambda: [{"a": name.replace(" ", "\u00ad "), "b": date} for name, date in ROWS],
}


def found(value: Any, query: str, argument: str = "query") -> list[tuple[str, str]]:
    return [(it.kind, it.value) for it in DETECTOR.in_value(value, None, renamed_by({argument: query})).found]


def is_name(query: str, key: str = "x", value: str = NAMES[0], argument: str = "query") -> bool:
    """Whether a value below a key is a name by a query."""
    return (Kind.NAME, value) in found([{key: value, "n": 1}], query, argument)


@pytest.mark.parametrize("form", FORMS)
def test_a_column_is_read_by_its_source_in_each_form_of_a_result(form: str) -> None:
    value = FORMS[form]()
    assert sorted(found(value, QUERY)) == sorted(
        [*((Kind.NAME, name) for name in NAMES), *((Kind.BIRTH_DATE, date) for date in DATES)]
    )
    assert found(value, NEUTRAL) == [] == found(value, ""), "the control"


@pytest.mark.parametrize(
    "query",
    [
        "SELECT full_name AS x FROM t",
        "select full_name x from t;",
        'SELECT t."full_name" AS "x" FROM public.t',
        "SELECT `full_name` AS `x` FROM `t`",
        "SELECT [full_name] AS [x] FROM [t]",
        "SELECT x = full_name FROM t",
        "SELECT TOP 10 full_name x FROM t",
        "SELECT DISTINCT ON (id) full_name x FROM t",
        "SELECT id, trim(both from full_name) AS x FROM t",
        "SELECT first_name || ' ' || last_name AS x FROM t",
        "SELECT concat(first_name, ' ', last_name) x FROM t",
        "SELECT CASE WHEN id > 3 THEN full_name ELSE '' END AS x FROM t",
        "SELECT CAST(full_name AS text) AS x FROM t",
        "SELECT full_name::text AS x FROM t",
        "SELECT x FROM (SELECT y AS x FROM (SELECT full_name AS y FROM t) a) b",
        "SELECT x FROM (SELECT id, full_name FROM t) AS a (i, x)",
        "WITH a AS (SELECT full_name AS y FROM t) SELECT a.y AS x FROM a",
        "WITH RECURSIVE a (x) AS (SELECT '' UNION ALL SELECT full_name FROM t) SELECT x FROM a",
        "SELECT '' AS x UNION SELECT full_name FROM t",
        "(SELECT '' AS x) UNION ALL (SELECT full_name FROM t)",
        "SELECT b IS DISTINCT FROM c AS d, full_name AS x FROM t",
        "SELECT * REPLACE (full_name AS x) FROM t",
        "INSERT INTO t (full_name) VALUES ('') RETURNING full_name AS x",
        "UPDATE t SET a = 1 WHERE id = 3 RETURNING full_name x",
        "SELECT coalesce((SELECT id) || full_name, '') AS x FROM t",
        "SELECT data->>'full_name' AS x FROM t",
        "SELECT data['full_name'] AS x FROM t",
        "SELECT json_value(data, '$.full_name') AS x FROM t",
        "SELECT (SELECT full_name FROM t LIMIT 1) AS x",
        "SELECT q.x FROM q CROSS JOIN LATERAL (SELECT full_name AS x FROM t) q2",
        "-- all of them\nSELECT id, /* whose? */ full_name AS x FROM t",
        "FROM t SELECT full_name AS x",
        "MATCH (p:Person) RETURN p.full_name AS x",
        "t | where id > 3 | project x = full_name",
        "query { t(first: 3) { x: full_name id } }",
        "{ t { x: full_name } }",
        "[?id > `3`].{x: full_name}",
        ".t[] | {x: .full_name, id}",
        '.t[] | {x: (.first_name + " " + .last_name)}',
        '[{"$project": {"x": "$full_name"}}]',
        '[{"$project": {"x": {"$toUpper": "$full_name"}}}]',
        '{"fields": [{"field": "full_name", "alias": "x"}]}',
        'sqlite3 people.db "SELECT full_name AS x FROM t"',
        'sqlite3 people.db "SELECT(full_name) AS x FROM t"',
        "CREATE TABLE w AS SELECT full_name AS x FROM t",
        "CREATE TABLE w USING parquet AS SELECT full_name AS x FROM t",
        "CREATE OR REPLACE VIEW w AS SELECT full_name AS x FROM t",
    ],
)
def test_an_alias_is_read_in_many_languages(query: str) -> None:
    assert is_name(query)
    assert not is_name(query.replace("full_name", "city").replace("first_name", "city").replace("last_name", "city"))


def test_queries_are_read_wherever_the_arguments_have_them() -> None:
    value = [{"x": NAMES[0]}]
    arguments = {"batch": [{"statements": ["SELECT id FROM t", "SELECT full_name AS x FROM t"]}]}
    pipeline = {"pipeline": [{"$project": {"x": "$full_name"}}]}
    assert [DETECTOR.in_value(value, None, renamed_by(it)).found[0].kind for it in (arguments, pipeline)] == [
        "name"
    ] * 2
    assert not DETECTOR.in_value(value, None, renamed_by({"x": "full_name"})).found, "the control"


@pytest.mark.parametrize(
    ("key", "query"),
    [
        ("max(full_name)", "SELECT max(full_name) FROM t"),
        ('max("full_name")', "SELECT max(full_name) FROM t"),
        ("max", "SELECT max(full_name) FROM t"),
        ("?column?", "SELECT full_name || '' FROM t"),
        ("_col0", "SELECT full_name || '' FROM t"),
        ("case", "SELECT CASE WHEN id = 1 THEN full_name END FROM t"),
    ],
)
def test_a_column_without_an_alias_is_read_by_the_name_that_the_database_gives_it(key: str, query: str) -> None:
    assert is_name(query, key)
    assert not is_name("SELECT city FROM t", key), "the control"


class TestAName:
    """`name` is that of a person if something says so: the table, or a column beside it in the query."""

    @pytest.mark.parametrize(
        "query",
        [
            "SELECT name AS x FROM people",
            "SELECT name AS x FROM crm.hr_employees e",
            "SELECT name AS x FROM t WHERE email LIKE '%.org'",
            "SELECT p.name AS x FROM t p JOIN u ON p.born < u.day",
            "SELECT y.x FROM (SELECT name AS x FROM people) y",
            "SELECT name FROM people",
        ],
    )
    def test_counts_where_the_query_is_about_people(self, query: str) -> None:
        assert is_name(query, "name" if "AS x" not in query else "x")

    def test_does_not_count_elsewhere(self) -> None:
        assert not is_name("SELECT name AS x FROM products")
        assert not is_name("SELECT p.name AS x, c.email FROM products p JOIN customers c ON c.id = p.buyer")
        assert is_name("SELECT c.name AS x, c.email FROM products p JOIN customers c ON c.id = p.buyer"), "the control"

    def test_of_a_product_stays_beside_a_customer(self) -> None:
        query = "SELECT p.name AS product, c.name AS buyer, c.email FROM products p JOIN customers c ON c.id = p.buyer"
        rows = [{"product": "Desk Lamp", "buyer": NAMES[0], "email": "xz@example.org"}]
        assert found(rows, query) == [(Kind.NAME, NAMES[0]), (Kind.EMAIL, "xz@example.org")]


class TestAChangedValue:
    @pytest.mark.parametrize("value", ["<Xqaru Zedvik>", "5871617275", "Xqaru Zedvik 17;Oblix Ferrun 3", "x" * 1_000])
    def test_need_not_look_like_a_name(self, value: str) -> None:
        value = value.replace("5871617275", "587161727a")
        assert is_name("SELECT f(full_name) AS x FROM t", value=value)
        assert not is_name("SELECT full_name AS x FROM t", value=value), "the control"

    def test_of_a_birth_date_has_more_digits_than_a_year(self) -> None:
        query = "SELECT f(born) AS x FROM t"
        assert found([{"x": "14 of 03 in 1987"}], query) == [(Kind.BIRTH_DATE, "14 of 03 in 1987")]
        assert found([{"x": "1987"}, {"x": 41}], query) == []

    def test_is_not_what_a_condition_compares(self) -> None:
        assert not is_name("SELECT CASE WHEN full_name = 'a' THEN 'New here' END AS x FROM t", value="New here")
        assert not is_name("SELECT first_value(city) OVER (PARTITION BY full_name) AS x FROM t", value="New Orleans")


class TestAQueryThatIsNotReadWithCertainty:
    """Databases differ in where a string, a comment or a name ends."""

    @pytest.mark.parametrize(
        "before",
        [
            *(
                "SELECT '\\' AS z, ",
                "SELECT $$'$$ AS z, ",
                "SELECT 1 --1, '\n, ",
                "SELECT 1 # '\n, ",
                "SELECT q'[']' AS z, ",
            ),
            *("SELECT 1 AS [it's], ", "SELECT /* /* */ ' */ ", "SELECT '''a'b''' AS z, ", "SELECT /*! 1 AS z, */ "),
        ],
    )
    def test_makes_all_texts_names_if_it_names_one(self, before: str) -> None:
        query = f"{before}full_name AS x, '' AS y FROM t"
        assert is_name(query)
        assert not is_name(query.replace("full_name", "city")), "the control"

    def test_may_put_several_columns_into_one(self) -> None:
        query = "SELECT x FROM t UNPIVOT (x FOR k IN (full_name, city)) u"
        assert is_name(query)
        assert not is_name(query.replace("full_name", "town")), "the control"

    def test_may_be_too_long(self) -> None:
        long = "SELECT " + "a, " * MAX_CHARACTERS
        assert is_name(f"{long} full_name AS x FROM t")

    @pytest.mark.parametrize(
        "text",
        [
            'from app import db\n\ndef full_name(user):\n    # it\'s\n    return f"{user.first_name}"\n',
            '{\n  "password": "it\'s \\"x\\"", // JSON with a comment\n  "full_name": 1,\n}\n',
            "# full_name\n\nIt's the password; `select` it.\n",
        ],
    )
    def test_is_no_file_that_the_call_writes(self, text: str) -> None:
        assert found("Successfully wrote it", text, "content") == []
        assert found([{"status": "All done"}], text, "content") == []

    def test_counts_only_if_it_begins_like_a_query(self) -> None:
        assert not is_name("Please select the customer's full_name from it")


def test_a_value_that_is_an_alias_too_is_no_name_of_a_field() -> None:
    query = "SELECT id || '' AS x, full_name AS val FROM t"
    rows = [["x", NAMES[0]], ["x", NAMES[1]]]
    assert found(rows, query) == [(Kind.NAME, name) for name in NAMES]
    assert found([{"x": row[0], "val": row[1]} for row in rows], query) == [(Kind.NAME, name) for name in NAMES]


def test_a_number_of_an_order_is_none_of_a_card_under_another_name() -> None:
    value = [{"x": "4291957979862506"}]
    assert found(value, "SELECT order_number AS x FROM t") == []
    assert found(value, "SELECT card_number AS x FROM t") == [(Kind.CARD, "4291957979862506")], "the control"
    assert found(value, "SELECT coalesce(order_number, card_number) AS x FROM t") == [(Kind.CARD, "4291957979862506")]


HOSTILE = {
    "brackets": "SELECT " + "(" * MAX_CHARACTERS,
    "subqueries": "SELECT * FROM " + "(SELECT * FROM " * 58 + "t" + ") x" * 58,
    "a chain of aliases": "SELECT " + ",".join(f"a{at} a{at + 1}" for at in range(3_500)),
    "a chain of tables": "SELECT a0.name x FROM " + ",".join(f"a{at} a{at + 1}" for at in range(3_500)),
    "unions": "SELECT 1 a UNION " * 2_900,
    "quotation marks": "SELECT " + "'" * 49_000,
    "comments": "SELECT " + "/*" * 24_000,
    "aliases": "SELECT " + "a AS " * 9_000,
    "dots": "SELECT " + "a." * 20_000,
    "pairs": "{" + "a:b " * 12_000 + "}",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_reading_a_hostile_query_takes_about_as_long_as_an_ordinary_one(name: str) -> None:
    """An ordinary one of the same length; all of them are at the limit."""
    ordinary = (
        "SELECT " + ", ".join(f"upper(t.name_of_column_{at}) AS the_column_{at}" for at in range(950)) + " FROM t"
    )
    keys = {f"a{at}": "x" for at in range(3_500)}

    def search(query: str) -> None:
        DETECTOR.in_value([keys], None, renamed_by({"query": query}))

    assert seconds_of(lambda: search(HOSTILE[name])) <= 10 * seconds_of(lambda: search(ordinary))


def test_the_columns_of_a_statement_are_known_in_order() -> None:
    def columns(query: str) -> tuple[str, ...]:
        renames = Renames()
        assert renames.add(query)
        return renames.columns

    assert columns("SELECT a, b AS c, t.d FROM t") == ("a", "c", "d")
    assert columns("SELECT 1; SELECT e FROM t") == ("e",)
    assert columns("SELECT *, a FROM t") == ()
