"""Turns the errors of a connection into one text without secrets of the configuration."""

from __future__ import annotations

import logging
import re
from typing import Any

from codemode_server.domain.errors import AnswerLost, CallError, ResultTooLarge, ToolFailed
from codemode_server.redaction import Redactor
from codemode_server.text import one_line
from codemode_server.upstreams._link import is_broken_off, is_end
from codemode_server.upstreams._listings import LIST_IS
from codemode_server.upstreams._messages import NOT_TAKEN, TOO_DEEP, TOO_LARGE, UNREADABLE
from codemode_server.upstreams.results import error_text
from codemode_server.upstreams.transports.registry import Transport

logger = logging.getLogger(__name__)

_HTTP_REFUSAL = "Server returned an error response"
"""mcp's whole message for an HTTP status of 400 and more without a JSON-RPC error in its body."""
_ADDRESS_REQUIRED = -32042
"""`URL_ELICITATION_REQUIRED` of the protocol, which mcp_types has."""
_MAX_ADDRESSES = 5
"""Maximum addresses of one error, in the log."""


class SessionExpired(Exception):
    """Raised when an HTTP server no longer knows the session: it was restarted. Nothing was done."""


def first_cause(error: BaseException) -> BaseException:
    """The error itself, without the groups that task groups wrap it in."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def why_not_connected(error: BaseException, transport: Transport, refused: list[str], redactor: Redactor) -> str:
    """Why an upstream is not connected, masked and cut; `refused` are the HTTP errors there were."""
    cause = first_cause(error)
    text = transport.why_ended()
    if text is None and isinstance(cause, TimeoutError):
        text = f"did not get through the handshake and tools/list in time{transport.why_unanswered()}"
    elif text is None and getattr(cause, "code", None) in NOT_TAKEN and not str(cause).startswith(LIST_IS):
        text = f"its answer to the handshake is {str(cause).partition(';')[0]}"
    elif text is None:
        text = transport.why_not_connected(cause, refused)
    return error_text(text or f"{str(cause) or type(cause).__name__}{transport.last_words()}", redactor)


def why_not_ready(transport: Transport, seconds: float, redactor: Redactor) -> str:
    """Message about an upstream that has not answered for so long, masked and cut."""
    text = f"has not answered the handshake and tools/list for {seconds:.0f} s{transport.why_unanswered()}"
    return error_text(text, redactor)


def outcome_unknown(what: str) -> str:
    """Says that a request (`what`: `tool 'x'` or `the resource 'y'`) may or may not have had its effect."""
    return f"whether {what} {'acted' if what.startswith('tool ') else 'was read'} is not known"


def call_error(error: Any, server: str, what: str, refused: list[str], redactor: Redactor) -> CallError:
    """An `MCPError` that answered a call of `what`, as the program is to see it: masked and cut. Raises
    `SessionExpired`: connect again and repeat the call."""
    message = str(error.message)
    if error.code in NOT_TAKEN:
        kind = ResultTooLarge if error.code in (TOO_LARGE, TOO_DEEP) else ToolFailed
        return kind(f"the result of {what} of server {server!r} is {error_text(message, redactor)}")
    if message.startswith(UNREADABLE):
        return ToolFailed(f"the result of {what} of server {server!r} is not a valid JSON-RPC message")
    status = refused[-1] if refused else ""
    # mcp says "Session terminated", servers "Session not found", "No valid session ID", "Server not initialized".
    if status.startswith(("400", "404")) and re.search("session|not initialized", message, re.IGNORECASE):
        raise SessionExpired
    if is_end(error) or is_broken_off(error):
        return AnswerLost(f"the connection to server {server!r} ended during the call; {outcome_unknown(what)}")
    if status and message in (_HTTP_REFUSAL, "Not Found"):
        return AnswerLost(f"server {server!r} answered with HTTP {status}")
    if error.code == _ADDRESS_REQUIRED:
        said, urls = error_text(message, redactor), ", ".join(_required_addresses(error.data))
        logger.warning("server %r needs you to open an address before it goes on: %s", server, urls or said)
        return ToolFailed(
            f"{what} of server {server!r} needs the user to open an address first, which is in the log of "
            f"codemode-server: {said}"
        )
    if isinstance(error.data, str) and error.data:
        message = f"{message}: {error.data}"
    return ToolFailed(error_text(message, redactor) or f"{what} failed with code {error.code} and no message")


def _required_addresses(data: Any) -> list[str]:
    listed = data.get("elicitations") if isinstance(data, dict) else None
    requests = listed[:_MAX_ADDRESSES] if isinstance(listed, list) else []
    urls = [request.get("url") for request in requests if isinstance(request, dict)]
    return [one_line(url, 500) for url in urls if isinstance(url, str)]
