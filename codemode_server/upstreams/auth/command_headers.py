"""Headers that a command of the person prints, such as a token that lives for an hour.

The command runs before each new connection, and once more when the server answers 401, but not more often than every
few seconds. It prints a JSON object of names and texts. They replace `headers` of the same names, go to the origin of
the server only, and are masked as secrets of the configuration are.
"""

from __future__ import annotations

import json
import logging
import math
import os
import re
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread

from codemode_server.domain.errors import SecretUnavailable
from codemode_server.secrets.commands import CommandRun, output_of, words_of
from codemode_server.support.setting_types import HEADER_NAME

logger = logging.getLogger(__name__)

_MAX_HEADERS = 100
_AGAIN_S = 5.0
"""The shortest time between two runs because of a 401: a server may answer it to everything."""
_MIN_SECRET_CHARACTERS = 6
_WORDS = re.compile(r"[a-z]+(?:[ ./_-][a-z]+)*")
"""Matches words that are no secret, and would be masked in every text: `production`, `application/json`."""
_SCHEME = re.compile(r"[A-Za-z]+ +(\S.*)", re.DOTALL)

Headers = Mapping[str, str]


class CommandHeaders:
    def __init__(
        self,
        server: str,
        url: str,
        command: str,
        *,
        mask: Callable[[frozenset[str]], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`mask` is called with what must not be shown, before it is used."""
        self._server = server
        self._url = url
        self._command = command
        self._mask = mask
        self._clock = clock
        self._lock = anyio.Lock()
        self._headers: Headers = {}
        self._refused_at = -math.inf

    @property
    def current(self) -> Headers:
        """Headers that the command printed last."""
        return self._headers

    async def renew(self) -> Headers:
        """Run the command. Raises `SecretUnavailable`: it failed, or printed something else."""
        async with self._lock:
            return await self._run()

    async def after_refusal(self, sent: Headers) -> Headers | None:
        """Other headers than those that the server refused; None if there are none."""
        async with self._lock:
            if self._headers is sent:
                if self._clock() - self._refused_at < _AGAIN_S:
                    return None
                self._refused_at = self._clock()
                try:
                    await self._run()
                except SecretUnavailable as error:
                    logger.warning("upstream %r: %s", self._server, error)
            return self._headers if self._headers != sent else None

    async def _run(self) -> Headers:
        # Claude Code's names, so that programs written for it work.
        names = {"CLAUDE_CODE_MCP_SERVER_NAME": self._server, "CLAUDE_CODE_MCP_SERVER_URL": self._url}
        run = CommandRun()
        read = partial(output_of, self._command, env={**os.environ, **names}, cwd=Path.home(), run=run)
        try:
            output = await anyio.to_thread.run_sync(read, abandon_on_cancel=True)
        finally:
            run.end()  # if this is cancelled: the process may end before the thread
        headers = _parsed(output, words_of(self._command)[0])
        self._mask(frozenset(secret for value in headers.values() for secret in _secrets_in(value)))
        self._headers = headers
        return headers


def _parsed(output: str, program: str) -> dict[str, str]:
    try:
        headers = json.loads(output)
    except (ValueError, RecursionError):
        headers = None
    if not isinstance(headers, dict) or len(headers) > _MAX_HEADERS:
        raise SecretUnavailable(f"the command {program!r} has to print a JSON object of headers")
    for name, value in headers.items():
        if not HEADER_NAME.fullmatch(name):
            raise SecretUnavailable(f"the command {program!r} printed a name that no HTTP header can have")
        if not isinstance(value, str) or not value.isprintable() or not value.isascii():
            raise SecretUnavailable(f"the command {program!r} printed a value for {name} that no HTTP header can have")
    return headers


def _secrets_in(value: str) -> list[str]:
    scheme = _SCHEME.fullmatch(value)
    texts = [value, *([scheme[1]] if scheme else [])]
    return [text for text in texts if len(text) >= _MIN_SECRET_CHARACTERS and not _WORDS.fullmatch(text)]
