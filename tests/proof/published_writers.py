"""A product with four published servers that change something: a git repository, a database, files and a memory.

What reaches each server is written down on its way, so that tests see calls that change nothing when they are made
twice. A product kills itself by SIGKILL at a named point of one call.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import sqlite3
import subprocess
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal

from codemode_server.domain.calls import CallOutcome, Decision, ToolCall
from codemode_server.domain.ids import ExecutionId
from codemode_server.storage.sqlite_journal import SqliteJournal
from scripts.real_servers import commands
from tests.behaviour.product import configuration
from tests.storage.test_kills import LOCAL, running, serve_product

NOTES = range(3)
NAMES = ("filesystem", "git", "sqlite", "memory")
PROGRAM = """
import asyncio, random, re, uuid
from codemode import ToolError
from servers.filesystem import edit_file
from servers.git import git_add, git_commit
from servers.memory import add_observations
from servers.sqlite import write_query

unknown = []
def tried(name, tool, **arguments):
    try:
        return tool(**arguments)
    except ToolError as error:
        unknown.append([name, error.kind])

for note in range(3):
    name = f"note {note}"
    tried(f"file {note}", edit_file, path="@/shop/notes.txt", edits=[{"oldText": "END", "newText": f"{name}\\nEND"}])
    git_add(repo_path="@/shop", files=["notes.txt"])
    made = tried(f"commit {note}", git_commit, repo_path="@/shop", message=name)
    tried(
        f"row {note}",
        write_query,
        query=f"INSERT INTO notes VALUES ({note}, '{random.random()}', '{uuid.uuid4()}', '{made and made[-41:]}')",
    )
    tried(f"memory {note}", add_observations, observations=[{"entityName": "notes", "contents": [name]}])
unknown
"""
CONCURRENT = """
import asyncio
from codemode import ToolError
from servers.filesystem import edit_file
from servers.git import git_add, git_commit
from servers.memory import add_observations
from servers.sqlite import write_query

unknown = []
async def tried(name, tool, **arguments):
    try:
        await tool(**arguments)
    except ToolError as error:
        unknown.append(name)

async def commits():
    for note in range(3):
        edits = [{"oldText": "END", "newText": f"note {note}\\nEND"}]
        await tried(f"file {note}", edit_file, path="@/shop/notes.txt", edits=edits)
        await git_add(repo_path="@/shop", files=["notes.txt"])
        await tried(f"commit {note}", git_commit, repo_path="@/shop", message=f"note {note}")

async def rows():
    for note in range(3):
        await tried(f"row {note}", write_query, query=f"INSERT INTO notes (note) VALUES ({note})")

async def memories():
    for note in range(3):
        observations = [{"entityName": "notes", "contents": [f"note {note}"]}]
        await tried(f"memory {note}", add_observations, observations=observations)

