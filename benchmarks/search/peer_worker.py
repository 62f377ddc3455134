"""Another search over tools, in an environment of its own: JSON on stdin, its rankings and times on stdout.

`{"peer": "fastmcp" | "bm25s", "tools": [{"id", "server", "name", "description", "parameters"}], "queries": [...],
"depth": 10, "rounds": 1}`. Nothing of this project is imported here: its packages are not in that environment.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import time
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from typing import Any

Search = Callable[[str], list[int]]
"""A query → the numbers of the tools found, best first."""


Prepare = Callable[[list[dict[str, Any]], int], Callable[[], Search]]
"""Tools and how many are to be found → what makes the index; only that is timed."""


def fastmcp(tools: list[dict[str, Any]], depth: int) -> Callable[[], Search]:
    """The index behind FastMCP's `BM25SearchTransform`, over the texts that it takes of tools that are mounted.

    Its own search also hashes all texts at each query to see whether they changed; that is left out.
    """
    bm25 = import_module("fastmcp.server.transforms.search.bm25")
    kind = import_module("fastmcp.tools.base").Tool
    mounted = [
        kind(
            name=f"{tool['server']}_{tool['name']}",
            description=tool["description"],
            parameters=tool["parameters"] or {},
        )
        for tool in tools
    ]

    def build() -> Search:
        index = bm25._BM25Index()
        index.build([bm25._extract_searchable_text(tool) for tool in mounted])
        return lambda query: list(index.query(query, depth))

    return build


def bm25s(tools: list[dict[str, Any]], depth: int) -> Callable[[], Search]:
    """bm25s with Snowball's stems and its English stop words; over server, name, description and parameters, and with
    identifiers in words."""
    package = import_module("bm25s")
    stemmer = import_module("Stemmer").Stemmer("english")

    def tokens(texts: list[str], *, as_ids: bool) -> Any:
        return package.tokenize(texts, stopwords="en", stemmer=stemmer, show_progress=False, return_ids=as_ids)

    def build() -> Search:
        index = package.BM25()
        index.index(tokens([_text(tool) for tool in tools], as_ids=True), show_progress=False)

        def search(query: str) -> list[int]:
            asked = tokens([_words(query)], as_ids=False)
            if not asked[0]:
                return []
            found, scores = index.retrieve(asked, k=min(depth, len(tools)), show_progress=False)
            return [int(one) for one, score in zip(found[0], scores[0], strict=True) if score > 0]

        return search

    return build


def _text(tool: dict[str, Any]) -> str:
    parts = [tool["server"], tool["name"], tool["description"]]
    properties = (tool["parameters"] or {}).get("properties")
    for name, schema in properties.items() if isinstance(properties, dict) else ():
        parts += [name, str(schema.get("description") or "") if isinstance(schema, dict) else ""]
    return _words(" ".join(parts))


def _words(text: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[_\-./]", " ", text)


def main() -> None:
    logging.disable(logging.CRITICAL)
    asked = json.load(sys.stdin)
    peers: dict[str, tuple[Prepare, str]] = {"fastmcp": (fastmcp, "fastmcp-slim"), "bm25s": (bm25s, "bm25s")}
    prepare, package = peers[asked["peer"]]
    one = {"id": "0", "server": "weather", "name": "forecast", "description": "", "parameters": {}}
    prepare([one], 1)()("rain")  # imports what it needs
    build = prepare(asked["tools"], asked["depth"])
    before = _resident_mib()
    started = time.perf_counter(), time.process_time()
    search = build()
    built_s = _since(started)
    grown_mib = _resident_mib() - before
    rankings, times_ms = [], []
    for query in asked["queries"]:
        times = []
        for _ in range(asked["rounds"]):
            started = time.perf_counter(), time.process_time()
            found = search(query)
            times.append(_since(started) * 1e3)
        times_ms.append(min(times))
        rankings.append([asked["tools"][one]["id"] for one in found])
    answer = {
        "version": version(package),
        "rankings": rankings,
        "built_s": built_s,
        "times_ms": times_ms,
        "grown_mib": grown_mib,
    }
    json.dump(answer, sys.stdout)


def _since(started: tuple[float, float]) -> float:
    """What passed, or what the processor worked if that is less: as for ours."""
    return min(time.perf_counter() - started[0], time.process_time() - started[1])


def _resident_mib() -> float:
    with open("/proc/self/statm") as file:  # noqa: PTH123
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


if __name__ == "__main__":
    main()
