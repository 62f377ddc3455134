"""Calls to upstreams by their raw names, over the connection that is to be used for each."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from codemode_server.redaction import Redactor
from codemode_server.sandbox.contract import Reply
from codemode_server.upstreams.connection import Connection
from codemode_server.upstreams.progress import CallProgress
from codemode_server.upstreams.results import checked, resource_reply, to_reply


class RoutedCalls:
    """Implements `gateway.targets.Upstreams` but for the choice of the connection."""

    def __init__(self, redactor: Callable[[], Redactor]) -> None:
        self._redactor = redactor

    def _using(self, server: str) -> AbstractContextManager[Connection]:
        """The connection for a call to the server of this raw name, held while the call lasts.

        Raises:
            UnknownTool: no such server.
            UpstreamUnavailable: its entry can't be used.
        """
        raise NotImplementedError

    async def call_tool(
        self,
        server: str,
        tool: str,
        arguments: dict[str, Any],
        *,
        progress: CallProgress | None = None,
        revision: int | None = None,
        definition: str = "",
    ) -> Reply:
        """Call a tool, both by their raw names. Cancelling this cancels the call at the upstream.

        What the upstream reports meanwhile is written to `progress`. `revision`: that of the configuration under which
        the call was allowed; None: any. `definition`: the digest of the tool's definition at that time; empty: any.

        Raises:
            UnknownTool: no such server.
            DecisionOutdated: the configuration has another revision now, or the tool another definition; nothing was
                sent.
            ToolFailed, ResultTooLarge, ResultTooDeep, CallTimedOut, UpstreamUnavailable: as their docstrings say.
        """
        with self._using(server) as connection:
            declares = connection.declares_output(tool)
            read = partial(to_reply, declares_output=declares, redactor=self._redactor())
            return await connection.requests.call_tool(tool, arguments, read, progress, revision, definition)

    async def call_raw(
        self,
        server: str,
        tool: str,
        arguments: dict[str, Any],
        *,
        progress: CallProgress | None = None,
        revision: int | None = None,
        definition: str = "",
    ) -> dict[str, Any]:
        """As `call_tool`, but the result as the upstream sent it; an `isError` in it is not raised."""
        with self._using(server) as connection:
            return await connection.requests.call_tool(tool, arguments, checked, progress, revision, definition)

    async def read_resource(
        self, server: str, uri: str, *, progress: CallProgress | None = None, revision: int | None = None
    ) -> Reply:
        """Read a resource of a server by its raw name; raises as `call_tool` does."""
        read = partial(resource_reply, uri, redactor=self._redactor())
        with self._using(server) as connection:
            return await connection.requests.read_resource(uri, read, progress, revision)

    async def get_prompt(
        self,
        server: str,
        name: str,
        arguments: dict[str, Any],
        *,
        progress: CallProgress | None = None,
        revision: int | None = None,
    ) -> dict[str, Any]:
        """A prompt of a server, by its raw names, as it came; raises as `call_tool` does."""
        with self._using(server) as connection:
            return await connection.requests.get_prompt(name, arguments, checked, progress, revision)
