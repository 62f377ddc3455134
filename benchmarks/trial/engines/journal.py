"""What the two engines share: a journal of calls, a server that keeps one, and the commands.

The journal of a run is the state: a line for each message of the user and for each call, in their order. A server
that starts again makes the calls of its journal first, and a check makes them all.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from tests.example_servers.plain import Server

Calls = list[tuple[str, dict[str, Any]]]


class Engine(Protocol):
    def tasks(self) -> Iterator[dict[str, Any]]:
        """Those that this trial has: name, messages, system, servers, reference calls of each message, answer."""

    def tools(self, task: str, server: str) -> tuple[Iterable[tuple[str, str, dict[str, Any]]], Callable[..., str]]:
        """Name, description and schema of each, and a function that calls one by name and arguments."""

    def check(self, task: str, messages: Sequence[Calls], answers: Sequence[str]) -> str | None:
        """The reason why these calls of each message, and these answers, don't solve a task."""


def main(engine: Engine, arguments: Sequence[str]) -> None:
    """`tasks`, `serve TASK SERVER JOURNAL`, or `check TASK JOURNAL` with the answers on stdin."""
    match arguments:
        case ["tasks"]:
            print(json.dumps(list(engine.tasks())))
        case ["serve", task, server, journal]:
            _serve(server, *engine.tools(task, server), Path(journal))
        case ["check", task, journal]:
            print(json.dumps(engine.check(task, _messages(Path(journal)), json.load(sys.stdin))))
        case _:
            sys.exit(main.__doc__)


def _serve(
    name: str, tools: Iterable[tuple[str, str, dict[str, Any]]], call: Callable[..., str], journal: Path
) -> None:
    server, own = Server(name), set()
    for tool, description, schema in tools:
        own.add(tool)
        server.tool(description, inputSchema=schema)(_tool(tool, call, journal))
    for tool, arguments in (each for calls in _messages(journal) for each in calls):
        if tool in own:
            attempt(call, tool, arguments)
    server.run()


def _tool(name: str, call: Callable[..., str], journal: Path) -> Callable[..., Any]:
    def run(**arguments: Any) -> Any:
        with journal.open("a") as file:
            file.write(json.dumps({"tool": name, "arguments": arguments}) + "\n")
        return call(name, arguments)

    run.__name__ = name
    return run


def attempt(call: Callable[..., str], name: str, arguments: Mapping[str, Any]) -> None:
    """Make a call again, which failed if it fails."""
    with suppress(Exception):  # an engine fails with anything
        call(name, arguments)


def _messages(journal: Path) -> list[Calls]:
    messages: list[Calls] = []
    for line in journal.read_text().splitlines():
        record = json.loads(line)
        if "message" in record:
            messages.append([])
        else:
            messages[-1].append((record["tool"], record["arguments"]))
    return messages
