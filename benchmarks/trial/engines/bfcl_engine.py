"""Eight multi-turn tasks of BFCL on its engine, four of them with long context, judged by its own checker.

The user's messages are fixed, and come one after each answer. Each class of its interfaces is a server.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.trial.engines import journal

PACKAGE = "bfcl_eval"
CHOSEN = {
    "multi_turn_base": {"0": "tie", "63": "direct", "90": "direct", "171": "tie"},
    "multi_turn_long_context": {"18": "tie", "70": "direct", "113": "code", "196": "tie"},
}
"""The numbers with the expected winner."""
TYPES = {"dict": "object", "float": "number"}
"""Names of types in its definitions that JSON Schema does not have."""


class Bfcl:
    def tasks(self) -> Iterator[dict[str, Any]]:
        for category, chosen in CHOSEN.items():
            for number, expected in chosen.items():
                entry, reference = _entry(f"{category}_{number}")
                owners = {name: owner for owner in entry["involved_classes"] for name in _methods(owner)}
                turns = [[_parsed(text, owners) for text in turn] for turn in reference]
                yield {
                    "name": entry["id"],
                    "expected": expected,
                    "system": "",
                    "messages": [turn[0]["content"] for turn in entry["question"]],
                    "servers": [owner.lower() for owner in entry["involved_classes"]],
                    "calls": [[[owner.lower(), name, arguments] for owner, name, arguments in turn] for turn in turns],
                    "answers": ["Done."] * len(turns),
                }

    def tools(self, task: str, server: str) -> tuple[Iterable[tuple[str, str, dict[str, Any]]], Callable[..., str]]:
        entry, _ = _entry(task)
        owner = next(it for it in entry["involved_classes"] if it.lower() == server)
        instance = _class(owner)()
        if owner not in _config().STATELESS_CLASSES:
            is_long = "long_context" in task
            instance._load_scenario(entry["initial_config"].get(owner, {}), long_context=is_long)
        excluded = entry.get("excluded_function") or []
        file = _data() / "multi_turn_func_doc" / _config().MULTI_TURN_FUNC_DOC_FILE_MAPPING[owner]
        definitions = [json.loads(line) for line in file.read_text().splitlines()]

        def call(name: str, arguments: dict[str, Any]) -> str:
            value = getattr(instance, name)(**arguments)
            return value if isinstance(value, str) else json.dumps(value, default=str)

        listed = (it for it in definitions if it["name"] not in excluded)
        return ((it["name"], it["description"], _schema(it["parameters"])) for it in listed), call

    def check(self, task: str, messages: Sequence[journal.Calls], answers: Sequence[str]) -> str | None:
        entry, reference = _entry(task)
        checker = importlib.import_module(f"{PACKAGE}.eval_checker.multi_turn_eval.multi_turn_checker")
        steps = [[[_written(*call)] for call in calls] for calls in messages]
        steps += [[] for _ in reference[len(steps) :]]
        found = checker.multi_turn_checker(steps, reference, entry, task.rpartition("_")[0], "trial")
        return None if found["valid"] else str(found["error_message"])


def _written(name: str, arguments: dict[str, Any]) -> str:
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"


def _parsed(text: str, owners: dict[str, str]) -> tuple[str, str, dict[str, Any]]:
    """The class, the name and the arguments of a call that is written in Python."""
    call = ast.parse(text, mode="eval").body
    assert isinstance(call, ast.Call)
    assert isinstance(call.func, ast.Name)
    name, owner = call.func.id, owners[call.func.id]
    positional = [ast.literal_eval(it) for it in call.args]
    named = {it.arg: ast.literal_eval(it.value) for it in call.keywords if it.arg}
    signature = inspect.signature(getattr(_class(owner)(), name))
    return owner, name, dict(signature.bind(*positional, **named).arguments)


def _schema(value: Any) -> Any:
    if isinstance(value, dict):
        kind = value.get("type")
        named = {"type": TYPES.get(kind, kind)} if isinstance(kind, str) else {}
        return {name: _schema(it) for name, it in value.items()} | named
    return [_schema(it) for it in value] if isinstance(value, list) else value


def _methods(owner: str) -> list[str]:
    return [name for name, _ in inspect.getmembers(_class(owner), inspect.isfunction) if not name.startswith("_")]


@cache
def _class(name: str) -> Any:
    return getattr(importlib.import_module(_config().CLASS_FILE_PATH_MAPPING[name]), name)


def _config() -> Any:
    return importlib.import_module(f"{PACKAGE}.constants.executable_backend_config")


def _data() -> Path:
    return Path(str(importlib.import_module(PACKAGE).__file__)).parent / "data"


def _entry(task: str) -> tuple[dict[str, Any], list[list[str]]]:
    """A task and its reference calls, for each message."""
    file = f"BFCL_v4_{task.rpartition('_')[0]}.json"
    found = [
        next(it for it in map(json.loads, (folder / file).read_text().splitlines()) if it["id"] == task)
        for folder in (_data(), _data() / "possible_answer")
    ]
    return found[0], found[1]["ground_truth"]


if __name__ == "__main__":
    journal.main(Bfcl(), sys.argv[1:])
