"""Real calls to make: for each tool those that its type is learned from, and further ones with other arguments.

`further` asks for what some call of `learning` asked for, with other values. `other` asks for something else: another
action, other columns. What comes of those may be of a shape that nobody has seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

Half = Literal["learning", "further", "other"]
Arguments = dict[str, Any]


@dataclass(frozen=True)
class ToolCalls:
    """The calls of one tool, in the order in which they are made."""

    server: str
    tool: str
    """By the upstream's own name."""
    learning: tuple[Arguments, ...]
    further: tuple[Arguments, ...]
    other: tuple[Arguments, ...] = ()

    def of(self, half: Half) -> tuple[Arguments, ...]:
        return {"learning": self.learning, "further": self.further, "other": self.other}[half]


def corpus() -> Iterator[ToolCalls]:
    """All of them; the order is one that works on a new world."""
    yield from _prose()
    yield from _declared()
    yield from _calculations()
    yield from _rows()
    yield from _repository()
    yield from _graph()


def _prose() -> Iterator[ToolCalls]:
    """Results that are texts."""
    here = {"repo_path": "{repository}"}
    yield ToolCalls(
        "git",
        "git_log",
        tuple({**here, "max_count": n} for n in (1, 3, 5)),
        tuple({**here, "max_count": n} for n in (2, 4, 9)),
        ({**here, "start_timestamp": "2026-09-24"},),
    )
    yield ToolCalls(
        "git",
        "git_show",
        tuple({**here, "revision": f"HEAD~{n}"} for n in (0, 1, 2)),
        tuple({**here, "revision": f"HEAD~{n}"} for n in (3, 4, 5)),
        ({**here, "revision": "v0.3"},),
    )
    yield ToolCalls(
        "git",
        "git_branch",
        tuple({**here, "branch_type": kind} for kind in ("local", "all", "remote")),
        tuple({**here, "branch_type": kind, "contains": "v0.3"} for kind in ("local", "all", "remote")),
    )
    yield ToolCalls(
        "git",
        "git_diff",
        tuple({**here, "target": f"HEAD~{n}"} for n in (1, 2, 3)),
        tuple({**here, "target": target} for target in ("HEAD~4", "v0.3", "mail")),
    )
    yield ToolCalls(
        "everything",
        "echo",
        tuple({"message": text} for text in ("one", "two words", "")),
        tuple({"message": text} for text in ("three", "many more words", "ü")),
        tuple({"message": text} for text in ("7", "[1, 2]")),
    )
    yield ToolCalls(
        "everything",
        "get-sum",
        tuple({"a": a, "b": b} for a, b in ((1, 2), (3, 4), (-1, 1))),
        tuple({"a": a, "b": b} for a, b in ((5, 6), (0, 0), (1.5, 2))),
    )
    yield ToolCalls(
        "everything",
        "get-annotated-message",
        tuple({"messageType": kind} for kind in ("error", "success", "debug")),
        tuple({"messageType": kind} for kind in ("success", "error", "debug")),
        ({"messageType": "error", "includeImage": True},),
    )
    yield ToolCalls(
        "everything",
        "get-resource-links",
        tuple({"count": n} for n in (1, 2, 3)),
        tuple({"count": n} for n in (4, 5, 6)),
    )
    yield ToolCalls("everything", "get-tiny-image", ({}, {}), ({}, {}))


