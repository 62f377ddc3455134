"""A small shop's data for the real servers to work on, the same each time, and the configuration that starts them.

A git repository, folders of files, two databases, a workbook and a knowledge graph. Dates are fixed; only the folder's
own path differs, and what the servers make of the time of day.
"""

from __future__ import annotations

import csv
import json
import os
import random
import sqlite3
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.real_servers import commands, python_of

_NOON = 1_790_000_000
"""2026-09-21 14:13:20 UTC, when the shop's files were written."""
_AUTHORS = (("Ada Byron", "ada@example.com"), ("Grace Hopper", "grace@example.com"), ("Lin Chen", "lin@example.com"))
_CITIES = ("Berlin", "Lyon", "Porto", "Oslo", "Turin")
_PRODUCTS = (("Lamp", 39.5, 12), ("Desk", 249.0, 3), ("Chair", 89.9, 0), ("Shelf", 119.0, 7), ("Rug", 64.25, 21))


@dataclass(frozen=True)
class World:
    """Where things are."""

    folder: Path

    @property
    def repository(self) -> Path:
        return self.folder / "shop"

    @property
    def files(self) -> Path:
        return self.folder / "files"

    @property
    def places(self) -> dict[str, str]:
        """What `{repository}`, `{files}` and the like stand for in the arguments of calls and in programs."""
        return {
            "repository": str(self.repository),
            "files": str(self.files),
            "sales": str(self.files / "sales.csv"),
            "workbook": str(self.folder / "budget.xlsx"),
            "scratch": str(self.folder / "scratch"),
        }

    def filled(self, value: Any) -> Any:
        """`value` with the places put in, wherever they stand in it."""
        if isinstance(value, str):
            for name, place in self.places.items():
                value = value.replace(f"{{{name}}}", place)
            return value
        if isinstance(value, list):
            return [self.filled(item) for item in value]
        return {key: self.filled(item) for key, item in value.items()} if isinstance(value, dict) else value


def make_world(folder: Path) -> World:
    """Everything new in `folder`, which must be empty."""
    world = World(folder)
    for place in (world.repository, world.files, folder / "scratch"):
        place.mkdir(parents=True)
    _write_repository(world.repository)
    _write_files(world.files)
    _write_orders(folder / "orders.db")
    _write_graph(folder / "graph.jsonl")
    subprocess.run([python_of("mcp2"), "-c", _WORKBOOK, world.places["workbook"]], check=True)
    return world


def servers(world: World) -> dict[str, Any]:
    """The section `servers` of an upstream.yaml with all of them."""
    arguments = {
        "git": ["--repository", str(world.repository)],
        "time": ["--local-timezone", "UTC"],
        "excel": ["stdio"],
        "sqlite": ["--db-path", str(world.folder / "orders.db")],
        "duckdb": ["--db-path", str(world.folder / "sales.duckdb")],
        "everything": ["stdio"],
        "filesystem": [str(world.folder)],
    }
    environment = {
        "memory": {"MEMORY_FILE_PATH": str(world.folder / "graph.jsonl")},
        "cyangit": {"MCP_TRANSPORT_TYPE": "stdio", "MCP_LOG_LEVEL": "error", **_git_environment(0)},
        "thinking": {"DISABLE_THOUGHT_LOGGING": "true"},
    }
    return {
        name: {
            "command": command[0],
            "args": [*command[1:], *arguments.get(name, [])],
            "env": {"TZ": "UTC", **environment.get(name, {})},
        }
        for name, command in commands().items()
    }


def configuration(world: World) -> Path:
    """Write the upstream.yaml of this world, with a state of its own."""
    path = world.folder / "upstream.yaml"
    settings = {
        "servers": servers(world),
        "state": {"dir": str(world.folder / "state")},
        "sandbox": {"backend": "wasm"},
        "permissions": {"default": "allow"},
        "search": {"ranker": "lexical"},
        "results": {"structured_content": True},
    }
    path.write_text(json.dumps(settings, indent=2))
    return path


def _write_files(folder: Path) -> None:
    numbers = random.Random(11)
    with (folder / "sales.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["day", "city", "product", "units", "price"])
        for number in range(400):
            name, price, _ = numbers.choice(_PRODUCTS)
            day = f"2026-{1 + number * 9 // 400:02}-{numbers.randrange(1, 29):02}"
            rows.writerow([day, numbers.choice(_CITIES), name, numbers.randrange(1, 9), price])
    for name, text in _FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for path in sorted(folder.rglob("*"), reverse=True):
        os.utime(path, (_NOON, _NOON))


def _write_orders(path: Path) -> None:
    numbers = random.Random(7)
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT NOT NULL, city TEXT, email TEXT)")
        connection.execute("CREATE TABLE products (id INTEGER PRIMARY KEY, name TEXT, price REAL, stock INTEGER)")
        connection.execute(
            "CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id INTEGER REFERENCES customers (id), "
            "product_id INTEGER REFERENCES products (id), units INTEGER, status TEXT, day TEXT, note TEXT)"
        )
        connection.executemany(
            "INSERT INTO customers VALUES (?, ?, ?, ?)",
            [
                (n, f"Customer {n}", numbers.choice(_CITIES), f"c{n}@example.com" if n % 4 else None)
                for n in range(1, 41)
            ],
        )
        connection.executemany("INSERT INTO products (name, price, stock) VALUES (?, ?, ?)", _PRODUCTS)
        connection.executemany(
            "INSERT INTO orders VALUES (?, ?, ?, ?, ?, ?, ?)",
            [
                (
                    n,
                    numbers.randrange(1, 41),
                    numbers.randrange(1, 6),
                    numbers.randrange(1, 5),
                    numbers.choice(("pending", "paid", "shipped")),
                    f"2026-{numbers.randrange(1, 10):02}-{numbers.randrange(1, 29):02}",
                    "gift" if n % 9 == 0 else None,
                )
                for n in range(1, 201)
            ],
        )
    connection.close()


