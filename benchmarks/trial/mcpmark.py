"""Tasks of a person's own checkout of MCPMark (github.com/eval-sys/mcpmark, Apache-2.0), with its own checks:
`--tasks mcpmark:FOLDER`. Nothing of it is here, and its data is not in its repository either.

The files of a category are expected in `test_environments/CATEGORY` of the checkout, where MCPMark unpacks them. For
`postgres`, TRIAL_POSTGRES is the address of a server that may be used for this, with the databases that MCPMark
restores there, and TRIAL_POSTGRES_SERVER the command of the MCP server, which gets DATABASE_URI. What can't be run is
named.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from urllib.parse import quote
from uuid import uuid4

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from benchmarks.trial.plan import without_key
from benchmarks.trial.task import Opened, OtherPlace, Task
from scripts import real_servers

SERVER = "pipx run postgres-mcp --access-mode=unrestricted"
DRIVER = "psycopg2-binary==2.9.13"
"""What its checks of databases import."""
_SECONDS = 600
_FORBIDS_PYTHON = re.compile(r"(do not|don't|not allowed)[^.\n]*python", re.IGNORECASE)
_NEEDS_ROLES = re.compile(r"create (role|user)|database role|row-level security", re.IGNORECASE)


def tasks_of(checkout: Path, say: Callable[[str], None]) -> list[Task]:
    """Those that can be run; of each other one `say` gets a line with the reason."""
    found = []
    for description in sorted(checkout.glob("tasks/*/standard/*/*/description.md")):
        folder = description.parent
        service, category = folder.parts[-4], folder.parts[-2]
        if service not in _OPEN:
            continue
        name, text = f"mcpmark-{service}-{category}-{folder.name}", description.read_text()
        reason = _why_not(service, checkout, folder, text)
        if reason is not None:
            say(f"{name} can't be run: {reason}")
            continue
        version = hashlib.sha256((folder / "verify.py").read_bytes()).hexdigest()[:16]
        opened = partial(_OPEN[service], checkout, folder)
        found.append(Task(name, "mcpmark", (text,), "code", opened, version=version))
    return found


def _why_not(service: str, checkout: Path, folder: Path, text: str) -> str | None:
    if _FORBIDS_PYTHON.search(text):
        return "its text forbids Python, which some of the arms are"
    category = folder.parent.name
    if service == "filesystem":
        if not (checkout / "test_environments" / category).is_dir():
            url = json.loads((folder / "meta.json").read_text())["meta_data"].get("stateUrl")
            return f"test_environments/{category} is missing; MCPMark has it at {url}"
        return None
    if (folder / "prepare_environment.py").exists():
        return "a script of its own prepares its database"
    if _NEEDS_ROLES.search(text):
        return "it creates roles, which would outlive the database of a run"
    if not os.environ.get("TRIAL_POSTGRES"):
        return "TRIAL_POSTGRES is not set"
    if category not in _databases(os.environ["TRIAL_POSTGRES"]):
        return f"the server of TRIAL_POSTGRES has no database {category}"
    return None


@cache
def _databases(address: str) -> set[str]:
    with psycopg.connect(address) as connection:
        return {str(name) for (name,) in connection.execute("SELECT datname FROM pg_database")}


@contextmanager
def _files(checkout: Path, task: Path, folder: Path) -> Iterator[Opened]:
    """A copy of the category's files, with their times."""
    category = task.parent.name
    files = folder / "data" / category
    shutil.copytree(checkout / "test_environments" / category, files, symlinks=True)
    command, *arguments = real_servers.commands(["filesystem"])["filesystem"]
    servers = {"filesystem": {"command": command, "args": [*arguments, str(files)]}}
    verify = partial(_verified, [sys.executable, str(task / "verify.py")], {"FILESYSTEM_TEST_DIR": str(files)})
    yield Opened(servers, OtherPlace(folder / "data"), verify)


@contextmanager
def _database(checkout: Path, task: Path, folder: Path) -> Iterator[Opened]:
    """A copy of the category's database, removed afterwards."""
    address, name = os.environ["TRIAL_POSTGRES"], f"trial_{uuid4().hex}"
    parts = {key: str(value) for key, value in conninfo_to_dict(address).items() if value is not None}
    host, port, user, password = (
        parts.get(it, usual)
        for it, usual in (("host", "localhost"), ("port", "5432"), ("user", "postgres"), ("password", ""))
    )
    login = f"{quote(user, safe='')}:{quote(password, safe='')}" if password else quote(user, safe="")
    uri = f"postgresql://{login}@{quote(host, safe='')}:{port}/{name}"
    command, *arguments = shlex.split(os.environ.get("TRIAL_POSTGRES_SERVER", SERVER))
    servers = {"postgres": {"command": command, "args": arguments, "env": {"DATABASE_URI": uri}}}
    environment = {"HOST": host, "PORT": port, "USERNAME": user, "PASSWORD": password, "DATABASE": name}
    python = real_servers.environment("trial-psycopg2", (DRIVER,), DRIVER)
    verify = partial(
        _verified, [str(python), str(task / "verify.py")], {f"POSTGRES_{key}": it for key, it in environment.items()}
    )
    with psycopg.connect(address, autocommit=True) as connection:
        copy = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
        connection.execute(copy.format(sql.Identifier(name), sql.Identifier(task.parent.name)))
        try:
            yield Opened(servers, OtherPlace(folder / "data"), verify)
        finally:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def _verified(command: Sequence[str], environment: dict[str, str], _answers: Sequence[str]) -> str | None:
    """Its check looks at the state alone."""
    done = subprocess.run(
        command, env=without_key(**environment), capture_output=True, text=True, timeout=_SECONDS, check=False
    )
    return None if done.returncode == 0 else (done.stdout + done.stderr)[-2_000:].strip() or "its check failed"


_OPEN = {"filesystem": _files, "postgres": _database}