await asyncio.gather(commits(), rows(), memories())
sorted(unknown)
"""
WRITES = {"file": "edit_file", "commit": "git_commit", "row": "write_query", "memory": "add_observations"}
When = Literal["recorded", "done", "answered"]


@dataclass(frozen=True)
class Point:
    """Where a product kills itself: once a call was …"""

    tool: str
    number: int
    """1 for the first call of the tool."""
    when: When
    """`recorded` and not sent, `done` by its server and the answer not recorded, `answered` and that recorded."""


@dataclass(frozen=True)
class Shop:
    """The servers' data in a folder."""

    folder: Path

    def filled(self, program: str) -> str:
        return program.replace("@", str(self.folder))

    def make(self) -> None:
        shop = self.folder / "shop"
        shop.mkdir()
        (shop / "notes.txt").write_text("END\n")
        _git(shop, "init", "-q", "-b", "main")
        for name, value in (("user.name", "Ada"), ("user.email", "ada@example.com")):
            _git(shop, "config", name, value)
        _git(shop, "add", ".")
        _git(shop, "commit", "-qm", "nothing yet")
        with closing(sqlite3.connect(self.folder / "notes.db")) as database:
            database.execute("CREATE TABLE notes (note, written_at, id, made)")
        entity = {"type": "entity", "name": "notes", "entityType": "list", "observations": []}
        (self.folder / "memory.jsonl").write_text(json.dumps(entity) + "\n")

    def configuration(self, **sections: Any) -> Path:
        arguments = {
            "git": ["--repository", str(self.folder / "shop")],
            "sqlite": ["--db-path", str(self.folder / "notes.db")],
            "filesystem": [str(self.folder)],
            "memory": [],
        }
        environment = {"MEMORY_FILE_PATH": str(self.folder / "memory.jsonl")}
        servers: dict[str, dict[str, Any]] = {
            name: {
                "command": "/bin/sh",
                "args": ["-c", f"tee -a {self.folder / name}.log | {shlex.join([*command, *arguments[name]])}"],
                "env": environment,
            }
            for name, command in commands(NAMES).items()
        }
        servers["git"]["effects"] = {"git_add": "read"}  # staging a file once more changes nothing
        return configuration(self.folder, servers, permissions={"default": "allow"}, **sections)

    def sent(self) -> Counter[str]:
        """The writes that reached a server, such as `commit 1`, and how often."""
        return Counter(name for server in NAMES for name in self._sent_to(server))

    def _sent_to(self, server: str) -> list[str]:
        log = self.folder / f"{server}.log"
        found = []
        for message in map(json.loads, log.read_text().splitlines() if log.exists() else []):
            if message.get("method") == "tools/call" and message["params"]["name"] in WRITES.values():
                found.append(name_of(message["params"]["name"], message["params"]["arguments"]))
        return found

    def rows(self) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.folder / "notes.db")) as database:
            return database.execute("SELECT * FROM notes").fetchall()

    def state(self) -> Counter[str]:
        """What is there of each write in the file, the repository, the database and the memory, and how often."""
        lines = (self.folder / "shop" / "notes.txt").read_text().splitlines()
        commits = _git(self.folder / "shop", "log", "--format=%s").splitlines()
        rows = [row[0] for row in self.rows()]
        entities = map(json.loads, (self.folder / "memory.jsonl").read_text().splitlines())
        observations = [text for entity in entities for text in entity.get("observations", ())]
        return Counter(
            [
                *(f"file {line[5:]}" for line in lines if line != "END"),
                *(f"commit {subject[5:]}" for subject in commits if subject != "nothing yet"),
                *(f"row {row}" for row in rows),
                *(f"memory {text[5:]}" for text in observations),
            ]
        )


def name_of(tool: str, arguments: dict[str, Any]) -> str:
    """Of a write, such as `commit 1`."""
    kind = next(kind for kind, its in WRITES.items() if its == tool)
    number = re.search(r"note (\d)|VALUES \((\d)", json.dumps(arguments))
    assert number is not None
    return f"{kind} {number[1] or number[2]}"


def once(*without: str) -> Counter[str]:
    """Each write once, but for these."""
    return Counter(f"{kind} {note}" for kind in WRITES for note in NOTES if f"{kind} {note}" not in without)


def run_until(point: Point, config: Path, code: str, *, resume: str = "") -> None:
    """Run a program, or resume an execution, in a product that kills itself at that point."""
    with running(config, code, partial(_serve_until, point), resume=resume) as product:
        product.join(40)
        assert product.exitcode == -signal.SIGKILL, "it came to the point"


def _serve_until(point: Point, config: Path, requests: Connection) -> None:
    begin_call, end_call = SqliteJournal.begin_call, SqliteJournal.end_call
    numbers: list[int] = []

    async def begin(self: SqliteJournal, call: ToolCall, decision: Decision, *, is_read_only: bool) -> None:
        await begin_call(self, call, decision, is_read_only=is_read_only)
        if call.tool == point.tool:
            numbers.append(call.seq)
        if len(numbers) == point.number and numbers[-1] == call.seq and point.when == "recorded":
            os.kill(os.getpid(), signal.SIGKILL)

    async def end(self: SqliteJournal, execution_id: ExecutionId, seq: int, outcome: CallOutcome) -> None:
        is_there = len(numbers) == point.number and numbers[-1] == seq
        if is_there and point.when == "done":
            os.kill(os.getpid(), signal.SIGKILL)
        await end_call(self, execution_id, seq, outcome)
        if is_there:
            await self.executions(LOCAL, limit=1)  # what was queued before is in the database now
            os.kill(os.getpid(), signal.SIGKILL)

    SqliteJournal.begin_call, SqliteJournal.end_call = begin, end  # type: ignore[method-assign]
    serve_product(config, requests)


def _git(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", "-C", folder, *arguments], check=True, capture_output=True, text=True).stdout