def _write_graph(path: Path) -> None:
    people = [
        {"type": "entity", "name": name, "entityType": "person", "observations": [f"writes from {mail}", "likes tests"]}
        for name, mail in _AUTHORS
    ]
    things = [
        {"type": "entity", "name": name, "entityType": "service", "observations": [said]}
        for name, said in (("checkout", "takes payments"), ("stock", "counts the lamps"), ("mailer", "sends letters"))
    ]
    relations = [
        {"type": "relation", "from": "Ada Byron", "to": "checkout", "relationType": "owns"},
        {"type": "relation", "from": "Grace Hopper", "to": "stock", "relationType": "owns"},
        {"type": "relation", "from": "checkout", "to": "stock", "relationType": "calls"},
        {"type": "relation", "from": "checkout", "to": "mailer", "relationType": "calls"},
    ]
    path.write_text("\n".join(json.dumps(line) for line in [*people, *things, *relations]))


def _write_repository(folder: Path) -> None:
    """Twelve commits of three authors on two branches, two tags, and something not committed yet."""
    _git(folder, 0, "init", "-q", "-b", "main")
    for number, (name, text, message) in enumerate(_COMMITS):
        if number == 9:
            _git(folder, number, "checkout", "-qb", "mail")
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text((path.read_text() if path.exists() else "") + text)
        _git(folder, number, "add", ".")
        _git(folder, number, "commit", "-qm", message)
        if number in (3, 7):
            _git(folder, number, "tag", "-a", f"v0.{number}", "-m", f"Release 0.{number}")
    _git(folder, 12, "checkout", "-q", "main")
    (folder / "README.md").write_text((folder / "README.md").read_text() + "\nNot committed yet.\n")
    (folder / "todo.txt").write_text("look at the stock\n")


def _git(folder: Path, number: int, *arguments: str) -> None:
    subprocess.run(["git", "-C", folder, *arguments], check=True, env={**os.environ, **_git_environment(number)})


def _git_environment(number: int) -> dict[str, str]:
    name, mail = _AUTHORS[number % 3]
    when = f"{_NOON + number * 86_400} +0000"
    by = {
        f"GIT_{who}_{what}": said for who in ("AUTHOR", "COMMITTER") for what, said in (("NAME", name), ("EMAIL", mail))
    }
    dates = {"GIT_AUTHOR_DATE": when, "GIT_COMMITTER_DATE": when}
    return {**by, **dates, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}


_FILES = {
    "README.md": "# Shop\n\nWhat the shop sells, and how.\n",
    "notes/monday.txt": "Call Lyon about the desks.\nTODO: count the lamps\n",
    "notes/tuesday.txt": "TODO: answer Oslo\nTODO: order rugs\nNothing else.\n",
    "notes/old/january.txt": "All done.\n",
    "config/shop.json": json.dumps({"currency": "EUR", "vat": 0.19, "open": ["mon", "tue", "thu"]}, indent=1),
    "config/mail.json": json.dumps({"host": "mail.example.com", "port": 587, "tls": True}, indent=1),
    "logs/app.log": "".join(
        f"2026-09-{1 + n // 4:02}T{8 + n % 4:02}:00:00Z {('INFO', 'INFO', 'WARN', 'ERROR')[n % 4]} "
        f"{('checkout', 'stock', 'mailer')[n % 3]} request {n} took {37 * n % 900} ms\n"
        for n in range(60)
    ),
}
_COMMITS = (
    ("README.md", "# Shop\n\nSells lamps.\n", "Begin"),
    ("shop/cart.py", "def total(items):\n    return sum(item.price for item in items)\n", "Add a cart"),
    ("shop/stock.py", "STOCK = {}\n\n\ndef left(name):\n    return STOCK.get(name, 0)\n", "Count the stock"),
    ("shop/cart.py", "\n\ndef is_empty(items):\n    return not items\n", "Fix the empty cart"),
    ("shop/checkout.py", "from shop.cart import total\n\n\ndef pay(items):\n    return total(items)\n", "Add checkout"),
    (
        "tests/test_cart.py",
        "from shop.cart import total\n\n\ndef test_nothing():\n    assert total([]) == 0\n",
        "Test it",
    ),
    ("README.md", "\nAnd desks.\n", "Say that there are desks"),
    ("shop/stock.py", "\n\ndef take(name):\n    STOCK[name] -= 1\n", "Fix the count of what is taken"),
    ("docs/stock.md", "# Stock\n\nCounted each night.\n", "Document the stock"),
    ("shop/mail.py", "def send(to, text):\n    print(to, text)\n", "Send mail"),
    ("shop/mail.py", "\n\ndef greet(to):\n    send(to, 'Hello')\n", "Greet"),
    ("docs/mail.md", "# Mail\n", "Document the mail"),
)
_WORKBOOK = """
import sys
from openpyxl import Workbook
book = Workbook()
sheet = book.active
sheet.title = "Costs"
sheet.append(["Month", "Rent", "Wages", "Note"])
for number, month in enumerate(["Jan", "Feb", "Mar", "Apr", "May", "Jun"]):
    sheet.append([month, 1200, 5400 + 130 * number, "raise" if number == 3 else None])
other = book.create_sheet("Staff")
other.append(["Name", "Hours", "Since"])
for name, hours in (("Ada", 40), ("Grace", 32), ("Lin", 20)):
    other.append([name, hours, f"202{hours % 7}-03-01"])
book.save(sys.argv[1])
"""
