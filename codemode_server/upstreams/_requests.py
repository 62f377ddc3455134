"""The requests of programs to one upstream: each waits for the open link, is sent once, and has a bounded wait.

The connection's owner task opens and closes links; requests run in the tasks of their callers.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import anyio

from codemode_server.domain.calls import RetryReason
from codemode_server.domain.errors import CallTimedOut, DecisionOutdated, SignInRequired, UpstreamUnavailable
from codemode_server.domain.input_requests import InputRefused, InputRequest
from codemode_server.settings import ServerSettings
from codemode_server.upstreams._calls_in_flight import CallInFlight, CallsInFlight
from codemode_server.upstreams._connection_deps import ConnectionDeps
from codemode_server.upstreams._exchange import Exchange
from codemode_server.upstreams._failures import SessionExpired, call_error, outcome_unknown
from codemode_server.upstreams._link import Answer, Link, is_end
from codemode_server.upstreams.progress import CallProgress
from codemode_server.upstreams.results import error_text
from codemode_server.upstreams.transports.registry import refusals, transport_of

logger = logging.getLogger(__name__)

T = TypeVar("T")
Read = Callable[[dict[str, Any]], T]
"""Converts a result, as the upstream sent it, to a value."""


class Requests:
    """Calls of tools, reads of resources and gets of prompts over the links of one connection."""

    def __init__(
        self,
        name: str,
        deps: ConnectionDeps,
        *,
        settings: Callable[[], ServerSettings],
        is_task: Callable[[str], bool],
        digest_of: Callable[[str], str],
        ready_link: Callable[[int | None], Awaitable[Link]],
    ) -> None:
        """`is_task` says of a tool's raw name whether it has to run as a task, `digest_of` what its definition is now;
        empty if that is not known. `ready_link` waits for the open link of
        the connection; it raises `DecisionOutdated` and `UpstreamUnavailable`."""
        self._name = name
        self._deps = deps
        self._settings = settings
        self._is_task = is_task
        self._digest_of = digest_of
        self._ready_link = ready_link
        self._starts_process = transport_of(settings()).starts_process
        self.in_flight = CallsInFlight()
        self.last_link: Link | None = None
        """The link of the last request; over another link, the server has lost its state in memory."""

    async def call_tool(
        self,
        tool: str,
        arguments: dict[str, Any],
        read: Read[T],
        progress: CallProgress | None,
        revision: int | None,
        definition: str = "",
    ) -> T:
        """Call a tool by its raw name and return what `read` makes of its result, in a thread if that is large.
        Cancelling this cancels it at the server.

        What the server reports meanwhile is written to `progress`. `revision` is that of the configuration under which
        the call was allowed; None: any. `definition`: the digest of the tool's definition at that time; empty: any.

        Raises:
            DecisionOutdated: the configuration has another revision now, or the tool another definition; nothing was
                sent.
            SignInRequired: the person has to sign in first; nothing was sent.
            UpstreamUnavailable: the upstream is not connected, or was lost while the call was on its way.
            CallTimedOut: neither an answer nor a progress report for the server's `timeout`; waiting for its start is
                not counted.
            ToolFailed: the upstream answered with a protocol error, or with what can't be read. (`isError` is for
                `results` to see.)
            ResultTooLarge: the answer has too many bytes or values.
            ResultTooDeep: the answer is nested too deep.
        """
        params: dict[str, Any] = {"name": tool, "arguments": arguments}
        if self._is_task(tool):
            limits = self._deps.config.settings.limits
            params["task"] = {"ttl": math.ceil(1e3 * (limits.upstream_seconds + limits.input_seconds))}

        def require_unchanged() -> None:
            if definition and (now := self._digest_of(tool)) and now != definition:
                raise DecisionOutdated(f"server {self._name!r} has changed tool {tool!r} meanwhile")

        return await self._ask("tools/call", params, f"tool {tool!r}", read, progress, revision, require_unchanged)

    async def read_resource(self, uri: str, read: Read[T], progress: CallProgress | None, revision: int | None) -> T:
        """Read a resource and return what `read` makes of the result; all as for `call_tool`."""
        what = f"the resource {self._deps.redactor().head(uri, 200)!r}"
        return await self._ask("resources/read", {"uri": uri}, what, read, progress, revision)

    async def get_prompt(
        self, name: str, arguments: dict[str, Any], read: Read[T], progress: CallProgress | None, revision: int | None
    ) -> T:
        """Get a prompt and return what `read` makes of the result; all as for `call_tool`."""
        params = {"name": name, "arguments": arguments}
        return await self._ask("prompts/get", params, f"the prompt {name!r}", read, progress, revision)

    async def answer(self, request: InputRequest) -> dict[str, Any]:
        """Answer a request of an upstream of protocol 2025-11-25 or older, which belongs to a call.

        Raises:
            InputRefused: there is no answer.
        """
        try:
            return await self.in_flight.owner(request).answer(request)
        except InputRefused as refusal:
            logger.info("upstream %r: its %s was refused: %s", self._name, request.method, refusal)
            raise

    async def _ask(
        self,
        method: str,
        params: dict[str, Any],
        what: str,
        read: Read[T],
        progress: CallProgress | None,
        revision: int | None,
        check: Callable[[], None] = lambda: None,
    ) -> T:
        """`check` is called once the link is there, right before the request is sent."""
        progress = progress or CallProgress()
        for _ in range(2):
            link = await self._ready_link(revision)
            check()
            if not link.has_tasks:
                params.pop("task", None)
            if self.last_link not in (None, link):
                progress.restart = "restarted" if self._starts_process else "reconnected"
            self.last_link = link
            progress.begin_attempt()
            try:
                answer = await self._send(link, method, params, what, progress)
            except SessionExpired:
                progress.retry_reason = RetryReason.EXPIRED_SESSION
                link.lost.set()
            else:
                return await answer.read(read)
        raise UpstreamUnavailable(f"server {self._name!r} keeps forgetting its sessions; nothing was called")

    async def _send(self, link: Link, method: str, params: dict[str, Any], what: str, reported: CallProgress) -> Answer:
        from mcp.shared.exceptions import MCPError

        timeout_s = self._settings().timeout
        refused: list[str] = []
        token = refusals.set(refused)

        def take(progress: float, total: float | None, message: str | None) -> None:
            reported.take(progress, total, message, anyio.current_time(), self._deps.redactor())

        try:
            with anyio.move_on_after(timeout_s) as patience:
                call = CallInFlight(reported.input_provider, patience, timeout_s)
                with self.in_flight.one_more(call):
                    return await Exchange(link, call, take, lambda: self._ready_link(None)).run(method, params)
        except MCPError as error:
            if is_end(error):
                link.lost.set()
            if refused and refused[-1].startswith("401") and self._deps.tokens is not None:
                if self.in_flight.is_empty:  # the others get their answers, or their own 401
                    link.lost.set()
                said = self._deps.tokens.problem or f"answered with HTTP {refused[-1]}"
                problem = error_text(said, self._deps.redactor())
                kind = SignInRequired if self._deps.tokens.needs_person else UpstreamUnavailable
                raise kind(f"server {self._name!r} {problem}; nothing was called") from error
            raise call_error(error, self._name, what, refused, self._deps.redactor()) from error
        finally:
            refusals.reset(token)
        raise CallTimedOut(
            f"server {self._name!r} neither answered nor reported progress for {timeout_s:g} s"
            f" (servers.{self._name}.timeout in upstream.yaml); {outcome_unknown(what)}"
        )
