"""The sign-in to a server from its page: the person opens the page of the authorization server, and the state is shown
until the browser comes back. The address is what the server says, so its host is named before the person opens it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup
from starlette.requests import Request
from starlette.responses import Response

from codemode_server.config.loading import load_place
from codemode_server.domain.errors import CodemodeError
from codemode_server.features.pages.config_edits import ConfigEdits
from codemode_server.features.pages.server_forms import ServerForms
from codemode_server.features.pages.site import Site

if TYPE_CHECKING:
    from codemode_server.upstreams.auth.redirect_listener import RedirectListener

_SECONDS = 300.0
_FIRST_SECONDS = 10.0
"""Time for the servers to give the address, before the page says that it is awaited."""


@dataclass(slots=True)
class SignInAttempt:
    """One sign-in, as its page shows it."""

    address: str = ""
    """Where the person signs in; empty until the servers have said so."""
    listener: RedirectListener | None = None
    problem: str = ""
    done: str = ""
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    has_changed: anyio.Event = field(default_factory=anyio.Event)
    has_ended: anyio.Event = field(default_factory=anyio.Event)

    @property
    def is_running(self) -> bool:
        return not self.has_ended.is_set()

    @property
    def host(self) -> str:
        return urlsplit(self.address).netloc

    async def show(self, address: str, listener: RedirectListener) -> None:
        self.address, self.listener = address, listener
        self.has_changed.set()


class SignInForms:
    def __init__(self, site: Site, forms: ServerForms, edits: ConfigEdits, tasks: TaskGroup) -> None:
        """Sign-ins end with `tasks`."""
        self._site = site
        self._forms = forms
        self._edits = edits
        self._tasks = tasks
        self.attempts: dict[str, SignInAttempt] = {}
        """The last one of each server, by its raw name."""
        site.post("servers/{key}/sign-in", self._start)
        site.post("servers/{key}/sign-in/pasted", self._paste)

    async def _start(self, request: Request, _: Mapping[str, str]) -> Response:
        key = request.path_params["key"]
        name = await anyio.to_thread.run_sync(self._forms.name_of, key)
        while (former := self.attempts.get(name)) is not None and former.is_running:
            former.scope.cancel()
            await former.has_ended.wait()  # it may listen on the address that this one needs
        attempt = self.attempts[name] = SignInAttempt()
        self._tasks.start_soon(self._run, name, attempt)
        with anyio.move_on_after(_FIRST_SECONDS):
            await attempt.has_changed.wait()
        return self._site.redirect(f"servers/{key}")

    async def _run(self, name: str, attempt: SignInAttempt) -> None:
        try:
            with attempt.scope, anyio.fail_after(_SECONDS):
                loaded = await anyio.to_thread.run_sync(load_place, self._edits.place)
                # Most runs of the pages sign in nowhere, and never need the connections.
                signing_in: Any = await anyio.to_thread.run_sync(import_module, "codemode_server.records.signing_in")
                attempt.done = await signing_in.sign_in(loaded, name, attempt.show)
        except TimeoutError:
            attempt.problem = f"nobody signed in within {_SECONDS:g} s"
        except CodemodeError as error:
            attempt.problem = str(error)
        except Exception as error:  # noqa: BLE001 - the pages go on
            attempt.problem = f"{type(error).__name__}: {error}"
        finally:
            attempt.address, attempt.listener = "", None
            attempt.has_changed.set()
            attempt.has_ended.set()

    async def _paste(self, request: Request, form: Mapping[str, str]) -> Response:
        """Take the address to which a browser on another machine was sent."""
        key = request.path_params["key"]
        name = await anyio.to_thread.run_sync(self._forms.name_of, key)
        attempt = self.attempts.get(name)
        if attempt is None or attempt.listener is None:
            raise CodemodeError("no sign-in waits for this address (any more); start it again")
        if wrong := attempt.listener.take(form.get("address", "")):
            raise CodemodeError(f"{wrong}; paste the whole address to which the browser was sent")
        return self._site.redirect(f"servers/{key}")
