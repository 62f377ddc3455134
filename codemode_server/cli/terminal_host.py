"""The person at the terminal as the host of a program: answers the forms that it shows, and its approvals."""

from __future__ import annotations

from typing import Any, TextIO

import anyio.to_thread

from codemode_server.cli.person_at_terminal import terminal
from codemode_server.domain.errors import CodemodeError
from codemode_server.domain.input_requests import NO_HOST_INPUT, Feature, HostInput, InputRefused, InputRequest
from codemode_server.text import escaped, escaped_lines

_HELP = "(an empty line gives the default in brackets, or leaves the field out; `!` declines)"
_NUMBERS = {"integer": int, "number": float}
_YES, _NO = ("y", "yes", "true"), ("n", "no", "false")


def terminal_host() -> HostInput:
    """The person, if there is a terminal; else nobody."""
    try:
        with terminal():
            return _TerminalHost()
    except CodemodeError:
        return NO_HOST_INPUT


class _TerminalHost:
    """One form at a time."""

    features: frozenset[Feature] = frozenset({Feature.ELICITATION})

    def __init__(self) -> None:
        self._lock = anyio.Lock()

    async def ask(self, request: InputRequest) -> dict[str, Any]:
        if request.feature is not Feature.ELICITATION:
            raise InputRefused("a terminal shows forms only")
        async with self._lock:
            return await anyio.to_thread.run_sync(_answer, dict(request.params), abandon_on_cancel=True)


def _answer(params: dict[str, Any]) -> dict[str, Any]:
    schema = params["requestedSchema"]
    required = schema.get("required", [])
    with terminal() as (read, write):
        print(f"\n{escaped_lines(str(params['message']))}\n{_HELP}", file=write)
        content: dict[str, Any] = {}
        for name, field in schema.get("properties", {}).items():
            while True:
                given = _ask(name, field, read, write)
                if given in ("", "!") and (given == "!" or name in required):
                    if given == "!":
                        return {"action": "decline"}
                    print("  is needed", file=write)
                    continue
                try:
                    if given:
                        content[name] = _value(field, given)
                    break
                except ValueError:
                    print(f"  must be of the type {field.get('type')}", file=write)
    return {"action": "accept", "content": content}


def _ask(name: str, field: dict[str, Any], read: TextIO, write: TextIO) -> str:
    options = _options(field)
    print(f"{escaped(str(field.get('title') or name))}", file=write)
    if description := field.get("description"):
        print(f"  {escaped(str(description))}", file=write)
    for number, option in enumerate(options, start=1):
        print(f"  {number}. {escaped(option)}", file=write)
    default = field.get("default")
    print(f"{'' if default is None else f'[{escaped(str(default))}] '}> ", end="", file=write, flush=True)
    line = read.readline()
    if not line:
        return "!"
    return line.strip() or ("" if default is None else str(default))


def _value(field: dict[str, Any], given: str) -> Any:
    options, kind = _options(field), field.get("type")
    if options:
        return options[int(given) - 1] if given.isdigit() and 0 < int(given) <= len(options) else given
    if kind == "boolean":
        if given.casefold() not in (*_YES, *_NO):
            raise ValueError
        return given.casefold() in _YES
    return _NUMBERS[kind](given) if kind in _NUMBERS else given


def _options(field: dict[str, Any]) -> list[str]:
    choices = field.get("enum") or [it.get("const") for it in field.get("oneOf", [])]
    return [str(it) for it in choices]