def _declared() -> Iterator[ToolCalls]:
    """Results whose schema is declared, by small servers."""
    zones = ("UTC", "Europe/Berlin", "Asia/Tokyo", "America/New_York", "Australia/Sydney", "Africa/Lagos")
    yield ToolCalls(
        "time",
        "get_current_time",
        tuple({"timezone": zone} for zone in zones[:3]),
        tuple({"timezone": zone} for zone in zones[3:]),
    )
    yield ToolCalls(
        "time",
        "convert_time",
        tuple({"source_timezone": "UTC", "time": "12:30", "target_timezone": zone} for zone in zones[:3]),
        tuple({"source_timezone": zone, "time": "23:59", "target_timezone": "UTC"} for zone in zones[3:]),
    )
    yield ToolCalls(
        "everything",
        "get-structured-content",
        tuple({"location": city} for city in ("New York", "Chicago")),
        tuple({"location": city} for city in ("Los Angeles", "New York")),
    )
    folders = ("{files}", "{files}/notes", "{files}/config", "{files}/logs", "{files}/notes/old", "{repository}")
    for tool in ("list_directory", "list_directory_with_sizes", "directory_tree"):
        yield ToolCalls(
            "filesystem",
            tool,
            tuple({"path": path} for path in folders[:3]),
            tuple({"path": path} for path in folders[3:]),
        )
    files = tuple(f"{{files}}/{name}" for name in _FILE_NAMES)
    for tool in ("read_text_file", "get_file_info"):
        yield ToolCalls(
            "filesystem",
            tool,
            tuple({"path": path} for path in files[:3]),
            tuple({"path": path} for path in files[3:]),
        )
    patterns = ("**/*.txt", "**/*.json", "*.md", "**/*.log", "nothing", "**/*.csv")
    yield ToolCalls(
        "filesystem",
        "search_files",
        tuple({"path": "{files}", "pattern": pattern} for pattern in patterns[:3]),
        tuple({"path": "{files}", "pattern": pattern} for pattern in patterns[3:]),
    )
    yield ToolCalls(
        "thinking",
        "sequentialthinking",
        tuple(_thought(number, number < 3) for number in (1, 2, 3)),
        tuple(_thought(number, number < 6) for number in (4, 5, 6)),
        ({**_thought(2, True), "branchFromThought": 1, "branchId": "b"},),
    )
    sheet = {"path": "{workbook}", "sheet": "Costs"}
    staff = {"path": "{workbook}", "sheet": "Staff"}
    yield ToolCalls(
        "excel",
        "read_range",
        ({**sheet, "range": "A1:D3"}, {**sheet}, {**staff, "range": "A1:B2"}),
        ({**staff}, {**sheet, "range": "B2:C7"}, {**staff, "range": "C2:C4"}),
        ({**sheet, "max_cells": 20},),
    )
    yield ToolCalls(
        "excel",
        "find_cells",
        tuple({"path": "{workbook}", "query": word} for word in ("Feb", "Ada", "nowhere")),
        tuple({"path": "{workbook}", "query": word} for word in ("raise", "1200", "a")),
        ({"path": "{workbook}", "query": "a", "max_results": 1},),
    )
    yield ToolCalls(
        "excel",
        "write_range",
        tuple({**sheet, "at": f"F{n}", "rows": [[n, n * n], ["x", None]]} for n in (1, 3, 5)),
        tuple({**sheet, "at": f"F{n}", "rows": [[n, True]]} for n in (7, 8, 9)),
        ({**sheet, "at": "G12", "rows": [["=SUM(B2:B7)"]]},),
    )
    yield ToolCalls(
        "excel",
        "create_sheet",
        tuple({"path": "{workbook}", "new_name": f"Sheet {n}"} for n in (1, 2, 3)),
        tuple({"path": "{workbook}", "new_name": f"Sheet {n}"} for n in (4, 5, 6)),
    )
    yield ToolCalls("excel", "describe_workbook", ({"path": "{workbook}"},), ({"path": "{workbook}"},))


