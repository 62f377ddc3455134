"""The data of the tasks, the same each time: made from a seed once for each process, and copied for each run."""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path

from benchmarks.tasks.task import Place
from tests.answering import Asked, answering

SEED = 33
SERVICES = (
    "billing", "search", "mail", "media", "login", "report", "stock", "route", "price", "queue", "audit", "label",
)  # fmt: skip
OWNERS = ("Ines", "Tomas", "Adele", "Bo", "Chidi")
REGIONS = ("north", "south", "east", "west")
TEAMS = ("harbor", "meadow", "summit")
CUSTOMERS = tuple(f"customer{number:02}@example.com" for number in range(1, 61))
LOG_LINES = 2_000
STATIONS = 40
HOPS = 8
NOTES = {
    "note-1.txt": "Hello, the lamp came on Tuesday and is lovely. Could you send me the invoice once more? Mira Holt",
    "note-2.txt": "Your courier rang twice while I was out. No harm done, the neighbours took it in. Jon Abara",
    "note-3.txt": "This is the third lamp in a row that flickers. I have had enough: please close my account and "
    "return what I paid. Lena Fisk",
    "note-4.txt": "I would like to order six more of the small ones for our office. Is there a discount? Raj Sood",
}
"""Letters of customers; one of them wants to leave."""
CHECKED = """def withdraw(account, amount):
    if amount > account.balance:
        raise ValueError("not enough")
    account.balance -= amount


def deposit(account, amount):
    if amount <= 0:
        raise ValueError("nothing to deposit")
    account.balance += amount
"""
UNCHECKED = CHECKED.replace('    if amount > account.balance:\n        raise ValueError("not enough")\n', "")
"""The same after a careless commit."""
README = "Versions are pinned in the lock file of each project.\n"
LAMPS = ("Kestrel", "Heron", "Plover", "Siskin", "Dunlin", "Avocet")

