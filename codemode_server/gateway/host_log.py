"""The log messages of upstreams that one execution's host gets: masked, named after their server, and limited.

Whoever serves the host sends them. Messages beyond a limit are dropped and counted. Those that are too large or come
too fast are dropped before any work is done on them.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Awaitable, Callable

import anyio

from codemode_server.change_signal import ChangeSignal
from codemode_server.domain.log_messages import LogMessage, is_at_least
from codemode_server.gateway.forwarded_input import without_secrets
from codemode_server.gateway.host_input import HostInput
from codemode_server.off_loop import is_large
from codemode_server.redaction import Redactor

MAX_MESSAGES = 200
"""Messages of one execution."""
MAX_TOTAL_CHARACTERS = 64 * 1024
MAX_MESSAGE_CHARACTERS = 2_000
MAX_BURST, MESSAGES_PER_SECOND = 30, 10.0
_MAX_NAME_CHARACTERS = 100
OWN_LOGGER = "codemode-server"


class HostLog:
    """The messages of one execution that wait to be sent."""

    def __init__(self) -> None:
        self._waiting: deque[LogMessage] = deque()
        self._news = ChangeSignal()
        self._taken = self._characters = self._dropped = 0
        self._allowance, self._refilled_at = float(MAX_BURST), 0.0

    def take(
        self, server: str, message: LogMessage, redactor: Redactor, now: float, protect: Callable[[str], str] = str
    ) -> None:
        """Take a message of the server of this raw name; `now` in seconds. `protect` replaces personal data."""
        if not self._has_room(now) or is_large([message.data, message.logger]):
            self._dropped += 1
            return
        self._allowance -= 1
        text = _text(message, redactor, protect)
        if self._characters + len(text) > MAX_TOTAL_CHARACTERS:
            self._dropped += 1
            return
        self._taken, self._characters = self._taken + 1, self._characters + len(text)
        self._waiting.append(LogMessage(message.level, _logger(server, message, redactor, protect), text))
        self._wake()

    async def wait(self) -> None:
        """Wait until there are messages."""
        while not self._waiting:
            await self._news.wait()

    async def send_all(self, send: Callable[[LogMessage], Awaitable[None]]) -> None:
        """Send the waiting messages; if this is cancelled, those that were not sent still wait."""
        while self._waiting:
            await send(self._waiting[0])
            self._waiting.popleft()

    def tell_dropped(self) -> None:
        """Add a message about those that were dropped since the last time."""
        if self._dropped:
            count, self._dropped = self._dropped, 0
            text = f"{count:,} more log messages of MCP servers were dropped, since they came too fast or were too long"
            self._waiting.append(LogMessage("warning", OWN_LOGGER, text))

    def _has_room(self, now: float) -> bool:
        refill = MESSAGES_PER_SECOND * (now - self._refilled_at)
        self._allowance, self._refilled_at = min(float(MAX_BURST), self._allowance + refill), now
        return self._taken < MAX_MESSAGES and self._allowance >= 1

    def _wake(self) -> None:
        self._news.notify()


class CallLog:
    """Implements `LogTaker` for one call."""

    def __init__(
        self, log: HostLog, server: str, host: HostInput, redactor: Redactor, protect: Callable[[str], str]
    ) -> None:
        self._log = log
        self._server = server
        self._host = host
        self._redactor = redactor
        self._protect = protect

    @property
    def level(self) -> str | None:
        return self._host.log_level

    def take(self, message: LogMessage) -> None:
        if is_at_least(message.level, self.level):
            self._log.take(self._server, message, self._redactor, anyio.current_time(), self._protect)


def _text(message: LogMessage, redactor: Redactor, protect: Callable[[str], str]) -> str:
    """The message as a text without secrets and personal data, and without characters that nobody sees."""
    data = without_secrets(message.data, redactor)
    text = data if isinstance(data, str) else redactor.text(json.dumps(data, ensure_ascii=False))
    is_whole = len(text) <= MAX_MESSAGE_CHARACTERS
    text = protect(text[: 2 * MAX_MESSAGE_CHARACTERS])  # what is cut in two would not be recognised
    return text if is_whole else text[:MAX_MESSAGE_CHARACTERS] + "…"


def _logger(server: str, message: LogMessage, redactor: Redactor, protect: Callable[[str], str]) -> str:
    own = redactor.line(protect((message.logger or "")[: 2 * _MAX_NAME_CHARACTERS]), _MAX_NAME_CHARACTERS)
    return f"{server}/{own}" if own else server
