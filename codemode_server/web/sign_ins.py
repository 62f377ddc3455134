"""The sign-ins that the page of servers has begun: each with the address to open, and how it ended.

The page gets the address alone. The code of the redirect, the verifier and the tokens stay where the sign-in is made.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from codemode_server.cli.signing_in import WAIT_S, NobodySignedIn, http_server, sign_in
from codemode_server.config import LoadedSettings
from codemode_server.domain.errors import CodemodeError
from codemode_server.gateway.forwarded_input import checked_url
from codemode_server.redaction import Redactor
from codemode_server.web.page_products import MAX_TEXT_CHARACTERS, failure_text

if TYPE_CHECKING:
    from codemode_server.upstreams.auth.redirect_listener import RedirectListener

_MAX_RUNNING = 5
_AGAIN = "start the sign-in again"


@dataclass(frozen=True, slots=True)
class SignInState:
    """A sign-in that was begun on the page."""

    is_running: bool
    is_done: bool
    """Whether the person is signed in now."""
    text: str
    """How it ended; empty while it runs."""
    address: tuple[str, str, str]
    """The address to open in three pieces, of which the second is its host; all empty if there is none (yet, any
    more)."""


@dataclass(slots=True)
class _SignIn:
    name: str
    address: str = ""
    text: str = ""
    is_done: bool = False
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)


class BegunSignIns:
    """They run in the task group, one at a time for each server."""

    def __init__(
        self,
        tasks: TaskGroup,
        load: Callable[[], LoadedSettings],
        on_done: Callable[[str], object],
        *,
        wait_s: float = WAIT_S,
    ) -> None:
        """`load` reads the configuration and may block; `on_done` is called with the name of a server after a sign-in
        to it."""
        self._wait_s = wait_s
        self._tasks = tasks
        self._load = load
        self._on_done = on_done
        self._begun: dict[str, _SignIn] = {}

    def begin(self, name: str) -> None:
        """Begin a sign-in to this server, unless one is under way.

        Raises:
            CodemodeError: too many are under way.
        """
        running = [it for it in self._begun.values() if not it.text]
        if any(it.name == name for it in running):
            return
        if len(running) >= _MAX_RUNNING:
            raise CodemodeError(f"{_MAX_RUNNING} sign-ins are under way; finish or cancel one")
        self._begun[name] = begun = _SignIn(name)
        self._tasks.start_soon(self._run, begun)

    def cancel(self, name: str) -> None:
        """End a sign-in that is under way."""
        if name in self._begun:
            self._begun[name].scope.cancel()

    def state(self, name: str) -> SignInState | None:
        """The sign-in that was begun last; None if there was none."""
        if (it := self._begun.get(name)) is None:
            return None
        return SignInState(is_running=not it.text, is_done=it.is_done, text=it.text, address=_parts(it.address))

    async def _run(self, it: _SignIn) -> None:
        text = "it was cancelled; nothing was stored"
        with it.scope:
            text = await self._outcome(it)
        it.address = ""  # it has the `state`, which nobody needs any more
        it.text = text

    async def _outcome(self, it: _SignIn) -> str:
        async def show(address: str, _: RedirectListener) -> None:
            it.address = checked_url(address)

        redactor = Redactor()
        try:
            loaded = await anyio.to_thread.run_sync(self._load)
            redactor = Redactor(loaded.secrets)
            text = await sign_in(loaded, it.name, http_server(loaded, it.name), show, wait_s=self._wait_s)
        except NobodySignedIn as error:
            return f"{error}; {_AGAIN}"
        except Exception as error:  # noqa: BLE001 - what a server answers must not end the pages
            return f"{failure_text(error, f'the sign-in to {it.name}', redactor)}; nothing was stored"
        it.is_done = True
        self._on_done(it.name)
        return redactor.line(text, MAX_TEXT_CHARACTERS)


def _parts(address: str) -> tuple[str, str, str]:
    """The address in three pieces, of which the second is its host."""
    host = urlsplit(address).netloc
    before, _, after = address.partition(host) if host else (address, "", "")
    return before, host, after
