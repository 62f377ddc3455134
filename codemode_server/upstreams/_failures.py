"""Errors of a connection → one text that says what happened, with no secret of the configuration in it."""

from __future__ import annotations

import os
import re
import shutil
from typing import Any

from codemode_server.domain.errors import CallError, ResultTooDeep, ResultTooLarge, ToolFailed, UpstreamUnavailable
from codemode_server.redaction import Redactor
from codemode_server.settings import ServerSettings
from codemode_server.upstreams._link import LIST_IS, is_broken_off, is_end
from codemode_server.upstreams._messages import NOT_TAKEN, TOO_DEEP, TOO_LARGE
from codemode_server.upstreams.results import error_text
from codemode_server.upstreams.transports.http import HttpTransport, origin
from codemode_server.upstreams.transports.stdio import StdioTransport

_HTTP_REFUSAL = "Server returned an error response"
"""mcp's whole message for an HTTP status of 400 and more without a JSON-RPC error in its body."""
_UNREADABLE = ("Failed to parse JSON response: ", "Failed to parse SSE message: ")
"""How mcp's message begins for a body that it can't read. It ends with a part of the body, cut before it is masked."""


class SessionExpired(Exception):
    """Raised when an HTTP server no longer knows the session: it was restarted. Nothing was done."""


def first_cause(error: BaseException) -> BaseException:
    """The error itself, out of the groups that task groups wrap it in."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _is_missing(cause: BaseException, settings: ServerSettings) -> bool:
    """Whether the program does not exist. With an unreadable folder on PATH the system reports "permission denied"."""
    command = settings.command or ""
    if isinstance(cause, PermissionError) and "/" not in command:
        return shutil.which(command, mode=os.F_OK, path=settings.env.get("PATH")) is None
    return isinstance(cause, FileNotFoundError)


_WHERE_TO_GET = {
    "uvx": "; it comes with uv, see https://docs.astral.sh/uv/",
    "npx": "; it comes with Node, see https://nodejs.org/",
}


def why_not_connected(
    error: BaseException,
    settings: ServerSettings,
    transport: StdioTransport | HttpTransport,
    refused: list[str],
    redactor: Redactor,
) -> str:
    """Why an upstream is not connected, masked and cut; `refused` are the HTTP errors there were."""
    cause = first_cause(error)
    known, words = transport.why_ended(), transport.last_words()
    if known is not None:
        text = known
    elif isinstance(cause, TimeoutError):
        text = f"did not get through the handshake and tools/list in time{words}"
    elif isinstance(cause, FileNotFoundError | NotADirectoryError) and settings.cwd and cause.filename == settings.cwd:
        text = f"can't be started: there is no folder {settings.cwd!r}"
    elif settings.command is not None and _is_missing(cause, settings):
        text = f"can't be started: there is no program {settings.command!r}{_WHERE_TO_GET.get(settings.command, '')}"
    elif isinstance(cause, OSError) and settings.command is not None:
        text = f"can't be started: {cause.strerror or cause}"
    elif settings.url is not None and str(cause).startswith(_UNREADABLE):
        text = f"{origin(settings.url)} answered with something that is not a valid JSON-RPC message"
    elif getattr(cause, "code", None) in NOT_TAKEN and not str(cause).startswith(LIST_IS):
        text = f"its answer to the handshake is {str(cause).partition(';')[0]}"
    elif settings.url is not None and refused and (hasattr(cause, "code") or hasattr(cause, "response")):
        text = f"{origin(settings.url)} answered with HTTP {refused[-1]}{_sign_in(refused[-1], settings)}"
    elif settings.url is not None and not hasattr(cause, "code"):
        text = f"{origin(settings.url)} can't be reached: {str(cause) or type(cause).__name__}"
    else:
        text = f"{str(cause) or type(cause).__name__}{words}"
    return error_text(text, redactor)


def _sign_in(status: str, settings: ServerSettings) -> str:
    """Advice for a server that refuses for lack of credentials. Sign-in with OAuth is not supported yet."""
    if not status.startswith(("401", "403")):
        return ""
    if any(name.lower() == "authorization" for name in settings.headers):
        return ": it refuses the Authorization header of its entry in upstream.yaml"
    return ": it needs a token, as an Authorization header in its entry in upstream.yaml"


def outcome_unknown(what: str) -> str:
    """Says that a request (`what`: `tool 'x'` or `the resource 'y'`) may or may not have had its effect."""
    return f"whether {what} {'acted' if what.startswith('tool ') else 'was read'} is not known"


def call_error(error: Any, server: str, what: str, refused: list[str], redactor: Redactor) -> CallError:
    """An `MCPError` that answered a call of `what`, as the program is to see it: masked and cut.

    Raises:
        SessionExpired: connect again and repeat the call.
    """
    message = str(error.message)
    if error.code in NOT_TAKEN:
        kind = {TOO_LARGE: ResultTooLarge, TOO_DEEP: ResultTooDeep}.get(error.code, ToolFailed)
        return kind(f"the result of {what} of server {server!r} is {error_text(message, redactor)}")
    if message.startswith(_UNREADABLE):
        return ToolFailed(f"the result of {what} of server {server!r} is not a valid JSON-RPC message")
    status = refused[-1] if refused else ""
    # mcp says "Session terminated", servers "Session not found", "No valid session ID", "Server not initialized".
    if status.startswith(("400", "404")) and re.search("session|not initialized", message, re.IGNORECASE):
        raise SessionExpired
    if is_end(error) or is_broken_off(error):
        return UpstreamUnavailable(
            f"the connection to server {server!r} ended during the call; {outcome_unknown(what)}"
        )
    if status and message in (_HTTP_REFUSAL, "Not Found"):
        return UpstreamUnavailable(f"server {server!r} answered with HTTP {status}")
    if isinstance(error.data, str) and error.data:
        message = f"{message}: {error.data}"
    return ToolFailed(error_text(message, redactor) or f"{what} failed with code {error.code} and no message")
