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
COMMITS = 40
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
LAMPS = ("Kestrel", "Heron", "Plover", "Siskin", "Dunlin", "Avocet")


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
    numbers = random.Random(SEED)

    def write(name: str, text: str) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)

    for number, name in enumerate(SERVICES):
        settings = {"name": name, "port": 8100 + 7 * number, "owner": OWNERS[number % 5], "replicas": 1 + number % 3}
        write(f"config/{name}.json", json.dumps(settings, indent=2) + "\n")
    components = ("cache", "mailer", "payments", "router", "worker")
    lines = [
        f"2026-10-{1 + number // 100:02} {numbers.randrange(24):02}:{numbers.randrange(60):02} "
        f"{numbers.choice(('INFO', 'INFO', 'INFO', 'WARN', 'ERROR'))} {numbers.choice(components)} "
        f"request {numbers.randrange(10**6):06} took {numbers.randrange(2, 900)} ms"
        for number in range(LOG_LINES)
    ]
    write("logs/app.log", "\n".join(lines) + "\n")
    for name, text in NOTES.items():
        write(f"notes/{name}", text + "\n")
    for station in range(1, STATIONS + 1):
        rows = [f"{hour:02}:00,{numbers.uniform(-5, 30):.1f}" for hour in range(24)]
        write(f"readings/station-{station:02}.csv", "\n".join(["hour,celsius", *rows]) + "\n")
    for hop in range(HOPS):
        following = f"step-{(hop * 5 + 12) % 97:02}.txt" if hop < HOPS - 1 else "none"
        name = f"step-{((hop - 1) * 5 + 12) % 97:02}.txt" if hop else "start.txt"
        write(f"trail/{name}", f"value: {numbers.randrange(100, 1000)}\nnext: {following}\n")
    rows = [f"{customer},{REGIONS[numbers.randrange(4)]}" for customer in CUSTOMERS]
    write("contacts.csv", "\n".join(["customer,region", *rows]) + "\n")
    write("deps/lamps/harbor.lock.json", json.dumps({"harbor": "4.7.2", "meadow": "1.0.9"}, indent=2) + "\n")
    write("deps/readme.txt", "Versions are pinned in the lock file of each project.\n")


def _write_orders(path: Path) -> None:
    numbers = random.Random(SEED)
    statuses = ("pending", "shipped", "paid", "cancelled")
    rows = [
        (
            number,
            numbers.choice(CUSTOMERS),
            numbers.choice(statuses),
            numbers.randrange(500, 100_000) / 100,
            f"2026-{numbers.randrange(1, 13):02}-{numbers.randrange(1, 29):02}",
        )
        for number in range(1, 2_001)
    ]
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE orders (id INTEGER, customer TEXT, status TEXT, amount REAL, day TEXT)")
        connection.executemany("INSERT INTO orders VALUES (?, ?, ?, ?, ?)", rows)


def _write_memory(path: Path) -> None:
    """Sixty people, of whom each but the first reports to one with a lower number; and the teams of who commits."""
    people = [f"person{number:02}" for number in range(1, 61)]
    roles = {0: "director", 1: "head", 2: "head"}
    lines: list[dict[str, object]] = [
        {
            "type": "entity",
            "name": person,
            "entityType": "person",
            "observations": [f"role: {roles.get(number, 'engineer')}", f"desk: {number * 7 % 60 + 1}"],
        }
        for number, person in enumerate(people)
    ]
    lines += [
        {"type": "relation", "from": person, "to": people[number * 2 // 5], "relationType": "reports_to"}
        for number, person in enumerate(people)
        if number
    ]
    lines += [
        {"type": "entity", "name": owner, "entityType": "author", "observations": [f"team: {TEAMS[number % 3]}"]}
        for number, owner in enumerate(OWNERS)
    ]
    path.write_text("\n".join(map(json.dumps, lines)) + "\n")


def _write_repository(folder: Path) -> None:
    """Commits at fixed times, so that their hashes are the same everywhere."""
    numbers = random.Random(SEED)
    stream: list[str] = []

    def commit(number: int, author: str, subject: str, path: str, text: str) -> None:
        who = f"{author} <{author.lower()}@example.com> {1_790_000_000 + number * 3600} +0000"
        stream.append(f"commit refs/heads/main\nauthor {who}\ncommitter {who}\n")
        stream.append(f"data {len(subject)}\n{subject}\nM 100644 inline {path}\ndata {len(text)}\n{text}\n")

    for number in range(COMMITS - 2):
        text = "".join(f"value_{line} = {numbers.randrange(1000)}\n" for line in range(numbers.randrange(3, 40)))
        author = OWNERS[numbers.randrange(5)]
        commit(number, author, f"Add module {number:02}", f"src/module_{number:02}.py", text)
    commit(COMMITS - 2, "Bo", "Accounts can be used", "src/accounts.py", CHECKED)
    commit(COMMITS - 1, "Adele", "Simplify accounts", "src/accounts.py", UNCHECKED)
    # Nothing of the person's own git settings may change what a server shows.
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}

    def git(*arguments: str, text: str | None = None) -> None:
        subprocess.run(["git", *arguments], check=True, cwd=folder, env=environment, input=text, text=True)

    folder.mkdir()
    git("init", "--quiet", "--initial-branch=main")
    git("fast-import", "--quiet", text="".join(stream))
    git("reset", "--quiet", "--hard")


def pages() -> dict[str, str]:
    """The web site: a page for each lamp, and one that links to them."""
    numbers = random.Random(SEED)
    found = {}
    links = ""
    for number, name in enumerate(LAMPS, 1):
        price, watts = numbers.randrange(2000, 20_000) / 100, numbers.randrange(3, 60)
        table = f"<table><tr><th>Price</th><th>Watts</th></tr><tr><td>{price:.2f} EUR</td><td>{watts}</td></tr></table>"
        found[f"/lamp-{number}.html"] = f"<html><body><h1>{name} lamp</h1><p>Made to order.</p>{table}</body></html>"
        links += f'<li><a href="/lamp-{number}.html">{name} lamp</a></li>'
    found["/"] = f"<html><body><h1>Lamps</h1><p>All that we make.</p><ul>{links}</ul></body></html>"
    return found