def _calculations() -> Iterator[ToolCalls]:
    """Undeclared results as JSON in a text, many of which depend on an argument."""
    algorithms = ("md5", "sha1", "sha256", "sha512")
    yield ToolCalls(
        "calc",
        "hash",
        tuple({"input": "a", "algorithm": name} for name in algorithms),
        tuple({"input": "another", "algorithm": name} for name in algorithms),
    )
    texts = ("hello world", "", "one\ntwo\n", "ü ü", "a much longer text, with words", "42")
    yield ToolCalls(
        "calc", "count", tuple({"text": text} for text in texts[:3]), tuple({"text": text} for text in texts[3:])
    )
    yield ToolCalls(
        "calc",
        "math",
        (
            *({"expression": text} for text in ("1 + 2", "7 / 2", "sqrt(2)")),
            *({"action": "statistics", "values": values} for values in ([1, 2, 3], [1.5, 2.5], [7])),
        ),
        (
            *({"expression": text} for text in ("10 * 10", "2 ^ 0.5")),
            *({"action": "statistics", "values": values} for values in ([5, 5], [0.25, 8, 1])),
        ),
        ({"expression": "1 == 1"},),
    )
    yield ToolCalls(
        "calc",
        "date",
        (
            *({"action": "diff", "date": "2026-01-01", "date2": day} for day in ("2026-02-01", "2027-03-04")),
            *({"action": "weekday", "date": day} for day in ("2026-01-01", "2026-05-05")),
            *({"action": "add", "date": "2026-01-31", "amount": n, "unit": "months"} for n in (1, 2)),
        ),
        (
            *({"action": "diff", "date": "2025-06-01", "date2": day} for day in ("2025-06-02", "2024-06-01")),
            *({"action": "weekday", "date": day} for day in ("2024-02-29", "2026-11-22")),
            *({"action": "add", "date": "2026-01-31", "amount": n, "unit": "days"} for n in (1, -3)),
        ),
        ({"action": "wareki", "date": "2026-01-01"},),
    )
    yield ToolCalls(
        "calc",
        "regex",
        (
            *({"pattern": "a+", "text": text, "action": "match"} for text in ("caat", "b", "a")),
            *({"pattern": "(\\w)(\\d)", "text": text, "action": "matchAll"} for text in ("a1 b2", "none")),
            *({"pattern": "a+", "text": text, "action": "test"} for text in ("caat", "b")),
        ),
        (
            *({"pattern": "o+", "text": text, "action": "match"} for text in ("foo", "bar")),
            *({"pattern": "(\\w)(\\d)", "text": text, "action": "matchAll"} for text in ("x9", "-")),
            {"pattern": "o+", "text": "bar", "action": "test"},
        ),
        (
            {"pattern": "(?<year>\\d{4})", "text": "in 2026", "action": "match"},
            {"pattern": "a", "text": "banana", "action": "replace", "flags": "g", "replacement": "o"},
        ),
    )
    crons = ("0 9 * * 1", "*/5 * * * *", "0 0 1 * *", "30 8 * * 1-5", "15 3 1 1 *", "0 12 * * 0")
    yield ToolCalls(
        "calc",
        "cron_parse",
        tuple({"expression": text} for text in crons[:3]),
        tuple({"expression": text, "count": 2} for text in crons[3:]),
    )
    numbers = ("4539578763621486", "79927398713", "1234567812345678", "0", "49927398716", "1")
    yield ToolCalls(
        "calc",
        "luhn",
        tuple({"number": number} for number in numbers[:3]),
        tuple({"number": number} for number in numbers[3:]),
        ({"number": "7992739871", "action": "generate"},),
    )
    yield ToolCalls(
        "calc",
        "ip",
        (
            *({"action": "info", "ip": ip} for ip in ("10.0.0.1", "8.8.8.8", "::1")),
            *({"action": "contains", "cidr": "10.0.0.0/8", "target": ip} for ip in ("10.1.2.3", "11.1.2.3")),
            *({"action": "range", "cidr": cidr} for cidr in ("10.0.0.0/8", "192.168.1.0/24")),
        ),
        (
            *({"action": "info", "ip": ip} for ip in ("127.0.0.1", "192.168.0.1", "fe80::1")),
            {"action": "contains", "cidr": "192.168.0.0/16", "target": "192.168.3.4"},
            {"action": "range", "cidr": "172.16.0.0/12"},
        ),
        ({"action": "info", "ip": "10.0.0.0/8"},),
    )
    colors = ("#ff8800", "rgb(1, 2, 3)", "hsl(120, 50%, 50%)", "#fff", "rgb(200, 100, 0)", "hsl(0, 0%, 0%)")
    yield ToolCalls(
        "calc", "color", tuple({"color": text} for text in colors[:3]), tuple({"color": text} for text in colors[3:])
    )
    yield ToolCalls(
        "calc",
        "convert",
        tuple({"value": n, "from": a, "to": b} for n, a, b in ((5, "km", "mi"), (1.5, "kg", "lb"), (100, "c", "f"))),
        tuple({"value": n, "from": a, "to": b} for n, a, b in ((1, "m", "ft"), (2, "lb", "kg"), (0.5, "km", "m"))),
    )
    urls = (
        "https://a.example/x?y=1#z",
        "http://b.example:8080/",
        "https://user:pw@c.example/p/q?a=1&b=2",
        "https://d.example",
        "http://e.example:1/?k=v",
        "ftp://f.example/file",
    )
    yield ToolCalls(
        "calc", "url_parse", tuple({"url": url} for url in urls[:3]), tuple({"url": url} for url in urls[3:])
    )
    yield ToolCalls(
        "calc",
        "char_info",
        tuple({"char": char} for char in ("é", "a", "漢")),
        tuple({"char": char} for char in ("ß", "1", "😀")),
    )
    yield ToolCalls(
        "calc",
        "semver",
        (
            *({"action": "parse", "version": text} for text in ("1.2.3", "2.0.0-rc.1+5")),
            *({"action": "compare", "version": "1.2.3", "version2": text} for text in ("1.2.4", "1.0.0")),
            *({"action": "satisfies", "version": "1.2.3", "range": text} for text in ("^1.0.0", "<1")),
        ),
        (
            *({"action": "parse", "version": text} for text in ("0.1.0", "3.4.5-alpha")),
            {"action": "compare", "version": "2.0.0", "version2": "2.0.0"},
            {"action": "satisfies", "version": "5.0.0", "range": ">=4"},
        ),
        ({"action": "valid", "version": "x.y"},),
    )


