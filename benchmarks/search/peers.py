"""The searches that ours is compared with, from their published packages, in an environment of their own."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.search.corpora import Corpus, Entry
from benchmarks.search.encoders import CACHE
from scripts.npm import Unavailable, install

PEERS = ("fastmcp", "bm25s")
REQUIREMENTS = (
    # What FastMCP 4.1.6 is made of; its search needs no more than this of what all of it needs.
    "fastmcp-slim[client]==4.1.6",
    "griffelib>=2,<3",
    "jsonref>=1.1,<2",
    "packaging>=24",
    "pyyaml>=6,<7",
    "uncalled-for>=0.4,<1",
    "bm25s==0.3.16",
    "PyStemmer==3.0.0",
)
_WORKER = Path(__file__).with_name("peer_worker.py")
_SECONDS = 3_600


def peer_rankings(peer: str, corpus: Corpus, depth: int) -> tuple[list[list[str]], str]:
    """For each query the ids of what was found, best first; and the version of the package.

    A ranking that was made once is kept by all that it depends on: FastMCP takes minutes for the larger sets.

    Raises:
        Unavailable: the package can't be had.
    """
    text = _request(peer, corpus.entries, [query.text for query in corpus.queries], depth)
    digest = hashlib.sha256(b"\0".join((text, _WORKER.read_bytes(), "\n".join(REQUIREMENTS).encode()))).hexdigest()
    kept = CACHE / "rankings" / f"{digest[:32]}.json"
    if not kept.exists():
        answer = run_peer(text)
        kept.parent.mkdir(parents=True, exist_ok=True)
        fresh = kept.with_suffix(f".{os.getpid()}")
        fresh.write_text(json.dumps({"rankings": answer["rankings"], "version": answer["version"]}))
        fresh.replace(kept)
    known = json.loads(kept.read_text())
    return known["rankings"], known["version"]


def peer_times(peer: str, entries: Sequence[Entry], queries: Sequence[str], depth: int, rounds: int) -> dict[str, Any]:
    """As its worker measured it: `built_s`, `times_ms` of each query, the best of some rounds, `grown_mib`.

    Raises:
        Unavailable: the package can't be had.
    """
    return run_peer(_request(peer, entries, queries, depth, rounds))


def run_peer(request: bytes) -> dict[str, Any]:
    done = subprocess.run([python(), _WORKER], input=request, capture_output=True, timeout=_SECONDS, check=False)
    if done.returncode:
        raise Unavailable(f"a search to compare with failed: {done.stderr.decode()[-300:]}")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def python() -> Path:
    """The interpreter of the environment that they are in, installed by now.

    Raises:
        Unavailable: PyPI can't be had.
    """
    folder = CACHE / "peers"
    CACHE.mkdir(parents=True, exist_ok=True)
    wanted = "\n".join(REQUIREMENTS)
    with (CACHE / "peers.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = folder / ".installed"
        if not done.exists() or done.read_text() != wanted:
            print(f"installing {', '.join(REQUIREMENTS)} (once)", file=sys.stderr)
            shutil.rmtree(folder, ignore_errors=True)
            venv.create(folder, with_pip=False, symlinks=os.name == "posix")
            pip = (sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"))
            install([*pip, "install", "--quiet", "--no-input", *REQUIREMENTS], "pip install", _SECONDS, _reason)
            done.write_text(wanted)
    return folder / "bin" / "python"


def _request(peer: str, entries: Sequence[Entry], queries: Sequence[str], depth: int, rounds: int = 1) -> bytes:
    tools = [
        {
            "id": one.id,
            "server": one.server,
            "name": one.name,
            "description": one.description,
            "parameters": one.input_schema,
        }
        for one in entries
    ]
    return json.dumps(
        {"peer": peer, "tools": tools, "queries": list(queries), "depth": depth, "rounds": rounds}
    ).encode()


def _reason(stderr: str) -> str:
    errors = re.findall(r"^ERROR: (.+)", stderr, re.MULTILINE)
    return errors[-1] if errors else ""
