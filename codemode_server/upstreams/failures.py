"""Turns the errors of a connection into one text without secrets of the configuration."""

from __future__ import annotations

import html
import json
import logging
import re
from typing import Any
from urllib.parse import unquote

from codemode_server.config.live import LiveConfig
from codemode_server.domain.errors import AnswerLost, CallError, ResultTooLarge, ToolFailed, UpstreamUnavailable
from codemode_server.support.off_loop import LARGE_BYTES
from codemode_server.support.redaction import Redactor
from codemode_server.upstreams.answers import ConnectionEnded, RequestFailed, TaskLost
from codemode_server.upstreams.listings import LIST_IS
from codemode_server.upstreams.messages import NO_MESSAGE, NOT_TAKEN, TOO_DEEP, TOO_LARGE, UNREADABLE
from codemode_server.upstreams.results import error_text
from codemode_server.upstreams.transports.registry import NOT_SENT, Transport

logger = logging.getLogger(__name__)

_HTTP_REFUSAL = "Server returned an error response"
"""mcp's whole message for an HTTP status of 400 and more without a JSON-RPC error in its body."""
_BROKEN_OFF = ("SSE stream ended ", "SSE stream failed")
"""How mcp's message begins if streamable HTTP lost only this answer, and the connection is still open."""
_ADDRESS_REQUIRED = -32042
"""`URL_ELICITATION_REQUIRED` of the protocol, which mcp_types has."""
_BODY_CHARACTERS = 20_000
_REASON_CHARACTERS = 500
_MARKUP = re.compile(r"<(script|style)\b.*?(?:</\1[^<>]*>|\Z)|<[^<>]*>", re.IGNORECASE | re.DOTALL)
_REASONS = ("message", "error_description", "detail", "error", "errors", "reason", "title")
"""Fields of the body of an HTTP error that say why, the best first."""
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


def reason_in(body: bytes, redactor: Redactor) -> str:
    """Why a request was refused, on one line, masked and cut, from the body of an HTTP error: JSON, HTML or text; empty
    if it has none."""
    whole = body.decode("utf-8", "replace")
    # A secret that was cut with the body would not be recognised.
    known = len(whole) if len(body) < LARGE_BYTES else max(0, len(whole) - redactor.tail_bytes(0))
    text = redactor.head(whole, min(known, _BODY_CHARACTERS))
    if "\0" in text or text.count("\ufffd") > len(text) // 10:
        return ""  # an image, or compressed
    try:
        said = json.loads(whole)
    except (ValueError, RecursionError):
        said = html.unescape(_MARKUP.sub(" ", text))
    while isinstance(said, dict) and (reasons := [said[name] for name in _REASONS if said.get(name)]):
        said = reasons[0]
    said = redactor.visible(said if isinstance(said, str) else json.dumps(said, ensure_ascii=False))
    return error_text(" ".join(said.split()), redactor, _REASON_CHARACTERS)


def call_error(
    error: RequestFailed, server: str, what: str, refused: list[str], config: LiveConfig, why_lost: str = ""
) -> CallError:
    """The error of a call of `what`, as the program is to see it: masked and cut. `why_lost` says why
    the connection ended. Raises `SessionExpired`: connect again and repeat the call."""
    redactor = config.redactor
    message = error.message
    if error.code in NOT_TAKEN:
        kind = ResultTooLarge if error.code in (TOO_LARGE, TOO_DEEP) else ToolFailed
        return kind(f"the result of {what} of server {server!r} is {error_text(message, redactor)}")
    if message.startswith(UNREADABLE):
        body = message.removeprefix(UNREADABLE[0]) if error.code == NO_MESSAGE else ""
        reason = reason_in(body.encode("utf-8", "replace"), redactor)
        said = f"the result of {what} of server {server!r} is not a valid JSON-RPC message"
        return AnswerLost(f"{said}{reason and f': {reason}'}; {outcome_unknown(what)}")
    if isinstance(error, TaskLost):
        why = error_text(message, redactor)
        return AnswerLost(f"server {server!r} lost the task that it made of {what}: {why}; {outcome_unknown(what)}")
    status = error_text(refused[-1], redactor) if refused else ""
    # mcp says "Session terminated", servers "Session not found", "No valid session ID", "Server not initialized".
    if status.startswith(("400", "404")) and re.search("session|not initialized", message, re.IGNORECASE):
        raise SessionExpired(f"HTTP {status}")
    if status.startswith(NOT_SENT) and (isinstance(error, ConnectionEnded) or message.startswith("Redirect to ")):
        return UpstreamUnavailable(f"server {server!r} {status}; nothing was called")
    if isinstance(error, ConnectionEnded) or message.startswith(_BROKEN_OFF):
        why = f"; it {why_lost}" if why_lost else ""
        return AnswerLost(f"the connection to server {server!r} ended during the call; {outcome_unknown(what)}{why}")
    if status and message in (_HTTP_REFUSAL, "Not Found"):
        # A 408 may come after the request, and a proxy answers for a server that has got it with 5xx.
        is_undone = status.startswith("4") and not status.startswith("408")
        said = f"server {server!r} answered with HTTP {status}"
        return ToolFailed(said) if is_undone else AnswerLost(f"{said}; {outcome_unknown(what)}")
    if requests := required_addresses(error):
        said = error_text(message, redactor)
        urls = ", ".join(redactor.line(_as_logged(it["url"], server, config), 500) for it in requests)
        logger.warning("server %r needs you to open an address before it goes on: %s", server, urls)
        return ToolFailed(
            f"{what} of server {server!r} needs the user to open an address first, which is in the log of "
            f"codemode-server: {said}"
        )
    if error.data not in (None, "", [], {}):
        data = error.data if isinstance(error.data, str) else json.dumps(error.data, ensure_ascii=False, default=str)
        message = message if data in message else ": ".join(filter(None, (message, data)))
    return ToolFailed(error_text(message, redactor) or f"{what} failed with code {error.code} and no message")


def _as_logged(url: str, server: str, config: LiveConfig) -> str:
    """An address as it came, unless it has personal data, also in percent-encoding."""
    plain = unquote(url)
    shown = config.logged(server, plain)
    return url if shown == plain else shown


def required_addresses(error: RequestFailed) -> list[dict[str, Any]]:
    """The requests to open an address in an error that says the user has to do that first; empty for others."""
    data = error.data if error.code == _ADDRESS_REQUIRED else None
    listed = data.get("elicitations") if isinstance(data, dict) else None
    requests = listed[:_MAX_ADDRESSES] if isinstance(listed, list) else []
    return [{**it, "mode": "url"} for it in requests if isinstance(it, dict) and isinstance(it.get("url"), str)]
