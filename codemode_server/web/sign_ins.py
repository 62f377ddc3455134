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


@dataclass(slots=True)
class SignIn:
    """A sign-in that was begun on the page."""

    name: str
    url: str = ""
    """The address to open; empty if there is none (yet, any more)."""
    text: str = ""
    """How it ended; empty while it runs."""
    is_done: bool = False
    """True if the person is signed in now."""
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)

    @property
    def is_running(self) -> bool:
        return not self.text

    @property
    def address(self) -> tuple[str, str, str]:
        """The address in three pieces, of which the second is its host."""
        host = urlsplit(self.url).netloc
        before, _, after = self.url.partition(host) if host else (self.url, "", "")
        return before, host, after


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
        self._begun: dict[str, SignIn] = {}

    def begin(self, name: str) -> None:
        """Begin a sign-in to this server, unless one is under way.

        Raises:
            CodemodeError: too many are under way.
        """
        running = [it for it in self._begun.values() if it.is_running]
        if any(it.name == name for it in running):
            return
        if len(running) >= _MAX_RUNNING:
            raise CodemodeError(f"{_MAX_RUNNING} sign-ins are under way; finish or cancel one")
        self._begun[name] = begun = SignIn(name)
        self._tasks.start_soon(self._run, begun)

    def cancel(self, name: str) -> None:
        """End a sign-in that is under way."""
        if name in self._begun:
            self._begun[name].scope.cancel()

    def state(self, name: str) -> SignIn | None:
        """The sign-in that was begun last; None if there was none."""
        return self._begun.get(name)

    async def _run(self, it: SignIn) -> None:
        text = "it was cancelled; nothing was stored"
        with it.scope:
            text = await self._outcome(it)
        it.url = ""  # it has the `state`, which nobody needs any more
        it.text = text

    async def _outcome(self, it: SignIn) -> str:
        async def show(address: str, _: RedirectListener) -> None:
            it.url = checked_url(address)

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
