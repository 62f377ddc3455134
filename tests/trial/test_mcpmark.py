"""A person's checkout of MCPMark: what can be run is found, each other task is named with its reason, and a run has a
copy of the files or of the database. The checkout here is made up, in the layout of theirs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from benchmarks.trial import mcpmark
from benchmarks.trial.task import Task
from scripts.npm import Unavailable
from tests.storage.postgres import Cluster

VERIFY_FILES = """\
import os, pathlib, sys
found = pathlib.Path(os.environ["FILESYSTEM_TEST_DIR"], "sum.txt")
sys.exit(0 if found.exists() and found.read_text() == "3" else "the sum is missing")
"""
VERIFY_ROWS = """\
import os, psycopg2, sys
names = {"host": "HOST", "port": "PORT", "user": "USERNAME", "password": "PASSWORD", "dbname": "DATABASE"}
cursor = psycopg2.connect(**{key: os.environ["POSTGRES_" + name] for key, name in names.items()}).cursor()
cursor.execute("SELECT count(*) FROM items")
count = cursor.fetchone()[0]
sys.exit(0 if count == 2 else f"{count} items")
"""


def made(checkout: Path, task: str, text: str, verify: str = "", **files: str) -> None:
    """Write a task, `SERVICE/CATEGORY/NAME`."""
    service, category, name = task.split("/")
    folder = checkout / "tasks" / service / "standard" / category / name
    folder.mkdir(parents=True)
    meta = json.dumps({"meta_data": {"stateUrl": f"https://data.example/{category}.zip"}})
    for file, content in {"description.md": text, "verify.py": verify, "meta.json": meta, **files}.items():
        (folder / file).write_text(content)


def found(checkout: Path) -> tuple[list[Task], list[str]]:
    said: list[str] = []
    return mcpmark.tasks_of(checkout, said.append), said


def test_what_cannot_be_run_is_named_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRIAL_POSTGRES", raising=False)
    made(tmp_path, "filesystem/numbers/sum", "Write the sum to sum.txt.")
    made(tmp_path, "filesystem/numbers/plain", "Write the sum. Do not use python code.")
    made(tmp_path, "filesystem/absent/sum", "Write the sum.")
    made(tmp_path, "postgres/shop/add", "Add an item.")
    made(tmp_path, "postgres/shop/guard", "Create a new database role for readers.")
    made(tmp_path, "postgres/own/add", "Add an item.", **{"prepare_environment.py": ""})
    made(tmp_path, "notion/pages/add", "Add a page.")
    (tmp_path / "test_environments" / "numbers").mkdir(parents=True)
    tasks, said = found(tmp_path)
    assert [(task.name, task.messages, task.suite) for task in tasks] == [
        ("mcpmark-filesystem-numbers-sum", ("Write the sum to sum.txt.",), "mcpmark")
    ]
    assert said == [
        "mcpmark-filesystem-absent-sum can't be run: test_environments/absent is missing; "
        "MCPMark has it at https://data.example/absent.zip",
        "mcpmark-filesystem-numbers-plain can't be run: its text forbids Python, which some of the arms are",
        "mcpmark-postgres-own-add can't be run: a script of its own prepares its database",
        "mcpmark-postgres-shop-add can't be run: TRIAL_POSTGRES is not set",
        "mcpmark-postgres-shop-guard can't be run: it creates roles, which would outlive the database of a run",
    ]


@pytest.mark.network
def test_a_run_has_a_copy_of_the_files_and_their_own_check_judges_it(tmp_path: Path) -> None:
    made(tmp_path, "filesystem/numbers/sum", "Write the sum to sum.txt.", VERIFY_FILES)
    numbers = tmp_path / "test_environments" / "numbers"
    numbers.mkdir(parents=True)
    (numbers / "numbers.txt").write_text("1 2")
    (task,), _ = found(tmp_path)
    run = tmp_path / "run"
    try:
        with task.open(run) as state:
            files = Path(state.servers["filesystem"]["args"][-1])
            assert state.check([]) == "the sum is missing"
            (files / "sum.txt").write_text("3")
            assert state.check([]) is None
    except Unavailable as error:
        pytest.skip(str(error))
    assert files.is_relative_to(run)
    assert [path.name for path in numbers.iterdir()] == ["numbers.txt"]


@pytest.mark.network
def test_a_run_has_a_copy_of_the_database_that_is_removed_afterwards(
    tmp_path: Path, postgres: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = f"shop_{uuid4().hex}"
    postgres.execute(f"CREATE DATABASE {shop}")
    postgres.execute("CREATE TABLE items (name text)", shop)
    postgres.execute("INSERT INTO items VALUES ('tea')", shop)
    monkeypatch.setenv("TRIAL_POSTGRES", postgres.address("postgres").url)
    monkeypatch.setenv("TRIAL_POSTGRES_SERVER", f"{sys.executable} some_server.py --writes")
    made(tmp_path, f"postgres/{shop}/add", "Add an item.", VERIFY_ROWS)
    made(tmp_path, "postgres/gone/add", "Add an item.", VERIFY_ROWS)
    (task,), said = found(tmp_path)
    assert said == ["mcpmark-postgres-gone-add can't be run: the server of TRIAL_POSTGRES has no database gone"]
    try:
        with task.open(tmp_path / "run") as state:
            server = state.servers["postgres"]
            assert (server["command"], server["args"]) == (sys.executable, ["some_server.py", "--writes"])
            assert state.check([]) == "1 items"
            with psycopg.connect(server["env"]["DATABASE_URI"], autocommit=True) as connection:
                connection.execute("INSERT INTO items VALUES ('milk')")
                assert state.check([]) is None
    except Unavailable as error:
        pytest.skip(str(error))
    assert postgres.execute("SELECT count(*) FROM items", shop) == [(1,)]
    assert postgres.execute("SELECT count(*) FROM pg_database WHERE datname LIKE 'trial_%'") == [(0,)]
