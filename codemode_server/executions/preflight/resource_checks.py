"""Calls of `resources.read(…)` in a program's text: a name that the server does not list, wrong template arguments.

A URI that is not listed is left alone: a result of the program may link to it.
"""

from __future__ import annotations

import ast

from codemode_server.catalog.resources import ServerResources
from codemode_server.executions.preflight.call_checks import NOT_CONSTANT, constant_of

METHODS = ("list", "read", "templates")
_ANY = "any"
"""Stands for a value that the text does not show."""


def read_problem(resources: ServerResources, call: ast.Call) -> str:
    """Why the call fails; empty if it does not, or if the text does not show it."""
    if len(call.args) != 1 or any(keyword.arg is None for keyword in call.keywords):
        return ""
    named = constant_of(call.args[0])
    if named is NOT_CONSTANT or not isinstance(named, str):
        return ""
    if ":" in named and named not in resources.by_name:
        return ""
    values = {keyword.arg or "": constant_of(keyword.value) for keyword in call.keywords}
    shown = {name: _ANY if value is NOT_CONSTANT else value for name, value in values.items()}
    return resources.find(named, shown).problem


def no_method(resources: ServerResources, name: str) -> str:
    """The error for another attribute of `resources`."""
    return f"{resources.module} has no {name!r}; it has {resources.ways}"


def not_importable(resources: ServerResources, name: str) -> str:
    """The error for a name imported from the module of `resources`."""
    usage = resources.usage(resources.of_words(name))
    return f"servers.{resources.server}.{resources.module} has no {name!r} to import; {usage}"