def _rows() -> Iterator[ToolCalls]:
    """Rows of databases, as Python writes lists; the query says which columns."""
    tables = ("customers", "products", "orders")
    yield ToolCalls("sqlite", "list_tables", ({},), ({}, {}))
    yield ToolCalls(
        "sqlite",
        "describe_table",
        tuple({"table_name": name} for name in tables[:2]),
        ({"table_name": "orders"}, {"table_name": "customers"}),
    )
    yield ToolCalls(
        "sqlite",
        "read_query",
        tuple(
            {"query": query}
            for query in (
                "SELECT * FROM customers",
                "SELECT * FROM orders WHERE id <= 20",
                "SELECT name, price FROM products",
                "SELECT city, count(*) AS n FROM customers GROUP BY city",
                "SELECT * FROM orders WHERE id < 0",
            )
        ),
        tuple(
            {"query": query}
            for query in (
                "SELECT * FROM customers WHERE city = 'Oslo'",
                "SELECT * FROM orders WHERE status = 'paid'",
                "SELECT name, price FROM products WHERE stock > 0",
                "SELECT city, count(*) AS n FROM customers WHERE email IS NULL GROUP BY city",
            )
        ),
        tuple(
            {"query": query}
            for query in (
                "SELECT status, sum(units) AS units, avg(units) AS mean FROM orders GROUP BY status",
                "SELECT max(day) AS latest FROM orders",
            )
        ),
    )
    yield ToolCalls(
        "sqlite",
        "write_query",
        tuple({"query": f"UPDATE products SET stock = stock + 1 WHERE id <= {n}"} for n in (1, 2, 9)),
        (
            {"query": "UPDATE products SET stock = 0 WHERE id = 77"},
            {"query": "INSERT INTO products (name, price, stock) VALUES ('Vase', 20, 1)"},
            {"query": "DELETE FROM products WHERE name = 'Vase'"},
        ),
    )
    yield ToolCalls(
        "sqlite",
        "append_insight",
        tuple({"insight": text} for text in ("Oslo buys lamps", "Rugs sell in May")),
        tuple({"insight": text} for text in ("Nobody buys chairs", "7")),
    )
    yield ToolCalls(
        "duckdb",
        "query",
        tuple(
            {"query": query}
            for query in (
                "SELECT city, sum(units) FROM '{sales}' GROUP BY ALL ORDER BY ALL",
                "SELECT product, avg(price) FROM '{sales}' GROUP BY ALL ORDER BY ALL",
                "SELECT count(*) FROM '{sales}'",
            )
        ),
        tuple(
            {"query": query}
            for query in (
                "SELECT city, max(units) FROM '{sales}' WHERE units < 5 GROUP BY ALL ORDER BY ALL",
                "SELECT city, sum(units * price) FROM '{sales}' GROUP BY ALL ORDER BY ALL",
                "SELECT count(DISTINCT product) FROM '{sales}'",
            )
        ),
        tuple(
            {"query": query}
            for query in (
                "SELECT * FROM '{sales}' LIMIT 3",
                "SELECT product, city, NULL FROM '{sales}' LIMIT 2",
            )
        ),
    )