_numbers = random.Random(SEED)
SETTINGS = {
    name: {"name": name, "port": 8100 + 7 * number, "owner": OWNERS[number % 5], "replicas": 1 + number % 3}
    for number, name in enumerate(SERVICES)
}
LOG = [
    f"2026-10-{1 + number // 100:02} {_numbers.randrange(24):02}:{_numbers.randrange(60):02} "
    f"{_numbers.choice(('INFO', 'INFO', 'INFO', 'WARN', 'ERROR'))} "
    f"{_numbers.choice(('cache', 'mailer', 'payments', 'router', 'worker'))} "
    f"request {_numbers.randrange(10**6):06} took {_numbers.randrange(2, 900)} ms"
    for number in range(LOG_LINES)
]
READINGS = {
    f"station-{number:02}.csv": [round(_numbers.uniform(-5, 30), 1) for _ in range(24)]
    for number in range(1, STATIONS + 1)
}
TRAIL = ["start.txt", *(f"step-{hop * 5 + 12:02}.txt" for hop in range(HOPS - 1))]
VALUES = {name: _numbers.randrange(100, 1000) for name in TRAIL}
REGION_OF = {customer: _numbers.choice(REGIONS) for customer in CUSTOMERS}
ORDERS = [
    (
        number,
        _numbers.choice(CUSTOMERS),
        _numbers.choice(("pending", "shipped", "paid", "cancelled")),
        _numbers.randrange(500, 100_000) / 100,
        f"2026-{_numbers.randrange(1, 13):02}-{_numbers.randrange(1, 29):02}",
    )
    for number in range(1, 2_001)
]
"""Number, customer, status, amount, day."""
COMMITS = [
    *(
        (
            _numbers.choice(OWNERS),
            f"Add module {number:02}",
            f"src/module_{number:02}.py",
            "".join(
                f"value_{line} = {_numbers.randrange(1000)}\n"
                for line in range(60 if number == 17 else _numbers.randrange(3, 40))
            ),
        )
        for number in range(38)
    ),
    ("Bo", "Accounts can be used", "src/accounts.py", CHECKED),
    ("Adele", "Simplify accounts", "src/accounts.py", UNCHECKED),
]
"""Author, subject, path, text; the oldest first."""
TEAM_OF = {owner: TEAMS[number % 3] for number, owner in enumerate(OWNERS)}
PEOPLE = [f"person{number:02}" for number in range(1, 61)]
REPORTS_TO = {person: PEOPLE[number * 2 // 5] for number, person in enumerate(PEOPLE) if number}
ROLES = {PEOPLE[0]: "director", PEOPLE[1]: "head", PEOPLE[2]: "head"}
"""All others are engineers."""
PRICES = {name: _numbers.randrange(2000, 20_000) / 100 for name in LAMPS}


@contextmanager
def fresh_place(site: str = "http://site.example") -> Iterator[Place]:
    """A copy of the data for one run, removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="tasks-", ignore_cleanup_errors=True) as name:
        folder = Path(name).resolve() / "data"
        shutil.copytree(_template(), folder)
        yield Place(folder, site)


@contextmanager
def web_site() -> Iterator[str]:
    """The address of the web site, until the block is left."""

    def answer(asked: Asked) -> tuple[int, dict[str, str], bytes]:
        text = pages().get(asked.path)
        return (404, {}, b"") if text is None else (200, {"content-type": "text/html"}, text.encode())

    with answering(answer) as address:
        yield address


@cache
def _template() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="tasks-template-"))
    place = Place(folder)
    place.files.mkdir()
    _write_files(place.files)
    _write_orders(place.database)
    _write_memory(place.memory)
    _write_repository(place.repository)
    return folder


def _write_files(folder: Path) -> None:
    def write(name: str, text: str) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)

    for name, settings in SETTINGS.items():
        write(f"config/{name}.json", json.dumps(settings, indent=2) + "\n")
    write("logs/app.log", "\n".join(LOG) + "\n")
    for name, text in NOTES.items():
        write(f"notes/{name}", text + "\n")
    for name, values in READINGS.items():
        rows = [f"{hour:02}:00,{value}" for hour, value in enumerate(values)]
        write(f"readings/{name}", "\n".join(["hour,celsius", *rows]) + "\n")
    for name, following in zip(TRAIL, [*TRAIL[1:], "none"], strict=True):
        write(f"trail/{name}", f"value: {VALUES[name]}\nnext: {following}\n")
    write("contacts.csv", "\n".join(["customer,region", *map(",".join, REGION_OF.items())]) + "\n")
    write("deps/lamps/harbor.lock.json", json.dumps({"harbor": "4.7.2", "meadow": "1.0.9"}, indent=2) + "\n")
    write("deps/readme.txt", README)


def _write_orders(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE orders (id INTEGER, customer TEXT, status TEXT, amount REAL, day TEXT)")
        connection.executemany("INSERT INTO orders VALUES (?, ?, ?, ?, ?)", ORDERS)


def _write_memory(path: Path) -> None:
    """People and who they report to; and the teams of those who commit."""

    def entity(name: str, kind: str, *observations: str) -> dict[str, object]:
        return {"type": "entity", "name": name, "entityType": kind, "observations": observations}

    lines = [
        *(
            entity(person, "person", f"role: {ROLES.get(person, 'engineer')}", f"desk: {number * 7 % 60 + 1}")
            for number, person in enumerate(PEOPLE)
        ),
        *(entity(owner, "author", f"team: {team}") for owner, team in TEAM_OF.items()),
        *(
            {"type": "relation", "from": person, "to": other, "relationType": "reports_to"}
            for person, other in REPORTS_TO.items()
        ),
    ]
    path.write_text("\n".join(map(json.dumps, lines)) + "\n")


def _write_repository(folder: Path) -> None:
    """Commits at fixed times, so that their hashes are the same everywhere."""
    stream = ""
    for number, (author, subject, path, text) in enumerate(COMMITS):
        who = f"{author} <{author.lower()}@example.com> {1_790_000_000 + number * 3600} +0000"
        stream += f"commit refs/heads/main\nauthor {who}\ncommitter {who}\ndata {len(subject)}\n{subject}\n"
        stream += f"M 100644 inline {path}\ndata {len(text)}\n{text}\n"
    # Nothing of the person's own git settings may change what a server shows.
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}

    def git(*arguments: str, text: str | None = None) -> None:
        subprocess.run(["git", *arguments], check=True, cwd=folder, env=environment, input=text, text=True)

    folder.mkdir()
    git("init", "--quiet", "--initial-branch=main")
    git("fast-import", "--quiet", text=stream)
    git("reset", "--quiet", "--hard")


def pages() -> dict[str, str]:
    """The web site by path: a page for each lamp, and one that links to them."""
    found = {}
    links = ""
    for number, (name, price) in enumerate(PRICES.items(), 1):
        table = f"<table><tr><th>Price</th></tr><tr><td>{price:.2f} EUR</td></tr></table>"
        found[f"/lamp-{number}.html"] = f"<html><body><h1>{name} lamp</h1><p>Made to order.</p>{table}</body></html>"
        links += f'<li><a href="/lamp-{number}.html">{name} lamp</a></li>'
    found["/"] = f"<html><body><h1>Lamps</h1><p>All that we make.</p><ul>{links}</ul></body></html>"
    return found
