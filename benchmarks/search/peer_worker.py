"""Another search over tools, in an environment of its own: JSON on stdin, its rankings and times on stdout.

`{"peer": "fastmcp" | "bm25s", "tools": [{"id", "server", "name", "description", "parameters"}], "queries": [...],
"depth": 10}`. Nothing of this project is imported here: its packages are not in that environment.
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

Build = Callable[[list[dict[str, Any]], int], Callable[[str], list[int]]]


def fastmcp(tools: list[dict[str, Any]], depth: int) -> Callable[[str], list[int]]:
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
    index = bm25._BM25Index()
    index.build([bm25._extract_searchable_text(tool) for tool in mounted])
    return lambda query: list(index.query(query, depth))


def bm25s(tools: list[dict[str, Any]], depth: int) -> Callable[[str], list[int]]:
    """bm25s with Snowball's stems and its English stop words, over server, name, description and parameters, with identifiers in words."""
    package = import_module("bm25s")
    stemmer = import_module("Stemmer").Stemmer("english")

    def tokens(texts: list[str], *, as_ids: bool) -> Any:
        return package.tokenize(texts, stopwords="en", stemmer=stemmer, show_progress=False, return_ids=as_ids)

    index = package.BM25()
    index.index(tokens([_text(tool) for tool in tools], as_ids=True), show_progress=False)
    count = min(depth, len(tools))

    def search(query: str) -> list[int]:
        asked = tokens([_words(query)], as_ids=False)
        if not asked[0]:
            return []
        found, scores = index.retrieve(asked, k=count, show_progress=False)
        return [int(one) for one, score in zip(found[0], scores[0], strict=True) if score > 0]

    return search


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
    build, package = {"fastmcp": (fastmcp, "fastmcp-slim"), "bm25s": (bm25s, "bm25s")}[asked["peer"]]
    build([{"id": "0", "server": "weather", "name": "forecast", "description": "", "parameters": {}}], 1)(
        "rain"
    )  # imports
    before = _resident_mib()
    started = time.perf_counter()
    search = build(asked["tools"], asked["depth"])
    built_s = time.perf_counter() - started
    grown_mib = _resident_mib() - before
    rankings, times_ms = [], []
    for query in asked["queries"]:
        started = time.perf_counter()
        found = search(query)
        times_ms.append((time.perf_counter() - started) * 1e3)
        rankings.append([asked["tools"][one]["id"] for one in found])
    answer = {
        "version": version(package),
        "rankings": rankings,
        "built_s": built_s,
        "times_ms": times_ms,
        "grown_mib": grown_mib,
    }
    json.dump(answer, sys.stdout)


def _resident_mib() -> float:
    with open("/proc/self/statm") as file:  # noqa: PTH123
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


if __name__ == "__main__":
    main()