def _repository() -> Iterator[ToolCalls]:
    """Declared results, most of them deep, with many optional keys."""
    here = {"path": "{repository}"}
    yield ToolCalls(
        "cyangit",
        "git_log",
        tuple({**here, "maxCount": n} for n in (1, 3, 20)),
        ({**here, "maxCount": 5}, {**here, "branch": "mail"}, {**here, "author": "Ada"}),
        ({**here, "oneline": True}, {**here, "grep": "nothing like it"}, {**here, "stat": True, "maxCount": 2}),
    )
    yield ToolCalls(
        "cyangit",
        "git_blame",
        tuple({**here, "filePath": name} for name in ("shop/cart.py", "README.md", "shop/stock.py")),
        tuple({**here, "filePath": name} for name in ("shop/checkout.py", "docs/stock.md", "tests/test_cart.py")),
    )
    yield ToolCalls("cyangit", "git_status", ({**here},), ({**here}, {**here, "includeUntracked": False}))
    yield ToolCalls("cyangit", "git_branch", ({**here},), ({**here, "all": True}, {**here, "limit": 1}))
    yield ToolCalls("cyangit", "git_tag", ({**here},), ({**here, "limit": 1},))
    yield ToolCalls(
        "cyangit",
        "git_show",
        tuple({**here, "object": name} for name in ("HEAD", "HEAD~1", "v0.3")),
        tuple({**here, "object": name} for name in ("HEAD~2", "HEAD~5", "v0.7")),
    )
    yield ToolCalls(
        "cyangit",
        "git_diff",
        ({**here}, {**here, "target": "HEAD~2"}),
        ({**here, "target": "HEAD~4"}, {**here, "target": "v0.3", "source": "v0.7"}),
        ({**here, "target": "HEAD~3", "nameOnly": True}, {**here, "target": "HEAD~3", "stat": True}),
    )
    yield ToolCalls(
        "cyangit", "git_reflog", tuple({**here, "maxCount": n} for n in (1, 3)), ({**here}, {**here, "maxCount": 2})
    )


def _graph() -> Iterator[ToolCalls]:
    """Declared results of a store that the calls change."""

    def entity(name: str) -> Arguments:
        return {"entities": [{"name": name, "entityType": "service", "observations": ["is new"]}]}

    yield ToolCalls(
        "memory",
        "create_entities",
        tuple(entity(name) for name in ("search", "stock", "prices")),
        tuple(entity(name) for name in ("returns", "mailer", "login")),
    )
    yield ToolCalls(
        "memory",
        "add_observations",
        tuple({"observations": [{"entityName": "stock", "contents": [text]}]} for text in ("is slow", "is down")),
        tuple({"observations": [{"entityName": "mailer", "contents": [text]}]} for text in ("is old", "is old")),
    )
    yield ToolCalls(
        "memory",
        "search_nodes",
        tuple({"query": text} for text in ("checkout", "Ada", "nothing like it")),
        tuple({"query": text} for text in ("person", "mail", "stock")),
    )
    yield ToolCalls(
        "memory",
        "open_nodes",
        tuple({"names": names} for names in (["stock"], ["Ada Byron", "checkout"])),
        tuple({"names": names} for names in (["mailer"], ["nobody"])),
    )
    yield ToolCalls("memory", "read_graph", ({},), ({},))


def _thought(number: int, is_more_needed: bool) -> Arguments:
    return {"thought": "Think", "thoughtNumber": number, "totalThoughts": 6, "nextThoughtNeeded": is_more_needed}


_FILE_NAMES = (
    "README.md",
    "config/shop.json",
    "notes/monday.txt",
    "config/mail.json",
    "notes/tuesday.txt",
    "logs/app.log",
)
