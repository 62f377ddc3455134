"""The resources of one server: `from servers.docs import resources`, then `resources.read(…)`. Reading is a call.

A tool of the server that is called `resources` keeps that name; this object is then `resources_`.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

from .calls import Calls, ToolError, plain_arguments
from .files import File
from .values import resolve


class Resources:
    """The resources of a server, and the way to read them."""

    def __init__(self, calls: Calls, server: str, name: str) -> None:
        self._calls = calls
        self._server = server
        self._name = name

    def read(self, *given: Any, **arguments: Any) -> Any:
        """The resource of this URI or name: a file, or several in a list; in async code awaitable.

        `arguments` are those of a template; they may also be given as a dict, as those of tools. The URI may be given
        as `uri`, and may also be one that a result of this program links to.
        """
        named_by = list(given)
        if not named_by and "uri" in arguments:
            named_by = [arguments.pop("uri")]
        if len(named_by) == 2 and isinstance(named_by[1], dict):
            arguments = {**named_by.pop(), **arguments}
        if len(named_by) != 1:
            raise TypeError(
                f"{self._name}.read() takes the URI or name of a resource, and a template's arguments by name"
            )
        named = resolve(named_by[0])
        if isinstance(named, File):
            named = named.uri
        if isinstance(named, dict):  # as `list` gives them
            named = named.get("uri")
        if not isinstance(named, str):
            raise TypeError(f"{self._name}.read() takes the URI or name of a resource, not {type(named).__name__}")
        plain = plain_arguments(f"{self._name}.read", arguments)
        future = self._calls.begin_read(self._server, named, plain)
        return self._calls.give(future, f"{self._name}.read", sys._getframe(1))

    def templates(self) -> list[dict[str, Any]]:
        """The templates of the server as dicts with `name`, `uri` and `arguments`."""
        return [each for each in self._listed() if "arguments" in each]

    def __getattr__(self, name: str) -> Any:
        ways = "read(name_or_uri, **template_arguments), list() and templates()"
        raise AttributeError(f"{self.__dict__.get('_name', 'resources')} has no {name!r}; it has {ways}")

    def _listed(self) -> list[dict[str, Any]]:
        error = functools.partial(ToolError, server=self._server, tool=self._name, kind="unknown_tool")
        return [*self._calls.link.ask("resources", error, server=self._server)]

    def __repr__(self) -> str:
        name = self._name
        return f"<resources of servers.{self._server}: {name}.read(uri), {name}.list(), {name}.templates()>"

    def list(self) -> list[dict[str, Any]]:
        """The resources of the server as dicts with `name` and `uri`, without its templates."""
        return [each for each in self._listed() if "arguments" not in each]
